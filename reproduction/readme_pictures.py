"""The two pictures of the README: ``python -m reproduction.readme_pictures``.

``docs/images/mixed.svg``: the demo's data and what behaviour cloning makes of them, from the stored demos.
``docs/images/explorer.png``: the explorer of the demo's data, in Chromium (``playwright`` drives the installed one).
"""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

import upweight as uw

IMAGES = Path(__file__).parents[1] / "docs" / "images"
RESULTS = Path(__file__).parent / "results"
DEMOS = sorted(RESULTS.glob("demo_*.jsonl"))
SAMPLERS = {"uniform": "Uniform", "top": "Top-10%", "half": "Half", "rw": "RW", "aw": "AW"}
COLOURS = {"uniform": "#8a94a4", "top": "#8a94a4", "half": "#8a94a4", "rw": "#0b5fc2", "aw": "#0b5fc2"}
GOOD = 0.5  # normalised return


def read(path: Path, kind: str) -> list[dict[str, Any]]:
    """Records of one kind in a packed store."""
    return [record[kind] for record in map(json.loads, path.read_text().splitlines()) if kind in record]


def draw_data(axis: Any) -> None:
    """How many episodes have which return, on a logarithmic scale."""
    histogram = read(RESULTS / "demo_seed0.jsonl", "dataset")[0]["histogram"]
    counts, edges = np.array(histogram["counts"]), np.array(histogram["edges"])
    good = int(counts[edges[:-1] > GOOD].sum())
    for chosen, colour in ((edges[:-1] <= GOOD, "#8a94a4"), (edges[:-1] > GOOD, "#0b5fc2")):
        axis.bar(edges[:-1][chosen], counts[chosen], np.diff(edges)[chosen], align="edge", color=colour)
    axis.set_yscale("log")
    axis.set_ylim(0.7, 9000)
    axis.set_title(f"The data: {good} good episodes among {counts.sum():,}", loc="left", fontsize=11)
    axis.set_xlabel("score of an episode (1 is an expert)")
    axis.set_ylabel("episodes")
    axis.annotate("RW draws its batches here", (1.05, 8), (0.45, 300), arrowprops={"arrowstyle": "->"}, fontsize=10)


def draw_scores(axis: Any) -> None:
    """Mean score of behaviour cloning by sampler, with the range over the stored demos."""
    scores: dict[str, list[float]] = {name: [] for name in SAMPLERS}
    for demo in DEMOS:
        runs = read(demo, "run")
        for name, found in scores.items():
            found.append(float(np.mean([run["score"] for run in runs if run["spec"]["weighting"]["name"] == name])))
    for place, (name, found) in enumerate(scores.items()):
        middle, low, high = np.mean(found), min(found), max(found)
        axis.barh(place, middle, color=COLOURS[name], height=0.65)
        axis.plot([low, high], [place, place], color="#1b1f26", linewidth=1.5)
        axis.text(max(high, middle) + 0.03, place, f"{middle:.2f}", va="center", fontsize=10)
    axis.set_yticks(range(len(SAMPLERS)), list(SAMPLERS.values()))
    axis.invert_yaxis()
    axis.set_xlim(0, 1.2)
    axis.set_title("The result: behaviour cloning by sampler", loc="left", fontsize=11)
    axis.set_xlabel(f"score of the policy: mean of {len(DEMOS)} demos (line: range)")


def draw_mixed(path: Path) -> None:
    """Both panels."""
    with mpl.rc_context({"font.family": "DejaVu Sans", "svg.hashsalt": "upweight", "svg.fonttype": "path"}):
        figure = Figure(figsize=(9.6, 3.3), layout="constrained", facecolor="white")
        FigureCanvasSVG(figure)
        axes = figure.subplots(1, 2)
        draw_data(axes[0])
        draw_scores(axes[1])
        for axis in axes:
            axis.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, metadata={"Date": None})


def shoot_explorer(path: Path) -> None:
    """The page at the width of a laptop, in the light scheme."""
    from playwright.sync_api import sync_playwright

    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = uw.explore("hopper-expert-random-10", steps=100_000).save(Path(folder) / "explorer.html")
        window = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page(
            viewport={"width": 1300, "height": 860}, color_scheme="light"
        )
        window.goto(page.as_uri())
        window.wait_for_timeout(1000)
        window.screenshot(path=path)


if __name__ == "__main__":
    draw_mixed(IMAGES / "mixed.svg")
    shoot_explorer(IMAGES / "explorer.png")
