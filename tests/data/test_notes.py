"""All looks at data together: one warning before a training, and silence on usual logs."""

import json
from pathlib import Path

import numpy as np
import pytest

import upweight as uw
from upweight.cli.main import main
from upweight.data.notes import data_notes, warn_of_data


def two_faults() -> uw.Dataset:
    """Time limits stored as terminal states, and codes with a gap."""
    rng = np.random.default_rng(0)
    return uw.Dataset.from_arrays(
        observations=rng.normal(size=(200, 2)),
        actions=2 * rng.integers(0, 2, 200),
        rewards=rng.normal(size=200),
        terminated=np.arange(200) % 8 == 7,
    )


def test_one_warning_says_it_all() -> None:
    dataset = two_faults()
    assert list(data_notes(dataset)) == ["unused actions", "time limit"]
    with pytest.warns(uw.UpweightWarning) as caught:
        warn_of_data(dataset, stacklevel=1)
    assert len(caught) == 1
    assert all(note in str(caught[0].message) for note in data_notes(dataset).values())
    assert str(caught[0].message).startswith("dataset: ")


def test_inspect_prints_them_and_reading_options_mend_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "log.npz")
    uw.save(two_faults(), path)
    assert main(["inspect", path, "--json"]) == 0
    assert any("a time limit?" in note for note in json.loads(capsys.readouterr().out)["notes"])
    assert main(["inspect", path, "--json", "--ends", "truncated", "--score", "mean_reward"]) == 0
    mended = json.loads(capsys.readouterr().out)
    assert mended["num_truncated"] == 25 and not any("time limit" in note for note in mended["notes"])
    assert main(["inspect", path, "--join"]) != 0
    assert "join: expected truncated episodes" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["cartpole-medium", "cartpole-expert", "cartpole-expert-random-10", "acrobot-expert", "mountaincar-random"]
)
def test_usual_logs_have_nothing_to_tell(name: str) -> None:
    assert data_notes(uw.make_dataset(name, steps=10_000)) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hopper-medium", "hopper-expert-random-10", "halfcheetah-medium"])
def test_usual_logs_of_robots_have_nothing_to_tell(name: str) -> None:
    assert data_notes(uw.make_dataset(name, steps=20_000)) == {}
