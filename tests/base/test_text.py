import pytest

from upweight.base.text import Grid, Shown, as_html, number, settings_text, table


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.123456, "0.1235"),
        (-1234.5, "-1234"),
        (12_345.6, "12,346"),
        (1e12, "1.000e+12"),
        (2e-5, "2.000e-05"),
    ],
)
def test_numbers_have_four_digits_and_no_exponent_for_everyday_sizes(value: float, text: str) -> None:
    assert number(value) == text


def test_settings_stand_on_one_line() -> None:
    assert settings_text({"temperature": 0.10, "seed": 3, "high": "good"}) == "temperature=0.1 seed=3 high=good"


def test_columns_are_aligned() -> None:
    rows = [["rw", "0.5"], ["uniform", "12"]]
    assert table(rows).splitlines() == ["rw       0.5", "uniform  12"]
    assert table(rows, header=["", "score"]).splitlines() == [
        "         score",
        "-" * 14,
        "rw         0.5",
        "uniform     12",
    ]
    assert table(rows, header=["", "score"], align=str.ljust).splitlines()[2] == "rw       0.5"


def test_html_escapes_what_users_wrote_and_loads_nothing() -> None:
    html = as_html("<b>", "two\nlines & more", Grid([["<i>", "1"]], ["a", "<u>"]), Grid([["x", "y"]]))
    assert html.startswith("<div><strong>&lt;b&gt;</strong>")
    assert "two\nlines &amp; more</p>" in html
    assert ">&lt;i&gt;</td>" in html and ">&lt;u&gt;</th>" in html
    assert html.count("<table") == 2 and html.count("<thead>") == 1
    assert "src=" not in html and "href=" not in html and "<script" not in html


class Thing(Shown):
    def _facts(self) -> dict[str, object]:
        return {"mean_return": 1234.5678, "steps": 10_000, "path": "<a>"}


def test_an_object_shows_itself_on_a_line_and_as_a_table() -> None:
    assert repr(Thing()) == "Thing(mean_return=1235, steps=10000, path='<a>')"
    html = Thing()._repr_html_()
    assert "<strong>Thing</strong>" in html
    assert ">mean return</td>" in html
    assert ">&lt;a&gt;</td>" in html
