import numpy as np
import pytest

from upweight.lab.report.statistics.scores import ScoreError, as_scores, pair


def test_the_three_forms_mean_the_same() -> None:
    matrix = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])  # 3 runs of 2 tasks
    forms = (matrix, [[1, 2, 3], [10, 20, 30]], {"hopper": [1, 2, 3], "ant": np.array([10, 20, 30])})
    for given in forms:
        scores = as_scores(given)
        assert scores.values.tolist() == [1, 2, 3, 10, 20, 30]
        assert scores.runs.tolist() == [3, 3]
    assert as_scores(forms[2]).tasks == ("hopper", "ant")
    assert as_scores(forms[1]).tasks == ("0", "1")


def test_tasks_may_differ_in_their_number_of_runs() -> None:
    scores = as_scores({"a": [1, 2, 3], "b": [10], "c": [5, 7]})
    assert scores.starts.tolist() == [0, 3, 4]
    assert scores.fewest_runs == 1
    assert scores.task_means(scores.values).tolist() == [2, 10, 6]
    assert [part.tolist() for part in scores.of_tasks()] == [[1, 2, 3], [10], [5, 7]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "at least one task"),
        ([], "at least one task"),
        (np.zeros((3, 0)), "at least one task"),
        (np.zeros(5), r"\[runs, tasks\], found shape \(5,\)"),
        ([0.1, 0.2], r"task '0', at least one, found shape \(\)"),
        ({"hopper": []}, r"task 'hopper', at least one, found shape \(0,\)"),
        ({"hopper": [[1.0, 2.0]]}, r"found shape \(1, 2\)"),
        ({"hopper": ["good"]}, "numbers as the scores of task 'hopper'"),
        ({"hopper": [1.0, 2.0], "ant": [3.0, np.nan]}, r"found nan in run 1 of task 'ant'.*put in its place .* 0.0"),
        ({"hopper": [-np.inf]}, "found -inf in run 0 of task 'hopper'"),
    ],
)
def test_what_is_refused_and_why(given: object, message: str) -> None:
    with pytest.raises(ScoreError, match=message):
        as_scores(given)  # type: ignore[arg-type]


def test_pairs_are_matched_by_name() -> None:
    x, y = pair({"a": [1], "b": [2, 3], "c": [4]}, {"c": [40, 41], "a": [10], "b": [20]})
    assert x.tasks == y.tasks == ("a", "b", "c")
    assert y.values.tolist() == [10, 20, 40, 41]
    assert y.runs.tolist() == [1, 1, 2]


def test_pairs_on_different_tasks_are_refused() -> None:
    with pytest.raises(ScoreError, match=r"only in the first \['a'\], only in the second \['c'\]"):
        pair({"a": [1], "b": [2]}, {"b": [1], "c": [2]})
    with pytest.raises(ScoreError, match="same form"):
        pair({"a": [1], "b": [2]}, [[1], [2]])
