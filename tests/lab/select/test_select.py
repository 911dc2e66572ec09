"""Choosing among policies made by hand, whose worth is known."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upweight as uw
from support.policies import linear
from upweight.lab.select.fqe import FQEConfig, QEstimates
from upweight.lab.select.plot import plot_selection
from upweight.lab.select.select import discounted_values, quick_config, select

SMALL = FQEConfig(hidden_units=(16, 16), batch_size=64, learning_rate=3e-3, tau=0.1, discount=0.9)
BOLD = uw.SelectionRule(min_reached=0)  # the log's own episodes are all of random actions
QUICK: dict[str, Any] = {"config": SMALL, "updates": 300, "seeds": 2, "rule": BOLD}


DIVERGES = 7.0  # a worth that no critic finds


def told(policy: uw.Policy, weighting: str, seed: int = 0) -> uw.Policy:
    """Of BC, with a weighting."""
    run = {"algorithm": "bc", "weighting": {"name": weighting}, "config": {}, "seed": seed}
    return replace(policy, metadata={"run": run})


def made(gain: float, weighting: str = "rw", seed: int = 0) -> uw.Policy:
    """One that answers x with tanh(gain x)."""
    return told(linear([[gain], [0.0]], [0.01 * seed]), weighting, seed)


@pytest.fixture(scope="module")
def log() -> uw.Dataset:
    """Random actions; the reward is higher the nearer the action is to minus the state."""
    rng = np.random.default_rng(0)
    states = rng.uniform(-1, 1, (60, 10, 2)).astype(np.float32)
    actions = rng.uniform(-1, 1, (60, 10, 1)).astype(np.float32)
    rewards = 1 - (actions[..., 0] + states[..., 0]) ** 2
    steps = enumerate(zip(states, actions, rewards, strict=True))
    episodes = [{"observations": s, "actions": a, "rewards": r, "label": "ab"[k % 2]} for k, (s, a, r) in steps]
    return uw.Dataset.from_episodes(episodes, ends="truncated")


POLICIES = [made(gain, name, seed) for gain, name in ((-1.5, "rw"), (1.5, "top"), (0.0, "uniform")) for seed in (0, 1)]


@pytest.fixture(scope="module")
def found(log: uw.Dataset) -> uw.Selection:
    return select(POLICIES, log, **QUICK)


@pytest.fixture
def no_critics(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy is said to be worth minus its first weight."""

    def estimates(dataset: uw.Dataset, policies: Sequence[uw.Policy], **options: Any) -> QEstimates:
        seeds, starts = np.asarray(options["seeds"]), np.asarray(options["starts"])
        worth = np.array([-float(policy.layers[0][0][0, 0]) for policy in policies])
        worth[worth == DIVERGES] = np.nan
        values = worth[:, None] + 0.01 * seeds
        at_starts = np.repeat(values[..., None], len(starts), axis=2).astype(np.float32)
        nothing = np.zeros_like(values)
        return QEstimates(values, at_starts, nothing, np.isnan(values), starts, 0.9, (0.0, 1.0), options["updates"])

    monkeypatch.setattr("upweight.lab.select.select.evaluate_policies", estimates)


def test_the_good_one_is_chosen(found: uw.Selection) -> None:
    assert found.choice is not None and found.choice.name == "bc rw"
    assert any(found.policy is policy for policy in POLICIES[:2])
    assert [each.verdict for each in found.standings] == ["chosen", "not above the chosen", "to be beaten"]
    good, bad, clone = (each.evidence.mean for each in found.standings)
    assert good > clone > bad
    assert found.baseline.name == "BC on all data" and found.baseline.mean == clone
    assert set(found.standings[0].by_group) == {"a", "b"}
    errors = [each.look.weighted_error for each in found.standings]
    assert None not in errors and errors[0] < errors[1]  # good episodes do as the first does
    assert found.standings[0].by_group["a"] == pytest.approx(good, rel=0.05)


def test_the_text_says_it_all(found: uw.Selection, tmp_path: Path) -> None:
    text = str(found)
    words = (
        "> bc rw",
        "  bc top",
        "to be beaten",
        "Choice: bc rw: its lower bound",
        "estimate at starts of",
        "optimistic",
    )
    for part in words:
        assert part in text
    assert max(map(len, text.splitlines())) <= 120
    assert repr(found) == "Selection(candidates=3, chosen='bc rw')"
    assert "<table" in found._repr_html_() and "Choice: bc rw" in found._repr_html_()
    json.dumps(found.to_dict(), allow_nan=False)
    plot_selection(found, tmp_path / "estimates.svg")
    assert "<svg" in (tmp_path / "estimates.svg").read_text()


@pytest.mark.usefixtures("no_critics")
class TestWithEstimatesGiven:
    def test_files(self, log: uw.Dataset, tmp_path: Path) -> None:
        target, beside = tmp_path / "choice.json", tmp_path / "choice.safetensors"
        found = select(POLICIES, log, **QUICK)
        assert found.save(target) == [target, beside]
        written = json.loads(target.read_text())
        assert written["chosen"] == "bc rw" and written["copied_to"] == "choice.safetensors"
        assert found.policy is not None
        np.testing.assert_array_equal(uw.load_policy(beside).layers[0][0], found.policy.layers[0][0])
        with pytest.raises(uw.DatasetError, match="exists already"):
            found.save(target)
        abstained = select(POLICIES[2:], log, **QUICK)
        assert abstained.chosen is None and abstained.policy is None
        assert str(abstained).count("Abstained: nothing is shown to beat BC on all data: the best, bc top, is") == 1
        abstained.save(target, overwrite=True)
        assert json.loads(target.read_text())["chosen"] is None
        assert not beside.exists()  # the earlier choice must not be taken for this one's

    def test_without_a_clone_the_log_is_to_be_beaten(self, log: uw.Dataset) -> None:
        found = select(POLICIES[:2], log, **QUICK)
        assert found.baseline.name == "the log itself" and any(
            "not among the candidates" in note for note in found.notes
        )
        assert found.baseline.mean == pytest.approx(discounted_values(log, 0.9).mean())

    def test_episodes_to_judge_by(self, log: uw.Dataset) -> None:
        found = select(POLICIES, log, episodes=[0, 2, 4], **QUICK)
        assert found.about["episodes"] == 3 and "3 of 60 episodes" in str(found) and "optimistic" not in str(found)

    def test_episodes_that_all_trainings_kept_back(self, log: uw.Dataset) -> None:
        def kept(policy: uw.Policy, *episodes: int) -> uw.RunResult:
            return uw.RunResult(uw.Run(), policy, "finished", 1, None, [], holdout=np.array(episodes))

        results = [kept(POLICIES[0], 1, 2, 3, 4), kept(POLICIES[4], 2, 3, 4, 5)]
        found = select(results, log, **QUICK)
        assert "3 of 60 episodes of dataset (kept back from training)" in str(found) and "optimistic" not in str(found)
        mixed = select([*results, POLICIES[2]], log, **QUICK)  # one that may have seen them all
        assert "60 of 60 episodes of dataset (all)" in str(mixed) and "optimistic" in str(mixed)

    def test_one_estimate_is_not_enough(self, log: uw.Dataset) -> None:
        found = select(POLICIES[::2], log, **{**QUICK, "seeds": 1})
        assert found.chosen is None and "use more seeds" in found.reason
        assert ", 1 critic per policy," in str(found) and "IS:" not in str(found)

    def test_critics_that_diverge(self, log: uw.Dataset, tmp_path: Path) -> None:
        lost, clone = made(-DIVERGES), made(0.0, "uniform")
        found = select([lost, clone], log, **QUICK)
        assert found.chosen is None and found.standings[0].verdict == "2 of 2 evaluations diverged"
        assert "no candidate can be judged" in found.reason
        json.dumps(found.to_dict(), allow_nan=False)
        plot_selection(found, tmp_path / "estimates.png")
        assert select([lost, made(-DIVERGES, "uniform", 1)], log, **QUICK).baseline.name == "the log itself"

    def test_reasons_of_vetoes_stand_below_the_table(self, log: uw.Dataset) -> None:
        """Numbered, one for all that share it: in the table they made it too wide for a screen."""
        rivals = [told(made(-50.0), f"rw temperature=0.{digit}") for digit in (1, 2)]
        found = select([*rivals, made(-DIVERGES), made(0.0, "uniform")], log, **{**QUICK, "rule": uw.SelectionRule()})
        assert [each.verdict for each in found.standings[:3]] == [
            *["none of the logged episodes was worth as much, discounted"] * 2,
            "2 of 2 evaluations diverged",
        ]
        text = str(found)
        assert text.count("vetoed (1)\n") == 2 and text.count("vetoed (2)\n") == 1
        assert (
            "\n\n(1) none of the logged episodes was worth as much, discounted\n(2) 2 of 2 evaluations diverged\n\n"
            in text
        )
        assert "(2) 2 of 2 evaluations diverged" in found._repr_html_()
        assert max(map(len, text.splitlines())) <= 120
        assert found.to_dict()["candidates"][2]["verdict"] == "2 of 2 evaluations diverged"

    def test_true_returns_beside_a_choice_that_they_do_not_change(self) -> None:
        found = select(self._pushers(), self._carts(), env="CartPole-v1", env_episodes=3, workers=1, **QUICK)
        steady, one_way, clone = (each.true_returns for each in found.standings)
        assert steady is not None and one_way is not None and clone is not None
        assert steady.mean() > 50 > one_way.mean()
        assert found.choice is found.standings[1]  # the critics were made to be wrong
        assert "true return" in str(found)

    def test_real_episodes_decide(self) -> None:
        found = select(self._pushers(), self._carts(), env="CartPole-v1", episodes_allowed=7, **QUICK)
        assert found.choice is found.standings[0] and found.choice.verdict == "chosen"
        played = [each.real_returns for each in found.standings]
        assert sum(len(mine or ()) for mine in played) == 7 and all(played)
        assert "of 7 real episodes it played" in found.reason
        few = select(self._pushers(), self._carts(), env="CartPole-v1", episodes_allowed=1, **QUICK)
        played = [len(each.real_returns or ()) for each in few.standings]
        assert played == [0, 1, 0]  # what is estimated highest goes first
        assert any("2 of 3 candidates got no real episode" in note for note in few.notes)

    @staticmethod
    def _pushers() -> list[uw.Policy]:
        """One that holds the pole, one that pushes to one side, and another such."""
        steady = linear([[0, 0], [0, 0], [-1, 1], [-1, 1]], [0, 0], kind="categorical")
        one_way = [linear([[-weight, 0.0], [0, 0], [0, 0], [0, 0]], [9, 0], kind="greedy") for weight in (1.0, 0.5)]
        return [told(steady, "rw"), told(one_way[0], "top"), told(one_way[1], "uniform")]

    @staticmethod
    def _carts() -> uw.Dataset:
        rng = np.random.default_rng(0)
        return uw.Dataset.from_arrays(
            observations=rng.normal(size=(40, 4)),
            actions=rng.integers(2, size=40),
            rewards=np.ones(40),
            terminated=np.arange(40) % 10 == 9,
        )


def test_critics_of_each_seed_learn_from_a_draw_of_their_own(log: uw.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def stop(*_: Any, **options: Any) -> QEstimates:
        asked.update(options)
        raise KeyboardInterrupt

    monkeypatch.setattr("upweight.lab.select.select.evaluate_policies", stop)
    with pytest.raises(KeyboardInterrupt):
        select(POLICIES, log, episodes=[7, 8, 9], **{**QUICK, "seeds": 20}, seed=5)
    assert asked["resample"] and list(asked["seeds"]) == list(range(5, 25))
    assert asked["starts"].tolist() == asked["episodes"].tolist() == [7, 8, 9]


@pytest.mark.usefixtures("no_critics")
@pytest.mark.parametrize(("updates", "left"), [(50, "61%"), (300, None)])
def test_critics_that_hardly_learned_are_named(log: uw.Dataset, updates: int, left: str | None) -> None:
    notes = select(POLICIES, log, **{**QUICK, "updates": updates}).notes  # exp(-0.1 (1 - 0.9) 50)
    assert [each for each in notes if "began" in each] == [
        f"after {updates} updates {left} of where the critics began, at the mean reward for ever, is left in their estimates: "
        "give more updates"
        for _ in range(left is not None)
    ]


def test_what_no_episode_was_worth_is_not_chosen(log: uw.Dataset, found: uw.Selection) -> None:
    values = discounted_values(log, SMALL.discount)
    good = next(each for each in found.standings if "rw" in each.name)
    handed_out = good.evidence.estimates.mean(axis=1).max()
    assert good.evidence.reached == (values >= handed_out).sum() < 5 <= found.standings[-1].evidence.reached
    careful = select(POLICIES, log, **{**QUICK, "rule": uw.SelectionRule()})
    assert careful.chosen is None and "but none of the logged episodes was worth as much, discounted" in careful.reason


def test_what_an_episode_was_worth() -> None:
    # two steps of 1 then the end: 1.9; the same, stopped by a limit: as if it went on, 1 / (1 - 0.9)
    flags = {"terminated": [0, 1, 0, 0], "truncated": [0, 0, 0, 1]}
    log = uw.Dataset.from_arrays(observations=np.zeros((4, 1)), actions=np.zeros((4, 1)), rewards=np.ones(4), **flags)
    np.testing.assert_allclose(discounted_values(log, 0.9), [1.9, 10.0])


def test_the_discount_follows_the_length(log: uw.Dataset) -> None:
    assert quick_config(log).discount == 0.8  # episodes of ten steps
    assert quick_config(log, discount=0.9, hidden_units=(8,)).discount == 0.9
    with pytest.raises(uw.ConfigError, match="did you mean 'discount'"):
        quick_config(log, discont=0.9)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (linear(np.zeros((3, 1)), [0.0]), "numbers in an observation"),
        (linear(np.zeros((2, 2)), [0.0, 0.0]), "number of actions"),
        (linear(np.zeros((2, 2)), [0.0, 0.0], kind="greedy"), "kind of actions"),
        (linear(np.zeros((2, 1)), [0.0], bound=0.01), "another unit"),
    ],
)
def test_policies_of_other_data(log: uw.Dataset, policy: uw.Policy, message: str) -> None:
    with pytest.raises(uw.DatasetError, match=message):
        select(policy, log, **QUICK)


def test_what_cannot_be_told(log: uw.Dataset) -> None:
    plain = [{"observations": np.zeros((3, 2)), "actions": np.zeros((3, 1))}] * 2
    with pytest.raises(uw.UpweightError, match="rewards"):
        select(POLICIES, uw.Dataset.from_episodes(plain, ends="truncated"), **QUICK)
    with pytest.raises(uw.UpweightError, match="at least (two|2) episodes"):
        select(POLICIES, log.subset([0]), **QUICK)
    with pytest.raises(uw.ConfigError, match="all 2 policies are the same"):
        select([made(-0.5), made(-0.5, "uniform")], log, **QUICK)
    with pytest.raises(uw.ConfigError, match="real episodes need an environment"):
        select(POLICIES, log, episodes_allowed=3, **QUICK)
    with pytest.raises(uw.UpweightError, match="propensities"):
        select(POLICIES, log, propensities=np.ones(600), **QUICK)
