"""The walker's training, its environment and its policy."""

from pathlib import Path

import numpy as np
import pytest

from reproduction.policies.directional_ant import SEEN, DirectionalAnt, is_upright, main
from reproduction.policies.training import Plan, Training
from upweight.base.files import read_json
from upweight.lab.play.ant import STATE_SIZE, VIEW_SIZE, Ant
from upweight.policies.policy import load_policy


def test_the_reward_is_the_speed_along_the_direction() -> None:
    environment = DirectionalAnt()
    environment.reset(seed=3)
    directions = [environment.direction]
    total, start = 0.0, environment.state[:2].copy()
    for _ in range(100):
        _, reward, fallen, late, _ = environment.step(np.ones(8, np.float32))
        total += reward
        assert not late and not fallen
    assert total * 0.1 == pytest.approx(float((environment.state[:2] - start) @ directions[0]))
    assert environment.direction != directions[0]  # after 100 steps
    again = DirectionalAnt()
    assert np.array_equal(again.reset(seed=5)[0], environment.reset(seed=5)[0])


def test_an_ant_on_its_back_is_not_upright() -> None:
    state = Ant().reset(np.random.default_rng(0))
    assert is_upright(state)
    state[3:7] = 0, 1, 0, 0
    assert not is_upright(state)
    state[3:7], state[2] = (1, 0, 0, 0), 0.1
    assert not is_upright(state)


@pytest.mark.slow
def test_a_training_becomes_a_walker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(
        ("reproduction.policies.directional_ant:make",),
        environments=4,
        updates=2,
        capacity=200,
        warmup=40,
        snapshot_every=40,
        hidden_units=(8,),
        batch_size=8,
    )
    training = Training(plan, tmp_path / "walking", workers=1)
    try:
        assert training.run(80)
    finally:
        training.close()
    monkeypatch.setattr("reproduction.policies.directional_ant.MAZES", {"umaze": None})
    main([str(tmp_path / "walking"), "--steps", "80", "--episodes", "1", "--output", str(tmp_path / "antmaze")])
    index = read_json(tmp_path / "antmaze" / "walker.json")
    assert index["success"] == {"umaze": 0.0} and index["mean_length"] == {"umaze": 700.0} and index["steps"] == 80
    walker = load_policy(tmp_path / "antmaze" / index["file"])
    state = np.random.default_rng(0).normal(size=STATE_SIZE + VIEW_SIZE).astype(np.float32)
    trained = [np.asarray(layer.weight[0]) for layer in training.state.agents.actor]
    hidden = np.maximum(state[list(SEEN)] @ trained[0] + np.asarray(training.state.agents.actor[0].bias[0]), 0)
    outputs = hidden @ trained[1] + np.asarray(training.state.agents.actor[1].bias[0])
    assert walker.act(state) == pytest.approx(np.tanh(outputs[:8]), abs=2e-3)
    elsewhere = state.copy()
    elsewhere[:2] += 100  # places are not seen
    assert np.array_equal(walker.act(elsewhere), walker.act(state))
