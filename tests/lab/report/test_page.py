import html
import re
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pandas
import pytest

from support.results import add_runs, data_spec, make_study
from upweight.base.errors import DatasetError, UpweightWarning
from upweight.cli.main import main
from upweight.lab.report.page import write_report
from upweight.lab.study.store import Store

RESAMPLES = 50
CREATED = datetime(2025, 1, 2, 3, 4, tzinfo=UTC)
VOID = {"meta"}


class Balance(HTMLParser):
    """Tags that are opened and closed in order, and the ids of all elements."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store ``results``, ``report.html`` and ``report/``."""
    folder = tmp_path_factory.mktemp("study")
    make_study(folder / "results", seeds=3)
    written = write_report(folder / "results", folder / "report.html", resamples=RESAMPLES, created=CREATED)
    assert written == folder / "report"
    return folder


@pytest.fixture(scope="module")
def page(study: Path) -> str:
    return (study / "report.html").read_text()


def test_every_run_is_on_the_page(study: Path, page: str) -> None:
    ids = [record["run_id"] for record in Store(study / "results").runs()]
    assert len(ids) > 500
    assert all(run_id in page for run_id in ids)
    assert f"All {len(ids):,} runs" in page


def test_the_page_needs_nothing_else(page: str) -> None:
    addresses = re.findall(r'(\S{0,12})"?(https?://[^"\s<]*)', page)
    assert all(before.split('"')[0].startswith("xmlns") for before, _ in addresses), addresses[:3]
    assert not re.search(r"<script|<link|<img|<iframe|@import|url\((?!#)", page)


def test_the_page_is_well_formed(page: str) -> None:
    parser = Balance()
    parser.feed(page)
    assert parser.open == []
    assert len(parser.ids) == len(set(parser.ids))
    assert {"table", "svg", "details", "figcaption"} <= parser.tags


def test_pictures_in_the_page_take_its_ink(page: str) -> None:
    assert "currentColor" in page
    assert "#010203" not in page


def test_picture_files_can_be_read_on_any_background(study: Path, page: str) -> None:
    pictures = sorted((study / "report").glob("*.svg"))
    assert {path.stem.split("-")[0] for path in pictures} == {
        *("overview", "sigma", "improvement", "profile", "gain", "performance", "temperature", "percentage", "returns")
    }
    for path in pictures:
        text = path.read_text()
        root = ElementTree.fromstring(text)
        assert root.tag.endswith("svg")
        assert root.attrib["width"].endswith("pt") and root.attrib["height"].endswith("pt")
        assert root[0].tag.endswith("rect") and root[0].attrib["fill"] == "#ffffff"
        assert (f"{root[0].attrib['width']}pt", f"{root[0].attrib['height']}pt") == (
            *(root.attrib["width"], root.attrib["height"]),
        )
        assert len(root.attrib["aria-label"]) > 60
        assert "currentColor" not in text and "#010203" not in text
        assert min(map(float, re.findall(r"font: (?:\w+ )*([\d.]+)px", text)), default=8) >= 8
    assert page.count("<svg") == len(pictures)


def test_header(page: str, study: Path) -> None:
    for text in ("2025-01-02 03:04 UTC", "jax 0.10.0", "3 (0, 1, 2)", "1,000", str(study / "results")):
        assert text in page
    assert "Some results rest on 1 seed." in page
    assert "Diverged, and counted as 0, a random policy" in page
    expert = "the expert of the reference scores (D4RL's; for classic control our own)"
    assert html.escape(f"0 is a random policy, 1 {expert}; mean over 20 episodes of the final policy") in page
    assert "<h1>BC, TD3+BC, IQL, discrete CQL on 21 datasets</h1>" in page


def test_the_title_names_what_is_shown(tmp_path: Path) -> None:
    for name, title in {
        "results": "BC on hopper-medium",
        "mine-0.2": "mine-0.2",
    }.items():
        store = Store(tmp_path / name, create=True)
        add_runs(store, "hopper-medium", "Uniform", [0.5] * 5)
        add_runs(store, "hopper-medium", "RW", [0.5] * 5, episodes=10)
        write_report(store.path, tmp_path / "out.html", resamples=RESAMPLES)
        page = (tmp_path / "out.html").read_text()
        assert f"<title>{title}</title>" in page
        scale = html.escape("0 is a random policy, 1 D4RL's expert; mean over 10 or 20 episodes of the final policy")
        assert scale in page


def test_returns_are_not_said_to_have_a_random_policy_at_0(tmp_path: Path) -> None:
    store = Store(tmp_path / "results", create=True)
    add_runs(store, "mine-medium", "Uniform", [None] * 5)
    add_runs(store, "mine-medium", "RW", [None] * 5, status="diverged")
    write_report(store.path, tmp_path / "out.html", resamples=RESAMPLES)
    page = (tmp_path / "out.html").read_text()
    assert "0 is a random policy" not in page
    assert "<dd>the return itself; mean over 20 episodes of the final policy" in page
    assert "5, counted as the worst other run on the dataset" in page
    assert "Some environments have no reference scores: their numbers are mean returns" in page


def test_tables_have_captions(page: str) -> None:
    assert page.count("<caption>") == page.count("<table>") > 5


def test_five_seeds_need_no_warning_and_what_is_empty_is_left_out(tmp_path: Path) -> None:
    store = Store(tmp_path / "results", create=True)
    add_runs(store, "hopper-medium", "Uniform", [0.5] * 5)
    write_report(store.path, tmp_path / "out.html", resamples=RESAMPLES)
    page = (tmp_path / "out.html").read_text()
    assert 'class="warning"' not in page
    assert page.count("<svg") == 2  # the overview and the profile
    headings = re.findall(r"<h[23]>(.*?)</h[23]>", page)
    assert headings == [
        *("Scores", "BC", "Over all datasets", "Figures", "Performance profiles", "Runs", "How it was made")
    ]
    reasons = re.search(r"<dt>not drawn</dt><dd>(.*?)</dd>", page)
    assert reasons and reasons[1].count("; ") == 7  # eight figures
    assert "Temperature (there are no runs at several temperatures (suite paper/temperature))" in reasons[1]
    assert "<tfoot>" not in page  # nothing to count wins over


def test_the_answer_comes_first_and_settings_last(page: str) -> None:
    parts = ["<h1>", '<p class="verdict">', "<svg", "</header>", "<h2>Scores", "<h2>Over all datasets", "<h2>Datasets"]
    places = [page.index(part) for part in [*parts, "<h2>Figures", "<h2>Runs", "<h2>How it was made", "<dl>"]]
    assert places == sorted(places)
    assert page.index('class="warning"') < page.index("</header>")
    assert page.rindex("jax 0.10.0") > page.index("<h2>How it was made")


def test_a_title_of_one_s_own(tmp_path: Path) -> None:
    store = Store(tmp_path / "results", create=True)
    add_runs(store, "hopper-medium", "RW", [0.5, 0.6])
    output = tmp_path / "out.html"
    assert main(["report", str(store.path), "-o", str(output), "--resamples", "20", "--title", "Ward </title> 7"]) == 0
    assert output.read_text().count("Ward &lt;/title&gt; 7") == 2


def test_other_lengths_are_said_and_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the page and on the terminal, also where another algorithm is shown at that length."""
    store = Store(tmp_path / "results", create=True)
    ids = add_runs(store, "hopper-medium", "RW", [0.5] * 5, updates=500)
    add_runs(store, "hopper-medium", "RW", [0.7] * 5, updates=1000)
    add_runs(store, "hopper-medium", "RW", [0.6] * 5, updates=500, algorithm="td3bc")
    said = "Left out: 5 runs of BC (500 updates)."
    how = "Of each algorithm the longest training counts, unless --updates (updates=) asks for another: 500, 1,000."
    assert main(["report", str(store.path), "-o", str(tmp_path / "out.html"), "--resamples", "20"]) == 0
    assert f"{said} {how}" in capsys.readouterr().err
    page = html.unescape((tmp_path / "out.html").read_text())
    assert f"{said} {how}" in page
    assert page.count("not shown: 500 updates") == 5
    assert all(run_id in page for run_id in ids)
    assert main(["replicate", str(store.path), "--resamples", "20"]) == 0
    assert f"Note: {said} {how}" in capsys.readouterr().out


def test_tables_are_files_too(study: Path) -> None:
    names = {path.name for path in (study / "report").iterdir() if path.suffix != ".svg"}
    stems = {"datasets", "aggregates", "scores-td3-bc", "scores-iql", "scores-discrete-cql"}
    stems |= {"scores-bc", *(f"scores-bc-settings-{kind}" for kind in ("rw", "aw", "top"))}
    assert names == {f"{stem}.{suffix}" for stem in stems for suffix in ("csv", "tex", "md")}
    assert "Bold: better than Uniform" in (study / "report" / "scores-bc.md").read_text()
    for path in (study / "report").glob("*.csv"):
        assert len(pandas.read_csv(path))


@pytest.mark.slow
def test_the_same_store_gives_the_same_page(study: Path, tmp_path: Path, page: str) -> None:
    write_report(study / "results", tmp_path / "report.html", resamples=RESAMPLES, created=CREATED)
    assert (tmp_path / "report.html").read_text() == page


def test_names_are_escaped(tmp_path: Path) -> None:
    store = Store(tmp_path / "results", create=True)
    evil = "<script>alert(1)</script>&$x$"
    for sampler in ("Uniform", "RW"):
        add_runs(store, data_spec(evil), sampler, [0.5, 0.6])
    record = {"name": evil, "steps": 1_000_000, "seed": 0, "normalized": True, "episodes": 2, "total_steps": 4}
    histogram = {"counts": [1, 1], "edges": [0, 1, 2]}
    store.write_dataset(data_spec("evil"), {**record, "mean": 0.1, "rpsv": 0.1, "histogram": histogram})
    write_report(store.path, tmp_path / "out.html", resamples=RESAMPLES)
    page = (tmp_path / "out.html").read_text()
    assert "<script" not in page
    assert page.count("script&gt;") > 4


def test_files_of_an_earlier_report_go_and_others_stay(tmp_path: Path) -> None:
    for algorithm in ("td3_bc", "bc"):
        store = Store(tmp_path / algorithm, create=True)
        for sampler in ("Uniform", "RW"):
            add_runs(store, data_spec("hopper-medium"), sampler, [0.5, 0.6], algorithm=algorithm)
        write_report(store.path, tmp_path / "out.html", resamples=RESAMPLES)
        (tmp_path / "out" / "notes.md").write_text("my own")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"notes.md", "scores-bc.csv"} <= names and "scores-td3-bc.csv" not in names


def test_a_run_that_was_not_evaluated_has_no_score(tmp_path: Path) -> None:
    store = Store(tmp_path / "results", create=True)
    for sampler in ("Uniform", "RW"):
        add_runs(store, data_spec("hopper-medium"), sampler, [0.5, 0.6])
    run_id = add_runs(store, data_spec("hopper-expert"), "RW", [0.0], algorithm="iql")[0]
    record = store.run(run_id)
    store.write_run(run_id, {**record, "returns": [], "score": None, "mean_return": None})
    with pytest.warns(UpweightWarning, match="not evaluated"):
        write_report(store.path, tmp_path / "out.html", resamples=RESAMPLES)
    (line,) = [line for line in (tmp_path / "out.html").read_text().splitlines() if run_id in line]
    assert '<td class="number">-</td>' in line and "not shown: not evaluated" in line


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Store(tmp_path / "empty", create=True)
    assert main(["report", str(tmp_path / "empty"), "-o", str(tmp_path / "out.html")]) == 2
    assert "found none; make some with upweight sweep" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "nowhere"), "-o", str(tmp_path / "out.html")]) == 2
    assert "not a store of results" in capsys.readouterr().err
    with pytest.raises(DatasetError, match="ends in .html"):
        write_report(tmp_path / "empty", tmp_path / "out.pdf")
    with pytest.raises(DatasetError, match="which holds results; choose another name"):
        write_report(tmp_path / "empty", tmp_path / "empty.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty"]


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path / "results", create=True)
    add_runs(store, "hopper-medium", "RW", [0.5, 0.6])
    options = ["--resamples", "20", "--seed", "3", "--updates", "1000"]
    assert main(["report", str(store.path), "-o", str(tmp_path / "out.html"), *options]) == 0
    assert "wrote" in capsys.readouterr().out
    assert "20 bootstrap resamples, seed 3" in (tmp_path / "out.html").read_text()
