"""The page in a real browser: its numbers are Python's, it obeys mouse and keyboard, and nothing leaves it."""

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upweight as uw
from support.browser import Visit
from support.datasets import with_returns
from upweight.cli.main import main
from upweight.explorer import facts
from upweight.inspection.effect import good_episodes, measure_effect
from upweight.inspection.starts import Starts

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*are incomplete")]
NASTY = "</script><b>bold</b>"
AT_EVERY_POSITION = """(name) => {
    document.querySelector(`#tabs input[value=${name}]`).click();
    const slider = document.getElementById("slider"), seen = [];
    for (let position = 0; position <= Number(slider.max); position++) {
        slider.value = position;
        slider.dispatchEvent(new Event("input"));
        const { choice, weights } = explorer.compute();
        seen.push([choice, Array.from(weights)]);
    }
    return seen;
}"""

SEEN_ON_CANVASES = """() => [...document.querySelectorAll("canvas")].filter((canvas) => !canvas.hidden).map((canvas) => {
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, canvas.width, canvas.height), found = new Set();
    for (let k = 0; k < data.length; k += 4) found.add((data[k] << 16) + (data[k + 1] << 8) + data[k + 2]);
    return [...found];
})"""


def strange_log() -> uw.Dataset:
    """Episodes cut short, duplicates, ties, an outlier, last steps that cannot be learned from, labels that are HTML."""
    rng = np.random.default_rng(0)
    episodes: list[dict[str, Any]] = []
    for number in range(50):
        length, start = int(rng.integers(2, 60)), rng.normal(size=3)
        observations = start + np.cumsum(rng.normal(size=(length, 3)), axis=0) * (np.arange(length) > 0)[:, None]
        rewards = rng.normal(0.3 * start[0], 1.0, length)
        if number < 4:
            rewards = 1.5 * (np.arange(length) == 0)  # ties
        if number == 7:
            rewards[-1] += 300.0  # an outlier
        ended = {"terminated": number % 3 > 0, "truncated": number % 3 == 0}
        label = NASTY if number % 4 == 0 else "it's plain"
        actions = rng.normal(size=(length, 1))
        episodes.append({"observations": observations, "actions": actions, "rewards": rewards, "label": label, **ended})
    return uw.Dataset.from_episodes([*episodes, episodes[11], episodes[12]]).mark_incomplete([20, 21])


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "a log.npz"
    uw.save(strange_log(), path)
    return path


@pytest.fixture(scope="module")
def visit(browser: Any, log: Path) -> Iterator[Visit]:
    page = uw.explore(log).save(log.with_name("page.html"))
    visit = Visit(browser, page.as_uri(), viewport={"width": 1280, "height": 900})
    yield visit
    assert visit.complaints == []
    assert visit.requests == [page.as_uri()]  # but for what was made in the page itself
    visit.context.close()


def weighting_of(choice: dict[str, Any], log: uw.Dataset) -> uw.Weighting:
    names = np.unique(log.labels) if log.labels is not None else []
    settings = {key: str(names[value]) if key == "high" else value for key, value in choice.items() if key != "name"}
    return uw.make_weighting(choice["name"], **settings)


def test_weights_are_those_of_python_at_every_position(visit: Visit, log: Path) -> None:
    ds = uw.load(log)
    visit.page.check("input[value=half]")
    visit.page.select_option("#split", "return")
    for name, positions in (("rw", 271), ("aw", 271), ("top", 271), ("half", 199)):
        seen = visit.page.evaluate(AT_EVERY_POSITION, name)
        assert len({json.dumps(choice) for choice, _ in seen}) == positions
        for choice, weights in seen:
            np.testing.assert_allclose(weights, weighting_of(choice, ds)(ds), rtol=1e-9, atol=0)


def test_half_by_labels_and_uniform(visit: Visit, log: Path) -> None:
    ds = uw.load(log)
    visit.page.check("input[value=half]")
    visit.page.select_option("#split", "0")
    np.testing.assert_allclose(visit.page.evaluate("Array.from(explorer.weights)"), uw.Half()(ds), rtol=1e-9)
    assert "label </script>" in visit.page.inner_text("#meaning")
    visit.page.check("input[value=uniform]")
    np.testing.assert_allclose(visit.page.evaluate("Array.from(explorer.weights)"), uw.Uniform()(ds), rtol=1e-9)
    assert not visit.page.is_visible("#slider")


@pytest.mark.parametrize("name", ["rw", "aw", "top", "uniform"])
def test_numbers_are_those_of_python(visit: Visit, log: Path, name: str) -> None:
    ds = uw.load(log)
    visit.page.check(f"input[value={name}]")
    choice, seen = visit.page.evaluate(
        "[explorer.choice, {...explorer.effect, perLabel: [...explorer.effect.perLabel]}]"
    )
    weights, good = weighting_of(choice, ds)(ds), good_episodes(ds)
    effect = measure_effect(name, weights, ds, Starts(None, ""), good, confidence=0.95)
    assert effect.mass_per_label is not None
    assert seen["perLabel"] == pytest.approx(list(effect.mass_per_label.values()), rel=1e-9)
    mass = weights * ds.num_transitions / (weights * ds.num_transitions).sum()
    expected = {
        "effectiveEpisodes": effect.effective_episodes,
        "effectiveSteps": effect.effective_steps,
        "weightedReturn": effect.weighted_return,
        "stepWeightedReturn": effect.step_weighted_return,
        "radius": effect.hoeffding_radius,
        "earlyShare": effect.early_share,
        "distinct": float((1 - (1 - mass) ** (256 * 100_000)).sum()),
    }
    assert {key: seen[key] for key in expected} == pytest.approx(expected, rel=1e-9)
    shown = visit.page.inner_text("#numbers").replace(",", "").replace("−", "-")
    low = max(effect.weighted_return - effect.hoeffding_radius, ds.returns.min())
    high = min(effect.weighted_return + effect.hoeffding_radius, ds.returns.max())
    assert f"{effect.effective_episodes:.4g}" in shown and f"95%: {low:.4g} to {high:.4g}" in shown


def test_the_slider_obeys_mouse_and_keyboard(visit: Visit) -> None:
    page = visit.page
    page.check("input[value=rw]")
    page.focus("#slider")
    for key, value in (("Home", "0.01"), ("ArrowRight", "0.011"), ("End", "10"), ("ArrowLeft", "9.9")):
        page.keyboard.press(key)
        page.wait_for_function("value => document.getElementById('value').textContent === value", arg=value)
    box = page.locator("#slider").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function("() => Math.abs(explorer.choice.temperature - 0.5) < 0.1")
    page.mouse.down()
    page.mouse.move(box["x"] + 2, box["y"] + box["height"] / 2, steps=5)
    page.mouse.up()
    page.wait_for_function("() => explorer.choice.temperature === 0.01")


def test_tabs_obey_the_keyboard(visit: Visit) -> None:
    visit.page.focus("input[value=rw]")
    for name in ("aw", "top", "half", "uniform"):
        visit.page.keyboard.press("ArrowRight")
        assert visit.page.evaluate("explorer.choice.name") == name


def test_the_suggestion_is_python_s_and_can_be_used(visit: Visit, log: Path) -> None:
    suggestion = uw.suggest(log)
    shown = [reason.text for reason in suggestion.checks]
    folded = [reason.text for reason in suggestion.reasons if reason not in suggestion.checks]
    assert visit.page.text_content("#suggested") == suggestion.headline
    assert visit.page.locator("#checks li").all_text_contents() == shown
    assert visit.page.locator("#reasons li").all_text_contents() == folded
    visit.page.click("#use")
    assert visit.page.evaluate("explorer.choice.name") == suggestion.weighting.name


@pytest.mark.parametrize(("name", "split"), [("aw", None), ("top", None), ("half", "return"), ("half", "0")])
def test_what_is_taken_along(
    visit: Visit, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, split: str | None
) -> None:
    """The code, the command and the download all give the weights that the page shows."""
    monkeypatch.chdir(tmp_path)
    visit.page.check(f"input[value={name}]")
    if split is not None:
        visit.page.select_option("#split", split)
    shown = np.array(visit.page.evaluate("Array.from(explorer.weights)"))
    names: dict[str, Any] = {}
    exec(visit.page.text_content("#python"), names)
    np.testing.assert_allclose(names["weights"], shown, rtol=1e-9)
    command = shlex.split(visit.page.text_content("#command"))
    assert command[0] == "upweight" and main(command[1:]) == 0
    np.testing.assert_allclose(uw.load_weights("weights.npz", names["ds"]), shown, rtol=1e-9)
    with visit.page.expect_download() as download:
        visit.page.click("#download")
    assert download.value.suggested_filename == "weights.npz"
    assert (uw.load_weights(download.value.path(), names["ds"]) == shown).all()


def test_the_table_is_sorted_and_filtered_and_chosen_from(visit: Visit, log: Path) -> None:
    ds, page = uw.load(log), visit.page

    def column(place: int) -> list[str]:
        return page.locator(f"tbody tr td:nth-child({place})").all_text_contents()

    page.click("th button >> text=Return")
    assert (
        column(1)[0] == str(np.argmax(ds.returns))
        and page.get_attribute("th:nth-child(2)", "aria-sort") == "descending"
    )
    page.click("th button >> text=Return")
    assert column(1)[0] == str(np.argmin(ds.returns))
    for flag, numbers in (("duplicate", {"50", "51"}), ("cutShort", {"20", "21"}), ("outlier", {"7"})):
        page.select_option("#flag", flag)
        assert set(column(1)) == numbers
    page.select_option("#flag", "tie")
    assert {"0", "1", "2", "3"} <= set(column(1))
    page.focus("tbody button")
    page.keyboard.press("Enter")
    number = column(1)[0]
    assert page.inner_text("#about-episode").startswith(f"Episode {number}, return")
    assert page.is_visible("#rewards") and page.is_visible("#sum")
    page.select_option("#flag", "")
    assert page.inner_text("#place") == "1 to 12 of 52"
    page.click("#next")
    assert page.inner_text("#place") == "13 to 24 of 52"


def test_names_stay_text(visit: Visit) -> None:
    assert "</script><b>bold</b>" in visit.page.inner_text("#labels")
    assert visit.page.locator("b:text-is('bold')").count() == 0


def contrast(one: str, other: str) -> float:
    """As WCAG has it."""

    def light(colour: str) -> float:
        parts = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722]) + 0.05

    return max(light(one), light(other)) / min(light(one), light(other))


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_can_be_read(visit: Visit, width: int, scheme: Any) -> None:
    visit.page.set_viewport_size({"width": width, "height": 844})
    visit.page.emulate_media(color_scheme=scheme)
    visit.page.wait_for_function(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
    )
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    drawn = visit.page.evaluate(SEEN_ON_CANVASES)
    assert len(drawn) == 5 and all(len(found) > 5 for found in drawn)
    style = "getComputedStyle(document.documentElement)"
    names = ("ink", "soft", "card", "paper", "drawn", "on-drawn", "warn", "tint", "data", "edge")
    colour = {name: visit.page.evaluate(f"{style}.getPropertyValue('--{name}').trim()") for name in names}
    for pair in ("ink card", "soft card", "soft paper", "drawn paper", "on-drawn drawn", "ink warn", "ink tint"):
        ink, ground = pair.split()
        assert contrast(colour[ink], colour[ground]) >= 4.5, (ink, ground)
    for shape in ("data", "drawn", "edge"):
        assert contrast(colour[shape], colour["card"]) >= 3, shape
    assert all(int(colour["drawn"][1:], 16) in found for found in drawn[:3])  # pictures are in its colours too


def test_in_a_notebook_it_works_in_its_frame(browser: Any) -> None:
    visit = Visit(browser, "about:blank")
    visit.page.set_content(f"<!DOCTYPE html>{uw.explore(strange_log())._repr_html_()}")
    frame = visit.page.frames[1]
    frame.wait_for_function("() => globalThis.explorer?.weights")
    assert frame.inner_text("h1") == "dataset" and visit.complaints == []
    visit.context.close()


def test_a_served_page_reads_curves_when_asked(browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "MAX_REWARDS", 10)
    ds = strange_log()
    with uw.explore(ds).serve() as server:
        visit = Visit(browser, server.address)
        visit.page.click("th button >> text=Episode")
        visit.page.click("tbody tr:nth-child(4) button")
        visit.page.wait_for_selector("#observations:visible")
        assert f"{server.address}episode/3" in visit.requests
        assert all(each.startswith(server.address) for each in visit.requests)
        assert visit.complaints == []
        visit.context.close()


def test_of_an_episode_that_cannot_be_read_the_page_says_why(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "MAX_REWARDS", 10)
    uw.save(strange_log(), tmp_path / "log.packed")
    column = tmp_path / "log.packed" / "observations.bin"
    content, before = column.read_bytes(), column.stat()
    with uw.explore(tmp_path / "log.packed").serve() as server:
        os.truncate(column, 8)
        visit = Visit(browser, server.address)
        visit.page.get_by_text("changed since it was loaded").wait_for()
        assert not visit.page.is_visible("#observations") and not visit.page.is_visible("#rewards")
        column.write_bytes(content)
        os.utime(column, ns=(before.st_atime_ns, before.st_mtime_ns))
        visit.page.click("tbody tr:nth-child(5) button")
        visit.page.wait_for_selector("#observations:visible")
        assert visit.complaints == []
    visit.page.click("tbody tr:nth-child(6) button")
    visit.page.get_by_text("the server does not answer").wait_for()
    visit.context.close()


def test_without_rewards_in_the_page_it_says_where_they_are(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "MAX_REWARDS", 10)
    visit = Visit(browser, uw.explore(strange_log()).save(tmp_path / "page.html").as_uri())
    assert "--serve" in visit.page.inner_text("#about-episode") and not visit.page.is_visible("#rewards")
    assert visit.complaints == []
    visit.context.close()


def test_of_many_episodes_it_shows_a_sample_and_says_so(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "MAX_EPISODES", 2000)
    rng = np.random.default_rng(1)
    lengths = rng.integers(2, 20, 8000)
    ends = np.cumsum(lengths) - 1
    terminated = np.zeros(ends[-1] + 1, bool)
    terminated[ends] = True
    rewards = rng.normal(size=len(terminated))
    ds = uw.Dataset.from_arrays(
        observations=rng.normal(size=(len(rewards), 2)),
        actions=np.zeros((len(rewards), 1)),
        rewards=rewards,
        terminated=terminated,
    )
    visit = Visit(browser, uw.explore(ds).save(tmp_path / "page.html").as_uri())
    assert "The page holds 2,000 of 8,000 episodes" in visit.page.inner_text("#sampled")
    assert visit.page.is_disabled("#download")
    for name, within in (("rw", 0.05), ("top", 0.01), ("uniform", 1e-9)):
        visit.page.check(f"input[value={name}]")
        choice, seen = visit.page.evaluate("[explorer.choice, explorer.effect]")
        weights = weighting_of(choice, ds)(ds)
        assert seen["effectiveEpisodes"] == pytest.approx(uw.effective_episodes(weights), rel=within)
        assert seen["weightedReturn"] == pytest.approx(
            uw.weighted_return(weights, ds.returns), abs=0.05 * np.ptp(ds.returns)
        )
    assert visit.complaints == []
    visit.context.close()


def test_where_all_returns_are_the_same_it_says_so(browser: Any, tmp_path: Path) -> None:
    visit = Visit(browser, uw.explore(with_returns([3.0] * 10)).save(tmp_path / "page.html").as_uri())
    for name in ("rw", "aw"):
        visit.page.check(f"input[value={name}]")
        assert "every episode counts alike" in visit.page.inner_text("#meaning")
    visit.page.check("input[value=top]")
    assert visit.page.inner_text("#meaning").endswith("; of those with return 3, the earlier.")
    bar = visit.page.evaluate("explorer.effect.perBin.findIndex((share) => share > 0)")
    assert bar == 30  # of 60, under the 3 in the middle of the axis
    assert visit.complaints == []
    visit.context.close()
