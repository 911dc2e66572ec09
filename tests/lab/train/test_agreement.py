import warnings

import numpy as np
import pytest

import upweight as uw
from support.datasets import far_log, with_arrays, with_returns
from support.policies import linear
from support.training import small_config
from upweight.lab.train.agreement import Agreement, Comparison, held_out
from upweight.policies.policy import Policy


def compare(
    dataset: uw.Dataset, runs: list[uw.Run], policies: list[Policy], held: np.ndarray | None = None
) -> list[Agreement]:
    kept_back = None if held is None else held_out(dataset, runs, held)
    return Comparison(dataset, runs, kept_back).agreements(policies)


def line() -> uw.Dataset:
    """The action is tanh of the observation."""
    x = np.linspace(-2, 2, 400)[:, None]
    return uw.Dataset.from_arrays(
        observations=x, actions=np.tanh(x), rewards=x[:, 0], terminated=np.arange(400) % 10 == 9, source="line"
    )


def without_actions(dataset: uw.Dataset) -> uw.Dataset:
    """All of them are 0."""
    return with_arrays(dataset, actions=np.zeros_like(dataset.actions))


def test_errors_by_hand() -> None:
    """Draws alone scatter: 2,000 steps of a line."""
    ds = line()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (good,) = compare(ds, [uw.Run("bc")], [linear([[1.0]], [0.0])])
    assert good.error == pytest.approx(0, abs=1e-10)
    assert good.constant == pytest.approx(ds.actions.var(), rel=0.05)
    assert not good.same
    assert not good.held_out
    assert good.objection(clones=True) is None


@pytest.mark.parametrize("algorithm", ["bc", "iql"])
def test_a_policy_that_is_the_same_everywhere_is_told(algorithm: str) -> None:
    with pytest.warns(uw.UpweightWarning, match=f"line: .*{algorithm} takes the same action everywhere, at the bounds"):
        (stuck,) = compare(line(), [uw.Run(algorithm)], [linear([[0.0]], [-9.0])])
    assert stuck.same and stuck.at_bounds
    assert stuck.error > 1


def test_cloning_that_is_worse_than_a_constant_is_told_and_other_algorithms_may_leave_the_log() -> None:
    away = linear([[-1.0]], [0.0])  # the contrary
    with pytest.warns(
        uw.UpweightWarning, match=r"no better than the best constant action, or by less than 2% \(runs 0, 2\)"
    ):
        compare(line(), [uw.Run("bc"), uw.Run("iql"), uw.Run("bc", "rw")], [away] * 3)


def test_a_log_learned_by_heart_is_not_called_unlearned() -> None:
    """Held-out episodes cannot tell too few updates from too many."""
    away = linear([[-1.0]], [0.0])
    told = r"learned nothing that holds in other episodes: bc copies held-out episodes no better .* too many for so few episodes"
    with pytest.warns(uw.UpweightWarning, match=told):
        compare(line(), [uw.Run("bc")], [away], held=np.arange(0, 40, 2))
    with pytest.warns(uw.UpweightWarning, match="learned nothing from the observations: bc copies the log") as caught:
        compare(line(), [uw.Run("bc")], [away])
    assert "too many" not in str(caught[0].message)


def test_weights_decide_what_is_compared() -> None:
    """Two halves with opposite actions: the policy copies the one that is drawn, by the weighting of the actor if it has one."""
    ds = line()
    second = np.arange(400) >= 200
    ds = with_arrays(ds, actions=np.where(second[:, None], ds.actions, -ds.actions))
    weights = np.repeat([0.0, 1.0], 20)
    policy = linear([[1.0]], [0.0])
    runs = [
        uw.Run("td3_bc", weights),
        uw.Run("td3_bc", 1 - weights),
        uw.Run("td3_bc", 1 - weights, actor_weighting=weights),
        uw.Run("td3_bc", episodes=np.arange(20, 40)),
    ]
    copied, contrary, actor, part = compare(ds, runs, [policy] * 4)
    assert max(copied.error, actor.error, part.error) < 1e-10
    assert contrary.error > contrary.constant


def test_held_out_episodes() -> None:
    """Whose actions are the contrary of those that the policies copy."""
    ds, held = line(), np.arange(0, 40, 5)
    contrary = np.isin(np.arange(400) // 10, held)[:, None]
    ds = with_arrays(ds, actions=np.where(contrary, -ds.actions, ds.actions))
    with pytest.warns(uw.UpweightWarning, match=r"\(held-out episodes\): .*no better"):
        given, named = compare(ds, [uw.Run("bc", np.ones(40)), uw.Run("bc", "rw")], [linear([[1.0]], [0.0])] * 2, held)
    assert given.held_out and named.held_out
    assert given.error > given.constant


def test_held_out_episodes_have_the_weights_that_they_have_among_all() -> None:
    """Alone, two episodes could not count as five, or the best of them would be the best of all."""
    ds = without_actions(with_returns([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]))
    held, weighting = np.array([3, 6]), uw.ReturnWeighting(effective_episodes=5)
    learned = np.delete(np.arange(8), held)
    runs = [uw.Run("bc", weighting, episodes=learned), uw.Run("bc", uw.TopFraction(0.1))]
    by_size, none_has_any = held_out(ds, runs, held)
    np.testing.assert_array_equal(by_size.weights, weighting(ds)[held])
    np.testing.assert_array_equal(none_has_any.weights, [1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = compare(ds, [uw.Run("bc", weighting)], [linear([[0.0]], [0.001])], held)
    assert found.held_out


def test_one_action_in_the_log_is_rightly_copied_by_a_constant() -> None:
    ds = without_actions(with_returns([1.0, 2.0, 3.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = compare(ds, [uw.Run("bc")], [linear([[0.0]], [0.001])])
    assert found.constant == 0


def test_discrete_actions_are_right_or_wrong() -> None:
    ds = far_log(discrete=True)
    share = np.bincount(ds.actions).max() / ds.num_steps
    always_first = linear(np.zeros((6, 2)), [1.0, 0.0], kind="categorical")
    with pytest.warns(uw.UpweightWarning, match="discrete_bc takes the same action everywhere"):
        (found,) = compare(ds, [uw.Run("discrete_bc")], [always_first])
    assert found.error == pytest.approx((ds.actions == 1).mean(), abs=0.04)
    assert found.constant == pytest.approx(1 - share, abs=0.04)


def test_incomplete_episodes_are_not_warned_of_twice() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare(line().mark_incomplete([0]), [uw.Run("bc", "rw")], [linear([[1.0]], [0.0])])


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["bc", "iql"])
def test_a_log_far_from_unit_scale_is_told_before_and_after_and_the_setting_named_helps(algorithm: str) -> None:
    ds = far_log()
    small = {"hidden_units": (32, 32), "batch_size": 32}
    as_it_is = uw.Run(uw.algorithm_config(algorithm, **small), "uniform")
    with pytest.warns(uw.UpweightWarning) as caught:
        (failed,) = uw.train(ds, [as_it_is], num_updates=500)
    told = [str(warning.message) for warning in caught]
    before, after = told[-3], told[-1]  # what the log itself hides comes first
    assert "normalize_observations=True" in before
    assert f"{algorithm} takes the same action everywhere, at the bounds" in after
    assert failed.agreement is not None and failed.agreement.error > 0.9
    assert "error=" in repr(failed) and len(repr(failed)) < 300

    normalised = uw.Run(uw.algorithm_config(algorithm, normalize_observations=True, **small), "uniform")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*actions fill little of the range")
        warnings.filterwarnings("ignore", ".*a time limit")
        (learned,) = uw.train(ds, [normalised], num_updates=1500)
    assert learned.agreement is not None
    assert learned.agreement.error < 0.5 * learned.agreement.constant
    assert learned.to_dict()["agreement"]["held_out"] is False


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*a time limit")
def test_training_compares_with_held_out_episodes() -> None:
    held = np.arange(0, 40, 5)
    (result,) = uw.train(line(), [uw.Run(small_config("bc"))], num_updates=500, holdout=held)
    assert result.agreement is not None and result.agreement.held_out
    assert result.agreement.error < 0.1 * result.agreement.constant
