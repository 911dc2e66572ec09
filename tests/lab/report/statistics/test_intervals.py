import numpy as np

from upweight.lab.report.statistics.intervals import Intervals


def test_a_correlation_is_resampled_over_its_points() -> None:
    x = np.arange(12.0)
    noise, more = np.random.default_rng(0).normal(size=(2, 12))
    given = [(x, x**3), (x, -x), (x, noise), (x + noise, x + more), (x + noise, x + more, x)]
    up, down, none, both, left = (Intervals().correlation(*each) for each in given)
    assert up and down and none and both and left
    assert (up.low, down.high) == (1.0, -1.0)
    assert none.low < 0 < none.high and none.runs == 12
    assert left.point < 0.6 < both.point  # what is left beside the third


def test_a_correlation_with_what_does_not_vary_is_undefined() -> None:
    x, few = np.arange(12.0), np.array([1.0] + [0.0] * 11)
    assert Intervals().correlation(x, np.zeros(12)) is None and Intervals().correlation(np.ones(12), x) is None
    found = Intervals().correlation(x, few)  # in many resamples it does not vary
    assert found is not None and found.low < found.high == 0


def test_pairs_can_be_resampled_over_tasks_too() -> None:
    x = {str(task): [0.1 * task + 0.01 * seed for seed in range(5)] for task in range(6)}
    y = {task: [0.2 + 0.01 * seed for seed in range(5)] for task in x}
    seeds, tasks = (Intervals().gain(x, y, over_tasks=over) for over in (False, True))
    assert seeds.point == tasks.point
    assert tasks.high - tasks.low > 3 * (seeds.high - seeds.low)
    assert Intervals().improvement(x, y, over_tasks=True).low < Intervals().improvement(x, y).low
