import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import upweight as uw
from upweight.base.cores import usable_cores
from upweight.base.progress import listening
from upweight.lab.play.processes import _step_back, run_tasks


def slow_square(number: int) -> int:
    time.sleep(0.05 if number % 3 == 0 else 0.0)
    return number * number


def own_process(_: int) -> int:
    return os.getpid()


def fail_at_three(number: int) -> int:
    if number == 3:
        raise uw.RolloutError("three")
    return number


def first_waits_for_last(task: tuple[int, str]) -> int:
    """The first task ends when the twentieth has been done."""
    number, marker = task
    if number == 19:
        Path(marker).touch()
    deadline = time.monotonic() + 30
    while number == 0 and not Path(marker).exists():
        assert time.monotonic() < deadline, "nobody did the last task"
        time.sleep(0.01)
    return number


def die_once(task: tuple[int, str]) -> int:
    number, marker = task
    if number == 2 and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die_always(number: int) -> int:
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def niceness(_: int) -> int:
    return os.nice(0)


def threads(_: int) -> dict[str, str | None]:
    return {name: os.environ.get(f"{name}_NUM_THREADS") for name in ("OMP", "OPENBLAS", "MKL")}


def test_behind_a_long_task_the_others_are_done(tmp_path: Path) -> None:
    tasks = [(number, str(tmp_path / "done")) for number in range(20)]
    assert list(run_tasks(first_waits_for_last, tasks, workers=2)) == list(range(20))


@pytest.mark.parametrize("workers", [1, 2])
class TestAnyNumberOfWorkers:
    def test_results_come_in_order(self, workers: int) -> None:
        assert list(run_tasks(slow_square, range(10), workers=workers)) == [number**2 for number in range(10)]

    def test_progress_is_reported(self, workers: int) -> None:
        heard: list[tuple[str, int, int, str]] = []
        with listening(lambda *entry: heard.append(entry)):
            list(run_tasks(slow_square, range(4), workers=workers, description="squares"))
        assert heard == [("squares", done, 4, "") for done in range(5)]

    def test_errors_arrive_and_the_pool_lives_on(self, workers: int) -> None:
        with pytest.raises(uw.RolloutError, match="three"):
            list(run_tasks(fail_at_three, range(6), workers=workers))
        assert list(run_tasks(fail_at_three, range(3), workers=workers)) == [0, 1, 2]

    def test_endless_tasks_may_be_left(self, workers: int) -> None:
        taken = []

        def numbers() -> Iterator[int]:
            number = 0
            while True:
                taken.append(number)
                yield number
                number += 1

        results = run_tasks(slow_square, numbers(), workers=workers)
        assert [next(results) for _ in range(5)] == [0, 1, 4, 9, 16]
        results.close()
        assert len(taken) <= 5 + 16 * workers


def test_the_pool_is_kept_and_single_threaded() -> None:
    first, second = (set(run_tasks(own_process, range(8), workers=2)) for _ in range(2))
    assert os.getpid() not in first | second
    assert len(first | second) <= 2
    assert next(run_tasks(threads, range(2), workers=2)) == {"OMP": "1", "OPENBLAS": "1", "MKL": "1"}


def test_one_task_needs_no_process() -> None:
    assert list(run_tasks(own_process, [0], workers=2)) == [os.getpid()]
    assert list(run_tasks(own_process, [], workers=2)) == []
    assert usable_cores() >= 1


def test_workers_leave_the_cores_to_others() -> None:
    assert set(run_tasks(niceness, range(4), workers=2)) == {min(19, os.nice(0) + 5)}


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_bad_workers(workers: int) -> None:
    with pytest.raises(uw.RolloutError, match="workers: expected a whole number of at least 1"):
        run_tasks(own_process, range(2), workers=workers)


def test_systems_without_niceness_or_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has neither, macOS no affinity."""
    for name in ("nice", "sched_getaffinity"):
        monkeypatch.delattr(os, name)
    assert usable_cores() == os.cpu_count()
    _step_back()


class TestDeath:
    def test_lost_work_is_done_again(self, tmp_path: Path) -> None:
        tasks = [(number, str(tmp_path / "died")) for number in range(8)]
        assert list(run_tasks(die_once, tasks, workers=2)) == list(range(8))
        assert (tmp_path / "died").exists()

    def test_twice_is_an_error(self) -> None:
        with pytest.raises(uw.RolloutError, match="died twice over the same work.*fewer workers"):
            list(run_tasks(die_always, range(4), workers=2))
        assert list(run_tasks(slow_square, range(3), workers=2)) == [0, 1, 4]

    def test_between_calls(self) -> None:
        (victim, *_) = run_tasks(own_process, range(4), workers=2)
        os.kill(victim, signal.SIGKILL)
        time.sleep(0.2)
        assert list(run_tasks(slow_square, range(3), workers=2)) == [0, 1, 4]


def test_an_interrupt_ends_it_quietly(tmp_path: Path) -> None:
    script, mark = tmp_path / "script.py", tmp_path / "started"
    script.write_text(f"""
import time
from pathlib import Path
from upweight.lab.play.processes import run_tasks
def work(number):
    Path({str(mark)!r}).touch()
    time.sleep(0.2)
try:
    list(run_tasks(work, range(200), workers=2))
except KeyboardInterrupt:
    print("stopped")
""")
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not mark.exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30) == ("stopped\n", "")


def test_a_script_needs_no_main_guard(tmp_path: Path) -> None:
    """Also when JAX is at work in the parent, and with an environment that only the script knows."""
    script = tmp_path / "script.py"
    script.write_text("""
import gymnasium
import jax.numpy as jnp
import numpy as np
from gymnasium.envs.classic_control import CartPoleEnv
import upweight as uw
jnp.ones(3).sum().block_until_ready()
class Short(CartPoleEnv):
    pass
gymnasium.register("script/Short-v0", entry_point=Short, max_episode_steps=7)
layer = (np.zeros((4, 2), np.float32), np.array([0, 1], np.float32))
policy = uw.Policy("greedy", (layer,), np.zeros(4, np.float32), np.ones(4, np.float32))
print(uw.evaluate(policy, "script/Short-v0", 20, workers=2).lengths.tolist())
""")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=120)
    assert done.stderr == ""
    assert done.stdout == f"{[7] * 20}\n"
