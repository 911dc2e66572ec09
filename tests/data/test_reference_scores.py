import numpy as np
import pytest

import upweight as uw
from upweight.data.reference_scores import CLASSIC_REFERENCE_SCORES, find_reference_scores, misfit


@pytest.mark.parametrize(
    ("name", "expert"),
    [
        ("hopper", 3234.3),
        ("Hopper-v5", 3234.3),
        ("hopper-medium-v2", 3234.3),
        ("antmaze-umaze-v0", 1.0),
        ("ant_random", 3879.7),
    ],
)
def test_names_are_understood(name: str, expert: float) -> None:
    assert uw.reference_scores(name).expert == expert


@pytest.mark.parametrize("task", ["CartPole-v1", "Acrobot-v1", "MountainCar-v0"])
def test_names_of_classic_control_are_understood(task: str) -> None:
    plain = task.split("-")[0].lower()
    scores = uw.reference_scores(plain)
    assert scores is CLASSIC_REFERENCE_SCORES[plain]
    for name in (task, f"upweight/Stochastic{task}", f"{plain}-expert", f"{plain}_medium_v0"):
        assert uw.reference_scores(name) is scores


def test_an_expert_of_classic_control_beats_random_actions() -> None:
    assert all(scores.expert > scores.random for scores in CLASSIC_REFERENCE_SCORES.values())


@pytest.mark.parametrize("name", ["Pendulum-v1", "MountainCarContinuous-v0", "ALE/Pong-v5", "stochastic"])
def test_other_tasks_have_none(name: str) -> None:
    assert find_reference_scores(name) is None


def test_zero_is_random_and_one_is_expert() -> None:
    scores = uw.reference_scores("walker2d")
    np.testing.assert_allclose(uw.normalize_returns(np.array([1.629008, 4592.3]), scores), [0, 1])


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(uw.DatasetError, match="did you mean 'hopper"):
        uw.reference_scores("hoper")
    with pytest.raises(uw.DatasetError, match="did you mean 'cartpole"):
        uw.reference_scores("upweight/StochasticCartPol-v1")
    with pytest.raises(uw.DatasetError, match="known: hopper, .*, mountaincar$"):
        uw.reference_scores("Pong-v5")


@pytest.mark.parametrize(
    ("env", "fine"), [("kitchen", [0.0, 1.0, 4.0]), ("ant", [-800.0, 6000.0]), ("antmaze", [0.0, 1.0])]
)
def test_reference_scores_fit_plausible_returns_only(env: str, fine: list[float]) -> None:
    assert misfit(env, np.array(fine)) is None
    scores = uw.reference_scores(env)
    for factor in (81.0, -5.0):
        far = scores.random + factor * (scores.expert - scores.random) + np.array(fine)
        assert "do not seem to be for this data" in str(misfit(env, far))


def test_ids_with_the_module_that_registers_them() -> None:
    assert uw.reference_scores("some_robots:Hopper-v5") == uw.reference_scores("hopper")
    with pytest.raises(uw.DatasetError, match="no reference scores"):
        uw.reference_scores("my_robots:hopper")  # a function of somebody's
