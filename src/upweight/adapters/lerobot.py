"""LeRobot: frames drawn by weight, in the place of its ``EpisodeAwareSampler``, for every policy that it trains.

Nothing of LeRobot is imported: its datasets say where their episodes lie, and that is all a sampler needs.
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upweight.adapters.draws import GivenWeighting, episode_weights
from upweight.adapters.epochs import EpochSampler
from upweight.base.checks import whole_number
from upweight.base.errors import AdapterError, UpweightWarning
from upweight.data.validate import as_weights
from upweight.io.lerobot import IN_PLACE, EpisodeWeights, episode_numbers, read_weights
from upweight.io.loading import load
from upweight.samplers.episode import EpisodeSampler
from upweight.weightings.registry import weighting_classes

Weights = EpisodeWeights | ArrayLike | str | os.PathLike[str]
_whole_number = partial(whole_number, least=0, error=AdapterError)


class WeightedEpisodeSampler(EpochSampler):
    r"""Frames of a LeRobot dataset: of episode i, with :math:`T_i` frames that are used, one with :math:`w_i / \sum_j w_j T_j`.

    The arguments are those of ``EpisodeAwareSampler``, and ``weights``: a file that ``upweight weights`` wrote, or an array [N]
    with a weight for each of the N episodes of the dataset's metadata. An epoch has as many frames as there are, drawn with
    replacement; its order is a function of the seed and the epoch, the same on every rank, and ``state_dict`` means what it
    means there, so that LeRobot's checkpoints resume.
    """

    def __init__(
        self,
        dataset_from_indices: Sequence[int],
        dataset_to_indices: Sequence[int],
        episode_indices_to_use: Sequence[int] | None = None,
        drop_n_first_frames: int = 0,
        drop_n_last_frames: int = 0,
        shuffle: bool = True,
        seed: int = 0,
        absolute_to_relative_idx: Mapping[int, int] | None = None,
        *,
        weights: Weights,
    ) -> None:
        first, last = (np.asarray(list(ends), np.int64) for ends in (dataset_from_indices, dataset_to_indices))
        if first.shape != last.shape:
            raise AdapterError(f"expected as many ends of episodes as beginnings, found {len(last)} and {len(first)}")
        if not shuffle:
            raise AdapterError("shuffle: frames drawn by weight have no order to keep; expected True, found False")
        starts = first + _whole_number("drop_n_first_frames", drop_n_first_frames)
        lengths = last - starts - _whole_number("drop_n_last_frames", drop_n_last_frames)
        used = np.ones(len(first), bool)
        if episode_indices_to_use is not None:
            used[:] = False
            used[np.asarray(episode_indices_to_use, np.int64)] = True
        given = _by_episode(weights, last - first, used)
        short = used & (lengths <= 0)
        if (short == used).all():
            longest = max((last - first)[used], default=0)
            raise AdapterError(
                f"expected frames to draw, found none in {used.sum()} episodes: the longest has {longest} frames, of which "
                f"{drop_n_first_frames} at its start and {drop_n_last_frames} at its end are left out"
            )
        _warn_of_short(short, last - first)
        used &= ~short
        sizes = lengths[used]
        state = {"starts": starts[used], "sizes": sizes, "weights": given[used], "num_steps": last.max()}
        super().__init__(
            EpisodeSampler.from_state_dict(state), int(sizes.sum()), seed=seed, rename=absolute_to_relative_idx
        )

    @classmethod
    def for_dataset(
        cls, dataset: Any, weights: Weights | GivenWeighting | None = None, **options: Any
    ) -> "WeightedEpisodeSampler":
        """For a ``LeRobotDataset``, also of some episodes only, in a training loop of your own.

        ``weights``: a weighting or its name ("rw"), which reads rewards from the dataset's folder; or a file, or an array.
        Without it, the ``meta/upweight.parquet`` that ``upweight weights FOLDER --in-place`` writes. ``options``: ``seed``,
        ``drop_n_first_frames``, ``drop_n_last_frames``.
        """
        episodes, folder = dataset.meta.episodes, Path(dataset.root)
        if weights is None:
            weights = folder / IN_PLACE
        if callable(weights) or (isinstance(weights, str) and weights.lower() in weighting_classes()):
            read = load(folder)
            weights = EpisodeWeights(episode_numbers(folder, read), read.lengths, episode_weights(read, weights))
        elif isinstance(weights, str | os.PathLike):
            weights = read_weights(weights, folder)
        return cls(
            episodes["dataset_from_index"],
            episodes["dataset_to_index"],
            dataset.episodes,
            absolute_to_relative_idx=dataset.absolute_to_relative_idx,
            weights=weights,
            **options,
        )


def _by_episode(weights: Weights, lengths: NDArray[np.int64], used: NDArray[np.bool_]) -> NDArray[np.float64]:
    """[N] a weight for each episode of the metadata, which have ``lengths`` [N] frames; those that are ``used`` must have one."""
    if isinstance(weights, str | os.PathLike):
        weights = read_weights(weights)
    if not isinstance(weights, EpisodeWeights):
        return as_weights(weights, count=len(lengths), what="episode of the dataset's metadata")
    known = weights.episode_index
    if len(known) and (known.min() < 0 or known.max() >= len(lengths) or (lengths[known] != weights.length).any()):
        raise AdapterError(
            f"expected weights of this dataset of {len(lengths)} episodes and {lengths.sum():,} frames, found weights of "
            f"{len(known)} episodes and {weights.length.sum():,} frames: weight the dataset again"
        )
    missing = np.setdiff1d(np.flatnonzero(used), known)
    if len(missing):
        raise AdapterError(f"expected a weight for every episode that is used, found none for episode {missing[0]}")
    by_episode = np.zeros(len(lengths))
    by_episode[known] = weights.weight
    return by_episode


def _warn_of_short(short: NDArray[np.bool_], lengths: NDArray[np.int64]) -> None:
    if short.any():
        warnings.warn(
            f"{int(short.sum())} of {len(short)} episodes have no frame left and are never drawn, e.g. episode "
            f"{int(np.argmax(short))} of {lengths[short][0]} frames",
            UpweightWarning,
            stacklevel=3,
        )
