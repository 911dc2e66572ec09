"""Trainings under way: nobody takes what somebody else has, and nothing is lost when somebody dies."""

import json
import logging
import os
import threading
import time
from pathlib import Path

import pytest

from support.finished_runs import write_finished
from support.results import data_spec
from upweight.studies.run_spec import RunSpec
from upweight.studies.store import Store
from upweight.sweeps.packing import Population, pack
from upweight.sweeps.work import Work

RUNS = tuple(
    RunSpec(data_spec("cartpole-random"), "discrete_bc", {}, {"name": "uniform"}, seed, 100, "float32", 1)
    for seed in range(8)
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store", create=True)


def test_a_claim_leaves_out_what_others_did_or_began(store: Store) -> None:
    work = Work(store)
    write_finished(store, RUNS[0])
    with work.claim(Population(RUNS[1:3])) as theirs:
        assert theirs is not None and theirs.population.runs == RUNS[1:3]
        with work.claim(Population(RUNS[:4])) as mine:
            assert mine is not None and mine.population.runs == RUNS[3:4]
        with work.claim(Population(RUNS[:3])) as nothing:
            assert nothing is None
        with work.claim(Population(RUNS[1:3])) as nothing:  # somebody is at it
            assert nothing is None
    with work.claim(Population(RUNS[1:3])) as again:  # who died is succeeded
        assert again == theirs
        work.end(again)
    assert [population.runs for population in work.begun()] == [RUNS[3:4]]


def test_a_finished_population_that_was_not_cleared_away(store: Store) -> None:
    work = Work(store)
    with work.claim(Population(RUNS[:2])) as claim:
        assert claim is not None
        for run in RUNS[:2]:
            write_finished(store, run)
    with work.claim(Population(RUNS[:2])) as nothing:
        assert nothing is None
    assert not claim.folder.exists()


def test_many_sweeps_of_other_packings_do_every_run_once(store: Store) -> None:
    trained: list[str] = []

    def sweep(size: int) -> None:
        work = Work(store)
        for population in pack(RUNS, max_agents=size):
            with work.claim(population) as claim:
                if claim is None:
                    continue
                time.sleep(0.005)
                for run in claim.population.runs:
                    trained.append(run.run_id)
                    write_finished(store, run)
                work.end(claim)

    threads = [threading.Thread(target=sweep, args=(size,)) for size in (1, 2, 3, 4, 5, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(trained) == sorted(run.run_id for run in RUNS)
    assert list((store.path / "work").iterdir()) == []


def test_looking_changes_nothing(store: Store) -> None:
    foreign = store.path / "work" / "theirs"
    foreign.mkdir()  # without a note: perhaps it is being written
    ours, users = store.path / "work" / ".upweight-begun", store.path / "work" / ".git"
    ours.mkdir()
    users.mkdir()
    assert Work(store).begun() == [] and foreign.exists() and ours.exists()
    with Work(store).claim(Population(RUNS)) as claim:
        assert claim is not None and claim.folder.exists()
    assert not ours.exists()  # folders are begun by one at a time: its maker died
    assert foreign.exists() and users.exists()


def test_what_the_dead_left_is_cleared_away(store: Store) -> None:
    """A folder whose runs are all stored, and files half written, if they are old; but nothing that somebody works in."""
    done, others = Population(RUNS[:2]), Population(RUNS[2:])
    with Work(store).claim(done) as claim, Work(store).claim(others) as beside:
        assert claim is not None and beside is not None
        for run in RUNS:
            write_finished(store, run)
        old, new = store.path / "datasets" / ".upweight-old", store.path / "runs" / ".upweight-new"
        old.mkdir()
        new.mkdir()
        os.utime(old, (0, 0))
        with Work(store).claim(Population(RUNS)) as nothing:
            assert nothing is None
        assert claim.folder.exists() and beside.folder.exists()  # they are at it
    with Work(store).claim(Population(RUNS)) as nothing:
        assert nothing is None
    assert list((store.path / "work").iterdir()) == []
    assert new.exists() and not old.exists()


@pytest.mark.parametrize(
    "note", ["", "{", "[1]", "{}", '{"runs": 3}', '{"runs": [{}]}', '{"runs": []}', '{"runs": null}']
)
def test_a_damaged_folder_is_begun_anew(store: Store, caplog: pytest.LogCaptureFixture, note: str) -> None:
    population = Population(RUNS)
    folder = store.path / "work" / population.population_id
    folder.mkdir()
    (folder / "population.json").write_text(note)
    (folder / "program-000.safetensors").write_text("of what?")
    assert Work(store).begun() == []
    with caplog.at_level(logging.WARNING, "upweight"), Work(store).claim(population) as claim:
        assert claim is not None and not (claim.folder / "program-000.safetensors").exists()
    assert f"{folder}: damaged; the training begins anew" in caplog.text
    assert Work(store).begun() == [population]


def test_a_note_of_another_version_is_not_gone_on_with(store: Store) -> None:
    with Work(store).claim(Population(RUNS)) as claim:
        assert claim is not None
    note = claim.folder / "population.json"
    note.write_text(note.read_text().replace('"format": 1', '"format": 2'))
    assert Work(store).begun() == []


def test_the_time_of_slices_is_summed(store: Store) -> None:
    with Work(store).claim(Population(RUNS)) as claim:
        assert claim is not None
    assert [claim.add_time(seconds) for seconds in (2.5, 4.0)] == [2.5, 6.5]
    (claim.folder / "time.json").write_text("{")  # cut short
    assert claim.add_time(1.0) == 1.0
    (claim.folder / "plan.json").write_text("{}")
    claim.forget_progress()
    assert not (claim.folder / "plan.json").exists() and Work(store).begun() == [claim.population]


def test_how_far_a_training_is(store: Store) -> None:
    population = Population(RUNS[:2])
    assert Work(store).share_done(population) == 0.0
    with Work(store).claim(population) as claim:
        assert claim is not None
    lines = [json.dumps({"run": run, "updates": updates}) for run, updates in ((0, 10), (1, 10), (0, 20), (1, 40))]
    (claim.folder / "metrics.jsonl").write_text("\n".join([*lines, '{"run": 1, "upd']))
    assert Work(store).share_done(population) == (20 + 40) / 200
