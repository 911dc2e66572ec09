r"""Settings that d3rlpy does not have, against the same updates written out in PyTorch, in float64.

Losses are PyTorch's formulas and distributions, gradients its autograd, steps its Adam; nothing of the engine is used but the
numbers at the start. Every step of the order in which networks learn shows at 1e-10.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from upweight.lab.train.algorithm import Batch, Batches, Setup, find_algorithm
from upweight.lab.train.nn import Compute
from upweight.lab.train.run import algorithm_config

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch")
OBSERVATION, ACTION, COUNT, TOTAL = 4, 3, 32, 50
DISCOUNT, TAU = 0.99, 0.005


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


class Networks:
    """A state's parameters as PyTorch tensors, with an optimiser for each part that learns."""

    def __init__(self, state: Any, rates: dict[str, float], together: dict[str, str] | None = None) -> None:
        self.parts = {
            name: jax.tree.map(self.tensor, value)
            for name, value in state._asdict().items()
            if not name.endswith("moments")
        }
        for name, extra in (together or {}).items():
            self.parts[f"{name} and {extra}"] = (self.parts[name], self.parts[extra])
        self.optimizers = {
            name: torch.optim.Adam(jax.tree.leaves(self.parts[name]), lr=rate, eps=1e-8) for name, rate in rates.items()
        }

    @staticmethod
    def tensor(leaf: Any) -> Any:
        return torch.tensor(np.array(leaf), dtype=torch.float64, requires_grad=True)

    def __getitem__(self, name: str) -> Any:
        return self.parts[name]

    def learn(self, name: str, loss: Any) -> float:
        """One step of Adam on one part; what flows into the others is dropped."""
        optimizer = self.optimizers[name]
        optimizer.zero_grad()
        loss.backward(inputs=jax.tree.leaves(self.parts[name]))
        optimizer.step()
        return loss.item()

    def follow(self, target: str, online: str) -> None:
        with torch.no_grad():
            for slow, fast in zip(*(jax.tree.leaves(self.parts[name]) for name in (target, online)), strict=True):
                slow.copy_((1 - TAU) * slow + TAU * fast)


def run(layers: Any, x: Any) -> Any:
    for layer in layers[:-1]:
        x = torch.relu(x @ layer.weight + layer.bias)
    return x @ layers[-1].weight + layers[-1].bias


def both(critics: Any, x: Any) -> Any:
    """[2, ..., out]: the outputs of two stacked critics."""
    return torch.stack([run(jax.tree.map(lambda leaf, k=k: leaf[k], critics), x) for k in range(2)])


def make_batch(rng: np.random.Generator, discrete: bool) -> tuple[Batch, dict[str, Any]]:
    observations, following = 2 * rng.normal(size=(2, COUNT, OBSERVATION))
    actions = rng.integers(0, ACTION, COUNT) if discrete else rng.uniform(-1, 1, (COUNT, ACTION))
    if not discrete:
        actions[0] = 1.0, -1.0, 1.0  # at the bounds
    rewards, terminated = 3 * rng.normal(size=COUNT), (rng.random(COUNT) < 0.2).astype(float)
    arrays = (observations, actions, rewards, following, terminated)
    s, a, r, after, done = map(torch.tensor, arrays)
    return Batch(*map(jnp.asarray, arrays), None), {"s": s, "a": a, "r": r, "next": after, "done": done}


def compare(
    name: str,
    config: Any,
    rates: dict[str, float],
    reference: Callable[[Networks, dict[str, Any], int, Any], dict[str, float]],
    *,
    steps: tuple[int, ...] = (0, 1, 2),
    change: Callable[[Any], Any] = lambda state: state,
    together: dict[str, str] | None = None,
) -> None:
    """Some updates by the engine and by ``reference``: metrics at each, all parameters at the end."""
    algorithm = find_algorithm(name)
    setup = Setup(OBSERVATION, ACTION, jnp.dtype("float64"), Compute(jnp.dtype("float64")))
    state = change(algorithm.init(jax.random.key(0), setup, config))
    networks = Networks(state, rates, together)
    hyper = {key: jnp.float64(value) for key, value in config.traced_values(TOTAL).items()}

    @jax.jit
    def update(state: Any, batch: Batch, noise: Any, step: Any) -> Any:
        return algorithm.update(state, Batches(batch, batch), noise, hyper, step, setup, config, 0)

    rng = np.random.default_rng(1)
    for step in steps:
        ours, theirs = make_batch(rng, algorithm.discrete)
        noise = algorithm.noise(jax.random.key(step), setup, config)
        state, metrics = update(state, ours, noise, jnp.int32(step))
        noises = None if noise is None else jax.tree.map(lambda leaf: torch.tensor(np.array(leaf)), noise)
        expected = reference(networks, theirs, step, noises)
        assert expected.keys() == metrics.keys()
        for key, value in expected.items():
            np.testing.assert_allclose(metrics[key], value, rtol=1e-10, err_msg=f"{key} at {step}")
    for part, value in state._asdict().items():
        if not part.endswith("moments"):
            for mine, other in zip(jax.tree.leaves(value), jax.tree.leaves(networks[part]), strict=True):
                np.testing.assert_allclose(mine, other.detach().numpy(), rtol=0, atol=1e-10, err_msg=part)


def expectile_loss(u: Any) -> Any:
    return (torch.abs(0.7 - (u < 0).double()) * u**2).mean()


def decayed(step: int) -> float:
    return 3e-4 * (1 + math.cos(math.pi * step / TOTAL)) / 2


SMALL = {"hidden_units": (16, 16), "batch_size": COUNT}


def test_official_iql() -> None:
    """V, then the actor with the new V, then Q with the new V, then the targets."""
    clipped = []

    def reference(n: Networks, b: dict[str, Any], step: int, _: Any) -> dict[str, float]:
        pairs = torch.cat([b["s"], b["a"]], 1)
        q = both(n["target_critics"], pairs)[..., 0].min(0).values.detach()
        v_loss = n.learn("value", expectile_loss(q - run(n["value"], b["s"])[:, 0]))
        advantage = (q - run(n["value"], b["s"])[:, 0]).detach()
        weight = torch.exp(3 * advantage)
        clipped.append((weight > 100).any())
        spread = torch.exp(torch.clamp(n["std_parameter"], -5, 2))
        policy = torch.distributions.Normal(torch.tanh(run(n["actor"], b["s"])), spread)
        log_prob = policy.log_prob(torch.clamp(b["a"], -1 + 1e-5, 1 - 1e-5)).sum(-1)
        n.optimizers["actor and std_parameter"].param_groups[0]["lr"] = decayed(step)
        pi_loss = n.learn("actor and std_parameter", -(torch.clamp(weight, max=100) * log_prob).mean())
        target = (b["r"] + DISCOUNT * (1 - b["done"]) * run(n["value"], b["next"])[:, 0]).detach()
        q_loss = n.learn("critics", ((both(n["critics"], pairs)[..., 0] - target) ** 2).mean(1).sum())
        n.follow("target_critics", "critics")
        return {"critic_loss": q_loss, "value_loss": v_loss, "actor_loss": pi_loss}

    compare(
        "iql",
        algorithm_config("iql", preset="official", **SMALL),
        {"value": 3e-4, "critics": 3e-4, "actor and std_parameter": 3e-4},
        reference,
        change=lambda state: state._replace(std_parameter=jnp.array([0.0, 3.0, -1.0])),  # one of them beyond its range
        together={"actor": "std_parameter"},
    )
    assert any(clipped)


def test_discrete_iql() -> None:
    """Q and V together, Q with the old V; the actor, a categorical, with the new V."""

    def reference(n: Networks, b: dict[str, Any], step: int, _: Any) -> dict[str, float]:
        taken = torch.arange(COUNT), b["a"]
        q = both(n["target_critics"], b["s"])[(slice(None), *taken)].min(0).values.detach()
        target = (b["r"] + DISCOUNT * (1 - b["done"]) * run(n["value"], b["next"])[:, 0]).detach()
        v_loss = n.learn("value", expectile_loss(q - run(n["value"], b["s"])[:, 0]))
        q_loss = n.learn("critics", ((both(n["critics"], b["s"])[(slice(None), *taken)] - target) ** 2).mean(1).sum())
        advantage = (q - run(n["value"], b["s"])[:, 0]).detach()
        weight = torch.clamp(torch.exp(3 * advantage), max=100)
        policy = torch.distributions.Categorical(logits=run(n["actor"], b["s"]))
        n.optimizers["actor"].param_groups[0]["lr"] = decayed(step)
        pi_loss = n.learn("actor", -(weight * policy.log_prob(b["a"])).mean())
        n.follow("target_critics", "critics")
        return {"critic_loss": q_loss, "value_loss": v_loss, "actor_loss": pi_loss}

    rates = {"value": 3e-4, "critics": 3e-4, "actor": 3e-4}
    compare("discrete_iql", algorithm_config("discrete_iql", **SMALL), rates, reference)


def tanh_normal(outputs: Any) -> Any:
    """The policy of 2a outputs: means and log sigmas before tanh."""
    base = torch.distributions.Normal(outputs[..., :ACTION], torch.exp(torch.clamp(outputs[..., ACTION:], -20, 2)))
    tanh = torch.distributions.transforms.TanhTransform(cache_size=1)
    return torch.distributions.TransformedDistribution(base, [tanh])


def sample(outputs: Any, noise: Any) -> tuple[Any, Any]:
    """Actions made from ``noise``, and their log-densities."""
    policy = tanh_normal(outputs)
    raw = policy.base_dist.loc + policy.base_dist.scale * noise
    action = policy.transforms[0](raw)  # which remembers raw, so the density is that of raw itself
    return action, policy.log_prob(action).sum(-1)


@pytest.mark.parametrize(
    ("preset", "weight", "rate", "imitation", "steps"),
    [
        ("official", 5, 1e-4, 40_000, (0, 1, 2)),
        ("official", 5, 1e-4, 40_000, (39_999, 40_000, 40_001)),
        ("jaxcql", 10, 3e-4, 0, (0, 1, 2)),
    ],
)
def test_official_cql_and_jaxcql(
    preset: str, weight: float, rate: float, imitation: int, steps: tuple[int, ...]
) -> None:
    """The conservative term counts ``weight`` for each critic; the actor imitates at first (or not), then follows Q."""
    samples = 4

    def reference(n: Networks, b: dict[str, Any], step: int, noise: Any) -> dict[str, float]:
        with torch.no_grad():
            after, _ = sample(run(n["actor"], b["next"]), noise.target)
            next_values = both(n["target_critics"], torch.cat([b["next"], after], 1))[..., 0].min(0).values
            target = b["r"] + DISCOUNT * (1 - b["done"]) * next_values
            here = sample(run(n["actor"], b["s"])[:, None], noise.here)
            there = sample(run(n["actor"], b["next"])[:, None], noise.there)
            anywhere = (noise.anywhere, torch.full((COUNT, samples), -ACTION * math.log(2), dtype=torch.float64))
            actions = torch.cat([part[0] for part in (here, there, anywhere)], 1)
            densities = torch.cat([part[1] for part in (here, there, anywhere)], 1)
        states = b["s"][:, None].expand(-1, 3 * samples, -1)
        total, gaps = 0.0, 0.0
        for k in range(2):
            critic = jax.tree.map(lambda leaf, k=k: leaf[k], n["critics"])
            q = run(critic, torch.cat([b["s"], b["a"]], 1))[:, 0]
            others = run(critic, torch.cat([states, actions], 2))[..., 0]
            gap = (torch.logsumexp(others - densities, 1) - q).mean()
            total, gaps = total + torch.nn.functional.mse_loss(q, target) + weight * gap, gaps + gap.item() / 2
        _, log_prob = sample(run(n["actor"], b["s"]), noise.actor)
        q_loss = n.learn("critics", total)
        entropy_gap = (log_prob - ACTION).detach().mean()
        n.learn("log_temperature", -torch.exp(n["log_temperature"]) * entropy_gap)
        temperature = torch.exp(n["log_temperature"]).detach()
        outputs = run(n["actor"], b["s"])
        action, log_prob = sample(outputs, noise.actor)
        if step < imitation:
            gain = tanh_normal(outputs).log_prob(torch.clamp(b["a"], -1 + 1e-6, 1 - 1e-6)).sum(-1)
        else:
            gain = both(n["critics"], torch.cat([b["s"], action], 1))[..., 0].min(0).values
        pi_loss = n.learn("actor", (temperature * log_prob - gain).mean())
        n.follow("target_critics", "critics")
        return {
            "critic_loss": q_loss,
            "conservative_loss": gaps,
            "actor_loss": pi_loss,
            "temperature": temperature.item(),
        }

    config = algorithm_config("cql", preset=preset, **SMALL, action_samples=samples)
    compare("cql", config, {"critics": 3e-4, "actor": rate, "log_temperature": rate}, reference, steps=steps)


def test_jaxcql_begins_with_small_last_layers_and_a_sigma_of_about_one_in_e() -> None:
    """Last weights have the variance 0.01 / 256, so outputs are small: the mean is near 0, log sigma near -1."""
    config = algorithm_config("cql", preset="jaxcql")
    assert "initial_log_std" not in algorithm_config("cql").to_dict()  # so that runs keep their names
    setup = Setup(OBSERVATION, ACTION, jnp.dtype("float64"), Compute(jnp.dtype("float64")))
    state = find_algorithm("cql").init(jax.random.key(0), setup, config)
    assert [layer.weight.shape for layer in state.actor] == [(OBSERVATION, 256), (256, 256), (256, 2 * ACTION)]
    np.testing.assert_array_equal(state.actor[-1].bias, [0.0] * ACTION + [-1.0] * ACTION)
    for last in (state.actor[-1], state.critics[-1]):
        assert np.asarray(last.weight).std() == pytest.approx(0.1 / 16, rel=0.1)
        assert np.abs(last.weight).max() <= 3**0.5 * 0.1 / 16
    assert not any(layer.bias.any() for layer in (*state.actor[:-1], *state.critics))
    actor = jax.tree.map(Networks.tensor, state.actor)
    outputs = run(actor, torch.tensor(np.random.default_rng(0).normal(size=(99, OBSERVATION)))).detach()
    np.testing.assert_allclose(outputs[:, ACTION:], -1, atol=0.5)
