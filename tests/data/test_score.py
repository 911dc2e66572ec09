"""A number per episode in the place of rewards."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import upweight as uw
from support.datasets import random_dataset, tiny
from support.lerobot import LENGTHS, write_lerobot
from upweight.cli.main import main
from upweight.data.score import smoothness, with_score


def test_the_score_is_the_return() -> None:
    ds = with_score(tiny(), [0.1, 5.0, -2.0])
    assert ds.returns.tolist() == [0.1, 5.0, -2.0]
    assert ds.rewards.tolist() == [0, 0, 0.1, 0, 5.0, 0, 0, -2.0]
    np.testing.assert_array_equal(ds.terminated, tiny().terminated)
    assert with_score(tiny(), np.arange(8)).returns.tolist() == [2.0, 4.0, 7.0]  # of steps: the last


@pytest.mark.parametrize(
    ("score", "found"), [([1.0], r"\(1,\)"), ([1.0, np.nan, 2.0], r"\(3,\) of which 1 are not finite")]
)
def test_a_score_that_is_none_is_refused(score: list[float], found: str) -> None:
    with pytest.raises(uw.DatasetError, match=f"each of 3 episodes or of 8 steps, found float64 {found}"):
        with_score(tiny(), score)


def motions(noise: tuple[float, ...], *, rate: int = 1, unit: float = 1.0) -> uw.Dataset:
    """Reaching movements of 200 steps in two joints, with tremor."""
    rng, episodes = np.random.default_rng(0), []
    for amount in noise:
        t = np.linspace(0, 1, 200 * rate)
        reach = 10 * t**3 - 15 * t**4 + 6 * t**5  # the smoothest there is
        tremor = amount * np.sin(2 * np.pi * 12 * t) * np.sin(np.pi * t)
        actions = unit * np.stack([reach + tremor, -0.5 * reach + tremor], axis=1)
        episodes.append({"observations": rng.normal(size=(len(t), 1)), "actions": actions, "truncated": True})
    return uw.Dataset.from_episodes(episodes)


def test_tremor_costs_smoothness() -> None:
    noise = (0.01, 0.0, 0.1, 0.03)
    scores = smoothness(motions(noise))
    assert np.argsort(-scores).tolist() == np.argsort(noise).tolist()
    assert scores[1] == pytest.approx(-1.5, abs=0.2)  # of one smooth movement: little more than the way down
    np.testing.assert_allclose(smoothness(motions(noise, unit=57.3)), scores, rtol=1e-9)
    np.testing.assert_allclose(smoothness(motions(noise, rate=2)), scores, rtol=0.02)
    assert uw.ReturnWeighting()(with_score(motions(noise), "smoothness")).argmax() == 1


def test_episodes_that_do_not_move_score_as_the_worst() -> None:
    still = {"observations": np.zeros((5, 1)), "actions": np.ones((5, 2)), "truncated": True}
    moving = {
        "observations": np.zeros((9, 1)),
        "actions": np.random.default_rng(0).normal(size=(9, 2)),
        "truncated": True,
    }
    scores = smoothness(uw.Dataset.from_episodes([still, moving]))
    assert scores[0] == scores[1] < -1
    assert smoothness(uw.Dataset.from_episodes([still, still])).tolist() == [0.0, 0.0]
    with pytest.raises(uw.DatasetError, match="found discrete ones"):
        smoothness(random_dataset(discrete=True))


def test_progress_that_lerobot_keeps_beside_a_dataset(tmp_path: Path) -> None:
    folder = write_lerobot(tmp_path / "robot", rating=[float(m) for m in range(26)])
    frames = np.arange(26)[::-1]  # in any order
    pq.write_table(pa.table({"index": frames, "progress_sparse": frames / 26}), folder / "sarm_progress.parquet")
    last = np.cumsum(LENGTHS) - 1
    np.testing.assert_allclose(uw.load(folder, score="progress_sparse").returns, last / 26)
    assert uw.load(folder, score="rating").returns.tolist() == last.tolist()
    assert uw.load(folder, score=[1, 2, 3, 4, 5]).returns.tolist() == [1, 2, 3, 4, 5]
    assert main(["weights", str(folder), "--score", "progress_sparse", "--in-place"]) == 0
    assert main(["weights", str(folder), "--score", "smoothness", "-o", str(tmp_path / "w.parquet")]) == 0
    with pytest.raises(uw.DatasetError, match="no 'progress' to tell success or a score by"):
        uw.load(folder, score="progress")


def test_tables_have_a_column_of_scores(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("episode,observation_a,action_a,reward,rating\n0,1,0.5,1,7\n0,1,0.25,1,8\n")
    assert uw.load(tmp_path / "a.csv", ends="truncated", score=[3.0]).returns.tolist() == [3.0]
    assert uw.load(tmp_path / "a.csv", ends="truncated", score="rating").returns.tolist() == [8.0]
    assert uw.load(pa.csv.read_csv(tmp_path / "a.csv"), ends="truncated", score="rating").returns.tolist() == [8.0]
    with pytest.raises(uw.DatasetError, match="missing column 'ratin'; did you mean 'rating'.*--score"):
        uw.load(tmp_path / "a.csv", ends="truncated", score="ratin")
