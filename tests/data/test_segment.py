import numpy as np
import pytest
from hypothesis import given, strategies as st

from upweight.base.errors import DatasetError
from upweight.data.segment import segment, segment_by_id


def flags(text: str) -> np.ndarray:
    return np.array([letter == "X" for letter in text.replace("|", "").replace(" ", "")])


def test_the_picture_in_the_docstring() -> None:
    episodes = segment(flags("..X|..|...|.."), flags("...|.X|..X|.."), next_known=False, source="log")
    assert episodes.lengths.tolist() == [3, 2, 3, 2]
    assert episodes.starts.tolist() == [0, 3, 5, 8]
    assert episodes.terminated.tolist() == [True, False, False, False]
    assert episodes.truncated.tolist() == [False, True, True, False]
    assert episodes.complete.tolist() == [True, True, True, False]
    assert episodes.num_transitions.tolist() == [3, 1, 2, 1]


def test_known_next_observations_make_every_step_trainable() -> None:
    episodes = segment(flags("..X|..|.."), flags("...|.X|.."), next_known=True, source="log")
    assert episodes.num_transitions.tolist() == episodes.lengths.tolist() == [3, 2, 2]


def test_terminated_wins_where_both_flags_are_set() -> None:
    episodes = segment(flags(".X"), flags(".X"), next_known=False, source="log")
    assert episodes.terminated.tolist() == [True]
    assert episodes.truncated.tolist() == [False]


def test_truncated_may_be_absent_where_something_terminates() -> None:
    assert segment(flags(".X.X"), None, next_known=False, source="log").lengths.tolist() == [2, 2]


@pytest.mark.parametrize("truncated", [None, np.zeros(4, bool)])
def test_no_end_flag_at_all_is_an_error(truncated: np.ndarray | None) -> None:
    with pytest.raises(DatasetError, match=r"log: expected at least one episode end"):
        segment(np.zeros(4, bool), truncated, next_known=False, source="log")


def test_an_empty_log_is_an_error() -> None:
    with pytest.raises(DatasetError, match="found none"):
        segment(np.zeros(0, bool), None, next_known=False, source="log")


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60), st.booleans())
def test_episodes_tile_the_log_and_end_at_flags(steps: list[tuple[bool, bool]], known: bool) -> None:
    terminated, truncated = np.array(steps).T
    if not (terminated | truncated).any():
        return
    episodes = segment(terminated, truncated, next_known=known, source="log")
    assert episodes.lengths.sum() == len(steps)
    assert (episodes.lengths >= 1).all()
    ends = np.flatnonzero(terminated | truncated)
    assert set(ends) <= set(episodes.last_steps)
    assert set(episodes.last_steps) - set(ends) <= {len(steps) - 1}
    assert not (episodes.terminated & episodes.truncated).any()
    assert (episodes.num_transitions <= episodes.lengths).all()
    assert (episodes.num_transitions >= episodes.lengths - 1).all()


class TestById:
    def test_an_id_without_flags_is_truncated(self) -> None:
        episodes = segment_by_id(np.array([7, 7, 3, 3]), flags("...X"), None, next_known=False, source="log")
        assert episodes.lengths.tolist() == [2, 2]
        assert episodes.truncated.tolist() == [True, False]
        assert episodes.complete.all()

    def test_with_truncation_flags_an_unflagged_end_is_incomplete(self) -> None:
        episodes = segment_by_id(np.array([0, 0, 1, 1]), flags("...."), flags(".X.."), next_known=False, source="log")
        assert episodes.complete.tolist() == [True, False]

    def test_an_id_that_comes_back_is_an_error(self) -> None:
        with pytest.raises(DatasetError, match="sort by episode"):
            segment_by_id(np.array([0, 1, 0]), flags("..."), None, next_known=False, source="log")

    def test_an_end_flag_inside_an_episode_is_an_error(self) -> None:
        with pytest.raises(DatasetError, match="step 0 is flagged as an end"):
            segment_by_id(np.array([0, 0]), flags("X."), None, next_known=False, source="log")
