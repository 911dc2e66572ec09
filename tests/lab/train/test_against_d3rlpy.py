"""Losses and updates against d3rlpy's own: same weights, same batches, same noise."""

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.policies import random_policy
from support.training import fqe_hyper
from upweight.lab.select import fqe
from upweight.lab.train.algorithm import Batch, Batches, Setup, find_algorithm
from upweight.lab.train.choices import make_choices, take_choices
from upweight.lab.train.nn import Compute, Linear, init_adam
from upweight.lab.train.run import algorithm_config

pytestmark = pytest.mark.slow
OBSERVATION, ACTION, COUNT, HIDDEN = 5, 3, 64, [32, 32]
NEVER = 1e12  # updates over which the actor's rate would decay


@pytest.fixture(scope="module")
def d3rlpy() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import d3rlpy

        d3rlpy.seed(0)
        return d3rlpy


class Noises:
    """Random numbers handed to torch in the order in which d3rlpy asks for them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import torch

        self.queue: list[np.ndarray] = []
        monkeypatch.setattr(torch, "randn", lambda shape, **_: self.pop(shape))
        monkeypatch.setattr(
            torch.distributions.normal, "_standard_normal", lambda shape, dtype, device: self.pop(shape)
        )
        monkeypatch.setattr(torch.Tensor, "uniform_", lambda tensor, low, high: tensor.copy_(self.pop(tensor.shape)))

    def pop(self, shape: Any) -> Any:
        import torch

        array = self.queue.pop(0)
        assert tuple(array.shape) == tuple(shape)
        return torch.tensor(array)


def linear(module: Any) -> Linear:
    return Linear(
        jnp.asarray(module.weight.detach().numpy().T.copy()), jnp.asarray(module.bias.detach().numpy().copy())
    )


def mlp(encoder: Any, *heads: Any) -> Any:
    """Our layers from a d3rlpy encoder and its heads (laid side by side)."""
    import torch

    hidden = [linear(layer) for layer in encoder._layers if isinstance(layer, torch.nn.Linear)]
    outputs = [linear(head) for head in heads]
    last = Linear(jnp.concatenate([o.weight for o in outputs], 1), jnp.concatenate([o.bias for o in outputs]))
    return (*hidden, last)


def stack(networks: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *networks)


def critics(modules: Any) -> Any:
    return stack([mlp(q._encoder, q._fc) for q in modules])


def assert_same(ours: Any, theirs: Any) -> None:
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6 if np.ndim(b) else 0)


def make_batch(rng: np.random.Generator, discrete: bool) -> tuple[Batch, Any]:
    """The same transitions for us and for d3rlpy."""
    import torch
    from d3rlpy.torch_utility import TorchMiniBatch

    observations, following = rng.normal(size=(2, COUNT, OBSERVATION)).astype(np.float32)
    actions = (
        rng.integers(0, ACTION, (COUNT, 1)) if discrete else rng.uniform(-1, 1, (COUNT, ACTION)).astype(np.float32)
    )
    rewards = rng.normal(size=(COUNT, 1)).astype(np.float32)
    terminated = (rng.random((COUNT, 1)) < 0.2).astype(np.float32)
    zeros = np.zeros_like(rewards)
    theirs = TorchMiniBatch(
        observations=torch.tensor(observations),
        actions=torch.tensor(actions, dtype=torch.float32),
        rewards=torch.tensor(rewards),
        next_observations=torch.tensor(following),
        next_actions=torch.tensor(actions, dtype=torch.float32),
        returns_to_go=torch.tensor(zeros),
        terminals=torch.tensor(terminated),
        intervals=torch.tensor(np.ones_like(rewards)),
        device="cpu",
    )
    ours = Batch(
        jnp.asarray(observations),
        jnp.asarray(actions[:, 0] if discrete else actions),
        jnp.asarray(rewards[:, 0]),
        jnp.asarray(following),
        jnp.asarray(terminated[:, 0]),
        None,
    )
    return ours, theirs


def train_both(
    name: str,
    config: Any,
    impl: Any,
    read: Callable[[], dict[str, Any]],
    *,
    moments: dict[str, str | tuple[str, ...]],
    noise: Callable[[np.random.Generator], tuple[Any, list[np.ndarray]]] | None = None,
    noises: Noises | None = None,
    losses: dict[str, str],
) -> None:
    """Five updates of both; losses are compared at each, parameters (as ``read``) after the first and the last.

    ``moments``: of which parts the state has moments, under which name.
    """
    algorithm = find_algorithm(name)
    parts = read()
    of = {
        key: parts[names] if isinstance(names, str) else tuple(parts[each] for each in names)
        for key, names in moments.items()
    }
    state = algorithm.init.__globals__["State"](**parts, **{key: init_adam(part) for key, part in of.items()})
    setup = Setup(OBSERVATION, ACTION, jnp.dtype("float32"), Compute(jnp.dtype("float32")))
    hyper = {key: jnp.float32(value) for key, value in config.traced_values(1).items()}
    rng = np.random.default_rng(0)
    for step in range(5):
        ours, theirs = make_batch(rng, algorithm.discrete)
        ours_noise = None
        if noise is not None and noises is not None:
            ours_noise, noises.queue = noise(rng)
        phase = step % algorithm.period(config)
        state, metrics = algorithm.update(
            state, Batches(ours, ours), ours_noise, hyper, jnp.int32(step), setup, config, phase
        )
        reported = impl.inner_update(theirs, step)
        assert noises is None or not noises.queue
        for mine, other in losses.items():
            if mine in metrics:
                np.testing.assert_allclose(metrics[mine], reported[other], rtol=1e-4, atol=1e-6)
        if step in (0, 4):
            for part, theirs in read().items():
                assert_same(getattr(state, part), theirs)


def build(d3rlpy: Any, config: Any) -> Any:
    algo = config.create(device="cpu:0")
    algo.create_impl((OBSERVATION,), ACTION)
    return algo.impl


def encoder(d3rlpy: Any) -> Any:
    return d3rlpy.models.encoders.VectorEncoderFactory(HIDDEN)


OURS = {"hidden_units": tuple(HIDDEN), "batch_size": COUNT}


def test_bc(d3rlpy: Any) -> None:
    impl = build(d3rlpy, d3rlpy.algos.BCConfig(encoder_factory=encoder(d3rlpy)))
    policy = impl._modules.imitator
    train_both(
        "bc",
        algorithm_config("bc", **OURS),
        impl,
        lambda: {"actor": mlp(policy._encoder, policy._fc)},
        moments={"moments": "actor"},
        losses={"loss": "loss"},
    )


def test_td3_bc(d3rlpy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    factory = encoder(d3rlpy)
    config = d3rlpy.algos.TD3PlusBCConfig(actor_encoder_factory=factory, critic_encoder_factory=factory)
    impl = build(d3rlpy, config)
    m = impl._modules

    def read() -> dict[str, Any]:
        return {
            "actor": mlp(m.policy._encoder, m.policy._fc),
            "critics": critics(m.q_funcs),
            "target_actor": mlp(m.targ_policy._encoder, m.targ_policy._fc),
            "target_critics": critics(m.targ_q_funcs),
        }

    def noise(rng: np.random.Generator) -> tuple[Any, list[np.ndarray]]:
        array = rng.normal(size=(COUNT, ACTION)).astype(np.float32)
        return jnp.asarray(array), [array]

    train_both(
        "td3_bc",
        algorithm_config("td3_bc", **OURS),
        impl,
        read,
        moments={"actor_moments": "actor", "critic_moments": "critics"},
        noise=noise,
        noises=Noises(monkeypatch),
        losses={"critic_loss": "critic_loss", "actor_loss": "actor_loss"},
    )


def test_iql(d3rlpy: Any) -> None:
    factory = encoder(d3rlpy)
    config = d3rlpy.algos.IQLConfig(
        actor_encoder_factory=factory, critic_encoder_factory=factory, value_encoder_factory=factory
    )
    impl = build(d3rlpy, config)
    m = impl._modules

    def read() -> dict[str, Any]:
        return {
            "actor": mlp(m.policy._encoder, m.policy._mu),
            "std_parameter": jnp.asarray(m.policy._logstd.detach().numpy()[0].copy()),
            "critics": critics(m.q_funcs),
            "value": mlp(m.value_func._encoder, m.value_func._fc),
            "target_critics": critics(m.targ_q_funcs),
        }

    train_both(
        "iql",
        algorithm_config("iql", **OURS, actor_decay_updates=NEVER),
        impl,
        read,
        moments={"actor_moments": ("actor", "std_parameter"), "critic_moments": "critics", "value_moments": "value"},
        losses={"critic_loss": "q_loss", "value_loss": "v_loss", "actor_loss": "actor_loss"},
    )


def test_cql(d3rlpy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """d3rlpy 2 sums the conservative term over critics where version 1 averaged it: half the weight is the same loss."""
    factory, samples = encoder(d3rlpy), 4
    config = d3rlpy.algos.CQLConfig(
        actor_encoder_factory=factory,
        critic_encoder_factory=factory,
        alpha_learning_rate=0.0,
        initial_alpha=1.0,
        alpha_threshold=0.0,
        conservative_weight=2.5,
        n_action_samples=samples,
    )
    impl = build(d3rlpy, config)
    m = impl._modules

    def read() -> dict[str, Any]:
        return {
            "actor": mlp(m.policy._encoder, m.policy._mu, m.policy._logstd),
            "critics": critics(m.q_funcs),
            "target_critics": critics(m.targ_q_funcs),
            "log_temperature": jnp.asarray(next(m.log_temp.parameters()).detach().numpy().reshape(()).copy()),
        }

    def noise(rng: np.random.Generator) -> tuple[Any, list[np.ndarray]]:
        kind = find_algorithm("cql").noise.__globals__["Noise"]
        here, there = rng.normal(size=(2, COUNT, samples, ACTION)).astype(np.float32)
        anywhere = rng.uniform(-1, 1, (COUNT, samples, ACTION)).astype(np.float32)
        actor = rng.normal(size=(COUNT, ACTION)).astype(np.float32)
        asked = [here.transpose(1, 0, 2), there.transpose(1, 0, 2), anywhere.reshape(-1, ACTION), actor]
        return kind(*map(jnp.asarray, (here, there, anywhere, actor, actor))), asked

    train_both(
        "cql",
        algorithm_config("cql", **OURS, action_samples=samples),
        impl,
        read,
        moments={"actor_moments": "actor", "critic_moments": "critics", "temperature_moments": "log_temperature"},
        noise=noise,
        noises=Noises(monkeypatch),
        losses={"critic_loss": "critic_loss", "actor_loss": "actor_loss", "temperature": "temp"},
    )


def test_discrete_bc(d3rlpy: Any) -> None:
    impl = build(d3rlpy, d3rlpy.algos.DiscreteBCConfig(encoder_factory=encoder(d3rlpy)))
    policy = impl._modules.imitator
    train_both(
        "discrete_bc",
        algorithm_config("discrete_bc", **OURS, penalize="log_probs"),  # as version 2 does
        impl,
        lambda: {"actor": mlp(policy._encoder, policy._fc)},
        moments={"moments": "actor"},
        losses={"loss": "loss"},
    )


def test_discrete_cql(d3rlpy: Any) -> None:
    config = d3rlpy.algos.DiscreteCQLConfig(encoder_factory=encoder(d3rlpy), target_update_interval=3)
    impl = build(d3rlpy, config)
    m = impl._modules

    def read() -> dict[str, Any]:
        return {
            "critic": mlp(m.q_funcs[0]._encoder, m.q_funcs[0]._fc),
            "target": mlp(m.targ_q_funcs[0]._encoder, m.targ_q_funcs[0]._fc),
        }

    train_both(
        "discrete_cql",
        algorithm_config("discrete_cql", **OURS, target_every_updates=3),
        impl,
        read,
        moments={"moments": "critic"},
        losses={"critic_loss": "loss", "conservative_loss": "conservative_loss"},
    )


class Given(np.random.Generator):
    """Hands out the numbers it was given."""

    def __init__(self, numbers: np.ndarray) -> None:
        super().__init__(np.random.PCG64(0))
        self.numbers = numbers

    def standard_normal(self, *_: Any, **__: Any) -> np.ndarray:
        return self.numbers


@pytest.mark.parametrize("kind", ["deterministic", "tanh_gaussian", "greedy"])
def test_fitted_q_evaluation(d3rlpy: Any, kind: str) -> None:
    """Our clipping, decay and moving target are switched off, and d3rlpy's hard copy is far.

    For discrete actions d3rlpy has Huber's loss, half of a square within 1: rewards are small there, so that errors are.
    """
    import torch

    discrete = kind == "greedy"
    owner = build(d3rlpy, d3rlpy.algos.DiscreteBCConfig() if discrete else d3rlpy.algos.BCConfig())
    settings = d3rlpy.ope.FQEConfig(learning_rate=3e-4, encoder_factory=encoder(d3rlpy))
    evaluator = (d3rlpy.ope.DiscreteFQE if discrete else d3rlpy.ope.FQE)(SimpleNamespace(impl=owner), settings)
    evaluator.create_impl((OBSERVATION,), ACTION)
    network = evaluator.impl._modules.q_funcs[0]
    critic = mlp(network._encoder, network._fc)
    state = fqe.State(critic, critic, init_adam(critic))
    policy = random_policy(kind, observation=OBSERVATION, action=ACTION)
    bounds = None if discrete else (policy.action_low, policy.action_high)
    setup = Setup(OBSERVATION, ACTION, jnp.dtype("float32"), Compute(jnp.dtype("float32")))
    hyper, rng = fqe_hyper(tau=0.0, weight_decay=0.0), np.random.default_rng(0)
    for _ in range(5):
        ours, theirs = make_batch(rng, discrete)
        if discrete:
            ours, theirs.rewards[:] = ours._replace(rewards=0.1 * ours.rewards), 0.1 * theirs.rewards
        following, noise = np.asarray(ours.next_observations), rng.standard_normal((COUNT, ACTION), np.float32)
        drawn = kind == "tanh_gaussian"
        acted = torch.tensor(policy.act(following, Given(noise) if drawn else None))
        evaluator.impl._algo = SimpleNamespace(predict_best_action=lambda _, acted=acted: acted)
        choices = make_choices([policy], following, bounds, np.dtype("float32"))
        batch = ours._replace(next_choice=take_choices(choices, jnp.int32(0), jnp.arange(COUNT)))
        epsilon = jnp.asarray(noise) if drawn else None
        state, metrics = fqe.update(state, Batches(batch, batch), epsilon, hyper, 0, setup, fqe.FQEConfig(), 0)
        reported = evaluator.impl.inner_update(theirs, 1)["loss"]
        np.testing.assert_allclose(metrics["loss"], 2 * reported if discrete else reported, rtol=1e-4)
    theirs = mlp(network._encoder, network._fc)
    if not discrete:
        assert_same(state.critic, theirs)
    for a, b in zip(jax.tree.leaves(state.critic), jax.tree.leaves(theirs), strict=True):
        assert (
            np.isclose(a, b, rtol=1e-4, atol=2e-6).mean() > 0.99
        )  # half a loss moves Adam alike, unless slopes are near 0
