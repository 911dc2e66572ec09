"""Tables with one row per step: which column is what, rows in order, ends, gaps and categories."""

from datetime import date, datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import upweight as uw

FRAMES = {"mapping": dict, "pandas": pd.DataFrame, "polars": pl.DataFrame, "Arrow": pa.table}


def steps() -> dict[str, list[Any]]:
    return {
        "episode": [4, 4, 9],
        "observation_x": [1.0, 2.0, 3.0],
        "observation_y": [4.0, 5.0, 6.0],
        "action": [0, 1, 0],
        "reward": [1.0, 2.0, 5.0],
        "terminated": [False, True, False],
        "site": ["north", "north", "south"],
    }


def stays() -> dict[str, list[Any]]:
    """Two patients by the hour, one below the other as they came in; nothing says how a stay ended."""
    return {
        "stay_id": ["b", "a", "b", "a", "a"],
        "hour": [0, 0, 1, 2, 1],
        "age": [70, 30, 70, 30, 30],
        "hr": [88.0, 60.0, 90.0, 62.0, 61.0],
        "dose": [0.5, 0.0, 1.5, 0.25, 0.0],
        "drug": ["low", "none", "high", "low", "none"],
        "r": [0.0, 0.0, 1.0, -1.0, 0.0],
    }


LAYOUT: dict[str, Any] = {
    "episode": "stay_id",
    "timestep": "hour",
    "observations": ["age", "hr"],
    "actions": "dose",
    "rewards": "r",
    "ends": "terminated",
}


def table(layout: dict[str, Any] | None = None, /, **columns: Any) -> uw.Dataset:
    """The stays, with other columns or a changed layout."""
    return uw.Dataset.from_frame({**stays(), **columns}, **{**LAYOUT, **(layout or {})})


@pytest.mark.parametrize("make", FRAMES.values(), ids=list(FRAMES))
class TestEveryKindOfFrame:
    def test_columns_by_prefix(self, make: Any) -> None:
        ds = uw.Dataset.from_frame(make(steps()), label="site")
        assert ds.observations.tolist() == [[1, 4], [2, 5], [3, 6]]
        assert ds.returns.tolist() == [3.0, 5.0]
        assert ds.discrete_actions
        assert ds.episodes.truncated.tolist() == [False, True]
        assert ds.labels is not None
        assert ds.labels.tolist() == ["north", "south"]

    def test_rows_are_put_in_order(self, make: Any) -> None:
        ds = uw.Dataset.from_frame(make(stays()), **LAYOUT)
        assert ds.lengths.tolist() == [2, 3]  # b begins first
        assert ds.observations.tolist() == [[70, 88], [70, 90], [30, 60], [30, 61], [30, 62]]
        assert ds.actions.tolist() == [0.5, 1.5, 0.0, 0.0, 0.25]
        assert ds.returns.tolist() == [1.0, -1.0]
        assert ds.episodes.terminated.all() and ds.num_transitions.tolist() == [2, 3]

    def test_gaps_and_categories(self, make: Any) -> None:
        frame = make({**stays(), "r": [None, None, 1.0, -1.0, None]})
        ds = uw.Dataset.from_frame(
            frame, **{**LAYOUT, "actions": "drug", "categories": ["drug"], "missing_rewards": "zero"}
        )
        assert ds.returns.tolist() == [1.0, -1.0]
        assert ds.actions.tolist() == [1, 0, 2, 2, 1] and ds.num_actions == 3
        assert ds.metadata["categories"] == {"drug": ["high", "low", "none"]}


class TestColumns:
    def test_by_list_and_of_vectors(self) -> None:
        frame = pd.DataFrame(steps()).assign(state=[np.zeros(2), np.ones(2), np.zeros(2)])
        assert uw.Dataset.from_frame(frame, observations=["observation_y"]).observation_shape == (1,)
        assert uw.Dataset.from_frame(frame, observations="state").observation_shape == (2,)
        joined = uw.Dataset.from_frame(frame, observations=["state", "observation_y"])
        assert joined.observations.tolist() == [[0, 0, 4], [1, 1, 5], [0, 0, 6]]

    def test_a_missing_column_is_named_with_those_that_there_are(self) -> None:
        with pytest.raises(uw.DatasetError, match="missing column 'reward'; the table has stay_id, hour, .* rewards="):
            table({"rewards": "reward"})
        with pytest.raises(uw.DatasetError, match=r"missing column 'HRT'; did you mean 'hr'\?.*--observations"):
            table({"observations": ["age", "HRT"]})
        with pytest.raises(uw.DatasetError, match=r"missing column 'drugs'; did you mean 'drug'\?.*--categories"):
            table({"categories": ["drugs"]})
        with pytest.raises(uw.DatasetError, match="missing column 'died'"):
            table({"terminated": "died", "ends": None})

    @pytest.mark.parametrize(
        ("layout", "message"),
        [
            ({"episodes": "stay_id"}, "a table has no 'episodes'; did you mean 'episode'?"),
            ({"ends": "died"}, "ends: expected 'terminated' or 'truncated', found 'died'"),
            ({"missing_rewards": 0}, "missing_rewards: expected 'zero' or 'drop', found 0"),
            ({"observations": []}, "observations: expected names of columns, found []"),
            ({"rewards": ["r"]}, "rewards: expected the name of a column, found ['r']"),
            ({"categories": {"drug": "low"}}, "categories: expected lists of categories by column"),
        ],
    )
    def test_a_layout_that_cannot_be(self, layout: dict[str, Any], message: str) -> None:
        with pytest.raises(uw.DatasetError) as caught:
            table(layout)
        assert message in str(caught.value)

    def test_a_text_among_numbers_is_named_with_its_row(self) -> None:
        with pytest.raises(
            uw.DatasetError, match=r"column 'hr': expected numbers, found the text 'n/k' in row 3 \(5 of 5"
        ):
            table(hr=["88", "60", "n/k", "62", "61"])
        with pytest.raises(uw.DatasetError, match="found the text '88,5' in row 1 .* decimal points instead of commas"):
            table(hr=["88,5", "60", "90", "62", "61"])

    def test_gaps_in_observations_are_counted_by_column(self) -> None:
        nan = float("nan")
        with pytest.raises(
            uw.DatasetError,
            match=r"observations: .* 1 in 'age' \(the first in row 5\), 2 in 'hr' \(the first in row 2\)",
        ):
            table(age=[70, 30, 70, 30, None], hr=[88.0, nan, 90.0, nan, 61.0])
        with pytest.raises(uw.DatasetError, match=r"actions: .* 1 in 'dose' \(the first in row 1\)"):
            table(dose=[nan, 0.0, 0.0, 0.0, 0.0])

    def test_columns_of_unequal_length_or_none_at_all(self) -> None:
        with pytest.raises(uw.DatasetError, match="column 'hr': expected 5 rows, found 1"):
            table(hr=[1.0])
        with pytest.raises(uw.DatasetError, match="expected at least one step"):
            uw.Dataset.from_frame({name: [] for name in stays()}, **LAYOUT)

    def test_nullable_numbers_of_pandas_and_decimals_are_numbers(self) -> None:
        frame = pd.DataFrame(stays()).astype({"age": "Int64", "hr": "Float64"})
        assert uw.Dataset.from_frame(frame, **LAYOUT).observations.dtype == np.float64
        decimals = pa.table(stays()).set_column(4, "dose", pa.array(stays()["dose"]).cast(pa.decimal128(8, 2)))
        assert uw.Dataset.from_frame(decimals, **LAYOUT).actions.tolist() == [0.5, 1.5, 0.0, 0.0, 0.25]


class TestOrder:
    def test_episodes_in_pieces_need_a_timestep(self) -> None:
        with pytest.raises(uw.DatasetError, match="'stay_id': episode b comes back in row 3 .*timestep="):
            table({"timestep": None})

    def test_dates_order_rows_and_other_text_does_not(self) -> None:
        dates = [f"2024-05-31T{hour:02d}:00" for hour in (0, 0, 1, 2, 10)]
        ds = table(hour=np.array(dates, "datetime64[m]"))
        assert ds.rewards.tolist() == [0, 1, 0, -1, 0]
        frame = pd.DataFrame({**stays(), "hour": pd.to_datetime(dates, utc=True)})
        assert uw.Dataset.from_frame(frame, **LAYOUT).rewards.tolist() == [0, 1, 0, -1, 0]
        with pytest.raises(uw.DatasetError, match="'hour': expected numbers or dates .* found text such as '31.5.'"):
            table(hour=["31.5."] * 5)

    @pytest.mark.parametrize("after", ["", ":30.25", "Z", "+02:00"])
    def test_dates_may_be_text_or_objects(self, after: str) -> None:
        texts = [f"2024-05-31 {hour:02d}:00{after}" for hour in (0, 0, 1, 2, 10)]
        moments = [datetime.fromisoformat(text) for text in texts]
        days = [date(2024, 5, day) for day in (9, 9, 10, 11, 30)]
        for when in (texts, np.array(texts), np.array(texts, object), np.array(moments, object), np.array(days)):
            assert table(hour=when).rewards.tolist() == [0, 1, 0, -1, 0]

    def test_dates_that_have_no_order_are_refused(self) -> None:
        texts = [f"2024-05-31 {hour:02d}:00" for hour in (0, 0, 1, 2, 10)]
        for odd in ("tomorrow", "20240531", 7):
            with pytest.raises(uw.DatasetError, match=f"'hour': expected numbers or dates .* found .*{odd}"):
                table(hour=np.array([*texts[:4], odd], object))
        with pytest.raises(uw.DatasetError, match="'hour': expected a time zone in every row or in none"):
            table(hour=[*texts[:4], texts[4] + "Z"])

    def test_one_time_twice_in_one_episode(self) -> None:
        with pytest.raises(uw.DatasetError, match=r"'hour': rows 2 and 4 are one time \(0\) of one episode \(a\)"):
            table(hour=[0, 0, 1, 0, 1])

    @pytest.mark.parametrize(
        ("column", "cells"), [("stay_id", ["b", None, "b", "a", "a"]), ("hour", [0, None, 1, 2, 1])]
    )
    def test_ids_and_times_stand_in_every_row(self, column: str, cells: list[Any]) -> None:
        with pytest.raises(uw.DatasetError, match=f"'{column}': .* found 1 empty cells, the first in row 2"):
            table(**{column: cells})

    def test_ids_of_several_kinds_are_compared_as_text(self) -> None:
        assert table(stay_id=["b", 7, "b", 7, 7]).lengths.tolist() == [2, 3]


class TestEnds:
    def test_what_is_assumed_is_said(self) -> None:
        with pytest.warns(uw.UpweightWarning, match="nothing says how 2 episodes ended .* taken as terminated"):
            assert table({"ends": None}).episodes.terminated.all()

    def test_truncated(self) -> None:
        ds = table({"ends": "truncated"})
        assert ds.episodes.truncated.all() and ds.num_transitions.tolist() == [1, 2]

    def test_flags_decide_in_the_rows_own_order(self) -> None:
        ds = table({"terminated": "died", "ends": None}, died=[0, 0, 0, 1, 0])
        assert ds.episodes.terminated.tolist() == [False, True]
        assert ds.episodes.truncated.tolist() == [True, False]
        with pytest.raises(uw.DatasetError, match="goes on after it"):
            table({"terminated": "died", "ends": None}, died=[0, 1, 0, 0, 0])
        with pytest.raises(uw.DatasetError, match="ends='terminated' is for tables that do not say .* 'died' does"):
            table({"terminated": "died"}, died=[0, 0, 0, 1, 0])
        stopped = table({"terminated": "died", "ends": "truncated"}, died=[0, 0, 1, 1, 0])
        assert stopped.episodes.terminated.tolist() == [True, False]  # after 2 and after 3 rows

    def test_truncated_flags_alone(self) -> None:
        flags = [0, 0, 1, 0, 0]
        assert table({"truncated": "moved"}, moved=flags).episodes.terminated.tolist() == [False, True]
        with pytest.warns(uw.UpweightWarning, match="nothing says how 1 episodes ended"):
            table({"truncated": "moved", "ends": None}, moved=flags)


class TestNextObservations:
    def test_the_last_may_be_unknown(self) -> None:
        following = {"age2": [70, 30, None, 30, 30], "hr2": [90.0, 61.0, None, 63.0, 62.0]}
        ds = table({"next_observations": ["age2", "hr2"], "ends": "truncated"}, **following)
        assert ds.next_observations.tolist() == [[70, 90], [70, 90], [30, 61], [30, 62], [30, 63]]
        assert ds.num_transitions.tolist() == [1, 3]

    def test_others_may_not(self) -> None:
        with pytest.raises(uw.DatasetError, match=r"next_observations: .* 1 in 'hr2' \(the first in row 2\)"):
            table({"next_observations": ["age", "hr2"]}, hr2=[90.0, None, None, 63.0, 62.0])
        with pytest.raises(uw.DatasetError, match="expected a column for each of age, hr, found hr"):
            table({"next_observations": ["hr"]})

    def test_categories_are_those_of_the_observation(self) -> None:
        layout = {"observations": ["drug"], "next_observations": ["drug2"], "categories": ["drug"]}
        ds = table(layout, drug2=["high", "none", None, None, "low"])
        assert ds.next_observations.tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 0]]
        assert ds.episodes.final_known.tolist() == [False, False]


class TestRewards:
    def test_may_be_made_of_success_or_be_none(self) -> None:
        ds = table({"success": "alive", "rewards": None, "ends": "truncated"}, alive=[0, 1, 0, 1, 1])
        assert ds.returns.tolist() == [0.0, 1.0] and ds.episodes.terminated.tolist() == [False, True]
        assert not table({"rewards": None}).has_rewards
        frame = {name: cells for name, cells in steps().items() if name != "reward"}
        assert uw.Dataset.from_frame(frame, success="terminated").returns.tolist() == [1.0, 0.0]

    def test_that_nothing_is_said_about_are_none_with_a_warning(self) -> None:
        frame = {name: cells for name, cells in steps().items() if name != "reward"}
        with pytest.warns(
            uw.UpweightWarning,
            match=r"data without rewards; name the rewards with rewards=... \(--rewards\), .*--success.*--score",
        ):
            assert not uw.Dataset.from_frame(frame).has_rewards

    def test_with_gaps_are_an_error_that_asks_what_they_mean(self) -> None:
        with pytest.raises(
            uw.DatasetError,
            match=r"'r': 4 of 5 rows have no reward; 2 of 2 episodes have such rows, and 1 no reward at all. "
            r".*missing_rewards='zero' .*missing_rewards='drop'",
        ):
            table(r=[None, None, 1.0, None, None])

    def test_unknown_outcomes_are_left_out_or_said_to_count_as_0(self) -> None:
        """An outcome in the last row: gaps before it are the rule."""
        outcomes = {"r": [None, None, 1.0, None, None]}  # b: rows 1, 3; a: 2, 5, 4
        with pytest.warns(uw.UpweightWarning, match="1 no reward at all: 1 episodes are left out"):
            ds = table({"missing_rewards": "drop"}, **outcomes)
        assert ds.rewards.tolist() == [0.0, 1.0] and ds.observations[:, 1].tolist() == [88.0, 90.0]
        with pytest.warns(uw.UpweightWarning, match="1 no reward at all: these count as returns of 0"):
            assert table({"missing_rewards": "zero"}, **outcomes).returns.tolist() == [1.0, 0.0]
        known = table({"missing_rewards": "zero"}, r=[None, None, 1.0, -1.0, None])  # without a warning
        assert known.returns.tolist() == [1.0, -1.0]
        assert table({"missing_rewards": "drop"}, r=[None, None, 1.0, -1.0, None]).num_episodes == 2

    def test_a_gap_among_rewards_of_every_row_is_an_unknown_return(self) -> None:
        rows = {
            "episode": np.repeat(np.arange(3), 2),
            "observation": np.arange(6.0),
            "action": np.zeros(6),
            "reward": [1.0, 2.0, 3.0, None, 5.0, 6.0],
            "terminated": [0, 1, 0, 1, 0, 1],
        }
        with pytest.warns(uw.UpweightWarning, match="1 episodes are left out"):
            ds = uw.Dataset.from_frame(rows, missing_rewards="drop")
        assert ds.returns.tolist() == [3.0, 11.0] and ds.observations.tolist() == [0, 1, 4, 5]
        assert uw.Dataset.from_frame(rows, missing_rewards="zero").returns.tolist() == [3.0, 3.0, 11.0]

    def test_that_are_all_empty_are_none(self) -> None:
        for choice in (None, "zero", "drop"):
            with pytest.warns(uw.UpweightWarning, match="column 'r' is empty, so these are data without rewards"):
                assert not table({"missing_rewards": choice}, r=[None] * 5).has_rewards

    def test_a_score_is_the_last_value_of_its_column(self) -> None:
        for rewards in ("r", None):
            ds = table({"score": "s", "rewards": rewards}, s=[9.0, None, 0.5, 2.0, None])  # b: rows 1, 3; a: 2, 5, 4
            assert ds.returns.tolist() == [0.5, 2.0] and ds.rewards.tolist() == [0, 0.5, 0, 0, 2.0]
        with pytest.raises(
            uw.DatasetError, match=r"score \(last rows of episodes\): .* 1 in 's' \(the first in row 4\)"
        ):
            table({"score": "s"}, s=[9.0, None, 0.5, None, 1.0])


class TestCategories:
    def test_text_without_the_option_is_an_error_that_names_it(self) -> None:
        with pytest.raises(uw.DatasetError, match="'drug': expected numbers, found the text 'low' .*categories"):
            table({"actions": "drug"})

    def test_in_a_given_order(self) -> None:
        given = {"drug": ["none", "low", "high", "extreme"]}
        ds = table({"actions": "drug", "categories": given})
        assert ds.actions.tolist() == [1, 2, 0, 0, 1] and ds.num_actions == 4
        with pytest.raises(
            uw.DatasetError, match=r"'drug': 'low' is none of its categories \['none', 'lo', 'high'\]; did"
        ):
            table({"actions": "drug", "categories": {"drug": ["none", "lo", "high"]}})

    def test_of_an_observation_are_columns_of_0_and_1(self) -> None:
        ds = table({"observations": ["hr", "drug"], "categories": ["drug"]})
        assert ds.observations.tolist()[:3] == [[88, 0, 1, 0], [90, 1, 0, 0], [60, 0, 0, 1]]

    @pytest.mark.parametrize("part", ["rewards", "terminated", "success"])
    def test_text_where_no_categories_can_be(self, part: str) -> None:
        with pytest.raises(
            uw.DatasetError, match="'drug': expected numbers, found the text 'low' .*another column"
        ) as error:
            table({part: "drug"})
        assert "categories" not in str(error.value)

    @pytest.mark.parametrize("part", ["observations", "rewards"])
    def test_dates_in_the_place_of_numbers(self, part: str) -> None:
        days = np.array(["2024-05-31"] * 5, "datetime64[s]")
        with pytest.raises(
            uw.DatasetError, match=r"'day': expected numbers, found datetime64\[s\] \(dates .*such as hours"
        ):
            table({part: "day"}, day=days)

    def test_two_spellings_of_one_word_bring_a_warning(self) -> None:
        with pytest.warns(
            uw.UpweightWarning, match="'drug': 'Low ' and 'low' count as two categories; if they are one"
        ) as seen:
            ds = table({"actions": "drug", "categories": ["drug"]}, drug=["low", "none", "Low ", "low", "none"])
        assert ds.num_actions == 3 and len(seen) == 1

    def test_numbers_may_be_categories(self) -> None:
        ds = table({"categories": ["dose"]})
        assert ds.discrete_actions and ds.actions.tolist() == [2, 3, 0, 0, 1]
        assert ds.metadata["categories"] == {"dose": [0.0, 0.25, 0.5, 1.5]}

    def test_what_cannot_be_categories(self) -> None:
        with pytest.raises(uw.DatasetError, match="expected one column of categories"):
            table({"actions": ["drug", "dose"], "categories": ["drug"]})
        with pytest.raises(uw.DatasetError, match=r"actions: .* 1 in 'drug' \(the first in row 2\)"):
            table({"actions": "drug", "categories": ["drug"]}, drug=["low", None, "high", "low", "none"])
        many = {name: list(range(1001)) for name in stays()}
        with pytest.raises(uw.DatasetError, match="'dose': expected at most 1,000 categories, .* found 1,001"):
            uw.Dataset.from_frame(many, **{**LAYOUT, "categories": ["dose"]})
