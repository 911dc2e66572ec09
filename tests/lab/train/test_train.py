"""Trainings as a user starts them."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import upweight as uw
from support.datasets import random_dataset, with_arrays, with_returns
from support.training import SMALL, build, dataset_for, draws, parameters, small_config
from upweight.base.errors import CheckpointError
from upweight.base.progress import listening
from upweight.data.fingerprint import fingerprint
from upweight.data.holdout import held_out_episodes
from upweight.lab.train import (
    advance as advance_module,
    plan as plan_module,
    schedule as schedule_module,
    train as train_module,
)
from upweight.policies.safetensors_file import read_safetensors

pytestmark = pytest.mark.slow


def test_results_come_in_the_order_of_the_runs() -> None:
    ds = dataset_for("bc")
    configs = [small_config("bc"), small_config("td3_bc"), small_config("bc", learning_rate=1e-2)]
    results = uw.train(ds, [uw.Run(c, "rw", seed) for seed, c in enumerate(configs)], num_updates=20)
    assert [result.run.method.name for result in results] == ["bc", "td3_bc", "bc"]
    assert [result.run.seed for result in results] == [0, 1, 2]


def test_a_population_is_split_to_fit_and_gives_the_same() -> None:
    ds = dataset_for("bc")
    runs = [uw.Run(small_config("bc"), "rw", seed) for seed in range(5)]
    plan = uw.plan_training(ds, runs, max_agents=2)
    assert [len(part.runs) for part in plan.programs] == [2, 2, 1]
    assert "per agent" in str(plan)
    whole = uw.train(ds, runs, num_updates=50, precision="float64")
    split = uw.train(ds, runs, num_updates=50, precision="float64", max_agents=2)
    for one, other in zip(whole, split, strict=True):
        np.testing.assert_allclose(parameters(one), parameters(other), atol=1e-6)


def test_an_agent_that_diverges_is_flagged_frozen_and_alone() -> None:
    ds = dataset_for("bc")
    good, bad = uw.Run(small_config("bc"), "rw", 0), uw.Run(small_config("bc", learning_rate=1e38), "rw", 1)
    alone = uw.train(ds, [good], num_updates=150)[0]
    fine, lost = uw.train(ds, [good, bad], num_updates=150)
    assert fine.status == "finished"
    np.testing.assert_allclose(parameters(fine), parameters(alone), atol=1e-4)
    assert lost.status == "diverged"
    assert lost.diverged_at is not None and 0 < lost.diverged_at < 50
    assert np.isfinite(parameters(lost)).all()  # as it was before


def test_the_updates_of_an_agent_that_diverged_are_those_its_policy_had() -> None:
    """It is put back to where its block of updates began."""
    ds = dataset_for("td3_bc")
    rewards = np.array(ds.rewards)
    rewards[ds.starts[3]] = 1e30  # its square is too much, when it is drawn
    hard = with_arrays(ds, rewards=rewards)
    run = uw.Run(small_config("td3_bc"), "uniform", 4)
    (lost,) = uw.train(hard, [run], num_updates=60, log_every_updates=4)
    assert lost.diverged_at is not None and lost.diverged_at % 4 != 0 and lost.diverged_at > 4
    assert lost.updates == lost.diverged_at // 4 * 4
    (before,) = uw.train(hard, [run], num_updates=lost.updates)
    assert before.status == "finished" and before.updates == lost.updates
    np.testing.assert_allclose(parameters(before), parameters(lost), rtol=0, atol=1e-4)  # a third of one update


def test_runs_on_parts_of_one_pool_train_in_one_program() -> None:
    pool = dataset_for("td3_bc")
    first, second = np.arange(10), np.array([20, 21, 21, 25])
    runs = [uw.Run(small_config("td3_bc"), uw.ReturnWeighting(0.5), 0, episodes=part) for part in (first, second)]
    assert len(uw.plan_training(pool, runs).programs) == 1
    together = build(runs, pool)
    agents, drawn = together[1], draws(together, 300)
    episodes = np.searchsorted(pool.starts, drawn, side="right") - 1  # [2, 300 B]
    for place, part in enumerate((first, second)):
        own = pool.subset(part)
        built = build([uw.Run(small_config("td3_bc"), uw.ReturnWeighting(0.5), 0)], own)
        alone = built[1]
        np.testing.assert_allclose(agents.observation_mean[place], alone.observation_mean[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(agents.observation_scale[place], alone.observation_scale[0], rtol=1e-5)
        assert set(episodes[place]) <= set(part.tolist())
        apart = draws(built, 300)[0]  # the very same steps as from a dataset of its own
        local = np.searchsorted(own.starts, apart, side="right") - 1
        np.testing.assert_array_equal(pool.starts[part[local]] + apart - own.starts[local], drawn[place])
    counts = np.bincount(episodes[1], minlength=pool.num_episodes)
    p = uw.EpisodeSampler(pool.subset(second), uw.ReturnWeighting(0.5))
    mass = np.add.reduceat(p.probabilities(), pool.subset(second).starts)
    np.testing.assert_allclose(counts[21] / counts.sum(), mass[1] + mass[2], atol=0.05)


def test_held_out_episodes_are_not_learned_from(tmp_path: Path) -> None:
    """Neither by the agents, nor by their weights and normalisers; weights that were given are those of the others."""
    ds = dataset_for("bc", labels=True)
    held = held_out_episodes(ds, 0.2)
    kept = np.setdiff1d(np.arange(30), held)
    config, weights = small_config("bc", normalize_observations=True), np.arange(30.0)
    some = np.arange(5, 25)
    runs = [uw.Run(config, "rw"), uw.Run(config, weights), uw.Run(config, weights[some], episodes=some)]
    results = uw.train(ds, runs, num_updates=40, holdout=0.2, output=tmp_path / "runs")
    chosen = [kept, kept, np.intersect1d(some, kept)]
    given = ["rw", weights[chosen[1]], weights[chosen[2]]]
    likes = [uw.Run(config, *each) for each in zip(given, [0] * 3, chosen, strict=True)]
    for result, like in zip(results, uw.train(ds, likes, num_updates=40), strict=True):
        np.testing.assert_array_equal(parameters(result), parameters(like))
        assert result.holdout is not None and result.holdout.tolist() == held.tolist() and like.holdout is None
    plan = json.loads((tmp_path / "runs" / "plan.json").read_text())
    assert plan["holdout"] == held.tolist() and plan["dataset"]["fingerprint"] == fingerprint(ds)
    again = uw.train(ds, runs, num_updates=40, holdout=held, output=tmp_path / "runs", resume=True)
    assert [result.run.to_dict() for result in again] == [result.run.to_dict() for result in results]
    with pytest.raises(uw.UpweightError, match="holds another training"):
        uw.train(ds, runs, num_updates=40, output=tmp_path / "runs", resume=True)
    with pytest.raises(uw.ConfigError, match="all 2 episodes of a run are held out"):
        uw.train(ds, [uw.Run(config, episodes=[1, 2])], num_updates=40, holdout=[0, 1, 2])


def test_normalisers_are_unweighted() -> None:
    ds = dataset_for("td3_bc")
    _, agents, _ = build([uw.Run(small_config("td3_bc"), uw.ReturnWeighting(0.01))], ds)
    np.testing.assert_allclose(agents.observation_mean[0], ds.observations.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(agents.observation_scale[0], ds.observations.std(axis=0) + 1e-3, rtol=1e-4)
    _, agents, _ = build([uw.Run(small_config("iql"), "rw")], ds)
    assert float(agents.reward_scale[0]) == pytest.approx(1000 / np.ptp(ds.returns), rel=1e-5)


def test_shifted_rewards_are_learned_from_and_weighted_by_as_they_were() -> None:
    ds = with_arrays(dataset_for("td3_bc"))
    shifted = with_arrays(ds, rewards=ds.rewards - 1)
    plain, config = (small_config("td3_bc", reward_shift=shift) for shift in (0.0, -1.0))
    ours, other = (uw.train(data, [uw.Run(c)], num_updates=8)[0] for data, c in ((ds, config), (shifted, plain)))
    np.testing.assert_array_equal(parameters(ours), parameters(other))
    unlike = uw.train(ds, [uw.Run(plain)], num_updates=8)[0]
    assert not np.array_equal(parameters(ours), parameters(unlike))
    tables = [build([uw.Run(each, "rw")], ds)[1].table for each in (plain, config)]
    for one, other in zip(*tables, strict=True):
        np.testing.assert_array_equal(one, other)
    assert "reward_shift" not in plain.to_dict() and config.to_dict()["reward_shift"] == -1


def test_reweighting_multiplies_losses_instead_of_drawing() -> None:
    ds = dataset_for("bc")
    weighting = uw.ReturnWeighting(0.5)
    built = build([uw.Run(small_config("bc"), weighting, reweight=True)], ds)
    agents, drawn = built[1], draws(built, 400)[0]
    counts = np.bincount(np.searchsorted(ds.starts, drawn, side="right") - 1, minlength=30)
    np.testing.assert_allclose(counts / counts.sum(), ds.num_transitions / ds.num_transitions.sum(), atol=0.02)
    p = uw.EpisodeSampler(ds, weighting).probabilities()[ds.starts]
    np.testing.assert_allclose(agents.episode_weight[0], ds.num_transitions.sum() * p, rtol=1e-5)
    assert uw.train(ds, [uw.Run(small_config("bc"), weighting, reweight=True)], num_updates=20)[0].status == "finished"


def test_reweighted_copies_of_an_episode_count_together() -> None:
    """Its steps are drawn as often as it has copies, so a step's weight is the mean of theirs."""
    ds = dataset_for("bc")
    episodes, weights = np.array([3, 7, 3, 5, 3]), np.array([0.4, 0.3, 0.0, 0.1, 0.05])
    agents = build([uw.Run(small_config("bc"), weights, episodes=episodes, reweight=True)], ds)[1]
    own = ds.subset(episodes)
    wanted = uw.EpisodeSampler(own, weights).probabilities()[own.starts]  # of a step of each copy
    expected = np.zeros(30)
    for episode in (3, 5, 7):
        expected[episode] = own.num_transitions.sum() * wanted[episodes == episode].mean()
    np.testing.assert_allclose(agents.episode_weight[0], expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["td3_bc", "iql", "cql"])
def test_actor_and_critic_may_draw_differently(name: str) -> None:
    ds = dataset_for(name)
    only = np.zeros(30)
    only[3] = 1
    run = uw.Run(small_config(name), "uniform", actor_weighting=only)
    program, agents, data = build([run], ds)
    import jax

    agent = jax.tree.map(lambda leaf: leaf[0], agents)
    steps, _, actor_steps = program._draw(agent, data.layout, 0)
    assert set(np.searchsorted(ds.starts, actor_steps, side="right") - 1) == {3}
    assert len(set(np.searchsorted(ds.starts, steps, side="right") - 1)) > 1
    assert uw.train(ds, [run], num_updates=20)[0].status == "finished"


def test_actions_outside_one_are_scaled_and_come_back() -> None:
    ds = with_returns(np.arange(20.0), observations=np.random.default_rng(0).normal(size=(20, 2)))
    wide = with_arrays(ds, actions=np.where(ds.observations[:, :1] > 0, 3.0, -5.0).astype(np.float32))
    config = uw.algorithm_config("bc", hidden_units=(32,), batch_size=32, learning_rate=1e-2)
    policy = uw.train(wide, [uw.Run(config)], num_updates=400)[0].policy
    assert (policy.action_low, policy.action_high) == (np.float32(-5), np.float32(3))
    np.testing.assert_allclose(policy.act(wide.observations), wide.actions, atol=1.5)


def test_bounds_of_actions_are_an_agents_own_per_dimension_and_bear_rounding() -> None:
    """What others of a population learn from does not matter, nor does a last bit beyond 1."""
    ds = dataset_for("bc")
    actions = np.array(ds.actions)  # within [-1, 1]
    actions[0, 0] = 1.0000001
    actions[ds.starts[20] :, 1] *= 3.0
    wide = with_arrays(ds, actions=actions)
    few, all_of_them = uw.Run(small_config("bc"), "rw", 0, episodes=np.arange(20)), uw.Run(small_config("bc"), "rw", 1)
    one, other = uw.train(wide, [few, all_of_them], num_updates=20)
    np.testing.assert_array_equal(one.policy.action_low, [-1, -1])
    np.testing.assert_array_equal(one.policy.action_high, [1, 1])
    np.testing.assert_array_equal(other.policy.action_low, [-1, actions[:, 1].min()])
    np.testing.assert_array_equal(other.policy.action_high, [1, actions[:, 1].max()])
    (alone,) = uw.train(wide.subset(np.arange(20)), [uw.Run(small_config("bc"), "rw", 0)], num_updates=20)
    np.testing.assert_array_equal(alone.policy.action_high, one.policy.action_high)
    np.testing.assert_allclose(parameters(alone), parameters(one), atol=1e-5)


def test_actions_that_nobody_took_are_known_to_the_policy() -> None:
    ds = random_dataset(discrete=True)
    config = uw.algorithm_config("discrete_bc", hidden_units=(8,), batch_size=8)
    for number, outputs in ((None, 4), (6, 6)):
        policy = uw.train(ds.with_num_actions(number), [uw.Run(config)], num_updates=1)[0].policy
        assert policy.layers[-1][1].shape == (outputs,)


def test_bfloat16_learns_too() -> None:
    ds = dataset_for("td3_bc")
    half, full = (
        uw.train(ds, [uw.Run(small_config("td3_bc"), "rw")], num_updates=100, precision=p)[0]
        for p in ("bfloat16", "float32")
    )
    assert half.metrics[-1]["critic_loss"] == pytest.approx(full.metrics[-1]["critic_loss"], rel=0.1)
    assert half.policy.layers[0][0].dtype == np.float32


def test_progress_metrics_and_callbacks(tmp_path: Path) -> None:
    heard: list[Any] = []
    seen: list[Any] = []
    runs = [uw.Run(small_config("td3_bc"), "rw", seed) for seed in range(2)]
    with listening(lambda *told: heard.append(told)):
        results = uw.train(
            dataset_for("td3_bc"),
            runs,
            num_updates=60,
            log_every_updates=20,
            output=tmp_path / "out",
            callbacks=[seen.extend],
        )
    assert [told[:3] for told in heard] == [("td3_bc x 2", done, 60) for done in (0, 20, 40, 60)]
    assert "updates/s each" in heard[-1][3] and "critic_loss" in heard[-1][3]
    lines = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    assert lines == seen == results[0].metrics[:1] + results[1].metrics[:1] + lines[2:]
    assert [record["updates"] for record in results[1].metrics] == [20, 40, 60]
    saved = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [run["status"] for run in saved["runs"]] == ["finished", "finished"]


SCRIPT = """
    import sys
    sys.path.insert(0, {tests!r})
    from support.training import dataset_for, small_config
    import upweight as uw
    runs = [uw.Run(small_config("td3_bc"), "rw", seed) for seed in range(2)]
    uw.train(dataset_for("td3_bc"), runs, num_updates=4000, output={output!r}, resume={resume}, log_every_updates=100,
             checkpoint_every_updates=100)
"""


def test_kill_and_resume_is_bit_identical(tmp_path: Path) -> None:
    tests = str(Path(__file__).parents[2])
    environment = {**os.environ, "UPWEIGHT_CACHE": str(tmp_path / "cache")}
    del environment["JAX_COMPILATION_CACHE_DIR"]

    def start(output: str, resume: bool) -> subprocess.Popen[bytes]:
        code = textwrap.dedent(SCRIPT).format(tests=tests, output=str(tmp_path / output), resume=resume)
        return subprocess.Popen([sys.executable, "-c", code], env=environment)

    assert start("whole", False).wait() == 0
    for attempt in range(3):
        process = start("cut", attempt > 0)
        mark = tmp_path / "cut" / "program-000.safetensors"
        before = mark.stat().st_mtime_ns if mark.exists() else 0
        deadline = time.monotonic() + 120
        while process.poll() is None and (not mark.exists() or mark.stat().st_mtime_ns == before):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.05 * attempt)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert start("cut", True).wait() == 0
    for name in (
        "policies/run-000.safetensors",
        "policies/run-001.safetensors",
        "program-000.json",
        "results.json",
    ):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    lines = [json.loads(line) for line in (tmp_path / "cut" / "metrics.jsonl").read_text().splitlines()]
    assert [line["updates"] for line in lines if line["run"] == 0] == list(range(100, 4001, 100))
    assert list((tmp_path / "cache" / "xla").iterdir())  # what was compiled once serves the later processes


def test_results_do_not_depend_on_how_long_chunks_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in a bit: policies, logs, and where an agent that diverges is put back to."""
    monkeypatch.setattr(schedule_module, "_OPERATIONS_PER_PIECE", {"cpu": 6e5})  # small ones
    configs = [small_config("td3_bc"), small_config("td3_bc", actor_learning_rate=1e38)]
    runs, heard, results = [uw.Run(config, "rw", seed) for seed, config in enumerate(configs)], [], []
    for seconds in (0.0, 0.02, 1e9):
        monkeypatch.setattr(advance_module, "CHUNK_SECONDS", seconds)
        told: list[int] = []
        with listening(lambda _, done, *__, told=told: told.append(done)):
            results.append(uw.train(dataset_for("td3_bc"), runs, num_updates=501, log_every_updates=100))
        heard.append(told)
    assert heard[0] == [*range(0, 501, 4), 501]
    assert heard[2] == [0, 4, 100, 200, 300, 400, 500, 501]  # the first tells how fast it goes
    for result in results[1:]:
        for one, other in zip(results[0], result, strict=True):
            assert parameters(one).tobytes() == parameters(other).tobytes()
            assert one.metrics == other.metrics and one.outcome() == other.outcome()
    assert [record["updates"] for record in results[0][0].metrics] == [100, 200, 300, 400, 500, 501]
    assert results[0][1].status == "diverged" and results[0][1].updates == 0


@pytest.mark.parametrize("log_every", [100, 70])
def test_a_training_goes_on_within_a_log_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log_every: int
) -> None:
    """It was paused between two of its lines, and within a block; an agent had diverged."""
    monkeypatch.setattr(schedule_module, "_OPERATIONS_PER_PIECE", {"cpu": 6e5})
    ds = dataset_for("td3_bc")
    runs = [uw.Run(small_config("td3_bc", actor_learning_rate=rate), "rw") for rate in (1e-3, 1e38)]
    whole = uw.train(ds, runs, num_updates=300, log_every_updates=100)
    monkeypatch.setattr(advance_module, "CHUNK_SECONDS", 0.0)
    for _ in range(2):
        with pytest.raises(train_module.TrainingPaused, match=r"paused at (4|8) of 300 updates"):
            uw.train(ds, runs, num_updates=300, log_every_updates=100, output=tmp_path / "out", resume=True, deadline=0)
    parts = uw.train(ds, runs, num_updates=300, log_every_updates=log_every, output=tmp_path / "out", resume=True)
    assert parameters(parts[0]).tobytes() == parameters(whole[0]).tobytes()
    assert parts[1].status == "diverged" and parts[1].updates == 0
    if log_every == 100:
        assert [result.metrics for result in parts] == [result.metrics for result in whole]


@pytest.mark.parametrize(("seconds", "kept"), [(0.0, [100]), (60.0, [])])
def test_checkpoints_go_by_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, kept: list[int]
) -> None:
    """However few updates a slow training has made since the last one; the work of a minute may be lost."""
    monkeypatch.setattr(train_module, "CHECKPOINT_SECONDS", seconds)
    ds, run, told = dataset_for("bc"), uw.Run(small_config("bc"), "rw"), list[int]()

    def die_at_200(records: list[dict[str, Any]]) -> None:
        told.append(records[0]["updates"])
        if told == [100, 200]:
            raise RuntimeError("killed")

    options: Any = {"num_updates": 300, "log_every_updates": 100, "output": tmp_path / "out", "callbacks": [die_at_200]}
    with pytest.raises(RuntimeError, match="killed"):
        uw.train(ds, [run], **options)
    found = [int(read_safetensors(path)[1]["updates"]) for path in (tmp_path / "out").glob("*.safetensors")]
    assert found == kept
    (again,) = uw.train(ds, [run], **options, resume=True)
    (whole,) = uw.train(ds, [run], num_updates=300, log_every_updates=100)
    assert told == [100, 200, *range(100 + sum(kept), 301, 100)]
    assert parameters(again).tobytes() == parameters(whole).tobytes() and again.metrics == whole.metrics


ENDLESS = """
    import sys
    sys.path.insert(0, {tests!r})
    from support.training import dataset_for, small_config
    import upweight as uw
    from upweight.base.progress import listening
    try:
        with listening(lambda *told: print(told[1], flush=True)):
            uw.train(dataset_for("bc"), [uw.Run(small_config("bc"))], num_updates=10**9, output={output!r})
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_ctrl_c_in_a_script_stops_after_a_chunk_and_keeps_it(tmp_path: Path) -> None:
    """In the middle of a log interval that would take hours."""
    code = textwrap.dedent(ENDLESS).format(tests=str(Path(__file__).parents[2]), output=str(tmp_path / "out"))
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", code], **pipes)
    assert process.stdout is not None
    told = [int(process.stdout.readline()) for _ in range(3)]
    assert told[0] == 0 < told[1] < told[2]
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0 and output.splitlines()[-1] == "interrupted"
    assert errors.startswith("stopping after these updates (a checkpoint is written then); press Ctrl-C again")
    _, about = read_safetensors(tmp_path / "out" / "program-000.safetensors")
    assert int(about["updates"]) == [*told, *map(int, output.splitlines()[:-1])][-1]  # no update is lost


def test_ctrl_c_is_answered_at_once_and_the_second_one_exits(tmp_path: Path) -> None:
    uw.save(dataset_for("cql"), tmp_path / "data.npz")
    words = ["train", tmp_path / "data.npz", "--algorithm", "cql", "--updates", "1e9", "-o", tmp_path / "out"]
    command = [sys.executable, "-m", "upweight", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "out" / "plan.json").exists():
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        while "stopping after" not in (line := process.stderr.readline()):
            assert line
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=2) == 130
        assert process.stderr.read() == ""


def test_resume_refuses_another_training(tmp_path: Path) -> None:
    ds, run = dataset_for("bc"), uw.Run(small_config("bc"), "rw")
    uw.train(ds, [run], num_updates=10, output=tmp_path / "out")
    with pytest.raises(uw.DatasetError, match="already holds a training"):
        uw.train(ds, [run], num_updates=10, output=tmp_path / "out")
    again = uw.train(ds, [run], num_updates=10, output=tmp_path / "out", resume=True)
    assert len(again[0].metrics) == 1
    for other in (uw.Run(small_config("bc"), "aw"), uw.Run(small_config("bc"), np.ones(30))):
        with pytest.raises(uw.DatasetError, match="holds another training"):
            uw.train(ds, [other], num_updates=10, output=tmp_path / "out", resume=True)
    with pytest.raises(uw.ConfigError, match="resume and a deadline need"):
        uw.train(ds, [run], num_updates=10, resume=True)


def test_one_training_at_a_time_in_a_folder(tmp_path: Path) -> None:
    """The second is refused before it touches a file; the first goes on, and its folder is free when it has ended."""
    ds, runs, out = dataset_for("bc"), [uw.Run(small_config("bc"), "rw")], tmp_path / "out"
    refused = list[str]()

    def start_another(_: object) -> None:
        before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
        for resume in (True, False):
            with pytest.raises(uw.DatasetError, match="another training writes to this folder") as caught:
                uw.train(ds, runs, num_updates=20, log_every_updates=10, output=out, resume=resume)
            refused.append(str(caught.value))
        assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before

    (first,) = uw.train(ds, runs, num_updates=20, log_every_updates=10, output=out, callbacks=[start_another])
    assert len(refused) == 4 and all(text.startswith(f"{out}: ") for text in refused)
    assert [record["updates"] for record in first.metrics] == [10, 20]
    (again,) = uw.train(ds, runs, num_updates=20, log_every_updates=10, output=out, resume=True)
    assert again.metrics == first.metrics


def test_a_finished_training_is_read_from_its_folder(tmp_path: Path) -> None:
    """Two programs; the second was cut, the first is not trained again."""
    ds, runs = dataset_for("bc"), [uw.Run(small_config("bc"), "rw", seed) for seed in range(4)]
    out = tmp_path / "out"
    whole = uw.train(ds, runs, num_updates=30, log_every_updates=10, max_agents=2, output=out)
    assert not list(out.glob("*.safetensors"))  # a finished training needs no checkpoints
    (out / "program-001.json").unlink()
    (out / "results.json").unlink()
    heard: list[Any] = []
    with listening(lambda *told: heard.append(told)):
        again = uw.train(ds, runs, num_updates=30, log_every_updates=10, max_agents=2, output=out, resume=True)
    assert [told[:3] for told in heard] == [("bc x 2", done, 30) for done in (0, 10, 20, 30)]
    for first, second in zip(whole, again, strict=True):
        assert first.to_dict() == second.to_dict() and first.metrics == second.metrics
        assert first.policy.metadata == second.policy.metadata
        for mine, theirs in zip(first.policy.layers, second.policy.layers, strict=True):
            np.testing.assert_array_equal(mine[0], theirs[0])
    (out / "program-001.json").unlink()
    other = uw.train(ds, runs, num_updates=30, log_every_updates=10, output=out, resume=True)  # whatever would fit now
    assert [result.to_dict() for result in other] == [result.to_dict() for result in whole]


def test_a_policy_says_where_it_belongs() -> None:
    """If the dataset knows; one that does not leaves it open."""
    ds, run = dataset_for("bc"), uw.Run(small_config("bc"))
    for dataset, found in ((ds, None), (ds.with_metadata(env_id="Hopper-v5"), "Hopper-v5")):
        (result,) = uw.train(dataset, [run], num_updates=1)
        assert result.policy.metadata.get("env_id") == found


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("plan.json", "{"),
        ("program-000.json", "{"),
        ("program-000.json", "{}"),
        ("program-000.json", '{"runs": [{}]}'),
        ("program-000.safetensors", "{"),
        ("policies/run-000.safetensors", "{"),
    ],
)
def test_damaged_files_of_a_training(tmp_path: Path, name: str, content: str) -> None:
    ds, runs = dataset_for("bc"), [uw.Run(small_config("bc"), "rw")]
    uw.train(ds, runs, num_updates=10, output=tmp_path / "out")
    if name == "program-000.safetensors":
        (tmp_path / "out" / "program-000.json").unlink()
    (tmp_path / "out" / name).write_text(content)
    with pytest.raises(CheckpointError, match=rf"{name}.*remove .*to train from the beginning"):
        uw.train(ds, runs, num_updates=10, output=tmp_path / "out", resume=True)


def test_a_file_that_cannot_be_read_just_now_is_not_a_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds, runs, out = dataset_for("bc"), [uw.Run(small_config("bc"), "rw")], tmp_path / "out"
    uw.train(ds, runs, num_updates=10, output=out)

    opened = Path.open

    def refused(path: Path, *args: Any, **options: Any) -> Any:
        if path.suffix == ".safetensors":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *args, **options)

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(uw.DatasetError, match="Permission denied") as caught:
        uw.train(ds, runs, num_updates=10, output=out, resume=True)
    assert not isinstance(caught.value, CheckpointError)


def test_a_damaged_log_and_leftovers_are_no_obstacle(tmp_path: Path) -> None:
    ds, runs, out = dataset_for("bc"), [uw.Run(small_config("bc"), "rw")], tmp_path / "out"
    (before,) = uw.train(ds, runs, num_updates=10, output=out)
    with (out / "metrics.jsonl").open("ab") as file:
        file.write(b'3\n{"run": 0}\n\xff\xfe')
    (out / ".upweight-left").mkdir()
    (out / ".git").mkdir()  # whoever keeps their trainings under version control
    (after,) = uw.train(ds, runs, num_updates=10, output=out, resume=True)
    assert after.metrics == before.metrics
    assert sorted(out.glob(".*")) == [out / ".git", out / ".lock"]


def test_data_may_move(tmp_path: Path) -> None:
    """A training goes on with the same data from another place."""
    ds, runs, out = dataset_for("bc"), [uw.Run(small_config("bc"), "rw")], tmp_path / "out"
    moved = replace(ds, source="elsewhere")
    uw.train(ds, runs, num_updates=10, output=out)
    assert uw.train(moved, runs, num_updates=10, output=out, resume=True)[0].updates == 10


class Known:
    """A baseline of the user's own."""

    def __init__(self, value: float = 0.0) -> None:
        self.value = value

    def __call__(self, observations: np.ndarray, returns: np.ndarray) -> np.ndarray:
        return np.full(len(returns), self.value)


def one_more(mask: np.ndarray) -> np.ndarray:
    return mask + 1.0


@dataclass(frozen=True)
class Chosen(uw.Weighting):
    """A weighting of the user's own, with settings that JSON does not know."""

    mask: Any
    score: Any = one_more
    name: ClassVar[str] = "chosen"

    def weigh(self, dataset: uw.Dataset, eligible: np.ndarray) -> np.ndarray:
        return self.score(self.mask[eligible])


@pytest.mark.parametrize(
    ("weighting", "described"),
    [
        (uw.AdvantageWeighting(0.2, Known(3.0)), {"temperature": 0.2, "baseline": "test_train.Known"}),
        (uw.AdvantageWeighting(0.1, lambda _, returns: returns - 1), {"baseline": "test_train.<lambda>"}),
        (Chosen(np.arange(30) % 2), {"score": "test_train.one_more"}),
    ],
)
def test_what_is_the_users_own_survives_training(tmp_path: Path, weighting: Any, described: dict[str, Any]) -> None:
    ds, run = dataset_for("bc"), uw.Run(small_config("bc"), weighting)
    (alone,) = uw.train(ds, [run], num_updates=4)
    (kept,) = uw.train(ds, [run], num_updates=4, output=tmp_path / "out")
    again = uw.Run(small_config("bc"), replace(weighting))  # as in the next process
    (read,) = uw.train(ds, [again], num_updates=4, output=tmp_path / "out", resume=True)
    for result in (alone, kept, read):
        found = result.policy.metadata["run"]["weighting"]
        assert found["name"] == weighting.name
        assert {
            key: found[key].rpartition("lab.train.")[2] if isinstance(found[key], str) else found[key]
            for key in described
        } == described
        result.policy.save(tmp_path / "policy.safetensors")


def test_a_training_does_not_go_on_with_other_weights_under_the_same_name(tmp_path: Path) -> None:
    ds = dataset_for("bc")
    one, other = (uw.AdvantageWeighting(0.1, lambda obs, _, sign=sign: sign * obs[:, 0]) for sign in (1.0, -1.0))
    uw.train(ds, [uw.Run(small_config("bc"), one)], num_updates=4, output=tmp_path / "out")
    with pytest.raises(uw.DatasetError, match="holds another training"):
        uw.train(ds, [uw.Run(small_config("bc"), other)], num_updates=4, output=tmp_path / "out", resume=True)


def test_a_function_as_weighting_is_known_by_the_weights_it_gives(tmp_path: Path) -> None:
    """Of what the run learns from, held-out episodes aside; not by where the function lies in memory."""
    ds, config = dataset_for("td3_bc"), small_config("td3_bc")
    calls: list[int] = []

    def run(power: int, episodes: Any = None) -> uw.Run:
        def weigh(dataset: uw.Dataset) -> np.ndarray:
            calls.append(dataset.num_episodes)
            return (dataset.returns - dataset.returns.min() + 1) ** power

        return uw.Run(config, weigh, actor_weighting=weigh, episodes=episodes)

    options: dict[str, Any] = {"num_updates": 4, "output": tmp_path / "out"}
    whole, part = uw.train(ds, [run(2), run(2, range(20))], **options)
    assert calls == [30, 20]
    np.testing.assert_array_equal(whole.run.weighting, (ds.returns - ds.returns.min() + 1) ** 2)
    found = whole.policy.metadata["run"]
    assert found == whole.run.to_dict() and found["weighting"] == found["actor_weighting"]
    assert found["weighting"]["count"] == 30 and part.run.to_dict()["weighting"]["count"] == 20
    again = uw.train(ds, [run(2), run(2, range(20))], resume=True, **options)  # other functions, as in another process
    assert [each.run.to_dict() for each in again] == [whole.run.to_dict(), part.run.to_dict()]
    with pytest.raises(uw.DatasetError, match="holds another training"):
        uw.train(ds, [run(3), run(2, range(20))], resume=True, **options)
    (held,) = uw.train(ds, [run(2)], num_updates=4, holdout=[0, 1, 2])
    assert held.run.to_dict()["weighting"]["count"] == 27
    assert "0x" not in json.dumps(run(2).to_dict())


@pytest.mark.parametrize(
    "bad",
    [
        {"weighting": np.ones(5)},
        {"weighting": lambda dataset: np.ones(5)},
        {"weighting": uw.AdvantageWeighting(0.1, Known(np.nan))},
        {"actor_weighting": np.zeros(30)},
        {"episodes": [99]},
    ],
)
def test_nothing_is_written_or_trained_before_all_is_checked(tmp_path: Path, bad: dict[str, Any]) -> None:
    """The last run is wrong, and would train in a program of its own, after the others."""
    heard: list[Any] = []
    runs = [uw.Run(small_config("bc")), uw.Run(small_config("td3_bc"), **bad)]
    with pytest.raises(uw.UpweightError), listening(lambda *told: heard.append(told)):
        uw.train(dataset_for("bc"), runs, num_updates=4, output=tmp_path / "out")
    assert not heard and not (tmp_path / "out").exists()


class TestBadInput:
    """All of these fail before anything is compiled."""

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: uw.Run("iqll"), "unknown algorithm 'iqll'; did you mean 'iql'"),
            (lambda: uw.Run("td3bc"), "did you mean 'td3_bc'"),
            (lambda: uw.Run("bc", "wr"), "unknown weighting 'wr'"),
            (lambda: uw.Run("bc", seed=-1), "seed: expected a whole number"),
            (lambda: uw.Run("bc", seed=True), "seed"),
            (lambda: uw.Run("bc", reweight=True, actor_weighting="rw"), "cannot be combined"),
            (lambda: uw.algorithm_config("iql", expectile=1.5), "expectile: expected a number from 0 to 1"),
            (lambda: uw.algorithm_config("iql", expectil=0.5), "did you mean 'expectile'"),
            (lambda: uw.algorithm_config("iql", preset="x"), "unknown preset 'x'"),
            (lambda: uw.algorithm_config("bc", preset="official"), "unknown preset"),
            (lambda: uw.algorithm_config("bc", hidden_units=()), "hidden_units"),
            (
                lambda: uw.algorithm_config("bc", hidden_units=8),
                r"hidden_units: expected a list of widths, such as \[256, 256\]",
            ),
            (lambda: uw.algorithm_config("bc", batch_size=0), "batch_size"),
            (lambda: uw.algorithm_config("bc", initialization="x"), "initialization"),
            (lambda: uw.algorithm_config("cql", action_samples=0), "action_samples"),
            (lambda: uw.algorithm_config("td3_bc", actor_every_updates=0), "actor_every_updates"),
            (lambda: uw.algorithm_config("iql", update_order="x"), "update_order"),
            (lambda: uw.algorithm_config("discrete_bc", penalize="x"), "penalize"),
        ],
    )
    def test_settings(self, make: Any, message: str) -> None:
        with pytest.raises(uw.UpweightError, match=message):
            make()

    @pytest.mark.parametrize(
        ("run", "options", "dataset", "message"),
        [
            ("bc", {}, {"discrete": True}, "bc needs continuous actions.*use 'discrete_bc'"),
            ("discrete_bc", {}, {}, "needs discrete actions.*use 'bc'"),
            ("td3_bc", {}, {"discrete": True}, "needs continuous actions"),
            ("bc", {"precision": "float16"}, {}, "precision: expected one of"),
            ("bc", {"num_updates": 0}, {}, "num_updates"),
            ("bc", {"log_every_updates": 0}, {}, "log_every_updates"),
            ("bc", {"checkpoint_every_updates": -1}, {}, "checkpoint_every_updates"),
            ("bc", {"max_agents": 0}, {}, "max_agents"),
            ("bc", {}, {"observation_shape": (4, 4, 3)}, "expected vector observations"),
        ],
    )
    def test_trainings(self, run: str, options: Any, dataset: Any, message: str) -> None:
        with pytest.raises(uw.ConfigError, match=message):
            uw.train(random_dataset(**dataset), [uw.Run(run)], **{"num_updates": 10, **options})

    def test_weights_of_the_wrong_length_and_no_runs(self) -> None:
        with pytest.raises(uw.WeightingError, match="expected 12 weights"):
            uw.train(random_dataset(), [uw.Run("bc", np.ones(5))], num_updates=1)
        with pytest.raises(uw.ConfigError, match="at least one run"):
            uw.train(random_dataset(), [], num_updates=1)

    def test_no_rewards(self, tmp_path: Path) -> None:
        ds = uw.Dataset.from_arrays(
            observations=np.zeros((4, 2)), actions=np.zeros((4, 1)), rewards=None, terminated=[0, 1, 0, 1]
        )
        with pytest.raises(uw.ConfigError, match="td3_bc learns from rewards, but .*success=NAME"):
            uw.train(ds, [uw.Run("td3_bc")], num_updates=1)
        for run in (uw.Run("bc", "rw"), uw.Run("bc", "aw")):
            with pytest.raises(uw.ConfigError, match="its weighting follows rewards, but .*success=NAME"):
                uw.train(ds, [run], num_updates=1, output=tmp_path / "out")
        assert not (tmp_path / "out").exists()
        assert uw.train(ds, [uw.Run(uw.algorithm_config("bc", **SMALL))], num_updates=2)[0].status == "finished"

    def test_too_little_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(plan_module, "device_memory", lambda: 1000)
        with pytest.raises(uw.ConfigError, match="one agent needs about"):
            uw.train(random_dataset(), [uw.Run("bc")], num_updates=1)


@pytest.mark.slow
def test_many_agents_with_orthogonal_weights_begin() -> None:
    """Batched QR factorisations, several at a time, wait for each other for ever on a CPU of few cores; hence a process."""
    code = """
import sys
sys.path.insert(0, "tests")
import jax
import upweight as uw
from support.datasets import random_dataset
from upweight.lab.train.population import Program
from upweight.lab.train.prepare import make_agents, make_parts, make_setup
config, ds = uw.algorithm_config("iql", preset="official"), random_dataset()
runs, setup = [uw.Run(config, "uniform", seed) for seed in range(24)], make_setup(ds, "float32", "auto")
agents = make_agents(runs, make_parts(ds, runs), setup, 1)
jax.block_until_ready(Program(runs[0].method, config, setup).start(agents))
"""
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=root, capture_output=True)
