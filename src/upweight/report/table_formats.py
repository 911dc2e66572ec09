"""Score tables as CSV (tidy: one line per dataset and sampler), LaTeX (booktabs), Markdown and HTML."""

import html
from collections.abc import Iterable
from itertools import groupby

from upweight.report.legend import legend
from upweight.report.markup import as_csv, as_markdown, html_group, html_table, latex_escape, latex_table
from upweight.report.names import DatasetName
from upweight.report.tables import Cell, ScoreTable, score_text

WINS = "better than Uniform"  # heads the last row
_FIELDS = (
    *("method", "task", "dataset", "sampler", "mean", "std", "seeds", "normalized", "paper"),
    *("improvement", "improvement_low", "improvement_high", "better_than_uniform", "maximum"),
)


def scores_csv(table: ScoreTable) -> str:
    """One line per dataset and sampler; full precision."""
    lines = []
    for dataset, cells in table.rows:
        for sampler, cell in zip(table.samplers, cells, strict=True):
            if cell is not None:
                better = cell.improvement
                chance = ("", "", "") if better is None else (better.point, better.low, better.high)
                first = (table.method, dataset.task, dataset.name, sampler, cell.mean, cell.std, cell.seeds)
                lines.append((*first, cell.normalized, cell.paper, *chance, cell.is_better, cell.is_maximum))
    return as_csv(_FIELDS, lines)


def scores_latex(table: ScoreTable) -> str:
    """A tabular for booktabs; a sampler that the paper has no number for has one column instead of two."""
    widths = [2 if table.has_paper_values(place) else 1 for place in range(len(table.samplers))]
    lines = _latex_heads(table, widths)
    for place, (_, rows) in enumerate(_by_task(table.rows)):
        lines += [r"\addlinespace"] if place else []
        for dataset, cells in rows:
            parts = [latex_escape(dataset.name)]
            for cell, width in zip(cells, widths, strict=True):
                parts += [_latex_cell(cell), _paper(cell)][:width]
            lines.append(" & ".join(parts) + r" \\")
    wins = [text for win, width in zip(table.wins, widths, strict=True) for text in (win, "")[:width]]
    lines += [r"\midrule", " & ".join([WINS, *wins]) + r" \\"]
    return latex_table("l" + "r" * sum(widths), lines, ["needs \\usepackage{booktabs}", *legend([table])])


def scores_markdown(table: ScoreTable) -> str:
    """A table as GitHub shows it; the paper's number in brackets."""
    lines = [(dataset.name, *map(markdown_cell, cells)) for dataset, cells in table.rows]
    return as_markdown(("dataset", *table.samplers), [*lines, (f"*{WINS}*", *table.wins)])


def markdown_cell(cell: Cell | None) -> str:
    """**0.91** ± 0.05 \\* (0.88): bold, spread, star and the paper's number where there are any."""
    if cell is None:
        return ""
    mean = f"**{cell.text}**" if cell.is_better else cell.text
    paper = f"({_paper(cell)})" if cell.paper is not None else ""
    star = r"\*" if cell.is_maximum else ""
    return " ".join(filter(None, [mean, f"± {cell.spread}" if cell.spread else "", star, paper]))


def scores_html(table: ScoreTable) -> str:
    """A table; under each of our numbers, small, the paper's."""
    bodies = []
    for task, rows in _by_task(table.rows):
        lines = [
            f'<tr><th scope="row">{html.escape(dataset.name)}</th>{"".join(map(_html_cell, cells))}</tr>'
            for dataset, cells in rows
        ]
        bodies.append(html_group(task, len(table.samplers) + 1, "\n".join(lines)))
    wins = "".join(f"<td>{html.escape(win)}</td>" for win in table.wins)
    bodies.append(f'<tfoot><tr><th scope="row">{WINS}</th>{wins}</tr></tfoot>')
    caption = f"Scores of {table.title}: a row for each dataset, a column for each sampler"
    return html_table(caption, ("dataset", *table.samplers), "\n".join(bodies))


def _latex_heads(table: ScoreTable, widths: list[int]) -> list[str]:
    """Names of samplers; below, where some have two columns, what those are."""
    heads = [
        rf"\multicolumn{{2}}{{c}}{{{latex_escape(name)}}}" if width == 2 else latex_escape(name)
        for name, width in zip(table.samplers, widths, strict=True)
    ]
    if max(widths) == 1:
        return [" & ".join(["dataset", *heads]) + r" \\", r"\midrule"]
    rules, first = [], 2
    for width in widths:
        rules += [rf"\cmidrule(lr){{{first}-{first + 1}}}"] if width == 2 else []
        first += width
    below = [text for width in widths for text in (("ours", "paper") if width == 2 else ("",))]
    lines = [" & ".join(["", *heads]) + r" \\", " ".join(rules), " & ".join(["dataset", *below]) + r" \\"]
    return [*lines, r"\midrule"]


def _latex_cell(cell: Cell | None) -> str:
    if cell is None:
        return ""
    mean = rf"\textbf{{{cell.text}}}" if cell.is_better else cell.text
    spread = rf" {{\scriptsize$\pm$ {cell.spread}}}" if cell.spread else ""
    return f"{mean}{spread}{'$^{*}$' if cell.is_maximum else ''}"


def _html_cell(cell: Cell | None) -> str:
    if cell is None:
        return "<td></td>"
    mean = f"<strong>{cell.text}</strong>" if cell.is_better else cell.text
    spread = f' <span class="spread">± {cell.spread}</span>' if cell.spread else ""
    star = '<sup class="star">*</sup>' if cell.is_maximum else ""
    paper = f'<span class="paper">paper {_paper(cell)}</span>' if cell.paper is not None else ""
    return f'<td><span class="ours">{mean}{spread}{star}</span>{paper}</td>'


def _paper(cell: Cell | None) -> str:
    return "" if cell is None or cell.paper is None else score_text(cell.paper, normalized=True)


def _by_task(
    rows: Iterable[tuple[DatasetName, tuple[Cell | None, ...]]],
) -> list[tuple[str, list[tuple[DatasetName, tuple[Cell | None, ...]]]]]:
    return [(task, list(group)) for task, group in groupby(rows, key=lambda row: row[0].task)]
