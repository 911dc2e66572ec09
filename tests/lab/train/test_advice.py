"""``weighting="auto"``: runs draw by what is suggested, and their results say what that was."""

import numpy as np
import pytest

import upweight as uw
from support.datasets import with_returns
from upweight.lab.train.advice import with_advice
from upweight.lab.train.run import check_runs

rng = np.random.default_rng(0)
GRADED = with_returns(np.concatenate([rng.normal(100 * level, 60, 40) for level in range(26)]))
APART = with_returns(np.concatenate([rng.normal(3200, 60, 50), rng.normal(20, 15, 3000)]))
SMALL = {"hidden_units": (4,), "batch_size": 4}


@pytest.mark.parametrize("algorithm", ["bc", "td3_bc", "iql", "cql"])
@pytest.mark.parametrize("dataset", [GRADED, APART], ids=["graded", "apart"])
def test_runs_draw_by_what_is_suggested(algorithm: str, dataset: uw.Dataset) -> None:
    (run,) = with_advice(dataset, check_runs(dataset, [uw.Run(algorithm, "auto")]))
    found = uw.suggest(dataset, algorithm=algorithm)
    assert (run.weighting, run.actor_weighting) == (found.weighting, found.actor_weighting)
    assert (run.actor_weighting is None) == (algorithm == "bc" or dataset is APART)


def test_a_run_is_advised_by_its_own_episodes() -> None:
    """All of the second one's are about as good."""
    alike = np.arange(50)
    runs = [uw.Run("bc", "AUTO"), uw.Run("bc", "auto", episodes=alike), uw.Run("bc", "rw")]
    whole, part, named = with_advice(APART, runs)
    assert whole.weighting == uw.suggest(APART, algorithm="bc").weighting
    assert part.weighting == uw.suggest(APART.subset(alike), algorithm="bc").weighting
    assert named is runs[2]


def test_results_tell_what_auto_was() -> None:
    runs = [uw.Run(uw.algorithm_config(name, **SMALL), "auto") for name in ("bc", "td3_bc")]
    for result in uw.train(GRADED, runs, num_updates=2):
        found = uw.suggest(GRADED, algorithm=result.run.method.name).to_dict()
        described = result.run.to_dict()
        assert (described["weighting"], described["actor_weighting"]) == (found["weighting"], found["actor_weighting"])
    assert "networks" in str(uw.plan_training(GRADED, runs))


@pytest.mark.parametrize("more", [{"reweight": True}, {"actor_weighting": "rw"}])
def test_auto_says_by_what_the_actor_draws(more: dict[str, object]) -> None:
    with pytest.raises(uw.ConfigError, match="'auto' also says"):
        uw.Run("td3_bc", "auto", **more)


def test_auto_needs_rewards() -> None:
    silent = uw.Dataset.from_arrays(
        observations=np.zeros((4, 1)), actions=np.zeros((4, 1)), rewards=None, terminated=[False, True] * 2
    )
    with pytest.raises(uw.ConfigError, match="its weighting follows rewards"):
        uw.train(silent, [uw.Run("bc", "auto")], num_updates=1)
