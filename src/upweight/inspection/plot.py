"""The return histogram with the weights over it."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.base.files import atomic_target
from upweight.base.optional import require
from upweight.base.text import number
from upweight.data.dataset import Dataset
from upweight.data.statistics import episode_mass

_GREY, _BLUE, _ORANGE = "#9a9a9a", "#0072b2", "#d55e00"  # colour-blind safe (Okabe and Ito)
_BINS = 60


def plot_weights(dataset: Dataset, weights: dict[str, NDArray[np.float64]], path: Path) -> None:
    """Write a picture to ``path``: how episodes are spread over returns, and where each weighting draws its steps."""
    require("matplotlib", extra="plot", purpose="drawing a plot")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    kept = dataset.complete
    returns = dataset.returns[kept]
    spread = np.ptp(returns)
    edges = np.linspace(returns.min(), returns.max(), _BINS + 1) if spread > 0 else returns[0] + np.array([-0.5, 0.5])
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    uniform = np.histogram(returns, edges)[0] / len(returns)
    axis.stairs(100 * uniform, edges, fill=True, color=_GREY, alpha=0.55, label="episodes in the dataset")
    for colour, (name, values) in zip((_BLUE, _ORANGE, "#009e73", "#cc79a7", "#000000"), weights.items(), strict=False):
        mass = episode_mass(values, dataset.num_transitions)
        share = np.histogram(returns, edges, weights=mass[kept])[0]
        axis.stairs(100 * share, edges, color=colour, linewidth=1.8, label=f"steps drawn, {name}")
    mean = float(returns.mean())
    axis.vlines(mean, 0, 100, color="#555555", linestyle="--", linewidth=1, label=f"mean return {number(mean)}")
    finest = 10.0 ** np.clip(np.floor(np.log10(100 / len(returns))), -3, 0)  # about the share of one episode
    axis.set_yscale("symlog", linthresh=finest)
    axis.set_ylim(0, 500)  # room for the legend above 100%
    ticks = [0.0, *(tick for tick in (0.001, 0.01, 0.1, 1.0, 10.0, 100.0) if tick > 0.9 * finest)]
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_xlabel("return of an episode")
    axis.set_ylabel("share (%)")
    axis.set_title(f"{dataset.num_episodes:,} episodes, {dataset.num_steps:,} steps", fontsize=10)
    axis.legend(frameon=False, fontsize=8, loc="upper center", ncols=3)
    axis.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path)


def save_figure(figure: Any, path: Path) -> None:
    """Write a picture, completely or not at all; the suffix says of which kind."""
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in {"png", "svg", "pdf"}:
        raise DatasetError(f"{path}: expected a picture that ends in .png, .svg or .pdf")
    with atomic_target(path) as target:
        figure.savefig(target, dpi=160, format=suffix)
