"""Text for people: numbers, aligned tables, and what objects show of themselves at a prompt and in a notebook."""

from collections.abc import Callable, Mapping
from html import escape
from textwrap import fill
from typing import Any, NamedTuple


def number(value: float) -> str:
    """Four significant digits, thousands grouped, no exponent for everyday sizes."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.4g}"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.3e}"


def size(count: int) -> str:
    """Bytes, in words: 12.0 MiB, 5.59 GiB."""
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


def settings_text(values: Mapping[str, Any]) -> str:
    """Settings on one line, e.g. ``temperature=0.1 seed=3``."""
    return " ".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in values.items()
    )


def paragraph(text: str, *, mark: str = "") -> str:
    """Lines of at most 110 characters, after ``mark`` and below its end; options and names are not broken."""
    indent = " " * len(mark)
    return fill(
        text, 110, initial_indent=mark, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def table(rows: list[list[str]], *, header: list[str] | None = None, align: Callable[..., str] | None = None) -> str:
    """Columns aligned: the first to the left, the others with a header to the right, unless ``align`` says otherwise."""
    lines = ([header] if header else []) + rows
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    justify = align or (str.rjust if header else str.ljust)
    text = []
    for line in lines:
        cells = [justify(cell, width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        text.append("  ".join([line[0].ljust(widths[0]), *cells]).rstrip())
    if header:
        text.insert(1, "-" * (sum(widths) + 2 * (len(widths) - 1)))
    return "\n".join(text)


class Grid(NamedTuple):
    """What :func:`table` takes, to be shown as text or as HTML."""

    rows: list[list[str]]
    header: list[str] | None = None


def as_html(title: str, *parts: str | Grid) -> str:
    """A heading, paragraphs and small tables for a notebook; all text is escaped, and nothing is loaded from elsewhere."""
    html = [f"<strong>{escape(title)}</strong>"]
    for part in parts:
        if isinstance(part, str):
            html.append(f'<p style="white-space: pre-wrap; margin: 0.5em 0">{escape(part)}</p>')
            continue
        lines = [_html_row("td", row, numbers=part.header is not None) for row in part.rows]
        head = f"<thead>{_html_row('th', part.header, numbers=True)}</thead>" if part.header else ""
        html.append(f'<table style="margin: 0.5em 0">{head}<tbody>{"".join(lines)}</tbody></table>')
    return f"<div>{''.join(html)}</div>"


def _html_row(tag: str, cells: list[str], *, numbers: bool) -> str:
    """The first cell to the left, others too unless they are numbers."""
    sides = ["left", *["right" if numbers else "left"] * (len(cells) - 1)]
    space = "padding: 0.1em 1em 0.1em 0"
    made = [
        f'<{tag} style="text-align: {side}; {space}">{escape(cell)}</{tag}>'
        for side, cell in zip(sides, cells, strict=True)
    ]
    return f"<tr>{''.join(made)}</tr>"


class Shown:
    """An object that shows a few facts about itself: on one line at a prompt, as a small table in a notebook."""

    def _facts(self) -> dict[str, Any]:
        raise NotImplementedError

    def __repr__(self) -> str:
        facts = {name: number(v) if isinstance(v, float) else repr(v) for name, v in self._facts().items()}
        return f"{type(self).__name__}({', '.join(f'{name}={text}' for name, text in facts.items())})"

    def _repr_html_(self) -> str:
        facts = {name: number(v) if isinstance(v, float) else f"{v}" for name, v in self._facts().items()}
        return as_html(type(self).__name__, Grid([[name.replace("_", " "), text] for name, text in facts.items()]))
