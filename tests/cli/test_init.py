"""``upweight init``: guesses about the columns of somebody's own table."""

import json
import tomllib
from pathlib import Path

import pandas as pd
import pytest

import upweight as uw
from upweight.cli.main import main
from upweight.io.layout_guess import guess_layout

STAYS = """\
stay_id,hour,age,unit,dose_mg,lactate,survived
1,0,50,a,1.5,2.0,0
1,1,50,a,1.0,2.5,1
2,0,70,b,0.0,3.0,0
2,1,70,b,2.0,3.5,0
3,0,60,b,0.5,3.0,0
3,1,60,b,2.0,3.1,1
"""


def write(folder: Path, text: str, name: str = "log.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_the_next_command_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write(tmp_path, STAYS)
    assert main(["init", str(table)]) == 0
    assert "check it" in capsys.readouterr().out
    assert tomllib.loads((tmp_path / "log.toml").read_text())["table"] == {
        "episode": "stay_id",
        "timestep": "hour",
        "observations": ["age", "unit", "lactate"],
        "actions": "dose_mg",
        "success": "survived",
        "categories": ["unit"],
        "ends": "terminated",
    }
    assert main(["inspect", str(table)]) == 0
    ds = uw.load(table)
    assert ds.returns.tolist() == [1, 0, 1] and ds.observation_shape == (4,)


def test_parquet_is_guessed_alike(tmp_path: Path) -> None:
    frame = pd.read_csv(write(tmp_path, STAYS))
    frame.to_parquet(tmp_path / "log.parquet")
    assert guess_layout(tmp_path / "log.parquet").layout == guess_layout(tmp_path / "log.csv").layout


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("rows", [2, 6, 4000])
def test_any_separator_and_length(tmp_path: Path, separator: str, rows: int) -> None:
    lines = [f"{row // 2},{row % 2},{row / 10},{row % 3},{row * 0.5}" for row in range(rows)]
    text = "\n".join(["episode,t,x,action,reward", *lines]).replace(",", separator)
    found = guess_layout(write(tmp_path, text))
    assert found.missing == () and found.layout["rewards"] == "reward" and found.layout["observations"] == ("x",)


@pytest.mark.parametrize(
    ("header", "row", "key", "column"),
    [
        ("patient_id,stay_id,action,reward,age", "1,2,0,0,5", "episode", "stay_id"),
        ("patient_id,age,action,reward,x", "1,2,0,0,5", "episode", "patient_id"),
        ("episode,x,a_0,a_1,reward", "1,2,0,0,5", "actions", ("a_0", "a_1")),
        ("episode,age,activity,action,r", "1,2,0,0,5", "actions", "action"),
        ("episode,Timestamp,obs,ACTION,r", "1,2,0,0,5", "timestep", "Timestamp"),
        ("episode,x,action,won,reward", "1,2,0,0,5", "rewards", "reward"),
        ("episode,x,action,outcome,done", "1,2,0,0,5", "terminated", "done"),
        ("episode,step,obs,action,r", "1,2,0,0,5", "timestep", "step"),
        ("x,step,id,action,r", "1,2,0,0,5", "episode", "id"),
        ("demo,joint,cmd_vel,success,x", "1,2,0,0,5", "actions", "cmd_vel"),
    ],
)
def test_names(tmp_path: Path, header: str, row: str, key: str, column: str | tuple[str, ...]) -> None:
    assert guess_layout(write(tmp_path, f"{header}\n{row}\n{row}\n")).layout[key] == column


def test_an_outcome_with_gaps_is_a_score(tmp_path: Path) -> None:
    """Written at the end of the episode only."""
    table = write(tmp_path, "episode,x,action,survived\n1,2,0,\n1,3,0,1\n2,2,0,\n2,3,1,0\n")
    assert guess_layout(table).layout["score"] == "survived"
    assert main(["init", str(table)]) == 0 and uw.load(table).returns.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("pulse", ["60", "", "70", "80"]),
        ("pulse", ["60", "NA", "70", "80"]),
        ("pulse", ["60,5", "61", "70,25", "80"]),
        ("cost", ["1", "2", "3", "4"]),
        ("Unnamed: 0", ["0", "1", "2", "3"]),
        ("next_pulse", ["1", "2", "3", "4"]),
        ("outcome", ["died", "died", "alive", "alive"]),
    ],
)
def test_what_cannot_be_an_observation_is_left_out_with_a_reason(
    tmp_path: Path, column: str, values: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The next command works, and the file says what it does without."""
    frame = pd.DataFrame({"episode": [1, 1, 2, 2], "x": [1.5, 2, 3, 4], "action": [0, 1, 0, 1], "reward": [0, 1, 0, 0]})
    frame.insert(1, column, values)
    frame = frame.drop(columns="reward") if column == "outcome" else frame
    frame.to_csv(tmp_path / "log.csv", index=False, sep=";")
    found = guess_layout(tmp_path / "log.csv")
    assert found.layout["observations"] == ("x",) and list(found.left_out) == [column]
    assert main(["init", str(tmp_path / "log.csv")]) == 0
    assert f"# Left out: {column} (" in (tmp_path / "log.toml").read_text()
    assert main(["inspect", str(tmp_path / "log.csv")]) == 0


def test_text_of_many_values_is_left_out(tmp_path: Path) -> None:
    lines = [f"{row // 2},note {row},{row},{row % 3},1" for row in range(100)]
    found = guess_layout(write(tmp_path, "\n".join(["episode,remark,x,action,reward", *lines])))
    assert found.layout["observations"] == ("x",) and list(found.left_out) == ["remark"]


def test_observations_after_the_action_are_next_observations(tmp_path: Path) -> None:
    table = write(tmp_path, "episode,a,x,y,next_y,next_x,r\n1,0,1,2,4,3,0\n1,0,3,4,6,5,1\n")
    assert guess_layout(table).layout["next_observations"] == ("next_x", "next_y")
    assert main(["init", str(table)]) == 0
    assert uw.load(table).transitions([0, 1]).next_observations.tolist() == [[3, 4], [5, 6]]


def test_a_table_of_decisions_has_an_episode_in_each_row(tmp_path: Path) -> None:
    table = write(tmp_path, "visit_id,age,treatment,outcome\n7,50,0,1\n8,60,1,0\n9,70,0,1\n")
    assert main(["init", str(table)]) == 0
    ds = uw.load(table)
    assert ds.returns.tolist() == [1, 0, 1] and ds.observations.tolist() == [[50], [60], [70]]


def test_empty_rewards_count_as_zero(tmp_path: Path) -> None:
    table = write(tmp_path, "episode,x,action,reward\n1,2,0,\n1,3,0,1\n2,2,0,\n2,3,1,5\n")
    assert main(["init", str(table)]) == 0 and uw.load(table).returns.tolist() == [1, 5]


def test_numbers_in_last_rows_only_are_the_score_under_any_name(tmp_path: Path) -> None:
    table = write(tmp_path, "stay,x,dose,well\n1,2,0,\n1,3,0,1\n2,2,0,\n2,3,1,0\n")
    assert main(["init", str(table)]) == 0 and uw.load(table).returns.tolist() == [1, 0]


def test_what_is_missing_is_said_and_left_to_be_filled_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write(tmp_path, "row,height\n1,2\n2,2\n")
    assert main(["init", str(table), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["missing"] == ["episode", "actions", "rewards"]
    text = (tmp_path / "log.toml").read_text()
    assert '# episode = "?"' in text and "row, height" in text
    assert main(["inspect", str(table)]) == 2


def test_nothing_is_replaced_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, mine = write(tmp_path, STAYS), write(tmp_path, "[table]\n", "log.toml")
    assert main(["init", str(table)]) == 2 and mine.read_text() == "[table]\n"
    assert "--overwrite" in capsys.readouterr().err
    assert main(["init", str(table), "--overwrite"]) == 0 and "stay_id" in mine.read_text()


@pytest.mark.parametrize("content", ["", "one\n1\n2\n", "\0\0"])
def test_what_is_no_table(tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = write(tmp_path, content)
    assert main(["init", str(table)]) == 2
    assert capsys.readouterr().err.count("\n") == 1 and not (tmp_path / "log.toml").exists()
    assert main(["init", str(tmp_path / "none.csv")]) == 2
