"""A table, and its forms: CSV (tidy, full precision), LaTeX (booktabs), Markdown (as GitHub shows it) and HTML."""

import csv
import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby


@dataclass(frozen=True)
class Cell:
    """A number with what stands around it, where there is anything."""

    text: str
    spread: str = ""  # after a ±
    paper: str = ""  # the paper's number
    bold: bool = False
    star: bool = False


@dataclass(frozen=True)
class Row:
    """Cells, and what the rows around it have in common with it."""

    cells: tuple[str | Cell, ...]  # as many as there are columns; the first names the row
    group: str = ""


@dataclass(frozen=True)
class Table:
    """What a table shows, in any form."""

    name: str  # of its files: "scores-bc"
    caption: str  # for those who do not see the headings
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    records: tuple[Mapping[str, object], ...]  # the same for programs: tidy, full precision
    notes: tuple[str, ...] = ()  # how to read it
    footer: tuple[str, ...] = ()  # a last row
    words: int = 1  # so many columns hold words, the others numbers
    said_by_group: int = 0  # so many columns need not be shown where groups have headings

    def groups(self) -> list[tuple[str, list[Row]]]:
        """Rows that stand together, with their heading."""
        return [(group, list(rows)) for group, rows in groupby(self.rows, key=lambda row: row.group)]


def without_empty_columns(table: Table) -> Table:
    """The same table for people, without columns in which no row has anything; records for programs stay whole."""
    kept = [place for place in range(len(table.columns)) if any(row.cells[place] for row in table.rows)]
    if not table.rows or len(kept) == len(table.columns):
        return table
    return replace(
        table,
        columns=tuple(table.columns[place] for place in kept),
        rows=tuple(replace(row, cells=tuple(row.cells[place] for place in kept)) for row in table.rows),
        footer=tuple(table.footer[place] for place in kept) if table.footer else (),
    )


def as_csv(table: Table) -> str:
    """One line per record."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.records[0])
    writer.writerows(record.values() for record in table.records)
    return text.getvalue()


def as_markdown(table: Table, *, notes: bool = True) -> str:
    """The table, and below it the notes; the paper's numbers in brackets."""
    lines = [table.columns, ("---",) * len(table.columns)]
    lines += [tuple(map(_markdown_cell, row.cells)) for row in table.rows]
    lines += [(f"*{table.footer[0]}*", *table.footer[1:])] if table.footer else []
    joined = [" | ".join(cell.replace("|", r"\|") for cell in line) for line in lines]
    text = "".join(f"| {line} |\n" for line in joined)
    return f"{text}\n{' '.join(table.notes)}\n" if notes and table.notes else text


def as_latex(table: Table) -> str:
    """A tabular, with notes as comments above it; the paper's numbers have columns of their own."""
    cells = [[row.cells[place] for row in table.rows] for place in range(len(table.columns))]
    widths = [2 if any(isinstance(cell, Cell) and cell.paper for cell in column) else 1 for column in cells]
    lines = [f"% {note}" for note in ("needs \\usepackage{booktabs}", *table.notes)]
    lines += [rf"\begin{{tabular}}{{{'l' * table.words}{'r' * sum(widths[table.words :])}}}", r"\toprule"]
    lines += _latex_heads(table, widths)
    for place, (_, rows) in enumerate(table.groups()):
        lines += [r"\addlinespace"] if place else []
        lines += [_latex_line(row.cells, widths) for row in rows]
    lines += [r"\midrule", _latex_line(table.footer, widths)] if table.footer else []
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def as_html(table: Table) -> str:
    """The paper's numbers stand under ours, small."""
    first = table.said_by_group
    columns = table.columns[first:]
    bodies = []
    for group, rows in table.groups():
        title = f'<th colspan="{len(columns)}" scope="rowgroup">{html.escape(group)}</th>'
        head = f'<tr class="group">{title}</tr>\n' if group else ""
        bodies.append(f"<tbody>{head}{chr(10).join(_html_row(row.cells[first:]) for row in rows)}</tbody>")
    bodies += [f"<tfoot>{_html_row((*table.footer[:1], *table.footer[1 + first :]))}</tfoot>"] if table.footer else []
    return html_table(table.caption, columns, "\n".join(bodies))


def html_table(caption: str, columns: Sequence[str], bodies: str) -> str:
    """A table that scrolls in its own box where it is too wide."""
    heads = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in columns)
    inside = f"<caption>{html.escape(caption)}</caption>\n<thead><tr>{heads}</tr></thead>\n{bodies}"
    return f'<div class="scroll"><table>\n{inside}\n</table></div>'


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


def _markdown_cell(cell: str | Cell) -> str:
    r"""**0.91** ± 0.05 \* (0.88)."""
    if isinstance(cell, str):
        return cell
    parts = (
        f"**{cell.text}**" if cell.bold else cell.text,
        f"± {cell.spread}" if cell.spread else "",
        r"\*" if cell.star else "",
        f"({cell.paper})" if cell.paper else "",
    )
    return " ".join(filter(None, parts))


def _latex_cell(cell: str | Cell) -> str:
    if isinstance(cell, str):
        return latex_escape(cell)
    text = rf"\textbf{{{cell.text}}}" if cell.bold else cell.text
    spread = rf" {{\scriptsize$\pm$ {cell.spread}}}" if cell.spread else ""
    return f"{text}{spread}{'$^{*}$' if cell.star else ''}"


def _latex_line(cells: Sequence[str | Cell], widths: Sequence[int]) -> str:
    parts: list[str] = []
    for cell, width in zip(cells, widths, strict=True):
        parts += [_latex_cell(cell), cell.paper if isinstance(cell, Cell) else ""][:width]
    return " & ".join(parts) + r" \\"


def _latex_heads(table: Table, widths: Sequence[int]) -> list[str]:
    """Names of columns; below, where some are two, what those are."""
    names = [
        rf"\multicolumn{{2}}{{c}}{{{latex_escape(name)}}}" if width == 2 else latex_escape(name)
        for name, width in zip(table.columns, widths, strict=True)
    ]
    if max(widths) == 1:
        return [" & ".join(names) + r" \\", r"\midrule"]
    rules, below, first = [], names[: table.words], table.words + 1
    for width in widths[table.words :]:
        rules += [rf"\cmidrule(lr){{{first}-{first + 1}}}"] if width == 2 else []
        below += ["ours", "paper"] if width == 2 else [""]
        first += width
    above = [""] * table.words + names[table.words :]
    return [" & ".join(above) + r" \\", " ".join(rules), " & ".join(below) + r" \\", r"\midrule"]


def _html_row(cells: Sequence[str | Cell]) -> str:
    first, *rest = cells
    return f'<tr><th scope="row">{html.escape(str(first))}</th>{"".join(map(_html_cell, rest))}</tr>'


def _html_cell(cell: str | Cell) -> str:
    if isinstance(cell, str):
        return f"<td>{html.escape(cell)}</td>"
    text = f"<strong>{cell.text}</strong>" if cell.bold else cell.text
    spread = f' <span class="spread">± {cell.spread}</span>' if cell.spread else ""
    star = '<sup class="star">*</sup>' if cell.star else ""
    paper = f'<span class="paper">paper {cell.paper}</span>' if cell.paper else ""
    return f'<td><span class="ours">{text}{spread}{star}</span>{paper}</td>'
