"""robomimic: its ``SequenceDataset`` drawing by the weights of demonstrations, through the hook that it has for that.

Nothing of robomimic is imported: a dataset of its says which file it reads, and where the sequences of each demonstration lie.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from upweight.adapters.draws import GivenWeighting, episode_weights
from upweight.adapters.epochs import EpochSampler
from upweight.base.errors import AdapterError
from upweight.data.validate import as_weights
from upweight.io.loading import load
from upweight.io.robomimic_hdf5 import demo_names
from upweight.samplers.episode import EpisodeSampler

_NEEDED = ("hdf5_path", "demos", "_demo_id_to_start_indices", "total_num_sequences")


def draw_by_weight(trainset: Any, weighting: GivenWeighting, *, seed: int = 0, **options: Any) -> Any:
    r"""Let ``trainset``, a ``SequenceDataset``, draw by weight, and give it back.

    Of demonstration i, which has :math:`T_i` sequences, each is drawn with probability :math:`w_i / \sum_j w_j T_j`: robomimic's
    training asks ``trainset.get_dataset_sampler()``, and gets a sampler of as many sequences per epoch as there are.
    ``weighting``: a weighting, its name or a function, of the demonstrations that ``trainset`` has, read by :func:`upweight.load`
    with these ``options`` (``success="better"``, a mask); or an array with a weight for each of ``trainset.demos``.
    """
    missing = [name for name in _NEEDED if not hasattr(trainset, name)]
    if missing:
        raise AdapterError(
            f"expected a SequenceDataset of robomimic 0.3 or newer, found {type(trainset).__name__} without {missing[0]!r}"
        )
    starts = np.array([trainset._demo_id_to_start_indices[demo] for demo in trainset.demos], np.int64)
    lengths = np.diff(starts, append=trainset.total_num_sequences)
    if callable(weighting) or isinstance(weighting, str):
        path = Path(trainset.hdf5_path)
        place = {demo: number for number, demo in enumerate(demo_names(path))}
        dataset = load(path, **options)
        if dataset.num_episodes != len(place):
            raise AdapterError(
                f"expected all {len(place)} demonstrations of {path}, found {dataset.num_episodes}: leave out masks"
            )
        weights = episode_weights(dataset.subset([place[demo] for demo in trainset.demos]), weighting)
    else:
        weights = as_weights(weighting, count=len(trainset.demos), what="demonstration of trainset.demos")
    sampler = EpochSampler(EpisodeSampler.from_lengths(lengths, weights), int(lengths.sum()), seed=seed)
    trainset.get_dataset_sampler = partial(_given, sampler)  # goes to worker processes with the dataset
    return trainset


def _given(sampler: EpochSampler) -> EpochSampler:
    return sampler
