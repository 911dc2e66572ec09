"""Formulas with numbers worked out by hand."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from upweight.lab.train.losses import (
    batch_mean,
    expectile,
    huber,
    normal_log_prob,
    tanh_normal,
    tanh_normal_log_prob,
    td_target,
)
from upweight.lab.train.nn import (
    Compute,
    Linear,
    adam_step,
    apply_critics,
    apply_mlp,
    cosine_decay,
    init_adam,
    init_mlp,
    soft_update,
)


def test_losses() -> None:
    np.testing.assert_allclose(expectile(jnp.array([2.0, -2.0]), jnp.float32(0.7)), [2.8, 1.2], rtol=1e-6)
    np.testing.assert_allclose(huber(jnp.array([0.5, -0.5, 3.0])), [0.125, 0.125, 2.5])
    target = td_target(jnp.array([1.0, 1.0]), jnp.array([0.0, 1.0]), jnp.float32(0.9), jnp.array([10.0, 10.0]))
    np.testing.assert_allclose(target, [10.0, 1.0])
    assert batch_mean(jnp.array([1.0, 3.0]), None) == 2.0
    assert batch_mean(jnp.array([1.0, 3.0]), jnp.array([0.0, 2.0])) == 3.0


def test_log_densities_agree_with_scipy() -> None:
    rng = np.random.default_rng(0)
    x, mean, log_std = rng.normal(size=(3, 5, 2))
    expected = stats.norm(mean, np.exp(log_std)).logpdf(x).sum(axis=1)
    np.testing.assert_allclose(normal_log_prob(x, mean, log_std), expected, rtol=1e-5)
    action, log_prob = tanh_normal(jnp.asarray(mean), jnp.asarray(log_std), jnp.asarray(x))
    raw = mean + np.exp(log_std) * x
    expected = (stats.norm(mean, np.exp(log_std)).logpdf(raw) - np.log(1 - np.tanh(raw) ** 2)).sum(axis=1)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-3)
    np.testing.assert_allclose(tanh_normal_log_prob(action, mean, log_std), log_prob, rtol=1e-2, atol=1e-3)


def test_network_by_hand() -> None:
    layers = (
        Linear(jnp.array([[1.0, -1.0]]), jnp.array([0.0, 0.5])),
        Linear(jnp.array([[2.0], [4.0]]), jnp.array([1.0])),
    )
    np.testing.assert_allclose(apply_mlp(layers, jnp.array([[3.0], [-3.0]]), Compute(jnp.float32)), [[7.0], [15.0]])


def test_critics_see_observation_and_action_side_by_side() -> None:
    import jax

    critics = jax.vmap(lambda key: init_mlp(key, (3, 4, 1), dtype=jnp.float32))(jax.random.split(jax.random.key(0)))
    observations, actions = jnp.ones((5, 2)), jnp.arange(10.0).reshape(5, 2, 1)
    many = apply_critics(critics, observations, actions, Compute(jnp.float32))
    assert many.shape == (2, 5, 2)
    np.testing.assert_allclose(
        many[:, :, 1], apply_critics(critics, observations, actions[:, 1], Compute(jnp.float32)), rtol=1e-6
    )


@pytest.mark.parametrize("scheme", ["torch", "orthogonal", "lecun"])
def test_initialisation(scheme: str) -> None:
    import jax

    weight, bias, _ = init_mlp(jax.random.key(0), (64, 32, 1), scheme=scheme, dtype=jnp.float32)[0]
    weight = np.asarray(weight)
    if scheme == "torch":
        assert np.abs(weight).max() <= 1 / 8
        assert 0.1 < np.abs(bias).max() <= 1 / 8
    else:
        assert not bias.any()
    if scheme == "orthogonal":
        np.testing.assert_allclose(weight.T @ weight, 2 * np.eye(32), atol=1e-5)
    if scheme == "lecun":  # the spread of a normal number that is cut off at 2 is 0.8796
        assert weight.std() == pytest.approx(1 / 8, rel=0.05)
        assert 0.23 < np.abs(weight).max() <= 2 / 8 / 0.8796
    small = init_mlp(jax.random.key(0), (64, 32, 1), scheme=scheme, final_bound=3e-3, dtype=jnp.float32)[-1]
    assert np.abs(small.weight).max() <= 3e-3


def test_optimiser() -> None:
    parameters = jnp.array([1.0, 1.0])
    after, _ = adam_step(jnp.array([5.0, -0.1]), init_adam(parameters), parameters, jnp.float32(0.1))
    np.testing.assert_allclose(after, [0.9, 1.1], rtol=1e-5)  # Adam's first step is the rate, whatever the gradient
    assert cosine_decay(jnp.int32(0), jnp.float32(10)) == 1.0
    assert cosine_decay(jnp.int32(5), jnp.float32(10)) == pytest.approx(0.5)
    assert cosine_decay(jnp.int32(20), jnp.float32(10)) == pytest.approx(0.0, abs=1e-6)
    np.testing.assert_allclose(soft_update(jnp.array(1.0), jnp.array(3.0), 0.25), 1.5)
