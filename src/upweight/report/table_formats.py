"""Tables as CSV (tidy: one line per dataset and sampler), LaTeX (booktabs), Markdown and HTML."""

import csv
import html
import io
from collections.abc import Iterable, Sequence
from itertools import groupby

from upweight.report.names import DatasetName
from upweight.report.tables import Cell, DatasetRow, ScoreTable, score_text

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
_SCORE_FIELDS = (
    *("method", "task", "dataset", "sampler", "mean", "std", "seeds", "normalized", "paper"),
    *("improvement", "improvement_low", "improvement_high", "best", "star"),
)
_DATASET_FIELDS = ("task", "dataset", "episodes", "steps", "mean", "rpsv", "paper_rpsv", "normalized")
_DATASET_HEADS = ("dataset", "episodes", "steps", "mean", "RPSV", "RPSV in the paper")


def latex_escape(text: str) -> str:
    """Text that LaTeX prints as it stands."""
    return text.translate(_LATEX)


def scores_csv(table: ScoreTable) -> str:
    """One line per dataset and sampler; full precision."""
    lines = []
    for dataset, cells in table.rows:
        for sampler, cell in zip(table.samplers, cells, strict=True):
            if cell is not None:
                better = cell.improvement
                chance = ("", "", "") if better is None else (better.point, better.low, better.high)
                first = (table.method, dataset.task, dataset.name, sampler, cell.mean, cell.std, cell.seeds)
                lines.append((*first, cell.normalized, cell.paper, *chance, cell.best, cell.star))
    return _csv(_SCORE_FIELDS, lines)


def scores_latex(table: ScoreTable) -> str:
    """A tabular for booktabs; the paper's column is left out where the paper has no number at all."""
    widths = [2 if table.has_paper_values(place) else 1 for place in range(len(table.samplers))]
    heads = [
        rf"\multicolumn{{{width}}}{{c}}{{{latex_escape(name)}}}"
        for name, width in zip(table.samplers, widths, strict=True)
    ]
    below = [text for width in widths for text in ("ours", "paper")[:width]]
    lines = [" & ".join(["", *heads]) + r" \\", " & ".join(["dataset", *below]) + r" \\", r"\midrule"]
    for place, (_, rows) in enumerate(_by_task(table.rows)):
        lines += [r"\addlinespace"] if place else []
        for dataset, cells in rows:
            parts = [latex_escape(dataset.name)]
            for cell, width in zip(cells, widths, strict=True):
                parts += [_latex_cell(cell), _paper(cell)][:width]
            lines.append(" & ".join(parts) + r" \\")
    return _tabular("l" + "r" * sum(widths), lines, "needs \\usepackage{booktabs}; bold: best; *: better than Uniform")


def scores_markdown(table: ScoreTable) -> str:
    """A table as GitHub shows it; the paper's number in brackets."""
    lines = [("dataset", *table.samplers), ("---",) * (len(table.samplers) + 1)]
    lines += [(dataset.name, *map(markdown_cell, cells)) for dataset, cells in table.rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def markdown_cell(cell: Cell | None) -> str:
    """**0.91** ± 0.05 \\* (0.88): bold, spread, star and the paper's number where there are any."""
    if cell is None:
        return ""
    mean = f"**{cell.text}**" if cell.best else cell.text
    paper = f"({_paper(cell)})" if cell.paper is not None else ""
    return " ".join(filter(None, [mean, f"± {cell.spread}" if cell.spread else "", r"\*" if cell.star else "", paper]))


def scores_html(table: ScoreTable) -> str:
    """A table; under each of our numbers, small, the paper's."""
    heads = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in ("dataset", *table.samplers))
    bodies = []
    for task, rows in _by_task(table.rows):
        span = len(table.samplers) + 1
        lines = [f'<tr class="task"><th colspan="{span}" scope="rowgroup">{html.escape(task)}</th></tr>']
        for dataset, cells in rows:
            shown = "".join(map(_html_cell, cells))
            lines.append(f'<tr><th scope="row">{html.escape(dataset.name)}</th>{shown}</tr>')
        bodies.append("<tbody>" + "\n".join(lines) + "</tbody>")
    return _html_table(heads, "\n".join(bodies))


def datasets_csv(rows: Sequence[DatasetRow]) -> str:
    lines = []
    for row in rows:
        facts = row.facts
        first = (facts.dataset.task, facts.dataset.name, facts.episodes, facts.steps, facts.mean, facts.rpsv)
        lines.append((*first, row.paper_rpsv, facts.normalized))
    return _csv(_DATASET_FIELDS, lines)


def datasets_latex(rows: Sequence[DatasetRow]) -> str:
    lines = [" & ".join(_DATASET_HEADS) + r" \\", r"\midrule"]
    lines += [" & ".join(map(latex_escape, _dataset_cells(row))) + r" \\" for row in rows]
    return _tabular("l" + "r" * (len(_DATASET_HEADS) - 1), lines, "needs \\usepackage{booktabs}")


def datasets_html(rows: Sequence[DatasetRow]) -> str:
    heads = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in _DATASET_HEADS)
    lines = []
    for row in rows:
        name, *values = map(html.escape, _dataset_cells(row))
        lines.append(f'<tr><th scope="row">{name}</th>{"".join(f"<td>{value}</td>" for value in values)}</tr>')
    return _html_table(heads, "<tbody>" + "\n".join(lines) + "</tbody>")


def _dataset_cells(row: DatasetRow) -> list[str]:
    facts = row.facts
    rpsv = f"{facts.rpsv:.6f}" if facts.normalized else f"{facts.rpsv:.4g}"
    paper = "" if row.paper_rpsv is None else f"{row.paper_rpsv:.6f}"
    mean = score_text(facts.mean, normalized=facts.normalized)
    return [facts.dataset.name, f"{facts.episodes:,}", f"{facts.steps:,}", mean, rpsv, paper]


def _latex_cell(cell: Cell | None) -> str:
    if cell is None:
        return ""
    mean = rf"\textbf{{{cell.text}}}" if cell.best else cell.text
    spread = rf" {{\scriptsize$\pm$ {cell.spread}}}" if cell.spread else ""
    return f"{mean}{spread}{'$^{*}$' if cell.star else ''}"


def _html_cell(cell: Cell | None) -> str:
    if cell is None:
        return "<td></td>"
    mean = f"<strong>{cell.text}</strong>" if cell.best else cell.text
    spread = f' <span class="spread">± {cell.spread}</span>' if cell.spread else ""
    star = '<sup class="star">*</sup>' if cell.star else ""
    paper = f'<span class="paper">paper {_paper(cell)}</span>' if cell.paper is not None else ""
    return f'<td><span class="ours">{mean}{spread}{star}</span>{paper}</td>'


def _paper(cell: Cell | None) -> str:
    return "" if cell is None or cell.paper is None else score_text(cell.paper, normalized=True)


def _by_task(
    rows: Iterable[tuple[DatasetName, tuple[Cell | None, ...]]],
) -> list[tuple[str, list[tuple[DatasetName, tuple[Cell | None, ...]]]]]:
    return [(task, list(group)) for task, group in groupby(rows, key=lambda row: row[0].task)]


def _csv(fields: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(fields)
    writer.writerows(lines)
    return text.getvalue()


def _tabular(columns: str, lines: Sequence[str], comment: str) -> str:
    inside = [r"\toprule", *lines, r"\bottomrule"]
    return "\n".join([f"% {comment}", rf"\begin{{tabular}}{{{columns}}}", *inside, r"\end{tabular}", ""])


def _html_table(heads: str, bodies: str) -> str:
    return f'<div class="scroll"><table>\n<thead><tr>{heads}</tr></thead>\n{bodies}\n</table></div>'
