"""The picture of ``inspect``."""

from pathlib import Path
from typing import Any

import pytest

import upweight as uw
from support.datasets import with_returns
from upweight.inspection.plot import plot_weights


def test_nothing_is_written_over_the_legend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean is named in it, and its line, like the bars, ends below it."""
    figures: list[Any] = []
    monkeypatch.setattr("upweight.inspection.plot.save_figure", lambda figure, path: figures.append(figure))
    ds = with_returns([0.0] * 4 + [1.0])
    plot_weights(ds, {"rw": uw.ReturnWeighting()(ds), "top": uw.TopFraction(0.2)(ds)}, tmp_path / "plot.png")
    (axis,) = figures[0].axes
    figures[0].draw_without_rendering()
    legend = axis.get_legend()
    assert "mean return 0.2" in [text.get_text() for text in legend.get_texts()] and not axis.texts
    highest = axis.transData.transform([0.0, 100.0])[1]  # no share is higher
    assert legend.get_window_extent().y0 > highest
    (mean,) = axis.collections[0].get_paths()
    assert mean.get_extents().y1 <= 100
