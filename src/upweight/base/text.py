"""Plain text for people: numbers and aligned tables."""

from collections.abc import Callable, Mapping
from typing import Any


def number(value: float) -> str:
    """Four significant digits, thousands grouped, no exponent for everyday sizes."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.4g}"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.3e}"


def settings_text(values: Mapping[str, Any]) -> str:
    """Settings on one line, e.g. ``temperature=0.1 seed=3``."""
    return " ".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in values.items()
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
