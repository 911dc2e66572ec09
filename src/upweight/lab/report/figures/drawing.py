"""How every figure looks: one colour, marker and line per weighting, one width, titles that fit their panels; and its SVG."""

import io
import re
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from upweight.base.optional import require
from upweight.lab.report.names import BESIDE, UNIFORM, WeightingName
from upweight.lab.report.statistics.bootstrap import Estimate, ProfileBand

FONT_SIZE = 9
SMALL = 8
WIDTH = 4.9  # inches; a page on a desk shows it larger, and it can still be read on a phone
INK = "#010203"  # of text and axes; becomes the colour of the text around the figure
BAND = "Bands and bars: 95% intervals of the stratified bootstrap over seeds."
_LETTER = 0.56  # width of a letter, of the size of its font
_POINTS = 72  # in an inch
_FILE_INK, _FILE_PAPER = "#1b1e23", "#ffffff"  # of a figure outside of a page
_HANDLE = 38  # points that a line and the space around it take in a legend


class NothingToDraw(Exception):
    """The results have nothing for a figure; the message says why, as the end of a sentence."""


@dataclass(frozen=True)
class Drawing:
    """A figure, what it shows in words for those who cannot see it, and what its caption has to say."""

    figure: Any
    label: str  # axes and message
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Style:
    """How a weighting is drawn; it can be told from the others without colour too."""

    color: str
    marker: str
    line: Any


_STYLES = {  # colours safe for the colour-blind (Okabe and Ito; the grey is dark so that it is not Half's pink to them)
    UNIFORM: Style("#666666", "o", "-"),
    "Top-10%": Style("#e69f00", "s", (0, (4, 1.5))),
    "Half": Style("#cc79a7", "D", (0, (1, 1))),
    "RW": Style("#0072b2", "^", "-"),
    "AW": Style("#d55e00", "v", (0, (5, 1, 1, 1))),
}
_KINDS = {"rw": "RW", "aw": "AW", "top": "Top-10%", "half": "Half", "uniform": UNIFORM}
_OTHER = Style("#009e73", "P", (0, (2, 1)))
_WHOLE = {"expert": (0, (10, 3)), "medium": (0, (8, 2, 1.5, 2, 1.5, 2))}  # of lines for whole sets, and of nothing else


def style_of(weighting: WeightingName) -> Style:
    """The same everywhere; other settings of a weighting look like it.

    Where the actor has weights of its own, these give the colour, and the critics' the mark.
    """
    critics, _, actor = weighting.kind.partition(BESIDE)
    if actor:
        return Style(_of_kind(actor).color, _of_kind(critics).marker, _OTHER.line)
    return _STYLES.get(weighting.name) or _of_kind(weighting.kind)


def _of_kind(kind: str) -> Style:
    return _STYLES.get(_KINDS.get(kind, ""), _OTHER)


def new_figure(height: float, title: str, *, width: float = WIDTH) -> Any:
    """A figure that no window knows of."""
    require("matplotlib", extra="plot", purpose="a report with figures")
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    lines = wrap(title, width, FONT_SIZE)
    extra = lines.count("\n") * 1.3 * FONT_SIZE / _POINTS
    figure = Figure(figsize=(width, height + extra), layout="constrained")
    FigureCanvasSVG(figure)
    if title:
        figure.suptitle(lines, fontsize=FONT_SIZE, color=INK, fontweight="bold")
    return figure


def plain(text: str) -> str:
    """Text that Matplotlib does not take for mathematics."""
    return text.replace("$", r"\$")


def width_of(text: str, size: float) -> float:
    """Inches that a line takes, about."""
    return len(text) * _LETTER * size / _POINTS


def wrap(text: str, inches: float, size: float) -> str:
    """Lines that fit into a panel of that width."""
    return plain(textwrap.fill(text, max(int(inches * _POINTS / (_LETTER * size)), 8)))


def finish(axis: Any, *, title: str = "", x: str = "", y: str = "", width: float = WIDTH) -> None:
    """Labels, ink and a light grid; ``width`` is that of the panel in inches."""
    axis.set_title(wrap(title, width, SMALL), fontsize=SMALL, color=INK)
    axis.set_xlabel(wrap(x, width, SMALL), fontsize=SMALL, color=INK)
    axis.set_ylabel(y, fontsize=SMALL, color=INK)
    axis.tick_params(labelsize=SMALL, colors=INK, which="both")
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color(INK)
    axis.grid(visible=True, color="#808080", alpha=0.25, linewidth=0.6)
    axis.set_axisbelow(True)


def add_legend(figure: Any, handles: dict[str, Any]) -> None:
    """One legend for all panels, below them, in as many columns as fit."""
    column = max(map(len, handles)) * _LETTER * SMALL + _HANDLE
    columns = min(int(WIDTH * _POINTS / column) or 1, len(handles))
    rows = -(-len(handles) // columns)
    figure.set_figheight(figure.get_figheight() + rows * 1.6 * SMALL / _POINTS)
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=SMALL,
        labelcolor=INK,
        columnspacing=1.2,
        handlelength=2.8,
    )


def draw_zero(axis: Any, *, at: float = 0.0, vertical: bool = False) -> None:
    """Where nothing is gained."""
    (axis.axvline if vertical else axis.axhline)(at, color=INK, linewidth=0.8)


def draw_whole_set(axis: Any, value: float, good: str) -> Any:
    """The level of Uniform on a whole set of one policy."""
    return axis.axhline(value, color=INK, linestyle=_WHOLE[good], linewidth=1.1)


def draw_level(axis: Any, weighting: WeightingName, value: float) -> Any:
    """A weighting that has no setting to be drawn against: the same height everywhere, in its own style."""
    style = style_of(weighting)
    return axis.axhline(value, color=style.color, linestyle=style.line, linewidth=1.6)


def draw_interval(axis: Any, weighting: WeightingName, estimate: Estimate, place: int) -> None:
    """A point with its interval lying on the line of ``place``."""
    style = style_of(weighting)
    axis.plot([estimate.low, estimate.high], [place, place], color=style.color, linewidth=4, alpha=0.5)
    axis.plot(estimate.point, place, color=style.color, marker=style.marker, markersize=7)


def draw_curve(
    axis: Any, weighting: WeightingName, x: Sequence[float], levels: Sequence[Estimate] | ProfileBand
) -> Any:
    """Points with their band, or one point with a bar; gives the handle for a legend."""
    style = style_of(weighting)
    if isinstance(levels, ProfileBand):
        points, low, high = levels.point.tolist(), levels.low.tolist(), levels.high.tolist()
    else:
        points, low, high = zip(*((level.point, level.low, level.high) for level in levels), strict=True)
    if len(x) == 1:  # a band over one place cannot be seen
        axis.vlines(x, low, high, color=style.color, alpha=0.45, linewidth=4)
    axis.fill_between(x, low, high, color=style.color, alpha=0.18, linewidth=0)
    (handle,) = axis.plot(
        x,
        points,
        color=style.color,
        marker=style.marker,
        linestyle=style.line,
        linewidth=1.6,
        markersize=5,
        markevery=max(len(x) // 8, 1),
    )
    return handle


def as_svg(figure: Any, name: str, description: str) -> str:
    """The figure as an element to put into a page; ``name`` keeps its ids apart from those of others."""
    import matplotlib as mpl

    settings = {"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif"}
    text = io.StringIO()
    with mpl.rc_context(settings), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of signs in names that the font lacks: the reader's font counts
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return _clean(text.getvalue(), name, description)


def as_file(svg: str) -> str:
    """The same figure as a file: with a size, white paper and dark ink, whatever it is shown on."""
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0]
    svg = re.sub(r' style="--width[^"]*"', f' width="{width}pt" height="{height}pt"', svg, count=1)
    svg = svg.replace("currentColor", _FILE_INK)
    head, rest = svg.split(">", 1)
    return f'{head}>\n <rect width="{width}" height="{height}" fill="{_FILE_PAPER}"/>{rest}\n'


def _clean(svg: str, name: str, description: str) -> str:
    """Without the declaration, metadata and fixed size; ink from the page; ids of its own."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace(INK, "currentColor")
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    width, height = (float(size) for size in re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0])
    style = f"--width: {width:g}pt; --shape: {width / height:.4f}"
    label = f'role="img" aria-label="{escape(description)}" style="{style}"'
    return re.sub(r'width="[\d.]+pt" height="[\d.]+pt"|height="[\d.]+pt" width="[\d.]+pt"', label, svg, count=1).strip()
