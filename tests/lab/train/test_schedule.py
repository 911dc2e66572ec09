"""Where a training logs, checks and can be stopped."""

from dataclasses import replace

import pytest

import upweight as uw
from upweight.lab.train.algorithm import find_algorithm
from upweight.lab.train.point_list import points_before
from upweight.lab.train.schedule import Piece, Schedule, choose_block, choose_interval, make_schedule

COUNTS = [1, 7, 99, 100, 101, 202, 250, 997, 5000]


@pytest.mark.parametrize("num_updates", [*COUNTS, 1_000_000, 1_000_003])
@pytest.mark.parametrize("period", [1, 2])
def test_intervals_and_blocks(num_updates: int, period: int) -> None:
    interval = choose_interval(num_updates, period, None)
    assert interval % period == 0 or interval >= num_updates
    assert num_updates / 60 <= interval <= max(num_updates, 100 + period)
    block = choose_block(interval, period)
    assert block % period == 0
    assert min(25, interval - interval % period) <= block <= max(100, period)  # a call of the device for each, or less
    if num_updates == 1_000_000:
        assert (interval, block) == (20_000, 100)


@pytest.mark.parametrize("num_updates", COUNTS)
@pytest.mark.parametrize("log_every", [None, 1, 30, 101])
@pytest.mark.parametrize("name", ["bc", "td3_bc", "cql"])
def test_pieces_are_whole_periods_and_end_blocks_and_intervals(
    num_updates: int, log_every: int | None, name: str
) -> None:
    config = uw.algorithm_config(name)
    schedule = make_schedule(num_updates, log_every, find_algorithm(name), config, num_agents=3)
    period, done, block_began = find_algorithm(name).period(config), 0, 0
    sizes, blocks = set(), set()
    while done < num_updates:
        for piece in schedule.pieces(done):
            assert piece.first == done and done % period == 0
            assert piece.ends_block or piece.size == schedule.piece
            sizes.add(piece.size)
            done = piece.end
            if piece.ends_block:
                blocks.add(done - block_began)
                block_began = done
        assert block_began == done  # an interval ends with a block
        assert done % schedule.interval == 0 or done == num_updates
    assert done == num_updates and max(blocks) <= 100
    assert len(sizes) <= 3  # to be compiled: a whole one, what is left of a block, what is left of the training


def test_pieces_go_on_from_anywhere() -> None:
    schedule = Schedule(num_updates=1050, interval=500, block=100, piece=40)
    everything = [piece for start in (0, 500, 1000) for piece in schedule.pieces(start)]
    for place, piece in enumerate(everything):
        assert next(schedule.pieces(piece.first)) == everything[place]
    assert everything[:3] == [Piece(0, 40, False), Piece(40, 40, False), Piece(80, 20, True)]
    assert everything[-2:] == [Piece(1000, 40, False), Piece(1040, 10, True)]


@pytest.mark.parametrize("every", [70, 500, [250, 30, 999, 1000, 4000]])
def test_pieces_end_where_policies_are_evaluated_and_blocks_stay(every: int | list[int]) -> None:
    plain = Schedule(num_updates=1000, interval=500, block=100, piece=40)
    watched = replace(plain, points=points_before(every, 1000))
    done, ends, blocks = 0, [], []
    while done < 1000:
        for piece in watched.pieces(done):
            done = piece.end
            ends.append(done)
            blocks += [done] if piece.ends_block else []
    assert list(watched.points) == ([30, 250, 999] if isinstance(every, list) else [*range(every, 1000, every)])
    assert set(watched.points) <= set(ends) and blocks == list(range(100, 1001, 100))


def test_what_takes_long_is_cut_into_single_updates() -> None:
    """A hundred agents of CQL take seconds per update on a CPU, a small BC takes none."""
    for name, agents, expected in (("cql", 100, 1), ("td3_bc", 1000, 2), ("bc", 1, 100)):
        found = make_schedule(100_000, None, find_algorithm(name), uw.algorithm_config(name), agents).piece
        assert found == expected
