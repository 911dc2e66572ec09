r"""Weights for a library that only reads files: a dataset in which episodes repeat in proportion to their weight.

Uniform draws from its steps are then weighted draws from the steps of the original,

.. math:: n_i \approx c\,w_i \quad\Rightarrow\quad
   \frac{n_i}{\sum_j n_j T_j} \approx \frac{w_i}{\sum_j w_j T_j}

with :math:`n_i` copies of episode i, :math:`T_i` trainable steps in it and :math:`c = \text{steps} / \sum_j w_j T_j`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.adapters.draws import GivenWeighting, checked_seed, episode_weights
from upweight.base.checks import finite_number, whole_number
from upweight.base.errors import AdapterError, WeightingError
from upweight.data.dataset import Dataset
from upweight.data.given import AnyDataset, as_dataset
from upweight.data.statistics import effective_episodes
from upweight.weightings.registry import make_weighting
from upweight.weightings.weighting import Weighting

_LOSS = 0.1  # of effective episodes, that nobody has to allow
_MOST_DOUBLINGS = 40  # of the number of steps, in search of one that loses little


def resample(
    dataset: AnyDataset,
    weighting: GivenWeighting,
    *,
    steps: int | None = None,
    seed: int = 0,
    may_lose: float = _LOSS,
) -> Dataset:
    """Whole episodes, each repeated in proportion to its weight, for libraries that draw uniformly from a file.

    The number of copies of an episode differs from its expectation by less than one (systematic resampling). Episodes whose
    weight is small may have no copy. ``metadata["resample"]`` says how many effective episodes the weights have and how many
    of them the copies keep.

    Args:
        dataset: a dataset, or anything that :func:`upweight.load` makes one of.
        weighting: a weighting, its name, a function of the dataset, or weights [N].
        steps: trainable steps of the result, about; those of the dataset if nothing is said.
        seed: of the one random number that decides who is rounded up.
        may_lose: largest share of the weights' effective episodes that the copies may lose. A size that loses more is refused.

    Examples:
        >>> uw.resample(ds, [0, 0, 0, 0, 1, 1, 1, 2], steps=15).returns.tolist()
        [4.0, 5.0, 6.0, 7.0, 7.0]
    """
    data, seed = as_dataset(dataset), checked_seed(seed)
    weights = episode_weights(data, weighting)
    wanted = data.num_transitions.sum() if steps is None else steps
    wanted = whole_number("steps", wanted, least=1, error=AdapterError)
    may_lose = finite_number("may_lose", may_lose, least=0, below=1, error=AdapterError)
    expected = weights * (wanted / float(weights @ data.num_transitions))  # [N]
    copies = _copies(expected, np.random.default_rng(seed))
    effective = effective_episodes(weights)
    kept = effective_episodes(copies) if copies.any() else 0.0
    if kept < (1 - may_lose) * effective:
        raise AdapterError(
            f"{data.source}: {wanted:,} steps keep {kept:,.1f} of {effective:,.1f} effective episodes and lose "
            f"{1 - kept / effective:.0%}, more than may_lose={may_lose:g} allows (--may-lose). Ask for about "
            f"{_enough(expected, wanted, may_lose):,} steps, or allow the loss"
        )
    order = np.repeat(np.arange(len(copies)), copies)
    which_copy = np.arange(len(order)) - np.repeat(np.cumsum(copies) - copies, copies)
    resampled = data.subset(order[np.argsort(which_copy, kind="stable")])  # all first copies, all second ones, ...
    return resampled.with_metadata(
        resample={
            "weighting": _described(make_weighting(weighting) if isinstance(weighting, str) else weighting),
            "seed": seed,
            "steps": int(resampled.num_transitions.sum()),
            "distinct_episodes": int((copies > 0).sum()),
            "most_copies": int(copies.max()),
            "effective_episodes": kept,
            "effective_episodes_of_weights": effective,
        }
    )


def _described(weighting: Any) -> dict[str, Any]:
    """Name and settings; "given" for arrays and functions, and the name alone where a setting cannot be written as JSON."""
    if not isinstance(weighting, Weighting):
        return {"name": "given"}
    try:
        return weighting.to_dict()
    except WeightingError:
        return {"name": weighting.name}


def _copies(expected: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    r"""[N] :math:`\lfloor C_i + u \rfloor - \lfloor C_{i-1} + u \rfloor` with :math:`C_i` the sum of ``expected`` up to i."""
    edges = np.floor(np.append(0.0, np.cumsum(expected)) + rng.random())
    return np.diff(edges).astype(np.int64)


def _enough(expected: NDArray[np.float64], steps: int, may_lose: float) -> int:
    r"""``steps`` doubled until no more is lost, by :math:`E[n^2] = m^2 + f(1 - f)` for m copies expected, f their fraction."""
    for _ in range(_MOST_DOUBLINGS):
        fraction = expected % 1
        if (expected**2).sum() >= (1 - may_lose) * (expected**2 + fraction * (1 - fraction)).sum():
            break
        expected, steps = 2 * expected, 2 * steps
    return steps
