r"""Minari: weights of its episodes from their metadata, kept in their metadata; and datasets of ours as datasets of Minari.

A weight belongs to an episode: the w_i sum to 1 over the episodes of a dataset, or of a filtered view of it, in the order of its
``episode_indices``. Drawing *episodes* by them (:func:`sample_episodes`) gives episode i with probability :math:`w_i`. Drawing
*steps* (:func:`upweight.batches` on :func:`as_dataset`) gives one of its steps with probability
:math:`w_i T_i / \sum_j w_j T_j`.
"""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upweight.adapters.draws import Draws, GivenWeighting, episode_weights as weights_of_dataset
from upweight.adapters.host import imports_from
from upweight.base.checks import yes_or_no
from upweight.base.errors import AdapterError, DataLossWarning, WeightingError
from upweight.base.files import atomic_target
from upweight.data.columns import Column
from upweight.data.dataset import Dataset
from upweight.data.given import AnyDataset
from upweight.io.loading import load
from upweight.io.minari import write
from upweight.io.minari_objects import is_whole, read
from upweight.samplers.episode import EpisodeSampler

with imports_from("minari", extra="minari", oldest="0.5.4", below="0.6"):
    import minari
    from minari import MinariDataset
    from minari.dataset.minari_dataset import parse_dataset_id
    from minari.namespace import create_namespace, list_local_namespaces
    from minari.serialization import serialize_space
    from minari.storage import get_dataset_path

_RECORD = "upweight_weights"  # in a dataset's metadata: which keys of its episodes are weights, and of how many


def as_dataset(source: MinariDataset, *, observation_key: str | None = None) -> Dataset:
    """What :func:`upweight.load` makes of ``source``: its episodes, whose arrays are read when they are looked at.

    Of a filtered view they are its own, in their order. Observations that are dictionaries are laid side by side, unless
    ``observation_key`` picks an entry.
    """
    return read(source, observation_key=observation_key)


def episode_weights(source: MinariDataset, weighting: GivenWeighting) -> NDArray[np.float64]:
    """[N] weights of the episodes of ``source``, from its metadata where they hold returns, else from the rewards.

    ``weighting``: a weighting, its short name ("rw"), a function of the dataset, or an array. The first observation of each
    episode is read if the weighting asks for it (AW), nothing else.
    """
    return weights_of_dataset(as_dataset(source), weighting)


def write_weights(
    source: MinariDataset, weighting: GivenWeighting, *, key: str = "upweight", overwrite: bool = False
) -> NDArray[np.float64]:
    """Keep weights [N] as metadata ``key`` of each episode, and return them; episodes outside a filtered view get 0.

    Weights that are kept under the key already are refused, unless ``overwrite`` replaces them.
    """
    storage = _checked(source).storage
    known = storage.metadata.get(_RECORD, {})
    if not yes_or_no("overwrite", overwrite, error=AdapterError) and known.get(key) is not None:
        raise AdapterError(f"{source.id}: there are weights {key!r} already; choose another key, or overwrite=True")
    weights = episode_weights(source, weighting)
    (first,) = storage.get_episode_metadata([0])
    if "/" in key or (key in first and key not in known):
        raise AdapterError(f"{source.id}: key {key!r} is in use, or holds a slash; choose another key for the weights")
    everywhere = np.zeros(storage.total_episodes)
    np.add.at(everywhere, source.episode_indices, weights)
    storage.update_metadata({_RECORD: {**known, key: None}})  # until all episodes are written
    storage.update_episode_metadata(({key: float(weight)} for weight in everywhere), range(len(everywhere)))
    storage.update_metadata({_RECORD: {**known, key: _size(source)}})
    return weights


def read_weights(source: MinariDataset, *, key: str = "upweight") -> NDArray[np.float64]:
    """[N] the weights that :func:`write_weights` kept; those of a filtered view are scaled to sum to 1."""
    storage = _checked(source).storage
    known = {name: size for name, size in storage.metadata.get(_RECORD, {}).items() if size is not None}
    if key not in known:
        found = ", ".join(known) or "none"
        raise AdapterError(f"{source.id}: expected weights under the key {key!r}, found {found}; see write_weights")
    before, now = known[key], _size(source)
    if before != now:
        raise AdapterError(
            f"{source.id}: the weights {key!r} are of {before['episodes']:,} episodes with {before['steps']:,} steps, "
            f"and there are {now['episodes']:,} with {now['steps']:,} by now: weight the dataset again, with overwrite=True"
        )
    weights = np.array([entry[key] for entry in storage.get_episode_metadata(source.episode_indices)], np.float64)
    if is_whole(source):
        return weights
    if not weights.any():
        raise WeightingError(f"{source.id}: the weights {key!r} of all {len(weights)} episodes of this view are 0")
    return weights / weights.sum()


def sample_episodes(source: MinariDataset, weights: ArrayLike, count: int, *, seed: int = 0) -> NDArray[np.int64]:
    """[count] ids of episodes, each drawn with probability w_i, with replacement; for ``source.iterate_episodes(ids)``.

    The same ``seed`` gives the same episodes; give another one to every call that should draw others.
    """
    ids = np.asarray(_checked(source).episode_indices, np.int64)
    one_step_each = np.ones(len(ids), np.int64)
    return ids[Draws(EpisodeSampler.from_lengths(one_step_each, weights), seed).rows(count)]


def export_mix(
    dataset: AnyDataset,
    dataset_id: str,
    *,
    env: Any = None,
    description: str | None = None,
    overwrite: bool = False,
) -> MinariDataset:
    """Write a dataset into Minari's local folder, completely or not at all; ``minari.load_dataset(dataset_id)`` opens it.

    ``env``, the Gymnasium environment the data are from, gives the spaces their bounds and lets Minari recover it. What
    Minari cannot express is warned about. An id that exists is refused, unless ``overwrite`` replaces its dataset once the new
    one is complete.
    """
    dataset = load(dataset)
    path = _path_for(dataset_id, overwrite)
    changes = {"dataset_id": dataset_id} | ({} if env is None else _described(env, dataset))
    if description is not None:
        changes["description"] = description
    namespace, _, _ = parse_dataset_id(dataset_id)
    if namespace is not None and namespace not in list_local_namespaces():
        create_namespace(namespace)
    with atomic_target(path, overwrite=overwrite) as target:
        lost = write(dataset, target)
        metadata = target / "data" / "metadata.json"
        metadata.write_text(json.dumps({**json.loads(metadata.read_text("utf-8")), **changes}), "utf-8")
    if lost:
        warnings.warn(f"{dataset_id}: Minari does not keep {'; '.join(lost)}", DataLossWarning, stacklevel=2)
    return minari.load_dataset(dataset_id)


def _checked(source: MinariDataset) -> MinariDataset:
    if not isinstance(source, MinariDataset):
        raise AdapterError(f"expected a MinariDataset (see minari.load_dataset), found {type(source).__name__}")
    return source


def _size(source: MinariDataset) -> dict[str, int]:
    return {"episodes": int(source.storage.total_episodes), "steps": int(source.storage.total_steps)}


def _path_for(dataset_id: str, overwrite: bool) -> Path:
    """Where Minari keeps a dataset of this id; refused if there is one that is not to be replaced."""
    try:
        parse_dataset_id(dataset_id)
    except (ValueError, TypeError):  # the latter if it has no version
        raise AdapterError(
            f"expected an id like 'mixes/hopper-v0' (a namespace, a name, a version), found {dataset_id!r}"
        ) from None
    path = Path(get_dataset_path(dataset_id))
    if not yes_or_no("overwrite", overwrite, error=AdapterError) and path.exists():
        raise AdapterError(
            f"{path}: there is a dataset {dataset_id!r} already; choose another version, or overwrite=True"
        )
    return path


def _described(env: Any, dataset: Dataset) -> dict[str, str]:
    """What Minari keeps about an environment: its spaces, and how to make it."""
    described = {
        "observation_space": serialize_space(
            _space_of(env.observation_space, dataset.columns["observations"], "observations")
        ),
        "action_space": serialize_space(_space_of(env.action_space, dataset.columns["actions"], "actions")),
    }
    return described if env.spec is None else {**described, "env_spec": env.spec.to_json()}


def _space_of(space: Any, column: Column, what: str) -> Any:
    """The environment's space, in the dtype of the data [M, ...]."""
    from gymnasium import spaces

    kind, shape = column.dtype, column.shape[1:]
    if isinstance(space, spaces.Discrete) and shape == () and kind.kind in "iu":
        if space.start <= column.read().min() and column.read().max() < space.start + space.n:
            return space
    elif isinstance(space, spaces.Box) and space.shape == shape and space.dtype.kind == kind.kind:
        with np.errstate(over="ignore"):  # a bound beyond the dtype is none
            low, high = space.low.astype(kind), space.high.astype(kind)
        return spaces.Box(low, high, dtype=kind.type)
    raise AdapterError(
        f"the {what} are {kind} of shape {shape} from {column.read().min()} to {column.read().max()}, "
        f"which does not fit the environment's {space}"
    )
