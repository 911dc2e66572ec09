"""Figures as SVG: to stand in a page and take its ink, or in a file of its own that can be read on any background."""

import io
import re
import warnings
from html import escape
from typing import Any

from upweight.report.drawing import INK

_FILE_INK, _FILE_PAPER = "#1b1e23", "#ffffff"


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
    found = re.search(r'width="([\d.]+)pt"', svg)
    width = f"{found[1] if found else 400}pt"
    label = f'role="img" aria-label="{escape(description)}" style="--width: {width}; max-width: {width}"'
    return re.sub(r'width="[\d.]+pt" height="[\d.]+pt"|height="[\d.]+pt" width="[\d.]+pt"', label, svg, count=1).strip()
