"""The page in a real browser: it shows every run, complains of nothing and can be photographed."""

import re
import subprocess
from pathlib import Path

import pytest

from support.results import add_points, make_study
from upweight.lab.report.page import write_report
from upweight.lab.study.store import Store

OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--enable-logging=stderr", "--v=0"),
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    store = make_study(folder / "results", seeds=2, algorithms=["bc"])
    for record in list(store.runs()):  # so that the page has all that a page can have
        add_points(store, [record["run_id"]], {250: record["score"] / 3, 500: record["score"] / 2})
    write_report(folder / "results", folder / "report.html", resamples=50)
    return folder


def visit(browser_path: str, study: Path, profile: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [browser_path, *OPTIONS, f"--user-data-dir={profile}", *options, (study / "report.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "CONSOLE" not in done.stderr, done.stderr  # where a page's errors and warnings go
    return done


@pytest.mark.slow
def test_the_browser_sees_every_run(browser_path: str, study: Path, tmp_path: Path) -> None:
    seen = visit(browser_path, study, tmp_path, "--dump-dom").stdout
    ids = [record["run_id"] for record in Store(study / "results").runs()]
    assert ids
    assert all(run_id in seen for run_id in ids)
    assert seen.count("<svg") == len(list((study / "report").glob("*.svg")))


@pytest.mark.slow
@pytest.mark.parametrize("size", ["1200,2000", "500,2000"])
def test_the_page_can_be_photographed(browser_path: str, study: Path, tmp_path: Path, size: str) -> None:
    picture = tmp_path / "page.png"
    visit(browser_path, study, tmp_path / "profile", f"--window-size={size}", f"--screenshot={picture}")
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) > 20_000


def measure(browser_path: str, study: Path, folder: Path, width: int, height: int) -> dict[str, float]:
    """Sizes on the page in a frame of ``width`` pixels, which headless windows cannot all have."""
    script = """<script>onload = () => {
        const inner = document.querySelector('iframe').contentDocument, seen = document.body.dataset;
        const box = (name) => inner.querySelector(name).getBoundingClientRect();
        seen.width = inner.documentElement.scrollWidth;
        seen.right = Math.max(...[...inner.querySelectorAll('svg')].map(each => each.getBoundingClientRect().right));
        seen.title = box('h1').bottom; seen.verdict = box('.verdict').top; seen.said = box('.verdict').bottom;
        seen.chart = box('header svg').top; seen.drawn = box('header svg').bottom; seen.large = box('header svg').width;
        seen.table = box('table').top; seen.tables = box('main figure').top;
        seen.narrowest = Math.min(...[...inner.querySelectorAll('main svg')].map(s => s.getBoundingClientRect().width));
        seen.runs = box('.runs').top; seen.settings = box('dl').top;
    };</script>"""
    page = (study / "report.html").read_text().replace("&", "&amp;").replace('"', "&quot;")
    frame = folder / "frame.html"
    style = f"width: {width}px; height: {height}px; border: 0"
    frame.write_text(f'{script}<body><iframe style="{style}" srcdoc="{page}"></iframe></body>')
    command = [browser_path, *OPTIONS, f"--user-data-dir={folder / 'profile'}", "--dump-dom", frame.as_uri()]
    seen = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    return {name: float(value) for name, value in re.findall(r'data-(\w+)="([\d.]+)"', seen[seen.index("<body") :])}


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_the_first_screen_answers_and_nothing_is_wider_than_it(
    browser_path: str, study: Path, tmp_path: Path, width: int, height: int
) -> None:
    seen = measure(browser_path, study, tmp_path, width, height)
    assert seen["width"] <= width and seen["right"] <= width  # only tables scroll, in boxes of their own
    assert seen["title"] <= seen["verdict"] < seen["said"] <= seen["chart"] < seen["drawn"] <= height
    assert seen["drawn"] < seen["table"] < seen["tables"] < seen["runs"] < seen["settings"]
    assert seen["large"] > 0.5 * min(width, 1152)
    assert seen["narrowest"] > min(0.85 * width, 700)


@pytest.mark.slow
def test_runs_are_printed_though_they_are_folded_on_the_screen(browser_path: str, study: Path, tmp_path: Path) -> None:
    printed = tmp_path / "page.pdf"
    visit(browser_path, study, tmp_path / "folded", f"--print-to-pdf={printed}")
    pages = len(re.findall(rb"/Type /Page\b", printed.read_bytes()))
    text = (study / "report.html").read_text()
    (study / "without.html").write_text(re.sub(r"<details.*?</details>", "", text, flags=re.DOTALL))
    command = [browser_path, *OPTIONS, f"--user-data-dir={tmp_path / 'without'}", f"--print-to-pdf={printed}"]
    subprocess.run([*command, (study / "without.html").as_uri()], capture_output=True, check=True, timeout=120)
    assert pages > len(re.findall(rb"/Type /Page\b", printed.read_bytes())) + 3
