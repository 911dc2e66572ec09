"""Rows of text as CSV, LaTeX, Markdown and HTML."""

import csv
import html
import io
from collections.abc import Iterable, Sequence

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
    }
)


def latex_escape(text: str) -> str:
    """Text that LaTeX prints as it stands."""
    return text.translate(_LATEX)


def as_csv(fields: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(fields)
    writer.writerows(lines)
    return text.getvalue()


def as_markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as GitHub shows it."""
    return "".join(f"| {' | '.join(line)} |\n" for line in (heads, ("---",) * len(heads), *rows))


def latex_table(columns: str, lines: Sequence[str], comments: Sequence[str]) -> str:
    """A tabular for booktabs, with comments above it."""
    inside = [r"\toprule", *lines, r"\bottomrule"]
    above = [f"% {comment}" for comment in comments]
    return "\n".join([*above, rf"\begin{{tabular}}{{{columns}}}", *inside, r"\end{tabular}", ""])


def plain_latex(heads: Sequence[str], rows: Iterable[Sequence[str]], comments: Sequence[str], *, words: int = 1) -> str:
    """A tabular of plain text, whose first columns hold words and the others numbers."""
    lines = [" & ".join(map(latex_escape, heads)) + r" \\", r"\midrule"]
    lines += [" & ".join(map(latex_escape, row)) + r" \\" for row in rows]
    columns = "l" * words + "r" * (len(heads) - words)
    return latex_table(columns, lines, ["needs \\usepackage{booktabs}", *comments])


def html_table(caption: str, heads: Sequence[str], bodies: str) -> str:
    """A table that scrolls in its own box where it is too wide; the caption is for those who do not see the headings."""
    cells = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in heads)
    inside = f"<caption>{html.escape(caption)}</caption>\n<thead><tr>{cells}</tr></thead>\n{bodies}"
    return f'<div class="scroll"><table>\n{inside}\n</table></div>'


def html_rows(rows: Iterable[Sequence[str]]) -> str:
    """The first cell of a row names it; the others are plain text."""
    lines = []
    for first, *rest in rows:
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in rest)
        lines.append(f'<tr><th scope="row">{html.escape(first)}</th>{cells}</tr>')
    return "\n".join(lines)


def html_group(title: str, columns: int, rows: str) -> str:
    """Rows under a heading of their own."""
    head = f'<tr class="group"><th colspan="{columns}" scope="rowgroup">{html.escape(title)}</th></tr>'
    return f"<tbody>{head}\n{rows}</tbody>"
