"""Every code block in README and docs runs, and every local link leads somewhere."""

import itertools
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

import upweight as uw
from upweight.cli.main import main
from upweight.lab.study.experiment_file import suite_names

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text())


@pytest.fixture
def own_algorithms() -> Iterator[None]:
    """What a page adds is forgotten after it."""
    from upweight.lab.train.algorithm import algorithms

    yield
    algorithms.cache_clear()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a ``mixed.hdf5`` like the one of the demo, but smaller."""
    folder = tmp_path_factory.mktemp("demo")
    uw.save(uw.make_dataset("hopper-expert-random-10", steps=10_000), folder / "mixed.hdf5")
    return folder


@pytest.fixture
def workplace(demo: Path, tmp_path: Path) -> Path:
    """What a reader has who made the demo and opens one page."""
    shutil.copytree(demo, tmp_path / "demo")
    return tmp_path


@pytest.mark.slow
@pytest.mark.usefixtures("own_algorithms")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.data.context")  # Ray Data, of its own settings
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX, when Ray starts its servers
@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_blocks_run(page: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(workplace / "minari"))  # a page sets it; this puts it back
    names: dict[str, object] = {"__name__": "docs"}
    for language, code in blocks(page):
        if language == "python":
            exec(compile(code, str(page), "exec"), names)
        elif language == "bash":
            for line in filter(None, (line.split("#")[0].strip() for line in code.splitlines())):
                run_line(line)
        else:
            assert language == "text", f"{page}: a block marked {language!r} would not be run"


def run_line(line: str) -> None:
    """Our own command is run; installing and building are checked to exist."""
    program, *arguments = line.split()
    if program == "upweight":
        assert main(arguments) == 0, line
    elif program == "make":
        targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert arguments[0] in targets, line
    else:
        assert line.startswith("pip install"), line
        extras = re.findall(r"\[([\w,]+)\]", line)
        known = (ROOT / "pyproject.toml").read_text()
        assert all(f"\n{extra} = [" in known for group in extras for extra in group.split(",")), line


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_local_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).is_file(), target  # a folder has no page on the site


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_names_in_the_text_exist(page: Path) -> None:
    text = page.read_text()
    assert set(re.findall(r"`uw\.(\w+)", text)) <= {*uw.__all__}
    assert all(name in dir(uw.Dataset) or name in {"episodes", "metadata"} for name in re.findall(r"`ds\.(\w+)", text))


def test_every_plug_in_is_in_the_docs() -> None:
    from upweight.io.registry import formats
    from upweight.lab.train.algorithm import algorithms
    from upweight.weightings.registry import weighting_classes

    concepts, formats_page = ((ROOT / "docs" / name).read_text() for name in ("concepts.md", "formats.md"))
    for kind in weighting_classes().values():
        assert f"`{kind.__name__}`" in concepts
    for name in formats():
        assert f"| `{name}` |" in formats_page
    for name in algorithms():
        assert f"| `{name}` |" in (ROOT / "docs" / "training.md").read_text()


def test_the_demo_target_runs_what_is_tested_here() -> None:
    assert "upweight demo" in (ROOT / "Makefile").read_text()
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def table_rows(page: str, head: str) -> list[list[str]]:
    """The rows below the table's head that begins so, as cells."""
    lines = (ROOT / page).read_text().split(f"| {head} |", 1)[1].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in itertools.takewhile(bool, lines)]


def test_every_key_of_an_experiment_is_in_the_docs() -> None:
    from upweight.lab.study.grid import KEYS, Grid

    shown = {cells[0].strip("`"): cells[1].strip("`") for cells in table_rows("docs/experiments.md", "key")}
    assert shown.keys() == KEYS.keys()
    usual = asdict(Grid(datasets=[], algorithms=[], updates=1))
    for key in ("weightings", "seeds", "episodes", "precision", "dataset_seed"):
        assert json.loads(shown[key]) == usual[key]


def test_scales_are_those_of_the_suites() -> None:
    shown = {cells[0].strip("`"): cells[1:5] for cells in table_rows("docs/experiments.md", "`--scale`")}
    for name in suite_names():
        if name in {"demo", "paper/stochastic"}:  # one scale; another table's worth of differences, told below it
            continue
        for scale, cells in shown.items():
            only = "antmaze-*" if name.endswith("antmaze") else "hopper-*"
            run = uw.read_experiment(name, scale=scale, only=only).runs
            found = (run[0].updates, 1 + max(each.seed for each in run), run[0].episodes, run[0].data.steps)
            assert cells == [f"{number:,}" for number in found], (name, scale)


def test_what_git_leaves_out_is_what_the_pages_write() -> None:
    ignored = (ROOT / ".gitignore").read_text().split()
    assert {".venv/", "/demo*/", "/runs/", "/results/", "/report*"} <= set(ignored)
