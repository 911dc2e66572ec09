"""Pages of the documentation, and the stored results that they speak of."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def stored(name: str) -> list[dict[str, Any]]:
    return json.loads((RESULTS / f"{name}.json").read_text())["results"]


def table_row(page: str, head: str) -> list[str]:
    """The cells after ``head`` of the table row that begins with it."""
    text = (ROOT / page).read_text()
    (row,) = re.findall(rf"^\| {re.escape(head)} \|(.*)\|$", text, re.MULTILINE)
    return [cell.strip() for cell in row.split("|")]


def load_benchmark(name: str) -> Any:
    """A program of benchmarks/, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        spec.loader.exec_module(module)
    return module


def text_of(page: str) -> str:
    """A page as one line, whatever its lines are."""
    return " ".join((ROOT / page).read_text().split())
