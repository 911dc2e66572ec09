import pytest

from upweight.base.text import number, settings_text, table


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
