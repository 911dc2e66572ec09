"""Sizes in which a program is called."""

import pytest

from upweight.engine.population import choose_block, choose_chunk


@pytest.mark.parametrize("num_updates", [1, 7, 99, 100, 101, 250, 997, 5000, 1_000_000, 1_000_003])
@pytest.mark.parametrize("period", [1, 2])
def test_chunks(num_updates: int, period: int) -> None:
    chunk = choose_chunk(num_updates, period, None)
    assert chunk % period == 0 or chunk >= num_updates
    assert num_updates / 60 <= chunk <= max(num_updates, 100 + period)
    block = choose_block(chunk, period)
    assert 1 <= block <= max(100, period)
    if num_updates == 1_000_000:
        assert (chunk, block) == (20_000, 100)
