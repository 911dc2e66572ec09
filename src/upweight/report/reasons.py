"""Why a figure has nothing to draw: the true reason, as the end of a sentence."""

from collections.abc import Sequence

from upweight.report.names import UNIFORM, DatasetName
from upweight.report.results import Results

NO_DESCRIPTION = "the store does not describe the datasets"
NO_SCALE = "scores are returns of environments without reference scores, which cannot be aggregated"


def why_nothing_shared(results: Results, samplers: Sequence[str], datasets: Sequence[DatasetName]) -> str:
    """Why no dataset serves to compare all of the samplers."""
    if not any(results.is_normalized(dataset) for dataset in datasets):
        return NO_SCALE
    return f"no dataset has runs of all of {', '.join(samplers)}"


def why_nothing_beside_uniform(results: Results, method: str) -> str:
    """Why no sampler can be compared with Uniform."""
    datasets = results.datasets_of(method)
    names = [sampler.name for sampler in results.usual_samplers(method, datasets)]
    if UNIFORM not in names:
        return "there are no runs with Uniform"
    if len(names) == 1:
        return "there are no runs with another sampler than Uniform"
    shared = [name for name in names if name != UNIFORM and _share(results, method, name, datasets)]
    return NO_SCALE if shared else "no sampler has runs on the same datasets as Uniform"


def _share(results: Results, method: str, sampler: str, datasets: Sequence[DatasetName]) -> bool:
    """Whether a sampler and Uniform have runs on a dataset in common, whatever its scale."""
    first, second = (results.scores(method, name, datasets) for name in (sampler, UNIFORM))
    return bool(first.keys() & second.keys())
