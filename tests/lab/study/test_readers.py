import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upweight as uw
from support.training import dataset_for, small_config
from upweight.base.errors import DatasetError
from upweight.cli.main import main
from upweight.data.fingerprint import fingerprint
from upweight.lab.report.results import collect
from upweight.lab.study.readers import TrainedRuns, open_store
from upweight.lab.train.folder import describe_training
from upweight.lab.train.prepare import make_parts

RUNS = [
    uw.Run(small_config("td3_bc"), "uniform", 0),
    uw.Run(small_config("td3_bc"), "rw", 0),
    uw.Run(small_config("td3_bc"), "rw", 0, reweight=True),
    uw.Run(small_config("td3_bc"), "rw", 0, actor_weighting="uniform"),
    uw.Run(small_config("td3_bc"), "rw", 0, episodes=[0, 1, 2]),
]


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))


def folder(path: Path, *, status: str = "finished", held: Any = None, **last: Any) -> Path:
    """What a training leaves, without training."""
    path.mkdir()
    more = {} if held is None else {"holdout": held.tolist()}
    plan = describe_training(dataset_for("bc"), RUNS, make_parts(dataset_for("bc"), RUNS), 100, "float32", more)
    write(path / "plan.json", plan)
    outcome = {"status": status, "updates": 100, "diverged_at": None, **last}
    write(path / "results.json", {"format": 1, "runs": [{**run, **outcome} for run in plan["runs"]]})
    lines = [{"run": run, "updates": at, "loss": 50.0 / at} for at in (50, 100) for run in range(len(RUNS))]
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def play(path: Path) -> None:
    """What ``upweight evaluate`` leaves."""
    played = [
        {
            "policy": f"run-{run:03d}.safetensors",
            "score": 0.1 * run,
            "mean_return": 300.0 * run,
            "returns": [300.0 * run],
        }
        for run in range(len(RUNS))
    ]
    write(path / "evaluation.json", {"format": 1, "env_id": "Hopper-v5", "policies": played})


def test_an_evaluated_training_reads_as_a_store(tmp_path: Path) -> None:
    play(folder(tmp_path / "bc"))
    reader = open_store(tmp_path / "bc")
    assert isinstance(reader, TrainedRuns)
    results = collect(reader)
    assert [run.score for run in results.runs] == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])
    assert [run.weighting.name for run in results.runs[:2]] == ["Uniform", "RW"]
    assert len({(run.weighting.name, run.dataset.name) for run in results.shown}) == len(RUNS)  # none hides another
    assert {run.env_id for run in results.runs} == {"Hopper-v5"}
    assert [record["loss"] for record in results.runs[1].losses] == [1.0, 0.5]
    assert reader.table()["updates"] == [100] * len(RUNS)
    assert repr(reader) == f"TrainedRuns(path={str(tmp_path / 'bc')!r}, runs=5)"


def test_episodes_that_were_held_out_are_told(tmp_path: Path) -> None:
    told = [record["holdout"] for record in open_store(folder(tmp_path / "part", held=np.array([3, 7]))).runs()]
    assert told == [{"episodes": [3, 7], "fingerprint": fingerprint(dataset_for("bc"))}] * len(RUNS)
    assert all("holdout" not in record for record in open_store(folder(tmp_path / "all")).runs())


def test_evaluation_on_the_way_is_kept(tmp_path: Path) -> None:
    points = [{"updates": at, "score": at / 100, "mean_return": 3.0 * at, "returns": [3.0 * at]} for at in (50, 100)]
    found = collect(open_store(folder(tmp_path / "bc", points=points))).runs[0]
    assert found.score == 1.0
    assert found.points == ((50, 0.5), (100, 1.0))


@pytest.mark.parametrize("status", ["finished", "diverged"])
def test_a_training_that_was_not_evaluated_has_a_page_of_its_losses(tmp_path: Path, status: str) -> None:
    assert main(["report", str(folder(tmp_path / "bc", status=status)), "-o", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "<h1>bc</h1>" in page
    assert "The policies were not evaluated" in page
    header = page[page.index("<header>") : page.index("</header>")]
    assert header.count("<svg") == 1
    assert "loss against updates, 5 runs" in header
    assert "<h2>Scores</h2>" not in page and "<h2>Figures</h2>" not in page
    assert "not evaluated" in page[page.index("<h2>Runs</h2>") :]
    assert "batch_size=8 hidden_units=[8, 8]" in page  # the settings
    assert [path.name for path in (tmp_path / "page").iterdir()] == ["losses-1.svg"]


def test_an_evaluated_training_has_the_page_of_a_study_and_its_losses(tmp_path: Path) -> None:
    play(folder(tmp_path / "bc"))
    assert main(["report", str(tmp_path / "bc"), "-o", str(tmp_path / "page.html"), "--resamples", "20"]) == 0
    page = (tmp_path / "page.html").read_text()
    assert page.index("RW against Uniform") < page.index("<h2>Scores</h2>") < page.index("Losses over the training")
    assert main(["report", str(tmp_path / "bc"), "-o", str(tmp_path / "bc.html")]) == 2  # its tables would go into bc/
    assert not (tmp_path / "bc.html").exists()


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = folder(tmp_path / "bc")
    for damage in ('{"runs": [{}]}', "[]", '{"runs": ', '{"runs": [3]}'):
        (path / "results.json").write_text(damage)
        with pytest.raises(DatasetError, match="bc: expected the folder of a training"):
            open_store(path)
    (path / "results.json").unlink()
    with pytest.raises(DatasetError, match="not finished; go on with it"):
        open_store(path)


@pytest.mark.slow
def test_a_real_training(tmp_path: Path) -> None:
    results = uw.train(dataset_for("bc"), RUNS[:2], num_updates=20, output=tmp_path / "bc")
    found = collect(open_store(tmp_path / "bc"))
    assert [run.left_out for run in found.runs] == ["not evaluated"] * 2
    assert found.runs[0].losses[-1]["actor_loss"] == results[0].metrics[-1]["actor_loss"]
