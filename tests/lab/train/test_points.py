"""Evaluation on the way: the same training, evaluated where it should be, whatever interrupts it."""

import json
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import upweight as uw
from support.datasets import cartpole_log
from support.training import dataset_for, parameters, small_config
from upweight.base.background import Background
from upweight.base.progress import listening
from upweight.lab.train import points as points_module
from upweight.lab.train.points import best_point

pytestmark = pytest.mark.slow

CARTPOLE = "CartPole-v1"


def runs(name: str = "discrete_bc", count: int = 2) -> list[uw.Run]:
    settings = {"learning_rate": 0.01} if name == "discrete_bc" else {}
    return [uw.Run(small_config(name, **settings), "rw", seed) for seed in range(count)]


@pytest.fixture(scope="module")
def log() -> uw.Dataset:
    return cartpole_log(0)


class Counted(uw.Evaluator):
    """Remembers how often each run played; raises at the third point if told to."""

    calls: ClassVar[list[list[int]]] = []
    fails_after: ClassVar[int] = 10**6

    def play(self, runs: Sequence[int], policies: Sequence[uw.Policy]) -> list[uw.Evaluation]:
        if len(self.calls) >= self.fails_after:
            raise KeyboardInterrupt
        self.calls.append([policy.metadata["num_updates"] for policy in policies])
        return super().play(runs, policies)


@pytest.fixture
def counted() -> Counted:
    Counted.calls, Counted.fails_after = [], 10**6
    return Counted(CARTPOLE, episodes=2, workers=1)


def test_the_training_is_the_same_and_the_last_point_is_its_evaluation(log: uw.Dataset, tmp_path: Path) -> None:
    plain = uw.train(log, runs(), num_updates=300)
    watched = uw.train(log, runs(), num_updates=300, evaluate_every=70, evaluate_with=CARTPOLE, output=tmp_path / "out")
    listed = uw.train(log, runs(), num_updates=300, evaluate_every=[280, 70], evaluate_with=CARTPOLE)
    assert [each.points for each in listed] == [[each.points[at] for at in (0, 3, 4)] for each in watched]
    for before, after in zip(plain, watched, strict=True):
        np.testing.assert_array_equal(parameters(before), parameters(after))
        assert before.metrics == after.metrics
        assert [point["updates"] for point in after.points] == [70, 140, 210, 280, 300]
        final = uw.evaluate(before.policy, CARTPOLE)
        assert after.points[-1] == {"updates": 300, **final.summary()}
    saved = json.loads((tmp_path / "out" / "results.json").read_text())["runs"]
    assert [run["points"] for run in saved] == [result.points for result in watched]
    assert "points" not in plain[0].to_dict()


def test_a_point_is_what_a_training_of_that_length_comes_to(log: uw.Dataset) -> None:
    (watched,) = uw.train(log, runs(count=1), num_updates=300, evaluate_every=100, evaluate_with=CARTPOLE)
    (short,) = uw.train(log, runs(count=1), num_updates=200)
    assert watched.points[1] == {"updates": 200, **uw.evaluate(short.policy, CARTPOLE).summary()}


def test_the_best_is_kept_and_marked(log: uw.Dataset, tmp_path: Path) -> None:
    results = uw.train(log, runs(), num_updates=200, evaluate_every=50, evaluate_with=CARTPOLE, output=tmp_path / "out")
    for number, result in enumerate(results):
        best = uw.load_policy(tmp_path / "out" / "best" / f"run-{number:03d}.safetensors")
        point = best_point(result.points)
        assert best.metadata["num_updates"] == point["updates"]
        assert uw.evaluate(best, CARTPOLE).summary() == {key: point[key] for key in ("score", "mean_return", "returns")}
        if point["updates"] < 200:
            assert best.metadata["chosen"] == "with the simulator, as the best of the points on the way"
    assert sorted(path.name for path in (tmp_path / "out" / "points").iterdir()) == [
        f"program-000-{updates}.json" for updates in (100, 150, 200, 50)
    ]


@pytest.mark.parametrize("beside", [False, True])
def test_what_was_played_is_kept_and_what_waits_is_played(
    log: uw.Dataset, tmp_path: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch, beside: bool
) -> None:
    monkeypatch.setattr(points_module, "_is_beside", lambda _: beside)
    options: dict[str, Any] = {"num_updates": 400, "evaluate_every": 100, "evaluate_with": counted}
    whole = uw.train(log, runs(), **options)
    Counted.calls, Counted.fails_after = [], 1
    options |= {"output": tmp_path / "out", "checkpoint_every_updates": 100}
    with pytest.raises(KeyboardInterrupt):
        uw.train(log, runs(), **options)
    assert list((tmp_path / "out" / "points").glob("program-000-*/run-000.safetensors"))  # it waits
    Counted.fails_after = 10**6
    again = uw.train(log, runs(), **options, resume=True)
    assert [result.points for result in again] == [result.points for result in whole]
    assert Counted.calls == [[updates] * 2 for updates in (100, 200, 300, 400)]
    once_more = uw.train(log, runs(), **options, resume=True)
    assert [result.points for result in once_more] == [result.points for result in whole]
    assert len(Counted.calls) == 4


def test_ctrl_c_leaves_what_is_played_at_once_and_loses_nothing(
    log: uw.Dataset, tmp_path: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"num_updates": 300, "evaluate_every": 100, "evaluate_with": counted}
    whole = uw.train(log, runs(), **options)
    options["output"] = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(Counted, "play", lambda *_: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            uw.train(log, runs(), **options)
    heard: list[Any] = []
    with listening(lambda *told: heard.append(told)):
        again = uw.train(log, runs(), **options, resume=True)
    assert next(told[1] for told in heard if told[0] == "discrete_bc x 2") == 100  # from the checkpoint of that moment
    assert [result.points for result in again] == [result.points for result in whole]


def test_points_play_beside_the_training(log: uw.Dataset, counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set()
    played = Counted.play

    def play(*args: Any) -> Any:
        threads.add(threading.current_thread())
        return played(*args)

    monkeypatch.setattr(points_module, "_is_beside", lambda _: True)
    monkeypatch.setattr(Counted, "play", play)
    beside = uw.train(log, runs(), num_updates=200, evaluate_every=50, evaluate_with=counted)
    assert threading.main_thread() not in threads
    monkeypatch.undo()
    in_turn = uw.train(log, runs(), num_updates=200, evaluate_every=50, evaluate_with=counted)
    assert [result.points for result in beside] == [result.points for result in in_turn]


def test_a_training_waits_for_no_point_until_its_end(
    log: uw.Dataset, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even for those of the program before."""
    trained, played = threading.Event(), Counted.play

    def play(*arguments: Any) -> Any:
        assert trained.wait(60)
        return played(*arguments)

    def listen(records: list[Any]) -> None:
        if {(1, 200)} <= {(record["run"], record["updates"]) for record in records}:
            trained.set()

    options: dict[str, Any] = {"num_updates": 200, "evaluate_every": 50, "evaluate_with": counted, "max_agents": 1}
    in_turn = uw.train(log, runs(), **options)
    monkeypatch.setattr(points_module, "_is_beside", lambda _: True)
    monkeypatch.setattr(Counted, "play", play)
    beside = uw.train(log, runs(), **options, callbacks=[listen])
    assert [result.points for result in beside] == [result.points for result in in_turn]


def test_a_training_that_breaks_off_waits_for_one_point(
    log: uw.Dataset, counted: Counted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The others wait on the disk."""
    broken, played, drop = threading.Event(), Counted.play, Background.drop

    def play(*arguments: Any) -> Any:
        assert broken.wait(60)
        return played(*arguments)

    def listen(records: list[Any]) -> None:
        if records[0]["updates"] == 300:
            raise ValueError("enough")

    def drop_and_tell(background: Background) -> None:
        drop(background)
        broken.set()

    monkeypatch.setattr(Background, "drop", drop_and_tell)

    monkeypatch.setattr(points_module, "_is_beside", lambda _: True)
    monkeypatch.setattr(Counted, "play", play)
    options: dict[str, Any] = {"evaluate_every": 100, "evaluate_with": counted, "output": tmp_path / "out"}
    with pytest.raises(ValueError, match="enough"):
        uw.train(log, runs(), num_updates=400, log_every_updates=100, callbacks=[listen], **options)
    found = sorted(path.name for path in (tmp_path / "out" / "points").iterdir())
    assert found == ["program-000-100.json", "program-000-200"]


def test_each_run_has_its_own_episodes_in_whatever_program_it_trains(log: uw.Dataset) -> None:
    """And with ``last=False`` the final policies are the caller's."""
    own = uw.Evaluator(CARTPOLE, episodes=[2, 3], seed=[5, 6], workers=1, last=False)
    options: dict[str, Any] = {"num_updates": 100, "evaluate_every": 50, "evaluate_with": own}
    results = uw.train(log, runs(), max_agents=1, **options)
    for result, episodes, seed in zip(results, (2, 3), (5, 6), strict=True):
        assert result.best is not None
        assert result.points == [{"updates": 50, **uw.evaluate(result.best, CARTPOLE, episodes, seed).summary()}]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"seed": [0, 1]}, r"seed: expected one for all runs, or one for each of 3, found 2"),
        ({"episodes": [1, 2, 3, 4]}, r"episodes: expected one for all runs, or one for each of 3, found 4"),
        ({"env_id": [CARTPOLE]}, r"env_id: expected one for all runs, or one for each of 3, found 1"),
        ({"episodes": [1, 2, 0]}, r"episodes: expected a whole number from 1"),
        ({"seed": [1, 2, -1]}, r"seed: expected a whole number"),
        ({"seed": (seed for seed in range(3))}, r"seed: expected a whole number"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_before_anything_is_trained(
    log: uw.Dataset, tmp_path: Path, how: dict[str, Any], message: str
) -> None:
    evaluator = uw.Evaluator(**{"env_id": CARTPOLE, **how})
    with pytest.raises(uw.RolloutError, match=message):
        uw.train(
            log, runs(count=3), num_updates=20, evaluate_every=10, evaluate_with=evaluator, output=tmp_path / "out"
        )
    assert not (tmp_path / "out").exists()


def test_a_training_that_was_begun_without_points_says_what_it_missed(
    log: uw.Dataset, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    uw.train(log, runs(), num_updates=200, output=tmp_path / "out")
    options: dict[str, Any] = {"evaluate_every": 50, "evaluate_with": CARTPOLE, "resume": True}
    results = uw.train(log, runs(), num_updates=200, output=tmp_path / "out", **options)
    assert [point["updates"] for point in results[0].points] == [200]
    assert "went past 3 points without being evaluated there" in caplog.text


def test_a_diverged_agent_has_no_more_points(log: uw.Dataset) -> None:
    bad = uw.Run(small_config("discrete_bc", learning_rate=1e38), "rw")
    lost, sound = uw.train(
        log, [bad, *runs(count=1)], num_updates=300, evaluate_every=100, evaluate_with=uw.Evaluator(CARTPOLE, 1)
    )
    assert lost.status == "diverged"
    assert [point["updates"] for point in lost.points] == [300]  # its policy at the end, as evaluate has it
    assert [point["updates"] for point in sound.points] == [100, 200, 300]


def test_the_environment_may_be_the_dataset_s(log: uw.Dataset) -> None:
    known = log.with_metadata(env_id=CARTPOLE)
    (result,) = uw.train(known, runs(count=1), num_updates=20, evaluate_every=10)
    assert len(result.points[0]["returns"]) == 20


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("discrete_bc", {"evaluate_every": 10}, "does not say which environment it is from"),
        (
            "discrete_bc",
            {"evaluate_every": 0, "evaluate_with": CARTPOLE},
            "evaluate_every: expected a whole number of at least 1",
        ),
        ("discrete_bc", {"evaluate_with": CARTPOLE}, "evaluate_with: needs evaluate_every"),
        ("discrete_bc", {"evaluate_every": 10, "evaluate_with": "CartPol-v1"}, "did you mean 'CartPole-v1"),
        (
            "discrete_bc",
            {"evaluate_every": 10, "evaluate_with": "Acrobot-v1"},
            "a policy of this training expects 4 obs",
        ),
        ("td3_bc", {"evaluate_every": 15, "evaluate_with": "Hopper-v5"}, "expected a multiple of 2, because td3_bc"),
        ("td3_bc", {"evaluate_every": [4, 5], "evaluate_with": "Hopper-v5"}, "expected a multiple of 2, .* found 5"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_written(
    log: uw.Dataset, tmp_path: Path, name: str, options: dict[str, Any], message: str
) -> None:
    dataset = log if name == "discrete_bc" else dataset_for(name)
    with pytest.raises(uw.UpweightError, match=message):
        uw.train(dataset, runs(name), num_updates=20, output=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_function_is_no_list_of_callbacks() -> None:
    with pytest.raises(uw.ConfigError, match="callbacks: expected a list of functions, found one"):
        uw.train(dataset_for("bc"), runs("bc"), num_updates=1, callbacks=print)  # type: ignore[arg-type]
