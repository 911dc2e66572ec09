"""What the fused kernels compute, written out in plain JAX: same arguments, same roundings, any device and version."""

from typing import Any

import jax
import jax.numpy as jnp

BF16, F32 = jnp.bfloat16, jnp.float32
_SHIFTS = 31 - jnp.arange(32, dtype=jnp.uint32)


def forward(x: Any, first: Any, middle: Any, last: Any, *, keep: tuple[int, ...], masks: bool) -> Any:
    z, hidden, words = _per_network(x, first), [], []
    for layer, pair in enumerate([None, *middle]):
        if pair is not None:
            z = _product("nrh,nhg->nrg", hidden[-1], pair[0]) + pair[1].astype(BF16).astype(F32)[:, None]
        words.append(pack(z < 0))
        exact = jax.nn.relu(z)
        hidden.append(exact.astype(BF16))
        assert layer < 3
    out = (
        jnp.einsum("nrh,nh->nr", exact, last.astype(F32))
        if last.ndim == 2
        else _product("nrh,noh->nro", hidden[-1], last)
    )
    return out, [hidden[layer] for layer in keep], words if masks else []


def backward(x: Any, first: Any, weights: Any, last: Any, g: Any, words: Any) -> Any:
    deltas = _deltas(weights, last, g, words)
    if x is None:
        return [], _product("nrh,nhp->nrp", deltas[0], first)
    if x.shape[1] >= 64:
        return deltas, None
    each = deltas[0].reshape(len(x), -1, *deltas[0].shape[1:])
    summed = _product("apr,akrh->akph", x, each)
    return deltas[1:], summed.reshape(-1, *summed.shape[2:])


def weight_gradient(x: Any, source: Any, delta: Any) -> Any:
    h = source if x is None else jax.nn.relu(_per_network(x, source)).astype(BF16)
    return _product("nrh,nrg->nhg", h, delta).astype(BF16), delta.astype(F32).sum(1)


def pack(off: Any) -> Any:
    """[..., 256] flags as int32 [..., 8]: bit c of word j is unit 8 c + j."""
    bits = off.reshape(*off.shape[:-1], 32, 8).astype(jnp.uint32) << _SHIFTS[:, None]
    return jax.lax.bitcast_convert_type(bits.sum(-2, dtype=jnp.uint32), jnp.int32)


def unpack(words: Any) -> Any:
    bits = jax.lax.bitcast_convert_type(words, jnp.uint32)[..., None, :] >> _SHIFTS[:, None]
    return (bits & 1).reshape(*words.shape[:-1], 256).astype(bool)


def _deltas(weights: Any, last: Any, g: Any, words: Any) -> list[Any]:
    """Gradients before the ReLUs, first layer first."""
    z = g[..., None] * last[:, None].astype(F32) if g.ndim == 2 else _product("nro,noh->nrh", g, last)
    found = [jnp.where(unpack(words[-1]), 0, z).astype(BF16)]
    for weight, off in zip(weights[::-1], words[-2::-1], strict=True):
        z = _product("nrg,nhg->nrh", found[0], weight)
        found.insert(0, jnp.where(unpack(off), 0, z).astype(BF16))
    return found


def _per_network(x: Any, first: Any) -> Any:
    z = _product("arp,akph->akrh", x, first.reshape(len(x), -1, *first.shape[1:]))
    return z.reshape(-1, *z.shape[2:])


def _product(what: str, a: Any, b: Any) -> Any:
    """Of bfloat16 numbers, summed in float32."""
    return jnp.einsum(what, a.astype(F32), b.astype(F32), precision="highest")
