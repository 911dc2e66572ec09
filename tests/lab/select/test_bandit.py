"""The bandit, on arms that are known."""

import numpy as np
import pytest

from upweight.lab.select.bandit import next_arm, play_arms


def noisy(means: list[float], seed: int):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(seed)
    return lambda arm, _: float(rng.normal(means[arm], 5.0))


def test_the_bound_is_the_one_of_the_formula() -> None:
    # n = 5; normalised means 0.25, 0.5 and 1; bounds with counts 1, 2, 2
    returns = [[10.0], [0.0, 40.0], [40.0, 40.0]]
    bounds = np.array([0.25, 0.5, 1.0]) + np.sqrt(2 * np.log(5) / np.array([1, 2, 2]))
    assert next_arm(returns) == int(np.argmax(bounds)) == 2
    assert next_arm([[10.0], [0.0] * 3, [10.0] * 3]) == 0  # equal to the last, and played less


@pytest.mark.parametrize("seed", range(5))
def test_the_best_arm_is_found_and_played_most(seed: int) -> None:
    played = play_arms(noisy([0.0, 100.0, 20.0, 50.0], seed), arms=4, allowed=60)
    counts = [len(mine) for mine in played.returns]
    assert played.best == 1 and sum(counts) == 60 and min(counts) >= 1
    assert counts[1] == max(counts)


def test_units_and_offsets_do_not_matter() -> None:
    def spent(scale: float, shift: float) -> list[int]:
        play = noisy([0.0, 8.0, 4.0], 3)
        played = play_arms(lambda arm, k: scale * play(arm, k) + shift, arms=3, allowed=40)
        return [len(mine) for mine in played.returns]

    assert spent(1.0, 0.0) == spent(1000.0, -5000.0) == spent(1e-3, 7.0)


def test_no_more_episodes_than_allowed() -> None:
    asked = []

    def play(arm: int, episode: int) -> float:
        asked.append((arm, episode))
        return float(arm)

    played = play_arms(play, arms=5, allowed=3)  # the first three, once each
    assert asked == [(0, 0), (1, 0), (2, 0)]
    assert played.returns == ((0.0,), (1.0,), (2.0,), (), ()) and played.best == 2


def test_equal_arms_share_the_episodes() -> None:
    played = play_arms(lambda arm, _: 7.0, arms=3, allowed=12)
    assert [len(mine) for mine in played.returns] == [4, 4, 4] and played.best == 0
