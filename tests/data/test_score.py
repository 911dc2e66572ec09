"""A number per episode in the place of rewards."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import upweight as uw
from support.datasets import tiny
from support.lerobot import LENGTHS, write_lerobot
from upweight.cli.main import main


def test_the_score_is_the_return() -> None:
    ds = tiny().with_score([0.1, 5.0, -2.0])
    assert ds.returns.tolist() == [0.1, 5.0, -2.0]
    assert ds.rewards.tolist() == [0, 0, 0.1, 0, 5.0, 0, 0, -2.0]
    np.testing.assert_array_equal(ds.terminated, tiny().terminated)
    assert tiny().with_score(np.arange(8)).returns.tolist() == [2.0, 4.0, 7.0]  # of steps: the last


@pytest.mark.parametrize(
    ("score", "found"), [([1.0], r"\(1,\)"), ([1.0, np.nan, 2.0], r"\(3,\) of which 1 are not finite")]
)
def test_a_score_that_is_none_is_refused(score: list[float], found: str) -> None:
    with pytest.raises(uw.DatasetError, match=f"each of 3 episodes or of 8 steps, found float64 {found}"):
        tiny().with_score(score)


def test_a_name_is_for_load() -> None:
    with pytest.raises(uw.DatasetError, match=r"found the name 'rating'.*upweight\.load\(.*score='rating'"):
        tiny().with_score("rating")


def test_progress_that_lerobot_keeps_beside_a_dataset(tmp_path: Path) -> None:
    folder = write_lerobot(tmp_path / "robot", rating=[float(m) for m in range(26)])
    frames = np.arange(26)[::-1]  # in any order
    pq.write_table(pa.table({"index": frames, "progress_sparse": frames / 26}), folder / "sarm_progress.parquet")
    last = np.cumsum(LENGTHS) - 1
    np.testing.assert_allclose(uw.load(folder, score="progress_sparse").returns, last / 26)
    assert uw.load(folder, score="rating").returns.tolist() == last.tolist()
    assert uw.load(folder, score=[1, 2, 3, 4, 5]).returns.tolist() == [1, 2, 3, 4, 5]
    assert main(["weights", str(folder), "--score", "progress_sparse", "--in-place"]) == 0
    with pytest.raises(uw.DatasetError, match="no 'progress' to tell success or a score by"):
        uw.load(folder, score="progress")


def test_tables_have_a_column_of_scores(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("episode,observation_a,action_a,reward,rating\n0,1,0.5,1,7\n0,1,0.25,1,8\n")
    assert uw.load(tmp_path / "a.csv", ends="truncated", score=[3.0]).returns.tolist() == [3.0]
    assert uw.load(tmp_path / "a.csv", ends="truncated", score="rating").returns.tolist() == [8.0]
    assert uw.load(pa.csv.read_csv(tmp_path / "a.csv"), ends="truncated", score="rating").returns.tolist() == [8.0]
    with pytest.raises(uw.DatasetError, match="missing column 'ratin'; did you mean 'rating'.*--score"):
        uw.load(tmp_path / "a.csv", ends="truncated", score="ratin")


@pytest.mark.parametrize("kind", ["file", "table", "frame"])
def test_success_and_score_together_are_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a.csv").write_text("episode,observation,action,rating,won\n0,1,0.5,1,0\n0,2,0.5,3,1\n")
    frame = pa.csv.read_csv(tmp_path / "a.csv")
    uw.save(uw.load(frame, ends="truncated", score="rating"), tmp_path / "a.npz")
    source = {"file": tmp_path / "a.npz", "table": tmp_path / "a.csv", "frame": frame}[kind]
    one_episode = {"file": ([1.0], [3.0])}.get(kind, ("won", "rating"))
    with pytest.raises(uw.DatasetError, match="expected success or score, found both"):
        uw.load(
            source, success=one_episode[0], score=one_episode[1], **({} if kind == "file" else {"ends": "truncated"})
        )
