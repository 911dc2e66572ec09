"""The function around the kernels, with the kernels themselves written out in plain JAX; and, where jax can, interpreted."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support import kernels as written_out
from upweight.lab.train.kernels import networks as module
from upweight.lab.train.kernels.networks import networks
from upweight.lab.train.kernels.tiles import Tiles, gpu
from upweight.lab.train.nn import Compute, Linear, apply_stacked

pytestmark = pytest.mark.slow

NAMES = ("forward", "backward", "weight_gradient")
# agents, networks of each, rows, inputs, hidden layers, outputs
SHAPES = [
    (3, 2, 100, 14, 2, 1),
    (2, 1, 128, 27, 3, 16),
    (2, 2, 150, 35, 3, 1),
    (1, 1, 1, 63, 2, 3),
    (2, 2, 150, 200, 2, 1),
    (1, 1, 10, 400, 3, 3),
]


@pytest.fixture(params=["written out", "interpreted"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "written out":
        for name in NAMES:
            monkeypatch.setattr(module, name, getattr(written_out, name))
    elif jax.__version_info__ < (0, 11):
        pytest.skip("the kernels need jax 0.11")
    monkeypatch.setitem(Tiles.__init__.__kwdefaults__, "per_unit", 1)  # so that a few rows are several units
    return request.param


def make(agents: int, count: int, rows: int, inputs: int, depth: int, outputs: int) -> tuple[Any, Any, Any]:
    rng, sizes, layers = np.random.default_rng(0), (inputs, *[256] * depth, outputs), []
    for a, b in itertools.pairwise(sizes):
        weight, bias = (rng.uniform(-(a**-0.5), a**-0.5, (agents, count, *shape)) for shape in ((a, b), (b,)))
        layers.append(Linear(jnp.asarray(weight, jnp.float32), jnp.asarray(bias, jnp.float32)))
    x, y = rng.normal(size=(agents, rows, inputs)), rng.normal(size=(agents, count, rows, outputs))
    return tuple(layers), jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)


def gradients(function: Any, layers: Any, x: Any, y: Any) -> Any:
    """Outputs, and the gradients of a loss by weights and by inputs."""

    def loss(layers: Any, x: Any, y: Any) -> Any:
        return jnp.mean((function(layers, x) - y) ** 2)

    passes = [jax.grad(loss), jax.grad(loss, argnums=1), lambda layers, x, y: function(layers, x)]
    return [jax.jit(jax.vmap(each))(layers, x, y) for each in passes]


def plain(dtype: Any) -> Any:
    return lambda layers, x: apply_stacked(layers, x, Compute(dtype))


def errors(found: Any, exact: Any) -> Any:
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(exact), strict=True)
    return np.array([float(jnp.linalg.norm((a - b).ravel()) / jnp.linalg.norm(b.ravel())) for a, b in pairs])


@pytest.mark.parametrize("shape", SHAPES)
def test_as_exact_as_plain_bfloat16(kernels: str, shape: tuple[int, ...]) -> None:
    """Against float64: values, gradients by weights and by inputs; batches that fill no tile, inputs of all widths.

    float32, which stands for it on a GPU (benchmarks/kernels.py), is as good as that.
    """
    if kernels == "interpreted" and shape not in (SHAPES[2], SHAPES[4]):
        pytest.skip("15 s each")
    arrays = make(*shape)
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda array: array.astype(jnp.float64), arrays)
        exact = jax.tree.map(np.asarray, gradients(plain(jnp.float64), *wide))
    assert exact[0][0].weight.dtype == np.float64 and errors(gradients(plain(jnp.float32), *arrays), exact).max() < 1e-4
    ours, theirs = errors(gradients(networks, *arrays), exact), errors(gradients(plain(jnp.bfloat16), *arrays), exact)
    assert (ours < 1.4 * theirs + 0.01).all(), (ours, theirs)
    assert ours.max() < 0.2


def test_agents_are_independent(kernels: str) -> None:
    """Each alone gives what it gives among others, and what is not a number in one stays there."""
    if kernels == "interpreted":
        pytest.skip("minutes")
    layers, x, y = make(3, 2, 100, 14, 2, 1)
    together = gradients(networks, layers, x, y)
    broken = gradients(networks, layers, x.at[1].set(jnp.nan), y)
    for place in (0, 2):
        alone = gradients(networks, *jax.tree.map(lambda leaf, place=place: leaf[place : place + 1], (layers, x, y)))
        for one, all_, beside in zip(*map(jax.tree.leaves, (alone, together, broken)), strict=True):
            np.testing.assert_allclose(one[0], all_[place], rtol=1e-5, atol=1e-7)
            np.testing.assert_array_equal(all_[place], beside[place])
    assert jnp.isnan(broken[2][1]).all()


def test_only_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gradient by inputs computes none by weights, and the other way round; values alone save nothing."""
    called: list[str] = []

    def watched(name: str) -> Any:
        def kernel(*arrays: Any, **options: Any) -> Any:
            saving, to_inputs = options.get("masks"), name == "backward" and arrays[0] is None
            called.append(name + (" saving" if saving else " to inputs" if to_inputs else ""))
            return getattr(written_out, name)(*arrays, **options)

        return kernel

    for name in NAMES:
        monkeypatch.setattr(module, name, watched(name))
    layers, x, _ = jax.tree.map(lambda leaf: leaf[0], make(1, 2, 10, 5, 2, 1))
    networks(layers, x)
    assert called == ["forward"]
    called.clear()
    jax.grad(lambda x: networks(layers, x).sum())(x)
    assert called == ["forward saving", "backward to inputs"]
    called.clear()
    jax.grad(lambda layers: networks(layers, x).sum())(layers)
    assert called == ["forward saving", "backward", "weight_gradient"]


@pytest.mark.skipif(jax.__version_info__ < (0, 11), reason="the kernels need jax 0.11")
@pytest.mark.parametrize(("inputs", "outputs"), [(14, 1), (20, 3), (40, 1), (400, 3)])
def test_become_a_gpus_program(inputs: int, outputs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All kernels, for inputs of all widths, as far as that goes without one."""
    monkeypatch.setattr(gpu, "InterpretGPUParams", lambda: None)
    arrays = jax.tree.map(lambda leaf: leaf[0], make(1, 3, 300, inputs, 2, outputs))
    both = jax.grad(lambda layers, x, y: jnp.mean((networks(layers, x) - y) ** 2), argnums=(0, 1))
    text = jax.jit(both).trace(*arrays).lower(lowering_platforms=("cuda",)).as_text()
    for name in ("forward", "backward", "backward_to_inputs", "weight_gradient"):
        assert f"mlp_{name}_mosaic" in text or f'"mlp_{name}"' in text


def test_masks_are_packed_and_unpacked() -> None:
    off = np.random.default_rng(0).integers(0, 2, (5, 256)).astype(bool)
    words = np.asarray(written_out.pack(jnp.asarray(off)))
    assert words.shape == (5, 8) and (words[2, 3] >> 31 - 7) & 1 == off[2, 8 * 7 + 3]
    np.testing.assert_array_equal(written_out.unpack(jnp.asarray(words)), off)
