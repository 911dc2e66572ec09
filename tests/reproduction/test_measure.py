"""Programs store their results next to themselves."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.measure import record

ROOT = Path(__file__).parents[2]


def test_results_lie_next_to_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UPWEIGHT_RESULTS", raising=False)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "study.py"), "--quick"])
    assert record("one", [], [{"seconds": 1}]) == tmp_path / "results" / "one.json"


def test_another_folder_and_no_local_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPWEIGHT_RESULTS", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(ROOT / "reproduction" / "study.py"), "--quick"])
    stored = json.loads(record("one", [], []).read_text())
    assert stored["command"] == "python reproduction/study.py --quick"
