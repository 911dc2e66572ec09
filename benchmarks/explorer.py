"""Time of a move of the explorer's slider at the most episodes that a page holds, in a real browser.

    python benchmarks/explorer.py

Target: less than 50 ms per move, for weights, numbers and all pictures of 100,000 episodes. Beside it stands what NumPy takes for
the same weights and numbers without a picture (weighting and ``measure_effect``), in the same run.
"""

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

import upweight as uw
from measure import record
from upweight.inspection.effect import good_episodes, measure_effect
from upweight.inspection.starts import Starts

EPISODES, ROUNDS = 100_000, 40
# Milliseconds from a move of the slider until the script is done, and until the frame was painted that shows what came of it.
MOVE = """async (positions) => {
    const slider = document.getElementById("slider"), seen = [];
    for (const position of positions) {
        await new Promise((resolve) => setTimeout(resolve, 60));
        slider.value = position;
        const began = performance.now();
        slider.dispatchEvent(new Event("input"));
        await new Promise(requestAnimationFrame);  // the page's own request came first
        const worked = performance.now() - began;
        await new Promise((resolve) => {
            const channel = new MessageChannel();
            channel.port1.onmessage = resolve;
            channel.port2.postMessage(0);
        });
        seen.push([worked, performance.now() - began]);
    }
    return seen;
}"""


def mixed() -> uw.Dataset:
    """As many short episodes as a page holds, one in twenty of them good, of three sources."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(5, 16, EPISODES)
    ends = np.cumsum(lengths) - 1
    terminated = np.zeros(ends[-1] + 1, bool)
    terminated[ends] = True
    good = rng.random(EPISODES) < 0.05
    rewards = rng.normal(np.repeat(np.where(good, 2.0, 0.0), lengths), 1.0)
    return uw.Dataset.from_arrays(
        observations=rng.normal(size=(len(rewards), 11)).astype(np.float32),
        actions=np.zeros((len(rewards), 3), np.float32),
        rewards=rewards,
        terminated=terminated,
        labels=np.where(good, "good", np.array(["one", "other"])[rng.integers(0, 2, EPISODES)]),
    )


def summary(times: np.ndarray) -> dict[str, float]:
    return {"best": round(float(times.min()), 1), "median": round(float(np.median(times)), 1)}


def time_page(path: Path, width: int, height: int, scale: int) -> list[dict[str, Any]]:
    results = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": height}, device_scale_factor=scale)
        began = time.perf_counter()
        page.goto(path.as_uri())
        page.wait_for_function("() => window.explorer?.weights")
        opened = time.perf_counter() - began
        for name in ("rw", "aw", "top"):
            page.check(f"input[value={name}]")
            positions = np.linspace(0, 270, ROUNDS).round().astype(int).tolist()
            script, painted = np.array(page.evaluate(MOVE, positions)).T
            results.append(
                {
                    "task": "a move of the slider",
                    "weighting": name,
                    "width": width,
                    "height": height,
                    "device_scale_factor": scale,
                    "script_ms": summary(script),
                    "painted_ms": summary(painted),
                    "page_opened_s": round(opened, 2),
                }
            )
            print(results[-1])
        version = browser.version
        browser.close()
    return [{**row, "browser": f"Chromium {version}"} for row in results]


def time_numpy(ds: uw.Dataset) -> dict[str, Any]:
    good, times = good_episodes(ds), []
    for temperature in np.geomspace(0.01, 10, 10):
        began = time.perf_counter()
        measure_effect("rw", uw.ReturnWeighting(float(temperature))(ds), ds, Starts(None, ""), good, confidence=0.95)
        times.append(1e3 * (time.perf_counter() - began))
    return {"task": "the same numbers by NumPy", "weighting": "rw", "ms": summary(np.array(times))}


def main() -> None:
    ds = mixed()
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        path = uw.explore(ds).save(Path(folder) / "page.html")
        made = {
            "task": "making the page",
            "seconds": round(time.perf_counter() - began, 2),
            "megabytes": round(path.stat().st_size / 1e6, 1),
        }
        screens = [(1280, 900, 1), (1280, 2400, 1), (390, 844, 2)]  # usual, with every picture on it, a phone's
        results = [made, *(row for screen in screens for row in time_page(path, *screen)), time_numpy(ds)]
    print(made, results[-1])
    about = {"episodes": EPISODES, "steps": ds.num_steps, "target_ms": 50}
    print(record("explorer", ["upweight", "numpy", "playwright"], results, about=about))


if __name__ == "__main__":
    main()
