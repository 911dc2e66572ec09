"""The documentation's site: complete, all links within it lead somewhere, and a browser that shows it asks for nothing else."""

import re
import warnings
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from support.browser import Visit
from support.datasets import random_dataset
from tools.site import ROOT, build, lay_out

PAGES = ("docs/see_it.html", "docs/results.html", "docs/reference/weights.html")


class _Page(HTMLParser):
    """What a page is made of, links to, and can be linked to at."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str | None] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {given.get("id"), given.get("name")}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")
        elif tag in {"img", "script", "iframe", "link"}:
            self.parts += filter(None, (given.get("src"), given.get("href")))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries that build it
        lay_out(folder / "pages", random_dataset(next_known=True))
        build(folder / "pages", folder / "site")
    return folder / "site"


def test_every_page_is_in_the_navigation() -> None:
    named = re.findall(r"[\w/]+\.md", str(yaml.load((ROOT / "mkdocs.yml").read_text(), yaml.BaseLoader)["nav"]))
    pages = [path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))]
    assert sorted(named) == sorted([*pages, "command_line.md"])


@pytest.mark.slow
def test_links_lead_somewhere_and_parts_are_local(site: Path) -> None:
    found = {path: _Page(path) for path in site.rglob("*.html") if "live" not in path.parts}
    assert len(found) > 40
    for path, page in found.items():
        for link in (*page.parts, *page.links):
            scheme, host, place, _, anchor = urlsplit(link)
            if scheme or host:
                assert link in page.links and scheme in {"https", "mailto"}, (path, link)  # somebody may follow it
                continue
            target = (path.parent / unquote(place)).resolve() if place else path
            assert target.exists() or path.name == "404.html", (path, link)
            assert not anchor or target not in found or anchor in found[target].anchors, (path, link)
    for style in site.rglob("*.css"):
        assert not re.findall(r"url\(['\"]?(?:https?:)?//", style.read_text()), style


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_a_browser_asks_for_nothing_else(site: Path, browser: Any, width: int, scheme: str) -> None:
    visit = Visit(
        browser, (site / "index.html").as_uri(), viewport={"width": width, "height": 844}, color_scheme=scheme
    )
    for name in PAGES:
        visit.page.goto((site / name).as_uri())
        wide, missing = visit.page.evaluate(
            "[document.documentElement.scrollWidth, [...document.images].filter(each => !each.naturalWidth).length]"
        )
        assert (visit.complaints, wide <= width, missing) == ([], True, 0), name
    assert all(address.startswith((site.as_uri(), "data:", "blob:")) for address in visit.requests)
    visit.context.close()


@pytest.mark.slow
def test_search_works_from_a_disk(site: Path, browser: Any) -> None:
    visit = Visit(browser, (site / "index.html").as_uri(), viewport={"width": 1280, "height": 844})
    visit.page.focus(".md-search__input")
    visit.page.get_by_text("Type to start searching").wait_for()
    visit.page.locator(".md-search__input").press_sequentially("temperature")
    visit.page.wait_for_selector(".md-search-result__item")
    found = visit.page.locator(".md-search-result__item > a:first-child").evaluate_all(
        "all => all.map(each => each.href)"
    )
    assert len(found) > 3 and not any("CHANGELOG" in address for address in found[:3])  # it names everything
    assert visit.complaints == []
    visit.context.close()


@pytest.mark.slow
def test_formulas_and_examples_are_shown(site: Path) -> None:
    shown = (site / "docs" / "reference" / "weights.html").read_text()
    assert "<math" in shown and ":math:" not in shown and ":func:" not in shown and ":class:" not in shown
    assert "ReturnWeighting" in shown and 'id="upweight.ReturnWeighting"' in shown
    assert '<a class="autorefs' in (site / "docs" / "reference" / "measures.html").read_text()
    assert "upweight inspect" in (site / "command_line.html").read_text()
