"""Where the kernels are used."""

import itertools

import jax.numpy as jnp
import pytest

from upweight.base.errors import ConfigError
from upweight.lab.train.kernels.choice import fits, use_fused, worthwhile
from upweight.lab.train.nn import Linear


def test_elsewhere_xla_computes() -> None:
    assert not use_fused("auto", jnp.bfloat16) and not use_fused("xla", jnp.bfloat16)
    with pytest.raises(
        ConfigError, match="'fused' was asked for, but they compute in bfloat16, and the precision is float32"
    ):
        use_fused("fused", jnp.float32)
    with pytest.raises(ConfigError, match=r"compute capability 9.0, and the device is cpu; use 'auto' or 'xla'"):
        use_fused("fused", jnp.bfloat16)
    with pytest.raises(
        ConfigError, match=r"kernels: expected one of auto, xla, fused, found 'fuse'.*did you mean 'fused'"
    ):
        use_fused("fuse", jnp.bfloat16)


@pytest.mark.parametrize(
    ("sizes", "known"),
    [
        ((14, 256, 256, 1), True),
        ((63, 256, 256, 256, 16), True),
        ((511, 256, 256, 1), True),
        ((512, 256, 256, 1), False),
        ((14, 256, 1), False),
        ((14, 256, 256, 256, 256, 1), False),
        ((14, 256, 128, 1), False),
        ((14, 256, 256, 17), False),
    ],
)
def test_shapes(sizes: tuple[int, ...], known: bool) -> None:
    layers = [Linear(jnp.zeros((a, b)), jnp.zeros(b)) for a, b in itertools.pairwise(sizes)]
    assert fits(layers, sizes[0]) == known


def test_populations() -> None:
    """Many agents, or many rows; and what was asked for must be possible."""
    known = (256, 256)
    assert worthwhile(known, 256, 1000) and worthwhile(known, 1, 2**18) and not worthwhile(known, 1, 1000)
    assert worthwhile(known, 24, 1000) and not worthwhile(known, 23, 1000) and not worthwhile((128, 128), 256, 1000)
    assert worthwhile(known, 64, 1000, inputs=383) and not worthwhile(known, 63, 1000, inputs=64)
    assert not worthwhile(known, 1, 2**18, inputs=64) and not worthwhile(known, 256, 1000, inputs=384)
    assert worthwhile(known, 1, 1000, choice="fused") and worthwhile(known, 1, 1000, inputs=400, choice="fused")
    with pytest.raises(
        ConfigError, match=r"they know two or three hidden layers of 256 units, and hidden_units is \(256,\)"
    ):
        worthwhile((256,), 256, 1000, choice="fused")
    with pytest.raises(
        ConfigError, match="up to 511 inputs, and an observation and an action have 512 numbers; use 'auto' or 'xla'"
    ):
        worthwhile(known, 256, 1000, inputs=512, choice="fused")
