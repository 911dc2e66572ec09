"""Trainings under way: nobody takes what somebody else has, and nothing is lost when somebody dies."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from support.results import data_spec, write_finished
from upweight.lab.study.run_spec import RunSpec
from upweight.lab.study.store import Store
from upweight.lab.sweep.packing import Population, pack
from upweight.lab.sweep.work import Work, Workplace

RUNS = tuple(
    RunSpec(data_spec("cartpole-random"), "discrete_bc", {}, {"name": "uniform"}, seed, 100, "float32", 1)
    for seed in range(8)
)


Take = Callable[[tuple[RunSpec, ...]], Workplace]


@pytest.fixture
def take(store: Store) -> Iterator[Take]:
    """Takes runs; what was not released at the end of a test is."""
    taken: list[Workplace] = []

    def take(runs: tuple[RunSpec, ...]) -> Workplace:
        workplace = Work(store).take(Population(runs))
        assert workplace is not None
        taken.append(workplace)
        return workplace

    yield take
    for workplace in taken:
        workplace.release()


def test_who_takes_runs_leaves_out_what_others_did_or_began(store: Store, take: Take) -> None:
    work = Work(store)
    write_finished(store, RUNS[0])
    theirs = take(RUNS[1:3])
    assert theirs.population.runs == RUNS[1:3]
    assert take(RUNS[:4]).population.runs == RUNS[3:4]
    for others in (RUNS[:3], RUNS[1:3], RUNS[:4]):  # somebody is at it
        assert work.take(Population(others)) is None
    theirs.release()
    again = take(RUNS[1:3])  # who died is succeeded
    assert again.folder == theirs.folder and again.population == theirs.population
    work.end(again)
    assert not again.folder.exists() and [population.runs for population in work.begun()] == [RUNS[3:4]]


def test_a_finished_population_that_was_not_cleared_away(store: Store, take: Take) -> None:
    workplace = take(RUNS[:2])
    for run in RUNS[:2]:
        write_finished(store, run)
    workplace.release()
    assert Work(store).take(Population(RUNS[:2])) is None
    assert not workplace.folder.exists()


def test_many_sweeps_of_other_packings_do_every_run_once(store: Store) -> None:
    trained: list[str] = []

    def sweep(size: int) -> None:
        work = Work(store)
        for population in pack(RUNS, max_agents=size):
            workplace = work.take(population)
            if workplace is None:
                continue
            time.sleep(0.005)
            for run in workplace.population.runs:
                trained.append(run.run_id)
                write_finished(store, run)
            work.end(workplace)

    threads = [threading.Thread(target=sweep, args=(size,)) for size in (1, 2, 3, 4, 5, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(trained) == sorted(run.run_id for run in RUNS)
    assert list((store.path / "work").iterdir()) == []


def test_looking_changes_nothing(store: Store, take: Take) -> None:
    foreign = store.path / "work" / "theirs"
    foreign.mkdir()  # without a note: perhaps it is being written
    ours, users = store.path / "work" / ".upweight-begun", store.path / "work" / ".git"
    ours.mkdir()
    users.mkdir()
    assert Work(store).begun() == [] and foreign.exists() and ours.exists()
    assert take(RUNS).folder.exists()
    assert not ours.exists()  # folders are begun by one at a time: its maker died
    assert foreign.exists() and users.exists()


def test_what_the_dead_left_is_cleared_away(store: Store, take: Take) -> None:
    """A folder whose runs are all stored, and files half written, if they are old; but nothing that somebody works in."""
    workplaces = [take(RUNS[:2]), take(RUNS[2:])]
    for run in RUNS:
        write_finished(store, run)
    old, new = store.path / "datasets" / ".upweight-old", store.path / "runs" / ".upweight-new"
    old.mkdir()
    new.mkdir()
    os.utime(old, (0, 0))
    assert Work(store).take(Population(RUNS)) is None
    for workplace in workplaces:
        assert workplace.folder.exists()  # they are at it
        workplace.release()
    assert Work(store).take(Population(RUNS)) is None
    assert list((store.path / "work").iterdir()) == []
    assert new.exists() and not old.exists()


@pytest.mark.parametrize(
    "note", ["", "{", "[1]", "{}", '{"runs": 3}', '{"runs": [{}]}', '{"runs": []}', '{"runs": null}']
)
def test_a_damaged_folder_is_begun_anew(store: Store, take: Take, caplog: pytest.LogCaptureFixture, note: str) -> None:
    population = Population(RUNS)
    folder = store.path / "work" / population.population_id
    folder.mkdir()
    (folder / "population.json").write_text(note)
    (folder / "program-000.safetensors").write_text("of what?")
    assert Work(store).begun() == []
    with caplog.at_level(logging.WARNING, "upweight"):
        assert not list(take(RUNS).folder.glob("program-*"))
    assert f"{folder}: damaged; the training starts again" in caplog.text
    assert Work(store).begun() == [population]


def test_a_note_of_another_version_is_not_gone_on_with(store: Store, take: Take) -> None:
    note = take(RUNS).folder / "population.json"
    note.write_text(note.read_text().replace('"format": 1', '"format": 2'))
    assert Work(store).begun() == []


def test_the_time_of_slices_is_summed(store: Store, take: Take) -> None:
    workplace = take(RUNS)
    assert [workplace.add_time(seconds) for seconds in (2.5, 4.0)] == [2.5, 6.5]
    (workplace.folder / "time.json").write_text("{")  # cut short
    assert workplace.add_time(1.0) == 1.0
    (workplace.folder / "plan.json").write_text("{}")
    (workplace.folder / "policies").mkdir()
    workplace.forget_progress()
    assert {entry.name for entry in workplace.folder.iterdir()} == {"population.json", "lock"}
    assert workplace.add_time(1.0) == 1.0 and Work(store).begun() == [workplace.population]
