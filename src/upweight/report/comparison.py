"""Samplers that can be compared: the same method, on the same datasets."""

from dataclasses import dataclass

from upweight.report.names import DatasetName, Sampler
from upweight.report.results import Results

FAMILIES = {"mixed": "mixed datasets", "regular": "regular datasets", "stochastic": "stochastic control"}


@dataclass(frozen=True)
class Group:
    """Samplers of one method that can be compared: they all have runs on all of the datasets."""

    method: str
    family: str
    samplers: tuple[Sampler, ...]
    datasets: tuple[DatasetName, ...]


def groups_of(results: Results, method: str) -> list[Group]:
    """For each family of datasets the usual samplers, on the datasets that all of them have runs on.

    A family with one sampler compares nothing, and is left out if others compare something.
    """
    found = []
    for family in FAMILIES:
        datasets = results.datasets_of(method, family=family)
        samplers = results.usual_samplers(method, datasets)
        common = results.comparable(method, [sampler.name for sampler in samplers], datasets)
        if common:
            found.append(Group(method, family, tuple(samplers), tuple(common)))
    return [group for group in found if len(group.samplers) > 1] or found
