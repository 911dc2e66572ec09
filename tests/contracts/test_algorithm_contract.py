"""What every algorithm must do; a new one is tested by being in its folder."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import upweight as uw
from support.training import build, dataset_for, draws, leaves, parameters, small_config
from upweight.lab.train.algorithm import Batch, Batches, algorithms
from upweight.lab.train.schedule import Piece

pytestmark = pytest.mark.slow
every = pytest.mark.parametrize("name", list(algorithms()))


@every
def test_vmapped_equals_single_in_float64(name: str) -> None:
    ds, config = dataset_for(name), small_config(name)
    runs = [uw.Run(config, uw.ReturnWeighting(0.2), seed) for seed in (5, 6, 7)]
    with jax.enable_x64(True):
        states = []
        for chosen in (runs, runs[1:2]):
            program, agents, data = build(chosen, ds, "float64")
            states.append(program.advance(program.start(agents), agents, data, Piece(0, 200)).states)
        for many, one in zip(leaves(states[0]), leaves(states[1]), strict=True):
            np.testing.assert_allclose(many[1], one[0], rtol=0, atol=1e-9)


@every
def test_batches_are_identical_and_one_update_agrees_in_float32(name: str) -> None:
    ds, config = dataset_for(name), small_config(name)
    runs = [uw.Run(config, uw.ReturnWeighting(0.2), seed) for seed in (5, 6, 7)]
    seen = []
    for chosen in (runs, runs[2:]):
        program, agents, data = built = build(chosen, ds)
        after = program.advance(program.start(agents), agents, data, Piece(0, 1)).states
        seen.append((draws(built, 18)[-1], [leaf[-1] for leaf in leaves(after)]))
    np.testing.assert_array_equal(seen[0][0], seen[1][0])
    for many, one in zip(seen[0][1], seen[1][1], strict=True):
        np.testing.assert_allclose(many, one, rtol=0, atol=1e-5)


@every
def test_every_network_moves_every_setting_matters_and_new_values_never_recompile(name: str) -> None:
    ds, config = dataset_for(name), small_config(name)
    special = {"target_every_updates": 3.0, "max_weight": 0.01, "actor_decay_updates": 12.0, "expectile": 0.9}
    changed = [replace(config, **{key: special.get(key, 0.3 * getattr(config, key))}) for key in config.traced_names()]
    runs = [uw.Run(one, "rw", seed=0) for one in [config, *changed]]
    program, agents, data = build(runs, ds)
    before = leaves(program.start(agents).states)
    after = leaves(program.advance(program.start(agents), agents, data, Piece(0, 20)).states)
    assert all(np.isfinite(leaf).all() for leaf in after)
    moved = [(old[0] != new[0]).any() for old, new in zip(before, after, strict=True)]
    assert np.mean(moved) > 0.6  # all but targets that are replaced rarely
    for place, key in enumerate(config.traced_names(), start=1):
        assert any((leaf[place] != leaf[0]).any() for leaf in after), key
    other = [uw.Run(one, uw.AdvantageWeighting(0.7), seed=9) for one in [*changed, config]]
    _, agents, _ = build(other, ds)
    program.advance(program.start(agents), agents, data, Piece(20, 20))
    assert program._advance._cache_size() == 1


@every
def test_learns_repeats_itself_and_can_be_saved_and_run(name: str, tmp_path: Path) -> None:
    ds = dataset_for(name)
    run = uw.Run(small_config(name), "aw", seed=1)
    one, two = (uw.train(ds, [run], num_updates=100, output=tmp_path / where)[0] for where in ("one", "two"))
    assert parameters(one).tobytes() == parameters(two).tobytes()
    assert one.status == "finished"
    assert all(np.isfinite(list(record.values())).all() for record in one.metrics)
    policy = uw.load_policy(tmp_path / "one" / "policies" / "run-000.safetensors")
    assert policy.metadata["run"]["algorithm"] == name
    observations = ds.observations[:7]
    np.testing.assert_array_equal(policy.act(observations), one.policy.act(observations))
    drawn = policy.act(observations, np.random.default_rng(0))
    assert drawn.shape == policy.act(observations).shape
    assert set(drawn) <= set(range(4)) if ds.discrete_actions else (np.abs(drawn) <= 1).all()


@every
def test_the_first_phase_reports_every_metric_and_each_is_counted(name: str) -> None:
    runs = [uw.Run(small_config(name), "rw", seed) for seed in range(3)]  # as many as above: compiled once
    program, agents, data = build(runs, dataset_for(name))
    progress, drawn = (
        program.start(agents),
        jax.vmap(lambda agent: program._draw(agent, data.layout, jnp.int32(0)))(agents),
    )
    names = []
    for phase in range(program.period):
        step = jax.vmap(partial(program._agent_update, data=data, update=jnp.int32(0), phase=phase))
        names.append(set(jax.eval_shape(step, progress, agents, drawn)[1]))
    assert set().union(*names) == names[0]
    _, sums, counts = program.advance(progress, agents, data, Piece(0, 5)).interval
    assert set(sums) == set(counts) == names[0]
    for metric, count in counts.items():
        expected = sum(metric in names[update % program.period] for update in range(5))
        np.testing.assert_array_equal(count, [expected] * 3)


@every
def test_actor_and_critic_are_what_it_says_it_has(name: str) -> None:
    """The batch of one that it does not have changes nothing; the other batch does."""
    program, agents, data = build([uw.Run(small_config(name))], dataset_for(name))
    method, setup, config = program.algorithm, program.setup, program.config
    agent, state = (jax.tree.map(lambda leaf: leaf[0], tree) for tree in (agents, program.start(agents).states))
    one, other = (program._batch(agent, data, jnp.arange(8) + first, None) for first in (0, 8))
    noise = method.noise(jax.random.key(0), setup, config)

    def after(critic: Batch, actor: Batch) -> list[np.ndarray]:
        return leaves(
            method.update(state, Batches(critic, actor), noise, agent.hyper, jnp.int32(0), setup, config, 0)[0]
        )

    def differs(critic: Batch, actor: Batch) -> bool:
        return any((ours != theirs).any() for ours, theirs in zip(after(critic, actor), after(one, one), strict=True))

    assert (method.has_critic, method.has_actor) == (differs(other, one), differs(one, other))


@every
def test_config_round_trip_and_presets(name: str) -> None:
    kind = algorithms()[name].config
    for preset in kind.presets:
        config = kind.preset(preset)
        assert kind.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert "paper" in kind.presets
