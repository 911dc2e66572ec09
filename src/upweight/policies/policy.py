"""What training yields: a small network that maps observations to actions."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from upweight.base.errors import ConfigError, DatasetError
from upweight.base.text import Shown
from upweight.policies.safetensors_file import read_safetensors, write_safetensors

FORMAT_VERSION = 1
KINDS = ("deterministic", "gaussian", "tanh_gaussian", "categorical", "greedy")
LOG_STD_RANGE = (-20.0, 2.0)  # of tanh_gaussian
Layer = tuple[NDArray[Any], NDArray[Any]]  # weights [in, out], bias [out]
Randomness = np.random.Generator | Sequence[np.random.Generator]  # one for all rows, or one per row


@dataclass(frozen=True, eq=False, repr=False)
class Policy(Shown):
    """A multi-layer perceptron with ReLU between layers, and what its outputs mean.

    - ``deterministic``: tanh(x) is the action
    - ``gaussian``: N(tanh(x), sigma), sigma the same in every state
    - ``tanh_gaussian``: tanh(N(mean, sigma)), outputs are the means and then the log sigmas
    - ``categorical``: outputs are logits of discrete actions
    - ``greedy``: outputs are values of discrete actions; the highest is taken

    Examples:
        >>> policy.act(np.array([[1.0]])).round(2)
        array([[0.76]], dtype=float32)
    """

    kind: str
    layers: tuple[Layer, ...]
    observation_mean: NDArray[Any]  # [d], subtracted
    observation_scale: NDArray[Any]  # [d], divided by
    log_std: NDArray[Any] | None = None  # [a] of gaussian
    action_low: NDArray[Any] | None = None  # [a], what -1 stands for; None if actions are discrete
    action_high: NDArray[Any] | None = None  # [a], what +1 stands for
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check(self)

    @property
    def observation_size(self) -> int:
        return len(self.observation_mean)

    @property
    def is_discrete(self) -> bool:
        return self.kind in {"categorical", "greedy"}

    def act(self, observations: ArrayLike, rng: Randomness | None = None) -> NDArray[Any]:
        """Actions for observations [E, d] (or one [d]): the deterministic ones, or sampled ones if ``rng`` is given.

        With a sequence of E generators, row i is sampled by the i-th alone, so it does not depend on the other rows.
        """
        given = np.asarray(observations, np.float32)
        batch = np.atleast_2d(given)
        if given.ndim not in {1, 2} or batch.shape[1] != self.observation_size:
            raise ValueError(f"expected observations [E, {self.observation_size}], found shape {given.shape}")
        if rng is not None and not isinstance(rng, np.random.Generator) and len(rng) != len(batch):
            raise ValueError(f"expected one generator, or one for each of {len(batch)} rows, found {len(rng)}")
        actions = self._choose(self._outputs(batch), rng)
        return actions[0] if given.ndim == 1 else actions

    def probabilities(self, observations: ArrayLike) -> NDArray[np.float64]:
        """[E, A] of discrete actions, as they are sampled; 1 for the highest value of a greedy policy."""
        if not self.is_discrete:
            raise ConfigError(
                f"expected a policy of discrete actions, found a {self.kind} one: continuous actions have no probabilities; "
                "draw some with act(observations, rng)"
            )
        outputs = self._outputs(np.atleast_2d(np.asarray(observations, np.float32))).astype(np.float64)
        if self.kind == "greedy":
            return np.eye(outputs.shape[1])[np.argmax(outputs, axis=1)]
        odds = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    def deterministic(self) -> "Policy":
        """The policy that always acts as this one does without ``rng``."""
        if self.kind == "categorical":
            return replace(self, kind="greedy")
        if self.kind in {"greedy", "deterministic"}:
            return self
        assert self.action_low is not None
        weights, bias = (array[..., : len(self.action_low)] for array in self.layers[-1])
        return replace(self, kind="deterministic", layers=(*self.layers[:-1], (weights, bias)), log_std=None)

    def save(self, path: str | Path, *, dtype: DTypeLike = np.float32) -> None:
        """Write one safetensors file, completely or not at all; ``dtype=np.float16`` halves it."""
        arrays = {"observation_mean": self.observation_mean, "observation_scale": self.observation_scale}
        for number, (weights, bias) in enumerate(self.layers):
            arrays[f"layer{number}.weight"] = weights.astype(dtype)
            arrays[f"layer{number}.bias"] = bias.astype(dtype)
        for name in ("log_std", "action_low", "action_high"):
            if (array := getattr(self, name)) is not None:
                arrays[name] = array
        about = {"upweight_policy": str(FORMAT_VERSION), "kind": self.kind, "metadata": json.dumps(dict(self.metadata))}
        write_safetensors(Path(path), arrays, about)

    def _facts(self) -> dict[str, Any]:
        widths = [len(bias) for _, bias in self.layers]
        return {"kind": self.kind, "observation_size": self.observation_size, "layers": widths}

    def _outputs(self, observations: NDArray[np.float32]) -> NDArray[Any]:
        x = (observations - self.observation_mean) / self.observation_scale
        for weights, bias in self.layers[:-1]:
            x = np.maximum(x @ weights + bias, 0)
        weights, bias = self.layers[-1]
        return x @ weights + bias

    def _choose(self, outputs: NDArray[Any], rng: Randomness | None) -> NDArray[Any]:
        if self.is_discrete:
            if rng is not None and self.kind == "categorical":
                outputs = outputs + _gumbel(rng, outputs.shape)
            return np.argmax(outputs, axis=1)
        assert self.action_low is not None
        size = len(self.action_low)
        if self.kind == "tanh_gaussian":
            mean, log_std = outputs[:, :size], np.clip(outputs[:, size:], *LOG_STD_RANGE)
            noise = 0.0 if rng is None else np.exp(log_std) * _normal(rng, mean.shape)
            squashed = np.tanh(mean + noise)
        else:
            squashed = np.tanh(outputs)
            if rng is not None and self.kind == "gaussian":
                assert self.log_std is not None
                noise = np.exp(self.log_std) * _normal(rng, outputs.shape)
                squashed = np.clip(squashed + noise, -1, 1)
        middle, half_range = self._action_range
        return (squashed * half_range + middle).astype(np.float32, copy=False)

    @cached_property
    def _action_range(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """[a] the centre of the action range, and half its width."""
        assert self.action_low is not None and self.action_high is not None
        half_range = (self.action_high - self.action_low) / 2
        return self.action_low + half_range, half_range


def _normal(rng: Randomness, shape: tuple[int, ...]) -> NDArray[np.float32]:
    if isinstance(rng, np.random.Generator):
        return rng.standard_normal(shape, np.float32)
    return np.stack([one.standard_normal(shape[1:], np.float32) for one in rng])


def _gumbel(rng: Randomness, shape: tuple[int, ...]) -> NDArray[np.float64]:
    if isinstance(rng, np.random.Generator):
        return rng.gumbel(size=shape)
    return np.stack([one.gumbel(size=shape[1:]) for one in rng])


def load_policy(path: str | Path) -> Policy:
    """The policy that :meth:`Policy.save` wrote; needs NumPy only.

    Examples:
        >>> policy.save("policy.safetensors")
        >>> uw.load_policy("policy.safetensors").kind
        'deterministic'
    """
    arrays, about = read_safetensors(Path(path))
    if about.get("upweight_policy") != str(FORMAT_VERSION):
        raise DatasetError(
            f"{path}: expected a policy file of version {FORMAT_VERSION}, found {about.get('upweight_policy', 'none')}"
        )
    count = sum(name.endswith(".weight") for name in arrays)

    def single(name: str) -> NDArray[Any]:
        return arrays[name].astype(np.float32, copy=False)

    try:
        return Policy(
            kind=about["kind"],
            layers=tuple((single(f"layer{i}.weight"), single(f"layer{i}.bias")) for i in range(count)),
            observation_mean=arrays["observation_mean"],
            observation_scale=arrays["observation_scale"],
            log_std=arrays.get("log_std"),
            action_low=arrays.get("action_low"),
            action_high=arrays.get("action_high"),
            metadata=json.loads(about.get("metadata", "{}")),
        )
    except ConfigError as error:
        raise DatasetError(f"{path}: {error}") from None
    except (KeyError, ValueError) as error:
        raise DatasetError(f"{path}: the policy file lacks {error}") from None


def find_policies(path: Path) -> list[Path]:
    """The policy files of a training's folder (in the order of its runs) or of a sweep's store; or the one file given."""
    if not path.is_dir():
        return [path]
    found = sorted((path / "policies").glob("*.safetensors"))
    if not found:
        raise DatasetError(
            f"{path}: expected policies/run-000.safetensors, ... in it, found none; "
            "give the folder of a finished `upweight train`, or one policy file"
        )
    return found


def _check(policy: Policy) -> None:
    """Refuse parts that do not fit together."""
    if policy.kind not in KINDS:
        raise ConfigError(f"unknown kind of policy {policy.kind!r}; known: {', '.join(KINDS)}")
    width = policy.observation_size
    for number, (weights, bias) in enumerate(policy.layers):
        if weights.ndim != 2 or weights.shape[0] != width or bias.shape != weights.shape[1:]:
            raise ConfigError(f"layer {number} of the policy has shape {weights.shape} after {width} numbers")
        width = weights.shape[1]
    if not policy.layers or policy.observation_scale.shape != policy.observation_mean.shape:
        raise ConfigError("the policy has no layers, or its normaliser does not fit")
    if not policy.is_discrete:
        bounds = {"action_low": policy.action_low, "action_high": policy.action_high}
        bounds |= {"log_std": policy.log_std} if policy.kind == "gaussian" else {}
        size = width // 2 if policy.kind == "tanh_gaussian" else width
        for name, array in bounds.items():
            if array is None or array.shape != (size,):
                found = "none" if array is None else f"shape {array.shape}"
                raise ConfigError(f"{name} of a {policy.kind} policy: expected {size} numbers, found {found}")
