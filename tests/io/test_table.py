"""Tables in files: CSV and Parquet of one's own, with options or a TOML file that says which column is what."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import upweight as uw
from support.datasets import assert_same, random_dataset

ROWS = """\
stay_id,hour,age,hr,sex,dose,drug,note,r,alive
1001,0,70,88.5,F,0.5,low,,0,1
1002,0,30,60,M,0,none,"two
lines",0,0
1001,1,70,90,F,1.5,high,,1,1
1002,2,30,62,M,0.25,low,"a, b",-1,0
1002,1,30,61,M,0,none,,0,0
"""
LAYOUT: dict[str, Any] = {
    "episode": "stay_id",
    "timestep": "hour",
    "observations": ["age", "hr"],
    "actions": "dose",
    "rewards": "r",
    "ends": "terminated",
}
TOML = """
[table]
episode = "stay_id"
timestep = "hour"
observations = ["age", "hr"]
actions = "dose"
rewards = "r"
ends = "terminated"
"""


@pytest.fixture
def icu(tmp_path: Path) -> Path:
    (tmp_path / "icu.csv").write_text(ROWS)
    return tmp_path / "icu.csv"


def expected() -> uw.Dataset:
    return uw.Dataset.from_arrays(
        observations=np.array([[70, 88.5], [70, 90], [30, 60], [30, 61], [30, 62]]),
        actions=np.array([0.5, 1.5, 0.0, 0.0, 0.25]),
        rewards=np.array([0.0, 1.0, 0.0, 0.0, -1.0]),
        terminated=[0, 1, 0, 0, 1],
    )


class TestCsv:
    def test_columns_are_named(self, icu: Path) -> None:
        assert_same(uw.load(icu, **LAYOUT), expected())

    def test_a_frame_is_the_same(self, icu: Path) -> None:
        frame = pd.read_csv(icu)
        for table in (frame, pa.Table.from_pandas(frame), frame.to_dict("list")):
            assert_same(uw.load(table, **LAYOUT), expected())
        assert uw.load(frame, num_actions=7, success="alive", **{**LAYOUT, "actions": "hour"}).returns.tolist() == [
            1,
            0,
        ]
        with pytest.raises(uw.DatasetError, match="expected a dataset.* found int"):
            uw.load(3)

    @pytest.mark.parametrize("ids", [("20240315000000000001", "20240315000000000002"), ("7", "007"), ("1E5", "100000")])
    def test_what_tells_episodes_apart_is_text(self, tmp_path: Path, ids: tuple[str, str]) -> None:
        rows = "".join(f"{name},{step},1,0,{step}\n" for name in ids for step in range(3))
        (tmp_path / "log.csv").write_text(f"id,t,x,a,r\n{rows}")
        layout = {"episode": "id", "observations": "x", "actions": "a", "rewards": "r", "ends": "terminated"}
        assert uw.load(tmp_path / "log.csv", **layout).lengths.tolist() == [3, 3]
        frame = pd.DataFrame({"id": [2.0**60, 2.0**61], "x": 1.0, "a": 0.0, "r": 0.0})
        with pytest.raises(uw.DatasetError, match="rounded numbers such as .* read the column as text"):
            uw.load(frame, **layout)

    @pytest.mark.parametrize("given", [["01", "02", "10"], None])
    def test_categories_are_as_they_are_written(self, tmp_path: Path, given: list[str] | None) -> None:
        (tmp_path / "log.csv").write_text(
            "id,x,a,r\n" + "".join(f"1,0,{code},0\n" for code in ("10", "02", "01", "10"))
        )
        categories = "a" if given is None else {"a": given}
        layout = {"episode": "id", "observations": "x", "actions": "a", "rewards": "r", "ends": "terminated"}
        found = uw.load(tmp_path / "log.csv", categories=categories, **layout)
        assert found.actions.tolist() == [2, 1, 0, 2] and found.metadata["categories"] == {"a": ["01", "02", "10"]}

    def test_categories_that_are_numbers_may_be_written_as_text(self, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text("id,x,a,r\n1,0,7,0\n1,0,10,0\n1,0,7,1\n")
        layout = {"episode": "id", "observations": "x", "actions": "a", "rewards": "r", "ends": "terminated"}
        for categories in ("a", {"a": [7, 10]}, {"a": ["7", "10"]}):
            assert uw.load(tmp_path / "log.csv", categories=categories, **layout).actions.tolist() == [0, 1, 0]

    @pytest.mark.parametrize(
        ("encoding", "text"), [("cp1252", "id,x,a,r\n1,0,Müller,0\n"), ("utf-16", "id,x,a,r\n1,0,b,0\n")]
    )
    def test_other_encodings_are_named(self, tmp_path: Path, encoding: str, text: str) -> None:
        (tmp_path / "log.csv").write_text(text, encoding=encoding)
        with pytest.raises(uw.DatasetError, match="expected text in UTF-8, found another encoding"):
            uw.load(tmp_path / "log.csv", episode="id", observations="x", actions="a", rewards="r", categories="a")

    def test_a_frame_with_a_repeated_column(self) -> None:
        frame = pd.DataFrame([[1, 0.0, 0, 0.0, 5.0]], columns=["id", "x", "a", "r", "x"])
        with pytest.raises(uw.DatasetError, match="expected one column 'x', found several"):
            uw.load(frame, episode="id", observations=["x"], actions="a", rewards="r", ends="terminated")

    @pytest.mark.parametrize("delimiter", [";", "\t", "|"])
    def test_other_delimiters_packed_with_a_mark_in_front(self, tmp_path: Path, delimiter: str) -> None:
        text = ROWS.replace('"two\nlines"', "x").replace('"a, b"', "y").replace(",", delimiter)
        path = tmp_path / "icu.csv.gz"
        path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.encode()))
        (tmp_path / "icu.toml").write_text(TOML)
        assert_same(uw.load(path), expected())

    def test_cells_of_many_lines(self, icu: Path) -> None:
        """Also where a block that is parsed at once (a megabyte) ends inside one."""
        note = "line, with a comma\n" * 300
        rows = [f'{stay},{stay % 7},1,"{note}"' for stay in range(600)]
        icu.write_text("\n".join(["episode,obs,action,note", *rows, ""]))
        ds = uw.load(icu, rewards="obs", ends="terminated")
        assert ds.num_episodes == 600 and ds.returns.tolist() == [stay % 7 for stay in range(600)]

    def test_another_name_needs_the_format(self, icu: Path) -> None:
        icu.rename(icu.with_name("icu.dat"))
        assert_same(uw.load(icu.with_name("icu.dat"), format="csv", **LAYOUT), expected())

    def test_nothing_said_lists_the_columns_and_the_ways_in(self, icu: Path) -> None:
        with pytest.raises(uw.DatasetError) as caught:
            uw.load(icu)
        message = str(caught.value)
        for words in (
            "episode, observations, actions;",
            "--episode",
            "upweight init",
            "the table has stay_id, hour, age",
        ):
            assert words in message

    def test_a_text_among_numbers_is_named_with_its_row(self, icu: Path) -> None:
        icu.write_text(ROWS.replace("30,62", "30,sixty"))
        with pytest.raises(uw.DatasetError, match=r"column 'hr': expected numbers, found the text 'sixty' in row 4"):
            uw.load(icu, **LAYOUT)

    def test_gaps(self, icu: Path) -> None:
        icu.write_text(ROWS.replace("30,62", ",NA").replace("low,,0,1", "low,,,1"))
        with pytest.raises(
            uw.DatasetError, match=r"1 in 'age' \(the first in row 4\), 1 in 'hr' \(the first in row 4\)"
        ):
            uw.load(icu, missing_rewards="zero", **LAYOUT)
        with pytest.raises(uw.DatasetError, match=r"'r': 1 of 5 rows have no reward; .*--missing-rewards zero"):
            uw.load(icu, **{**LAYOUT, "observations": ["hour"]})
        ds = uw.load(icu, missing_rewards="zero", **{**LAYOUT, "observations": ["hour"]})
        assert ds.returns.tolist() == [1.0, -1.0]

    def test_categories_and_success(self, icu: Path) -> None:
        layout = {**LAYOUT, "observations": ["sex"], "actions": "drug", "categories": ["sex", "drug"], "rewards": None}
        ds = uw.load(icu, success="alive", **layout)
        assert ds.observations.tolist() == [[1, 0], [1, 0], [0, 1], [0, 1], [0, 1]]
        assert ds.actions.tolist() == [1, 0, 2, 2, 1] and ds.num_actions == 3
        assert ds.returns.tolist() == [1.0, 0.0]
        uw.save(ds, icu.with_name("icu.npz"))
        assert uw.load(icu.with_name("icu.npz")).metadata["categories"]["drug"] == ["high", "low", "none"]

    def test_dates_order_rows(self, icu: Path) -> None:
        text = ROWS.replace(",hour,", ",time,")
        for hour in "012":
            text = text.replace(f"1001,{hour},", f"1001,2024-05-31 0{hour}:00,").replace(
                f"1002,{hour},", f"1002,2024-05-31 0{hour}:00,"
            )
        icu.write_text(text)
        assert_same(uw.load(icu, **{**LAYOUT, "timestep": "time"}), expected())

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "the file is empty"),
            ("a,b\n", "missing column"),
            (ROWS.splitlines()[0] + "\n", "expected at least one step"),
            (ROWS + "1,2\n", "cannot read the rows.*Expected 10 columns, got 2"),
            ("\0\1\2" * 50, "icu.csv: "),
            (ROWS.replace("age", "hr"), "expected one column 'hr', found several"),
        ],
    )
    def test_damaged_files(self, icu: Path, text: str, message: str) -> None:
        icu.write_text(text)
        with pytest.raises(uw.DatasetError, match=message):
            uw.load(icu, **{**LAYOUT, "observations": ["hr"]} if text.count("\n") else {})


class TestParquet:
    @pytest.fixture
    def frame(self, icu: Path) -> pa.Table:
        return pa.Table.from_pandas(pd.read_csv(icu))

    def test_with_a_layout_it_is_a_table(self, frame: pa.Table, tmp_path: Path) -> None:
        pq.write_table(frame, tmp_path / "icu.parquet")
        assert_same(uw.load(tmp_path / "icu.parquet", **LAYOUT), expected())
        (tmp_path / "shards").mkdir()
        for number in range(5):
            pq.write_table(frame.slice(number, 1), tmp_path / "shards" / f"{number}.parquet")
        assert_same(uw.load(tmp_path / "shards", **LAYOUT), expected())
        ds = uw.load(tmp_path / "icu.parquet", success="alive", **{**LAYOUT, "rewards": None})
        assert ds.returns.tolist() == [1.0, 0.0]

    def test_without_one_the_error_names_the_ways_in(self, frame: pa.Table, tmp_path: Path) -> None:
        pq.write_table(frame, tmp_path / "icu.parquet")
        with pytest.raises(uw.DatasetError, match=r"the file has age, alive, dose, .*--episode .*TOML file next to it"):
            uw.load(tmp_path / "icu.parquet")

    def test_vectors_and_dictionaries(self, tmp_path: Path) -> None:
        table = pa.table(
            {
                "episode": [0, 0, 1],
                "state": pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2)),
                "goal": pa.array([[0.0], [0.0], [1.0]], pa.list_(pa.float64())),
                "action": pa.array(["left", "right", "left"]).dictionary_encode(),
                "reward": pa.array([None, 1, 0]),
            }
        )
        pq.write_table(table, tmp_path / "a.parquet")
        layout = {
            "observations": ["state", "goal"],
            "categories": ["action"],
            "missing_rewards": "zero",
            "ends": "truncated",
        }
        ds = uw.load(tmp_path / "a.parquet", **layout)
        assert ds.observations.tolist() == [[1, 2, 0], [3, 4, 0], [5, 6, 1]]
        assert ds.actions.tolist() == [0, 1, 0] and ds.returns.tolist() == [1.0, 0.0]
        assert_same(uw.Dataset.from_frame(table, **layout), ds)

    def test_our_own_files_know_better_than_a_toml_file(self, tmp_path: Path) -> None:
        ds = random_dataset(0, next_known=True)
        uw.save(ds, tmp_path / "icu.parquet")
        (tmp_path / "icu.toml").write_text(TOML)
        assert_same(uw.load(tmp_path / "icu.parquet"), ds)


class TestToml:
    def test_beside_the_file(self, icu: Path) -> None:
        icu.with_suffix(".toml").write_text(TOML)
        assert_same(uw.load(icu), expected())
        pq.write_table(pa.Table.from_pandas(pd.read_csv(icu)), icu.with_suffix(".parquet"))
        assert_same(uw.load(icu.with_suffix(".parquet")), expected())

    def test_what_the_caller_says_goes_before_it(self, icu: Path) -> None:
        icu.with_suffix(".toml").write_text(TOML + "num_actions = 9\n")
        ds = uw.load(icu, actions="drug", categories={"drug": ["none", "low", "high"]}, ends="truncated")
        assert ds.actions.tolist() == [1, 2, 0, 0, 1] and ds.num_actions == 9
        assert ds.episodes.truncated.all()

    def test_of_somebody_else_is_left_alone(self, icu: Path) -> None:
        icu.with_suffix(".toml").write_text('datasets = ["icu.csv"]\nalgorithms = ["bc"]\n')
        assert_same(uw.load(icu, **LAYOUT), expected())

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                'episode = "stay_id"\n',
                r"icu.toml: expected the layout of icu.csv under the head \[table\]",
            ),
            ('[table]\nepisodes = "stay_id"\n', "icu.toml: a table has no 'episodes'; did you mean 'episode'"),
            ("[table]\nepisode = 3\n", "icu.toml: episode: expected the name of a column, found 3"),
            ("[table\n", "icu.toml: cannot read what it says"),
            ("table = 3\n", r"under the head \[table\]"),
        ],
    )
    def test_mistakes_are_named(self, icu: Path, text: str, message: str) -> None:
        icu.with_suffix(".toml").write_text(text)
        with pytest.raises(uw.DatasetError, match=message):
            uw.load(icu)


def test_without_pyarrow_the_extra_is_named(icu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(uw.MissingExtraError, match=r"reading CSV files needs .*upweight\[parquet\]"):
        uw.load(icu, **LAYOUT)
