"""Work in other processes: an ordered map that gives the same results with any number of workers.

The processes come from loky: they need no ``if __name__ == "__main__"`` guard and may be started after JAX. Each runs on one
thread, and gives way to other work on the cores: a training under way, or the user. They are kept for the next call;
and end after a while without work.
"""

import atexit
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sized
from concurrent.futures import BrokenExecutor, Future
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from upweight.base.checks import whole_number
from upweight.base.cores import usable_cores
from upweight.base.errors import RolloutError
from upweight.base.optional import require
from upweight.base.progress import report

Task = TypeVar("Task")
Result = TypeVar("Result")

_IDLE_SECONDS = 120
_LOOK_AHEAD = 16  # tasks handed out per worker: results leave in order, and behind a long one others must find work
_NICENESS = 5
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "BLIS_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
}
_executors: dict[int, Any] = {}  # by number of workers
_making = threading.Lock()  # one thread may evaluate while another collects


def run_tasks(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    *,
    workers: int | None = None,
    description: str = "playing",
) -> Generator[Result]:
    """``function`` of every task, in order, from ``workers`` processes (default: one per usable core).

    Tasks are taken from the iterable only a few ahead, so it may be endless: close the generator (or leave it) to stop. With
    one worker, or a single task, everything happens in this process. A task whose process dies is tried once more.
    """
    if workers is not None:
        workers = whole_number("workers", workers, least=1, error=RolloutError)
    total = len(tasks) if isinstance(tasks, Sized) else None
    count = min(workers or usable_cores(), total or 2**31)
    results = _in_this_process(function, tasks) if count <= 1 else _in_workers(function, tasks, count)
    return results if total is None else _reported(results, description, total)


def _reported(results: Generator[Result], description: str, total: int) -> Generator[Result]:
    report(description, 0, total)
    try:
        for done, result in enumerate(results, 1):
            report(description, done, total)
            yield result
    finally:
        results.close()


def _in_this_process(function: Callable[[Task], Result], tasks: Iterable[Task]) -> Generator[Result]:
    """With linear algebra on one thread, as in a worker: rounding may depend on the number of threads."""
    limits = _package("threadpoolctl").threadpool_limits
    for task in tasks:
        with limits(limits=1, user_api="blas"):
            result = function(task)
        yield result


@dataclass
class _Handed(Generic[Task]):
    """A task that was handed out."""

    task: Task
    executor: Any
    future: "Future[Any]"
    deaths: int = 0


def _in_workers(function: Callable[[Task], Result], tasks: Iterable[Task], count: int) -> Generator[Result]:
    handed: deque[_Handed[Task]] = deque()
    upcoming = iter(tasks)
    try:
        while True:
            for task in islice(upcoming, _LOOK_AHEAD * count - len(handed)):
                handed.append(_Handed(task, *_submit(function, task, count)))
            if not handed:
                return
            try:
                result = handed[0].future.result()
            except BrokenExecutor as error:
                _try_again(function, handed, count, error)
                continue
            handed.popleft()
            yield result
    except KeyboardInterrupt:
        if (executor := _executors.pop(count, None)) is not None:
            executor.shutdown(wait=False, kill_workers=True)
            handed.clear()  # loky ends them, and stumbles over futures that were cancelled
        raise
    finally:
        for entry in handed:
            entry.future.cancel()


def _submit(function: Callable[[Task], Result], task: Task, count: int) -> tuple[Any, "Future[Any]"]:
    executor, work = _executor(count), (_import_from, list(sys.path), function, task)
    try:
        return executor, executor.submit(*work)
    except BrokenExecutor:  # since the last call, for instance
        _discard(executor, count)
        executor = _executor(count)
        return executor, executor.submit(*work)


def _import_from(path: list[str], function: Callable[[Task], Result], task: Task) -> Result:
    """In a worker: modules are found where they are found now, and not only where they were when it began."""
    sys.path[:] = path
    return function(task)


def _try_again(function: Callable[[Task], Result], handed: deque[_Handed[Task]], count: int, error: Exception) -> None:
    """Hand the tasks that were lost with the first task's executor to a new one."""
    broken = handed[0].executor
    _discard(broken, count)
    if handed[0].deaths:
        raise RolloutError(
            "a worker process died twice over the same work, perhaps for lack of memory; use fewer workers, or workers=1 to "
            f"see what happens ({' '.join(str(error).split())})"
        ) from None
    for entry in handed:
        finished = entry.future.done() and not isinstance(entry.future.exception(), BrokenExecutor)
        if entry.executor is broken and not finished:
            entry.executor, entry.future = _submit(function, entry.task, count)
            entry.deaths += 1


def _executor(count: int) -> Any:
    with _making:
        if count not in _executors:
            loky = _package("loky")
            _executors[count] = loky.ProcessPoolExecutor(
                max_workers=count, timeout=_IDLE_SECONDS, env=_ONE_THREAD, initializer=_step_back
            )
        return _executors[count]


def _step_back() -> None:
    if hasattr(os, "nice"):
        os.nice(_NICENESS)


def _discard(executor: Any, count: int) -> None:
    if _executors.get(count) is executor:
        del _executors[count]


@atexit.register
def _close_executors() -> None:
    """Before the interpreter takes loky apart."""
    while _executors:
        _executors.popitem()[1].shutdown(wait=True, kill_workers=True)


def _package(name: str) -> Any:
    return require(name, extra="mujoco", purpose="playing episodes")
