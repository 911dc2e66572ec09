"""The bench for advice: hand-computed regrets, and logs that are what their names say."""

import numpy as np
import pytest

import upweight as uw
from reproduction.advice import logs, pendulum
from reproduction.advice.bench import arms, runs
from reproduction.advice.judge import Results, arm_name, crossfitted, judge, nearest_arm, over_tasks


def test_the_best_arm_is_chosen_on_other_seeds() -> None:
    """Without seed 0 the best of the others is b (3.5), which has 0 there; without 1 and 2 it is a, which has 3 and 3."""
    scores = {"a": np.array([3.0, 3.0, 3.0]), "b": np.array([0.0, 3.0, 4.0]), "uniform": np.zeros(3)}
    own, regret, of_oracle = crossfitted(scores, "uniform")
    assert own == 0.0
    assert regret == pytest.approx((0 + 3 + 3) / 3)
    assert of_oracle == pytest.approx(3.0 - 2.0)
    assert crossfitted(scores, "a")[1] == pytest.approx(2.0 - 3.0)


def test_an_arm_that_was_not_tried_has_its_nearest_in_its_place() -> None:
    tried = ["uniform", "rw 0.05", "rw 0.1", "rw 0.2", "actor rw 0.1"]
    assert nearest_arm("rw 0.14", tried) == "rw 0.1"  # by ratio: 1.4 and 1.43
    assert nearest_arm("actor rw 0.02", tried) == "actor rw 0.1"
    assert nearest_arm("rw 0.1", tried) == "rw 0.1"
    assert nearest_arm("aw 0.1", tried) == "uniform"


def test_arms_have_names() -> None:
    assert arm_name({"name": "rw", "temperature": 0.1}) == "rw 0.1"
    assert arm_name({"name": "uniform", "actor": {"name": "top", "fraction": 0.1}}) == "actor top 0.1"


def test_intervals_draw_whole_tasks() -> None:
    """Two tasks: a draw has both, or one of them twice."""
    mean, low, high = over_tasks({"one": [0.0, 0.0], "other": [1.0, 1.0]})
    assert (mean, low, high) == (0.5, 0.0, 1.0)


def test_rules_are_judged_by_algorithm() -> None:
    arms_ = {"uniform": np.array([0.0, 0.1, 0.2]), "rw 0.1": np.array([1.0, 1.1, 1.2])}
    results = Results({("hopper-ladder", "bc"): arms_, ("pendulum-ladder", "bc"): arms_})
    (row,) = judge(results, {"rw 0.1": lambda case: "rw 0.1"})
    assert (row["logs"], row["over uniform"][0], row["regret"][0]) == (2, 1.0, 0.0)
    assert row["gained"] == ["hopper-ladder", "pendulum-ladder"] and row["harmed"] == []


def test_there_are_logs_of_all_kinds_and_each_has_its_runs() -> None:
    listed = logs.all_logs()
    assert len(listed) == len({log.name for log in listed}) >= 55
    first = listed[: len({log.kind for log in listed})]
    assert len({log.kind for log in first}) == len(first)
    assert len(arms("td3_bc", 1)) == 7 and len(arms("discrete_cql", 1)) == 4 and len(arms("bc", 1)) == 7


def small() -> uw.Dataset:
    return pendulum.play([(pendulum.EXPERT, 400), (pendulum.RANDOM, 400)], seed=0)


def test_controllers_are_graded() -> None:
    returns = [
        pendulum.play([(grade, 2000)], seed=0).returns.mean() for grade in (pendulum.RANDOM, 0, 3, pendulum.EXPERT)
    ]
    assert returns == sorted(returns) and returns[-1] > -250


def test_pieces_are_cut_and_nothing_else_changes() -> None:
    whole, cut = small(), logs.pieces(small())
    assert set(cut.lengths) == {50} and cut.num_episodes == 16
    assert np.array_equal(cut.observations, whole.observations) and np.allclose(cut.rewards, whole.rewards)
    assert not cut.terminated.any() and cut.num_transitions.sum() == 800


@pytest.mark.filterwarnings("ignore:.*next observation is the first one")
def test_single_decisions_are_scored_by_what_followed() -> None:
    whole, single = small(), logs.single_decisions(small())
    assert single.num_episodes == 800 and single.terminated.all()
    assert single.rewards[10] == pytest.approx(whole.rewards[10:60].sum(), rel=1e-5)
    assert single.rewards[190] == pytest.approx(whole.rewards[190:200].sum(), rel=1e-5)


def test_luck_and_starts_change_outcomes_only() -> None:
    whole = small()
    for changed in (logs.with_luck(whole), logs.with_starts(whole), logs.limits_as_terminals(whole)):
        assert np.array_equal(changed.actions, whole.actions) and np.array_equal(changed.lengths, whole.lengths)
    assert logs.limits_as_terminals(whole).episodes.terminated.all()
    assert np.corrcoef(logs.with_starts(whole).returns, whole.initial_observations[:, 0])[0, 1] > 0.5


def test_runs_of_a_log(tmp_path) -> None:
    log = logs.Log("pendulum-small", "small", "pendulum", small)
    found = list(runs(log, log.save(tmp_path), 1, ["bc", "td3_bc"]))
    assert len(found) == 3 * 7 + 3 * 7 and {run.data.env_id for run in found} == {"Pendulum-v1"}
