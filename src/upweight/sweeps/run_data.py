"""The data that a population trains on: made or loaded, checked, described."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.data.dataset import Dataset
from upweight.data.fingerprint import fingerprint
from upweight.data.reference_scores import find_reference_scores, normalize_returns
from upweight.data.statistics import positive_sided_variance
from upweight.loading import load
from upweight.recipes.pools import make_pool
from upweight.studies.fit import with_actions_of
from upweight.studies.run_spec import DataSpec
from upweight.studies.store import Record
from upweight.sweeps.packing import Population

_HISTOGRAM_BINS = 60


@dataclass(frozen=True, eq=False)
class RunData:
    """One dataset on the device for all runs of a population, and which of its episodes each recipe is."""

    dataset: Dataset
    episodes: dict[str, NDArray[np.int64]]  # by the recipe's name; a file is all of it

    def episodes_of(self, data: DataSpec) -> NDArray[np.int64] | None:
        return None if data.content is not None else self.episodes[data.name]

    def describe(self, data: DataSpec) -> Record:
        """What a report says about one of the datasets."""
        chosen = self.episodes_of(data)
        return describe_dataset(data, self.dataset if chosen is None else self.dataset.subset(chosen))


def data_key(population: Population) -> tuple[DataSpec, ...]:
    """Populations with the same key train on the same data.

    It follows from the population alone, whatever else a sweep has to do: the checkpoints of a training fit its data only.
    """
    return tuple(dict.fromkeys(run.data for run in population.runs))


def load_data(population: Population, *, workers: int | None = None) -> RunData:
    """Play or read it; a file that is not what it was when the run was named is an error."""
    specs = data_key(population)
    first = specs[0]
    if first.content is not None:
        dataset = load(first.name, **first.options)
        if (found := fingerprint(dataset)) != first.content:
            raise DatasetError(
                f"{first.name}: changed since the experiment was read (content {first.content}, now {found}); "
                "start the sweep again to train on what it holds now"
            )
        return RunData(with_actions_of(first.env_id, dataset), {})
    names = list(dict.fromkeys(data.name for data in specs))
    pool = make_pool(names, steps=first.steps, seed=first.seed or 0, workers=workers)
    return RunData(pool.dataset, pool.episodes)


def describe_dataset(data: DataSpec, dataset: Dataset) -> Record:
    """What a report says about a dataset."""
    reference = find_reference_scores(data.env_id)
    values = dataset.returns if reference is None else normalize_returns(dataset.returns, reference)
    counts, edges = np.histogram(values, bins=_HISTOGRAM_BINS)
    return {
        "name": data.name,
        "steps": data.steps,
        "seed": data.seed,
        "content": data.content,
        "env_id": data.env_id,
        "normalized": reference is not None,
        "episodes": dataset.num_episodes,
        "total_steps": dataset.num_steps,
        "mean": float(values.mean()),
        "rpsv": positive_sided_variance(values),
        "histogram": {"counts": counts.tolist(), "edges": [round(float(edge), 6) for edge in edges]},
    }
