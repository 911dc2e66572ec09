from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import upweight as uw
from support.datasets import random_dataset, with_arrays
from support.policies import linear
from upweight.lab.select import importance
from upweight.lab.select.importance import as_propensities, importance_estimates, read_propensities
from upweight.policies.policy import Policy

ONE = linear([[0.0, 0.0]], [0.0, 1.0], kind="greedy")  # takes action 1


def sampler(probability: float) -> Policy:
    """Takes action 1 with a probability, whatever it sees."""
    return linear([[0.0, 0.0]], [0.0, np.log(probability / (1 - probability))], kind="categorical")


def log(actions: Any, rewards: Any, ends: Any) -> uw.Dataset:
    count = len(actions)
    return uw.Dataset.from_arrays(
        observations=np.zeros((count, 1)),
        actions=np.asarray(actions),
        rewards=rewards,
        terminated=ends,
        num_actions=2,
        source="log",
    )


def bandit(count: int, *, seed: int) -> tuple[uw.Dataset, np.ndarray]:
    """Action 1 pays 3, action 0 pays 1, with noise; 1 is taken with a probability of 0.2."""
    rng = np.random.default_rng(seed)
    actions = (rng.random(count) < 0.2).astype(int)
    rewards = 1.0 + 2 * actions + rng.standard_normal(count)
    return log(actions, rewards, np.ones(count, bool)), np.where(actions == 1, 0.2, 0.8)


def test_by_hand() -> None:
    """Ratios of a policy that takes 1 with 0.6: episode 0 is 0.6/0.5, then 0.4/0.8 of that; episode 1 is 0.4/0.5, and ends."""
    ds = log([1, 0, 0], [1.0, 10.0, 2.0], [0, 1, 1])
    (found,) = importance_estimates(ds, [0, 1], [sampler(0.6)], [0.5, 0.8, 0.5], discount=0.5, stochastic=True)
    first, then, ended = 0.6 / 0.5, 0.6 / 0.5 * 0.4 / 0.8, 0.4 / 0.5
    now = (first * 1.0 + ended * 2.0) / (first + ended)
    later = 0.5 * then * 10.0 / (then + ended)
    assert found.value == pytest.approx(now + later)
    assert found.effective_episodes == pytest.approx((then + ended) ** 2 / (then**2 + ended**2))
    assert found.episodes == 2


def test_the_truth_of_a_bandit_is_found() -> None:
    ds, propensities = bandit(20_000, seed=0)
    one, mostly, even = importance_estimates(
        ds, np.arange(20_000), [ONE, sampler(0.9), sampler(0.5)], propensities, stochastic=True
    )
    assert one.value == pytest.approx(3.0, abs=0.06)
    assert mostly.value == pytest.approx(2.8, abs=0.06)
    assert even.value == pytest.approx(2.0, abs=0.06)
    assert one.effective_episodes == pytest.approx(ds.actions.sum())
    (certain,) = importance_estimates(ds, np.arange(20_000), [sampler(0.9)], propensities)
    assert certain.value == pytest.approx(one.value)  # the likeliest action, always


def test_the_mean_over_many_small_logs_is_near_the_truth() -> None:
    """Self-normalised estimates have a bias of order 1/N, far below what single ones scatter by."""
    found = []
    for seed in range(400):
        ds, propensities = bandit(100, seed=seed)
        found += importance_estimates(ds, np.arange(100), [sampler(0.5)], propensities, stochastic=True)
    values = [each.value for each in found]
    assert np.std(values) > 0.1
    assert np.mean(values) == pytest.approx(2.0, abs=0.03)


def test_two_steps_of_a_chain() -> None:
    """Each choice of 1 pays 1, taken with 0.5 both times: a policy that always does is worth 2."""
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, 4000)
    ds = log(actions, actions.astype(float), np.arange(4000) % 2 == 1)
    one, half = importance_estimates(ds, np.arange(2000), [ONE, sampler(0.5)], np.full(4000, 0.5), stochastic=True)
    assert one.value == pytest.approx(2.0)
    assert one.effective_episodes == (actions.reshape(-1, 2).sum(axis=1) == 2).sum()
    assert half.value == pytest.approx(ds.returns.mean()) and half.effective_episodes == 2000


def test_where_no_episode_does_as_the_policy_would_nothing_is_said() -> None:
    (found,) = importance_estimates(log([1, 0], [1.0, 1.0], [0, 1]), [0], [ONE], [0.5, 0.5])
    assert found.value is None and found.effective_episodes == 0


def test_long_episodes_do_not_overflow() -> None:
    ds = log(np.ones(4000, int), np.ones(4000), np.arange(4000) % 2000 == 1999)
    (found,) = importance_estimates(ds, [0, 1], [ONE], np.full(4000, 0.01))
    assert found.value == pytest.approx(2000) and found.effective_episodes == 2


def test_many_steps_are_drawn_by_whole_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importance, "STEPS", 100)
    ds, propensities = bandit(1000, seed=0)
    one, again = (importance_estimates(ds, np.arange(1000), [sampler(0.5)], propensities)[0] for _ in range(2))
    assert one.episodes == 100 and one == again


def test_incomplete_episodes_are_left_out() -> None:
    ds = log([1, 1, 1], [1.0, 5.0, 3.0], [1, 1, 1]).mark_incomplete([1])
    (found,) = importance_estimates(ds, [0, 1, 2], [ONE], np.full(3, 0.5))
    assert found.value == pytest.approx(2.0) and found.episodes == 2
    with pytest.raises(uw.DatasetError, match="needs complete episodes"):
        importance_estimates(ds, [1], [ONE], np.full(3, 0.5))


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10_000))
def test_the_logged_policy_itself_is_worth_the_mean_return_and_all_episodes(seed: int) -> None:
    """Whatever the lengths."""
    ds = random_dataset(seed, discrete=True, observation_shape=(1,))
    ds = with_arrays(ds, actions=ds.actions % 2)
    whole = np.flatnonzero(ds.complete)
    propensities = np.where(ds.actions == 1, 0.3, 0.7)
    same, other = importance_estimates(ds, whole, [sampler(0.3), sampler(0.8)], propensities, stochastic=True)
    assert same.value == pytest.approx(ds.returns[whole].mean(), abs=1e-5)
    assert same.effective_episodes == pytest.approx(len(whole))
    assert other.value is not None and 1 <= other.effective_episodes <= len(whole) + 1e-9


def test_vectors_of_propensities_give_that_of_the_logged_action() -> None:
    ds = log([1, 0], [1.0, 1.0], [1, 1])
    assert as_propensities([[0.2, 0.8], [0.4, 0.6]], ds).tolist() == [0.8, 0.4]
    assert as_propensities([[0.2], [0.4]], ds).tolist() == [0.2, 0.4]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.5, 0.0], r"above 0, .*found 0 at step 1 \(1 of 2 steps"),
        ([0.5, float("nan")], "above 0, .*found nan at step 1"),
        ([1.5, 0.5], "at most 1 .*found 1.5 at step 0"),
        ([[0.5, 0.4], [0.5, 0.5]], "that sum to 1, found 0.9 at step 0"),
        ([[0.0, 1.0], [0.0, 1.0]], "above 0, .*found 0 at step 1"),
        ([[1.0], [1.0], [1.0]], r"one for each of 2 steps, .*found shape \(3, 1\)"),
        ([0.5], "one for each of 2 steps"),
    ],
)
def test_wrong_propensities(values: Any, message: str) -> None:
    with pytest.raises(uw.DatasetError, match=f"log: propensities: expected .*{message}"):
        as_propensities(values, log([1, 0], [1.0, 1.0], [1, 1]))


def test_actions_that_propensities_do_not_know() -> None:
    ds = uw.Dataset.from_arrays(observations=np.zeros((2, 1)), actions=[2, 0], rewards=[1.0, 1.0], terminated=[1, 1])
    with pytest.raises(uw.DatasetError, match="a column for each of 3 actions, found 2"):
        as_propensities(np.full((2, 2), 0.5), ds)
    with pytest.raises(uw.DatasetError, match="for discrete actions"):
        as_propensities([0.5, 0.5], random_dataset())


def test_propensities_are_columns_of_a_table_in_the_order_of_its_steps(tmp_path: Path) -> None:
    """Which need not be that of its rows; what a TOML file beside it says holds for them too."""
    rows = [
        "stay,hour,x,y,drug,paid,p,q_a,q_b",
        "1,1,0.5,1,b,1,0.1,0.9,0.1",
        "2,0,0.6,1,a,1,0.2,0.2,0.8",
        "1,0,0.7,1,a,1,0.3,0.3,0.7",
    ]
    (tmp_path / "log.csv").write_text("\n".join(rows))
    (tmp_path / "log.toml").write_text("""[table]
episode = "stay"
timestep = "hour"
observations = ["x", "y"]
actions = "drug"
categories = ["drug"]
rewards = "paid"
ends = "terminated"
""")
    path = str(tmp_path / "log.csv")
    ds = uw.load(path)
    assert read_propensities("p", path).tolist() == [0.3, 0.1, 0.2]
    assert as_propensities(read_propensities("q", path), ds).tolist() == [0.3, 0.1, 0.2]
    with pytest.raises(
        uw.DatasetError, match="missing column 'pp'; did you mean 'p'.* the table has stay, hour"
    ) as error:
        read_propensities("pp", path)
    assert "propensities= (--propensities)" in str(error.value) and "observations" not in str(error.value)
    with pytest.raises(uw.DatasetError, match="column 'drug': expected numbers, found the text .*another column"):
        read_propensities("drug", path)
    (tmp_path / "log.csv").write_text("\n".join([*rows, "2,1,0.6,1,a,1,,0.2,0.8"]))
    with pytest.raises(uw.DatasetError, match="log.csv: propensities: expected a finite number in every row"):
        read_propensities("p", path)


def test_propensities_from_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", [0.5, 0.25])
    assert read_propensities(str(tmp_path / "p.npy"), "log.npz").tolist() == [0.5, 0.25]
    (tmp_path / "damaged.npy").write_bytes(b"no array")
    with pytest.raises(uw.DatasetError, match="damaged.npy: expected an array that numpy.save wrote"):
        read_propensities(str(tmp_path / "damaged.npy"), "log.npz")
    uw.save(random_dataset(discrete=True), tmp_path / "log.npz")
    with pytest.raises(
        uw.DatasetError, match=r"propensities 'p': expected columns of the table .*, or a file \(.npy\): .*log.npz"
    ) as error:
        read_propensities("p", tmp_path / "log.npz")
    assert "observations" not in str(error.value)
    with pytest.raises(uw.DatasetError, match="hopper-expert: is made, not read from a table"):
        read_propensities("p", "hopper-expert")
