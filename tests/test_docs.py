"""Every code block in README and docs runs, and every local link leads somewhere."""

import os
import re
from pathlib import Path

import pytest

import upweight as uw
from upweight.cli.main import main

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text())


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a ``demo/mixed.hdf5`` like the one of the demo, but smaller."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "demo").mkdir()
    uw.save(uw.make_dataset("hopper-expert-random-10", steps=10_000), folder / "demo" / "mixed.hdf5")
    return folder


@pytest.mark.slow
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
            assert (page.parent / target).exists(), target


def test_every_plug_in_is_in_the_docs() -> None:
    from upweight.engine.algorithm import algorithms
    from upweight.io.registry import formats
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
