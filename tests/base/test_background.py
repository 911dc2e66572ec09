"""Work beside the caller's own."""

import pytest

from upweight.base.background import Background


def test_work_in_the_background() -> None:
    background, done = Background(), []
    background.start(lambda: done.append(1))
    background.start(lambda: done.append(2))  # after the first
    background.wait()
    assert done == [1, 2]
    background.start(lambda: done.index(3))
    with pytest.raises(ValueError, match="3 is not in list"):
        background.wait()
    background.wait()  # once


def test_leaving_the_block_waits_and_tells() -> None:
    done: list[int] = []
    with pytest.raises(ValueError, match="1 is not in list"), Background() as background:
        background.start(lambda: done.append(2))
        background.start(lambda: done.index(1))
    assert done == [2]
