"""The data that a population trains on: made or loaded, checked, described."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError, UpweightWarning
from upweight.data.columns import ArrayColumn
from upweight.data.dataset import Dataset
from upweight.data.fingerprint import content_hash, fingerprint
from upweight.data.holdout import held_out_episodes
from upweight.data.reference_scores import find_reference_scores, normalize_returns
from upweight.data.statistics import positive_sided_variance
from upweight.io.loading import load
from upweight.lab.recipes.make import make_shared_data
from upweight.lab.recipes.recipe import find_recipe
from upweight.lab.study.fit import with_actions_of
from upweight.lab.study.run_spec import DataSpec
from upweight.lab.study.store import Record
from upweight.lab.sweep.packing import Population

_HISTOGRAM_BINS = 60


@dataclass(frozen=True, eq=False)
class RunData:
    """One dataset on the device for all runs of a population, and which of its episodes each recipe is."""

    dataset: Dataset
    parts: Mapping[str, NDArray[np.int64]]  # by the recipe's name; a file is all of it
    _hashes: dict[DataSpec, str] = field(default_factory=dict)

    def episodes_of(self, data: DataSpec) -> NDArray[np.int64] | None:
        """Which episodes are learned from of a dataset; None if it is all of them."""
        whole = None if data.content is not None else self.parts[data.name]
        if (held := self._held_out(data)) is None:
            return whole
        return np.delete(np.arange(self.dataset.num_episodes) if whole is None else whole, held)

    def holdout(self, data: DataSpec) -> Record | None:
        """The episodes that are kept back, and of which dataset, by its fingerprint; None if all are learned from."""
        if (held := self._held_out(data)) is None:
            return None
        return {"episodes": held.tolist(), "fingerprint": data.content or fingerprint(self._whole(data))}

    def sha256(self, data: DataSpec) -> str:
        """Hash of a dataset's numbers, computed once."""
        if data not in self._hashes:
            self._hashes[data] = content_hash(self._whole(data))
        return self._hashes[data]

    def describe(self, data: DataSpec) -> Record:
        """What a report says about a dataset."""
        part = self._part(data)
        reference = find_reference_scores(data.env_id)
        values = part.returns if reference is None else normalize_returns(part.returns, reference)
        counts, edges = np.histogram(values, bins=_HISTOGRAM_BINS)
        return {
            "name": data.name,
            "steps": data.steps,
            "seed": data.seed,
            "content": data.content,
            "edition": data.edition,
            "holdout": data.holdout,
            "data_sha256": self.sha256(data),
            "env_id": data.env_id,
            "normalized": reference is not None,
            "episodes": part.num_episodes,
            "total_steps": part.num_steps,
            "mean": float(values.mean()),
            "rpsv": positive_sided_variance(values),
            "histogram": {"counts": counts.tolist(), "edges": [round(float(edge), 6) for edge in edges]},
        }

    def in_memory(self) -> "RunData":
        """For other computers, which may not have the files."""
        columns = {name: ArrayColumn(column.read()) for name, column in self.dataset.columns.items()}
        return replace(self, dataset=replace(self.dataset, columns=columns))

    def _held_out(self, data: DataSpec) -> NDArray[np.int64] | None:
        """Numbers of episodes, among those of the dataset."""
        return None if data.holdout is None else held_out_episodes(self._whole(data), data.holdout)

    def _whole(self, data: DataSpec) -> Dataset:
        return self._part(replace(data, holdout=None))

    def _part(self, data: DataSpec) -> Dataset:
        chosen = self.episodes_of(data)
        return self.dataset if chosen is None else self.dataset.subset(chosen)


def load_data(population: Population, *, workers: int | None = None) -> RunData:
    """Play or read it; a file that is not what it was when the run was named is an error."""
    first = population.data[0]
    if first.content is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UpweightWarning)  # the reader of the experiment loaded it and was warned
            dataset = load(first.name, **first.options)
        if (found := fingerprint(dataset)) != first.content:
            raise DatasetError(
                f"{first.name}: changed since the experiment was read (content {first.content}, now {found}); "
                "start the sweep again to train on what it holds now"
            )
        return RunData(with_actions_of(first.env_id, dataset), {})
    for data in population.data:
        if (now := find_recipe(data.name).edition) != data.edition:
            raise DatasetError(
                f"{data.name}: expected edition {data.edition}, but this version of the package makes edition {now}; "
                "remove the training from the store's folder work, or use the version that began it"
            )
    names = list(dict.fromkeys(data.name for data in population.data))
    shared = make_shared_data(names, steps=first.steps, seed=first.seed or 0, workers=workers)
    return RunData(shared.dataset, shared.episodes)
