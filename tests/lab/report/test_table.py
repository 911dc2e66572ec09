"""The forms of a table, of one made by hand."""

from dataclasses import replace

from upweight.lab.report.table import (
    Cell,
    Row,
    Table,
    as_csv,
    as_html,
    as_latex,
    as_markdown,
    latex_escape,
    without_empty_columns,
)

TABLE = Table(
    name="fruit",
    caption="Fruit & <nuts>",
    columns=("kind", "name", "plain", "with paper"),
    rows=(
        Row(("sweet", "a_b", "1", Cell("0.91", "0.05", "0.88", bold=True, star=True)), "sweet things"),
        Row(("sweet", "c", "2", Cell("0.50")), "sweet things"),
        Row(("sour", "d", "", ""), "sour things"),
    ),
    records=({"name": "a_b", "value": 0.912345678}, {"name": "c, d", "value": None}),
    notes=("One.", "Two."),
    footer=("in all", "", "3", "-"),
    words=2,
    said_by_group=1,
)


def test_csv_has_the_records_in_full_precision() -> None:
    assert as_csv(TABLE) == 'name,value\na_b,0.912345678\n"c, d",\n'


def test_markdown() -> None:
    lines = as_markdown(TABLE).splitlines()
    assert lines[:4] == [
        "| kind | name | plain | with paper |",
        "| --- | --- | --- | --- |",
        r"| sweet | a_b | 1 | **0.91** ± 0.05 \* (0.88) |",
        "| sweet | c | 2 | 0.50 |",
    ]
    assert lines[-3:] == ["| *in all* |  | 3 | - |", "", "One. Two."]
    assert "One." not in as_markdown(TABLE, notes=False)


def test_markdown_escapes() -> None:
    table = replace(TABLE, rows=(Row(("sweet", "a|b", "1", "2"), ""),))
    assert r"| sweet | a\|b | 1 | 2 |" in as_markdown(table)


def test_latex() -> None:
    assert as_latex(TABLE).splitlines() == [
        "% needs \\usepackage{booktabs}",
        "% One.",
        "% Two.",
        r"\begin{tabular}{llrrr}",
        r"\toprule",
        r" &  & plain & \multicolumn{2}{c}{with paper} \\",
        r"\cmidrule(lr){4-5}",
        r"kind & name &  & ours & paper \\",
        r"\midrule",
        r"sweet & a\_b & 1 & \textbf{0.91} {\scriptsize$\pm$ 0.05}$^{*}$ & 0.88 \\",
        r"sweet & c & 2 & 0.50 &  \\",
        r"\addlinespace",
        r"sour & d &  &  &  \\",
        r"\midrule",
        r"in all &  & 3 & - &  \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_latex_escapes() -> None:
    assert latex_escape(r"Top-10% a_b & {c}$\^~#") == (
        r"Top-10\% a\_b \& \{c\}\$\textbackslash{}\textasciicircum{}\textasciitilde{}\#"
    )


def test_html_says_what_groups_have_in_common_in_their_heading() -> None:
    text = as_html(TABLE)
    assert "<caption>Fruit &amp; &lt;nuts&gt;</caption>" in text
    assert '<th scope="col">kind</th>' not in text
    assert '<tbody><tr class="group"><th colspan="3" scope="rowgroup">sweet things</th></tr>' in text
    assert '<tr><th scope="row">c</th><td>2</td><td><span class="ours">0.50</span></td></tr></tbody>' in text
    assert text.count("<tbody>") == 2 and text.count("<tfoot>") == 1
    assert '<tfoot><tr><th scope="row">in all</th><td>3</td><td>-</td></tr></tfoot>' in text


def test_columns_without_anything_are_left_out_for_people_only() -> None:
    assert without_empty_columns(TABLE) == TABLE
    rows = tuple(replace(row, cells=(*row.cells[:2], "", row.cells[3])) for row in TABLE.rows)
    found = without_empty_columns(replace(TABLE, rows=rows))
    assert found.columns == ("kind", "name", "with paper")
    assert [len(row.cells) for row in found.rows] == [3, 3, 3]
    assert found.footer == ("in all", "", "-")
    assert found.records == TABLE.records
    nothing = replace(TABLE, rows=())
    assert without_empty_columns(nothing) == nothing
