r"""Data that networks cannot learn from as they are: said before the training, with what helps.

Networks begin with weights of about :math:`1/\sqrt d`, made for inputs around 0 with a spread around 1. The limits are from BC on
six columns of which one, or all, were moved. The share of the actions' variance that it leaves unexplained is 0.0002 at unit
scale; 0.02 to 0.3 with a mean of 30 (the rest drowns), over 1 with one of 300 (tanh saturates: no gradient); 0.05 to 0.2 with a
mean of 100 standard deviations; 0.05 with a standard deviation of 0.001. Tasks with MuJoCo have sizes up to 14, means
up to 45 standard deviations, and standard deviations from 0.03. What actions fill is in ``data/action_range.py``.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import UpweightWarning
from upweight.base.text import number
from upweight.data.action_range import action_bounds, list_columns, narrow_actions
from upweight.data.dataset import Dataset
from upweight.lab.train.prepare import blocks
from upweight.lab.train.run import Run

LARGE = 30.0  # root mean square of an observation
OFFSET = 100.0  # |mean| of an observation, in standard deviations
FAINT = 0.003  # standard deviation of an observation
_CONSTANT = 1e-6  # standard deviation, of the size, below which a column does not change at all
_LOOKED_AT = 10_000  # steps, evenly spaced


def warn_of_scale(dataset: Dataset, runs: Sequence[Run]) -> None:
    """A warning if observations that runs take as they are are far from unit scale, and one if actions are."""
    plain = [run for run in runs if not run.config.normalize_observations]
    if plain and (far := far_columns(_spaced(dataset, "observations", _steps(dataset, plain)))):
        names = ", ".join(dict.fromkeys(run.method.name for run in plain))
        _warn(
            f"{dataset.source}: observations are far from the unit scale that networks learn from, and not normalised for "
            f"{names}. What helps: --set normalize_observations=true (uw.algorithm_config(..., normalize_observations=True)). "
            f"{list_columns(far)}"
        )
    steps = _steps(dataset, runs)
    bounds = None if dataset.discrete_actions else action_bounds(blocks(dataset, "actions", steps))
    if bounds is not None and (narrow := narrow_actions(_spaced(dataset, "actions", steps), *bounds)) is not None:
        _warn(f"{dataset.source}: {narrow}")


def _warn(text: str) -> None:
    warnings.warn(text, UpweightWarning, stacklevel=5)


def far_columns(observations: NDArray[Any]) -> dict[int, str]:
    """Columns of observations [m, d] that are too large, too far off 0 for their spread, or too faint; and in words why."""
    mean, std = observations.mean(axis=0, dtype=np.float64), observations.std(axis=0, dtype=np.float64)
    size = np.hypot(mean, std)
    changes = std > _CONSTANT * size
    far = (size > LARGE) | (changes & ((np.abs(mean) > OFFSET * std) | (std < FAINT)))
    return {int(place): f"mean {number(mean[place])}, std {number(std[place])}" for place in np.flatnonzero(far)}


def _steps(dataset: Dataset, runs: Sequence[Run]) -> NDArray[np.int64] | None:
    """Of the episodes that the runs learn from; None: all."""
    parts = [index for run in runs if (index := run.index(dataset)) is not None]
    return dataset.episodes.steps_of(np.unique(np.concatenate(parts))) if len(parts) == len(runs) else None


def _spaced(dataset: Dataset, name: str, steps: NDArray[np.int64] | None) -> NDArray[Any]:
    """[m, d] some rows of these steps (None: all)"""
    count = dataset.num_steps if steps is None else len(steps)
    places = np.linspace(0, count - 1, min(count, _LOOKED_AT)).astype(np.int64)
    return dataset.rows(name, places if steps is None else steps[places]).reshape(len(places), -1)
