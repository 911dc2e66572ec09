"""How every figure looks: one colour, marker and line per sampler, and SVG that takes its ink from the page around it."""

import io
import re
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from upweight.errors import MissingExtraError
from upweight.report.names import Sampler

FONT_SIZE = 9
SMALL = 8
_LEAST_WIDTH = 4.6  # inches
_TITLE_WIDTH = 42  # letters
_INK = "#010203"  # of text and axes; becomes the colour of the text around the figure


@dataclass(frozen=True)
class Style:
    """How a sampler is drawn; it can be told from the others without colour too."""

    color: str
    marker: str
    line: Any


_STYLES = {  # colours safe for the colour-blind (Okabe and Ito), readable on white and on black
    "Uniform": Style("#808080", "o", "-"),
    "Top-10%": Style("#e69f00", "s", (0, (4, 1.5))),
    "Half": Style("#cc79a7", "D", (0, (1, 1))),
    "RW": Style("#0072b2", "^", "-"),
    "AW": Style("#d55e00", "v", (0, (5, 1, 1, 1))),
}
_KINDS = {"rw": "RW", "aw": "AW", "top": "Top-10%", "half": "Half", "uniform": "Uniform"}
_OTHER = Style("#009e73", "P", (0, (2, 1)))


def style_of(sampler: Sampler) -> Style:
    """The same everywhere; other settings of a sampler look like it."""
    return _STYLES.get(sampler.name) or _STYLES.get(_KINDS.get(sampler.kind, ""), _OTHER)


def new_figure(width: float, height: float) -> Any:
    """A figure that no window knows of, wide enough for a legend."""
    try:
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("a report with figures", "matplotlib", "plot") from None
    figure = Figure(figsize=(max(width, _LEAST_WIDTH), height), layout="constrained")
    FigureCanvasSVG(figure)
    return figure


def plain(text: str) -> str:
    """Text that Matplotlib does not take for mathematics."""
    return text.replace("$", r"\$")


def finish(axis: Any, *, title: str = "", x: str = "", y: str = "") -> None:
    """Labels, ink and a light grid."""
    axis.set_title(plain(textwrap.fill(title, _TITLE_WIDTH)), fontsize=FONT_SIZE, color=_INK)
    axis.set_xlabel(x, fontsize=FONT_SIZE, color=_INK)
    axis.set_ylabel(y, fontsize=FONT_SIZE, color=_INK)
    axis.tick_params(labelsize=SMALL, colors=_INK, which="both")
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color(_INK)
    axis.grid(visible=True, color="#808080", alpha=0.25, linewidth=0.6)
    axis.set_axisbelow(True)


def add_legend(figure: Any, handles: Sequence[Any], labels: Sequence[str], *, columns: int = 6) -> None:
    """One legend for all panels, below them."""
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(columns, len(labels)),
        frameon=False,
        fontsize=SMALL,
        labelcolor=_INK,
        columnspacing=1.2,
    )


def line(axis: Any, value: float, label: str) -> Any:
    """A level to reach."""
    return axis.axhline(value, color=_INK, linestyle=(0, (6, 3)), linewidth=1.1, label=label)


def as_svg(figure: Any, name: str, description: str) -> str:
    """The figure as an element to put into a page; ``name`` keeps its ids apart from those of others."""
    import matplotlib as mpl

    settings = {"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif"}
    text = io.StringIO()
    with mpl.rc_context(settings), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of signs in names that the font lacks: the reader's font counts
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return _clean(text.getvalue(), name, description)


def _clean(svg: str, name: str, description: str) -> str:
    """Without the declaration, metadata and fixed size; ink from the page; ids of its own."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace(_INK, "currentColor")
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    found = re.search(r'width="([\d.]+)pt"', svg)
    width = f"{found[1] if found else 400}pt"
    label = f'role="img" aria-label="{escape(description)}" style="--width: {width}; max-width: {width}"'
    return re.sub(r'width="[\d.]+pt" height="[\d.]+pt"|height="[\d.]+pt" width="[\d.]+pt"', label, svg, count=1).strip()
