"""``num_updates="auto"``: which policy of a training is kept, and why."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import upweight as uw
from support.datasets import with_returns
from support.training import dataset_for, parameters
from upweight.lab.train import length as length_module
from upweight.lab.train.agreement import HeldOut
from upweight.lab.train.length import POINTS, choose_lengths

# Ten good episodes of 200 steps among poor ones: 2,000 steps in effect, seen once in 8 updates of 250.
RETURNS = np.concatenate([np.full(10, 100.0), np.zeros(500)])
LOG = with_returns(RETURNS, lengths=np.concatenate([np.full(10, 200), np.full(500, 5)]))


def noisy_log() -> uw.Dataset:
    """Half of what the actions do is noise, which can only be learned by heart."""
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(600, 8))
    actions = np.clip(0.5 * np.tanh(observations[:, :1]) + 0.4 * rng.normal(size=(600, 1)), -1, 1)
    ends = np.arange(600) % 10 == 9
    return uw.Dataset.from_arrays(
        observations=observations, actions=actions, rewards=ends * 1.0, terminated=ends, source="noisy"
    )


def noisy_runs() -> list[uw.Run]:
    config = uw.algorithm_config("bc", hidden_units=(64, 64), batch_size=32)
    return [uw.Run(config, "uniform"), uw.Run(config, uw.TopFraction(0.1))]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, ...]]:
    monkeypatch.setattr(length_module, "POINTS", points := (100, 300, 1500))
    monkeypatch.setattr(length_module, "KEPT", 10)
    return points


def test_few_good_episodes_stop_by_passes() -> None:
    config = uw.algorithm_config("bc", batch_size=250)
    (found,) = choose_lengths(LOG, [uw.Run(config, uw.ReturnWeighting(0.01))], [None])
    assert (found.points, found.by, found.held) == ((8000,), "1,000 passes", None)  # 1,000 * 2,000 / 250


def test_many_poor_episodes_of_little_weight_are_no_judges() -> None:
    """Held out alone they would count as hundreds, and say nothing of the one good episode."""
    ds = with_returns(np.concatenate([[100.0], np.linspace(0, 1, 2000)]))
    weighting = uw.ReturnWeighting(0.1)
    held = np.arange(1, 2001, 5)
    assert uw.effective_episodes(weighting(ds)) < 2 and uw.effective_episodes(weighting(ds)[held]) > 300
    (found,) = choose_lengths(ds, [uw.Run("bc", weighting)], [None])
    assert found.by == "1,000 passes" and found.held is None
    (found,) = choose_lengths(ds, [uw.Run("bc", weighting)], [HeldOut(held, weighting(ds)[held])])
    assert found.by == "1,000 passes"


def test_very_few_steps_count_as_a_thousand() -> None:
    """The passes were not measured with fewer."""
    (found,) = choose_lengths(with_returns([0.0, 0.0, 1.0]), [uw.Run("bc", "rw")], [None])
    assert found.points == (3900,)  # 1,000 * 1,000 / 256, in blocks of 100


def test_no_training_is_longer_than_the_last_point() -> None:
    config = uw.algorithm_config("bc", batch_size=1)
    (found,) = choose_lengths(LOG, [uw.Run(config, uw.ReturnWeighting(0.01))], [None])
    assert found.points == POINTS[-1:]


def test_many_episodes_are_judged_by_every_fifth_in_the_order_of_their_weights() -> None:
    ds = with_returns(np.arange(100.0)[::-1])
    weighting = uw.ReturnWeighting(1.0)
    (found,) = choose_lengths(ds, [uw.Run("bc", weighting)], [None])
    assert found.points == POINTS and found.by == "held-out actions" and found.held is not None
    np.testing.assert_array_equal(found.held.episodes, np.arange(2, 100, 5))
    np.testing.assert_allclose(found.held.weights, weighting(ds)[2::5])


def test_copies_of_an_episode_are_held_out_together() -> None:
    ds = with_returns(np.arange(40.0))
    episodes = np.concatenate([np.arange(40), np.arange(40)])
    (found,) = choose_lengths(ds, [uw.Run("bc", np.ones(80), episodes=episodes)], [None])
    assert found.held is not None
    np.testing.assert_array_equal(found.held.episodes, np.arange(2, 40, 5))


def test_episodes_that_were_held_out_are_the_judges_if_they_are_enough() -> None:
    run, few = uw.Run("bc"), HeldOut(np.arange(4), np.ones(4))
    many = HeldOut(np.arange(100), np.ones(100))
    by_few, by_many = choose_lengths(LOG, [run, run], [few, many])
    assert by_many.held is many and by_many.points == POINTS
    assert by_few.held is few and by_few.by == "1,000 passes"


@pytest.mark.parametrize("algorithm", ["td3_bc", "iql", "cql"])
def test_actor_critics_keep_the_last(algorithm: str) -> None:
    (found,) = choose_lengths(dataset_for(algorithm), [uw.Run(algorithm, "rw")], [None])
    assert (found.points, found.by, found.held) == (POINTS[-1:], "the end", None)


def test_what_is_refused() -> None:
    with pytest.raises(uw.ConfigError, match="evaluate_every chooses with the simulator"):
        uw.train(LOG, [uw.Run("bc")], num_updates="auto", evaluate_every=10)
    with pytest.raises(uw.ConfigError, match=r'num_updates \(or "auto"\): expected a whole number'):
        uw.train(LOG, [uw.Run("bc")], num_updates="best")


@pytest.mark.slow
def test_the_policy_before_the_noise_is_known_by_heart_is_kept(tmp_path: Path, short: tuple[int, ...]) -> None:
    """By held-out actions; the few episodes of the other run stop by passes, and learn from all of them."""
    ds, runs = noisy_log(), noisy_runs()
    by_actions, by_passes = results = uw.train(ds, runs, num_updates="auto", output=tmp_path / "out")
    assert by_actions.kept is not None and by_passes.kept is not None and by_actions.agreement is not None
    errors = [point["error"] for point in by_actions.kept.points]
    assert [point["updates"] for point in by_actions.kept.points] == list(short)
    assert errors[-1] > min(errors) + 0.02 and by_actions.updates == short[int(np.argmin(errors))] < short[-1]
    assert by_actions.agreement.held_out and by_actions.agreement.error == min(errors)
    np.testing.assert_array_equal(by_actions.holdout, np.arange(2, 60, 5))
    assert by_actions.policy.metadata["num_updates"] == by_actions.updates
    assert str(by_actions.kept).startswith(
        f"{by_actions.updates:,} updates, by held-out actions of 3 points up to 1,500"
    )
    assert by_passes.holdout is None and by_passes.kept.by == "10 passes"
    assert [point["updates"] for point in by_passes.kept.points] == [300]  # 10 * 1,000 / 32, in blocks of 100
    assert by_passes.updates == 300 and by_passes.run is runs[1] and by_actions.run is runs[0]

    (alone,) = uw.train(ds, [runs[1]], num_updates=300)
    np.testing.assert_allclose(parameters(by_passes), parameters(alone), atol=1e-3)

    saved = json.loads((tmp_path / "out" / "results.json").read_text())["runs"]
    assert [each["kept"]["points"] for each in saved] == [result.kept.points for result in results if result.kept]
    again = uw.train(ds, noisy_runs(), num_updates="auto", output=tmp_path / "out", resume=True)
    for number, (before, after) in enumerate(zip(results, again, strict=True)):
        policy = uw.load_policy(tmp_path / "out" / "policies" / f"run-{number:03d}.safetensors")
        np.testing.assert_array_equal(policy.layers[0][0], before.policy.layers[0][0])
        np.testing.assert_array_equal(parameters(before), parameters(after))
        assert (after.kept, after.updates) == (before.kept, before.updates)


@pytest.mark.slow
def test_a_training_that_was_interrupted_keeps_the_same(tmp_path: Path, short: tuple[int, ...]) -> None:
    ds, (run, _) = noisy_log(), noisy_runs()

    def stop(records: object) -> None:
        raise KeyboardInterrupt

    (whole,) = uw.train(ds, [run], num_updates="auto")
    options = {"num_updates": "auto", "output": tmp_path / "out", "checkpoint_every_updates": 100, "resume": True}
    with pytest.raises(KeyboardInterrupt):
        uw.train(ds, [run], callbacks=[stop], **options)
    (resumed,) = uw.train(ds, [run], **options)
    assert (resumed.kept, resumed.updates) == (whole.kept, whole.updates)
    np.testing.assert_array_equal(parameters(resumed), parameters(whole))
