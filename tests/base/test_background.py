"""Work beside the caller's own."""

import threading

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


def test_added_work_waits_and_its_caller_does_not() -> None:
    background, done, go = Background(), list[int](), threading.Event()
    for number in (1, 2, 3):
        background.add(lambda number=number: go.wait() and done.append(number))
    assert done == []
    go.set()
    background.wait()
    assert done == [1, 2, 3]
    go.clear()
    background.add(lambda: go.wait() and done.index(4))
    background.add(lambda: done.append(5))  # not after what failed
    go.set()
    with pytest.raises(ValueError, match="4 is not in list"):
        background.wait()
    go.clear()
    dropped = Background()
    dropped.add(lambda: go.wait() and done.append(8))
    dropped.add(lambda: done.append(9))
    dropped.drop()
    go.set()
    dropped.wait()
    assert done == [1, 2, 3, 8]
    background.add(lambda: done.index(6))
    while background.is_busy:
        pass
    with pytest.raises(ValueError, match="6 is not in list"):
        background.add(lambda: done.append(7))
    assert done == [1, 2, 3, 8]
