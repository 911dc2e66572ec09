import numpy as np

from upweight.report.statistics.intervals import Intervals


def test_a_correlation_is_resampled_over_its_points() -> None:
    x = np.arange(12.0)
    assert (Intervals().correlation(x, x**3).low, Intervals().correlation(x, -x).high) == (1.0, -1.0)
    noise = np.random.default_rng(0).normal(size=12)
    found = Intervals().correlation(x, noise)
    assert found.low < 0 < found.high and found.runs == 12
    assert Intervals().correlation(x, x + noise / 9, x).point < 0.6  # what is left beside the third


def test_pairs_can_be_resampled_over_tasks_too() -> None:
    x = {str(task): [0.1 * task + 0.01 * seed for seed in range(5)] for task in range(6)}
    y = {task: [0.2 + 0.01 * seed for seed in range(5)] for task in x}
    seeds, tasks = (Intervals().gain(x, y, over_tasks=over) for over in (False, True))
    assert seeds.point == tasks.point
    assert tasks.high - tasks.low > 3 * (seeds.high - seeds.low)
    assert Intervals().improvement(x, y, over_tasks=True).low < Intervals().improvement(x, y).low
