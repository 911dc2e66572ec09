"""Padding does not matter, the temperature does its work, and a training can be stopped and gone on with."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tools import soft_actor_critic as sac
from tools.training import Plan, Training
from upweight.base.errors import DatasetError
from upweight.engine.nn import Linear

SMALL = sac.Settings(observation_size=3, action_size=2, hidden_units=(8, 8), batch_size=16)
WIDE = sac.Settings(observation_size=5, action_size=4, hidden_units=(8, 8), batch_size=16)


def without_padding(agent: sac.Agent) -> sac.Agent:
    """The agent of the small sizes with the same numbers, moments at zero."""

    def critic(layers: Any) -> Any:
        first = layers[0]
        return (Linear(first.weight[:, jnp.r_[:3, 5:7]], first.bias), *layers[1:])

    first, *middle, last = agent.actor
    keep = jnp.r_[:2, 4:6]
    actor = (Linear(first.weight[:3], first.bias), *middle, Linear(last.weight[:, keep], last.bias[keep]))
    critics, targets = critic(agent.critics), critic(agent.target_critics)
    moments = (sac.init_adam(actor), sac.init_adam(critics), sac.init_adam(agent.log_temperature))
    return sac.Agent(actor, critics, targets, agent.log_temperature, *moments)


def test_padding_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    observations, nexts = rng.normal(size=(2, 16, 3))
    actions, ends = np.tanh(rng.normal(size=(16, 2))), rng.random(16) < 0.2
    scalars = np.stack([rng.normal(size=16), ends], 1)
    zeros = np.zeros((16, 2))
    small = jnp.asarray(np.concatenate([observations, actions, scalars, nexts], 1), jnp.float32)
    wide = jnp.asarray(np.concatenate([observations, zeros, actions, zeros, scalars, nexts, zeros], 1), jnp.float32)
    assert small.shape[1] == SMALL.row_size and wide.shape[1] == WIDE.row_size
    noise = rng.normal(size=(2, 16, 4)).astype(np.float32)
    monkeypatch.setattr(jax.random, "normal", lambda key, shape: jnp.asarray(noise[..., : shape[-1]]))
    padded = sac.init(jax.random.key(0), WIDE)
    plain = without_padding(padded)
    mask = jnp.asarray([1.0, 1.0, 0.0, 0.0])
    for _ in range(3):
        padded = sac.update(padded, wide, mask, jax.random.key(1), WIDE)
        plain = sac.update(plain, small, jnp.ones(2), jax.random.key(1), SMALL)
    cut = without_padding(padded)
    for ours, reference in zip(jax.tree.leaves(cut[:4]), jax.tree.leaves(plain[:4]), strict=True):
        np.testing.assert_allclose(ours, reference, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("spread", "rises"), [(-8.0, True), (-0.3, False)])
def test_the_temperature_keeps_the_entropy(spread: float, rises: bool) -> None:
    agent = sac.init(jax.random.key(0), SMALL)
    *hidden, last = agent.actor
    bias = last.bias.at[2:].set(spread)  # log sigma: a narrow policy must be pushed to explore, a wide one to settle
    agent = agent._replace(actor=(*hidden, Linear(last.weight * 0.01, bias)))
    rows = jax.random.normal(jax.random.key(1), (16, SMALL.row_size))
    after = sac.update(agent, rows, jnp.ones(2), jax.random.key(2), SMALL)
    assert bool(after.log_temperature > agent.log_temperature) is rises


def tiny(**changes: Any) -> Plan:
    settings: dict[str, Any] = {
        "tasks": ("hopper", "halfcheetah"),
        "environments": 4,
        "capacity": 200,
        "warmup": 40,
        "snapshot_every": 40,
        "hidden_units": (8,),
        "batch_size": 8,
    }
    return Plan(**(settings | changes))


@pytest.mark.slow
def test_a_training_stops_and_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "training"
    for steps in (100, 260):
        training = Training(tiny(), folder, workers=2)
        try:
            assert training.run(steps)
        finally:
            training.close()
    assert training.steps == 260  # more than the replay holds: it wraps around
    lines = [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]
    assert [line["steps"] for line in lines] == [40, 80, 120, 160, 200, 240]
    assert lines[-1]["mean_returns"][0] > 0  # hopper falls soon; half a cheetah runs for 1,000 steps
    assert lines[-1]["mean_returns"][1] is None
    snapshots = sorted(path.stem for path in (folder / "snapshots").iterdir())
    assert snapshots == [f"{line['steps']:09d}" for line in lines]
    again = Training(tiny(), folder, workers=1)
    again.close()
    assert again.state.replay.shape == (2, 200, 2 * 17 + 6 + 2)
    assert np.all(np.abs(np.asarray(again.state.replay)).sum(axis=-1) > 0)  # no hole where the training was stopped
    with pytest.raises(DatasetError, match="other settings"):
        Training(tiny(batch_size=16), folder, workers=1)


@pytest.mark.slow
def test_what_the_replay_holds_is_what_happened(tmp_path: Path) -> None:
    """Rows are consecutive where no episode ended, real dimensions are filled and padded ones are zero."""
    training = Training(tiny(warmup=10_000), tmp_path / "training", workers=1)
    try:
        training.run(100)
        again = Training(tiny(warmup=10_000), tmp_path / "training", workers=1)
        again.close()
    finally:
        training.close()
    rows = np.asarray(again.state.replay)[:, :100].reshape(2, 25, 4, -1)  # [agent, round, environment, row]
    settings = training.settings
    observations, actions = rows[..., : settings.observation_size], rows[..., 17 : 17 + 6]
    nexts, ended = rows[..., -17:], rows[..., 17 + 6 + 1] > 0
    assert np.all(observations[0, ..., 11:] == 0) and np.all(actions[0, ..., 3:] == 0)
    assert np.all(observations[1] != 0) and np.all(np.abs(actions[1]) <= 1) and np.all(actions[1] != 0)
    same = np.all(nexts[:, :-1] == observations[:, 1:], axis=-1)
    assert np.array_equal(~same, ended[:, :-1])
