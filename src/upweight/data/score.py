r"""One number per episode in the place of rewards: a rating, how far it got, or how smoothly it moved.

All of an episode's score comes with its last step, so that :math:`G_i` is the score, whatever weights by returns then does.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upweight.base.errors import DatasetError
from upweight.base.progress import track
from upweight.data.columns import ArrayColumn
from upweight.data.dataset import Dataset
from upweight.data.validate import as_array

SMOOTHNESS = "smoothness"
_LEAST_SHARE = 0.05  # of the greatest amplitude: the spectrum is followed up to its last frequency with that much
_PADDING = 16  # times the length, with zeros, so that the spectrum is a smooth curve


def with_score(dataset: Dataset, score: ArrayLike | str) -> Dataset:
    """``score``: "smoothness", or numbers of the episodes [N], or of the steps [M], where an episode's last one counts."""
    if isinstance(score, str):
        if score != SMOOTHNESS:
            raise DatasetError(f"{dataset.source}: score: expected numbers or {SMOOTHNESS!r}, found {score!r}")
        scores = smoothness(dataset)
    else:
        scores = as_array(score, key="score", source=dataset.source)
        if scores.shape == (dataset.num_steps,):
            scores = scores[dataset.episodes.last_steps]
    if scores.shape != (dataset.num_episodes,) or scores.dtype.kind not in "biuf" or not np.isfinite(scores).all():
        raise DatasetError(
            f"{dataset.source}: score: expected a finite number for each of {dataset.num_episodes} episodes or of "
            f"{dataset.num_steps} steps, found {scores.dtype} {scores.shape}{_gaps(scores)}"
        )
    rewards = np.zeros(dataset.num_steps)
    rewards[dataset.episodes.last_steps] = scores
    return replace(dataset, _rewards=ArrayColumn(rewards), _returns=None)


def smoothness(dataset: Dataset) -> NDArray[np.float64]:
    r"""[N] minus the spectral arc length of each episode's speed (Balasubramanian et al. 2015): higher is smoother.

    The speed is the norm of the change of the actions from step to step, each dimension divided by its spread. With
    :math:`\hat V(\omega)` the amplitudes of its spectrum, the greatest being 1, up to the last :math:`\omega_c` at which they are
    above 0.05, the score is :math:`-\int_0^{\omega_c} \sqrt{\omega_c^{-2} + (d\hat V / d\omega)^2}\, d\omega`. It depends neither
    on the unit of the actions nor on the rate at which they were recorded. An episode that does not move scores as the worst.
    """
    if dataset.discrete_actions:
        raise DatasetError(
            f"{dataset.source}: score: smoothness is that of actions as real vectors, found discrete ones"
        )
    actions = dataset.actions.reshape(dataset.num_steps, -1)
    spread = actions.std(axis=0, dtype=np.float64)
    scaled = actions[:, spread > 0] / spread[spread > 0]
    scores = np.full(dataset.num_episodes, np.nan)
    spans = list(zip(dataset.starts.tolist(), dataset.episodes.last_steps.tolist(), strict=True))
    for number, (first, last) in enumerate(track(spans, total=len(spans), description="smoothness of episodes")):
        speed = np.linalg.norm(np.diff(scaled[first : last + 1], axis=0), axis=1)
        if speed.any():
            scores[number] = -_arc_length(speed)
    return np.where(np.isnan(scores), np.nanmin(scores) if (~np.isnan(scores)).any() else 0.0, scores)


def _arc_length(speed: NDArray[np.float64]) -> float:
    amplitude = np.abs(np.fft.rfft(speed, _PADDING * len(speed)))
    amplitude /= amplitude.max()
    followed = amplitude[: np.flatnonzero(amplitude >= _LEAST_SHARE)[-1] + 1]
    return float(np.hypot(1.0 / max(1, len(followed) - 1), np.diff(followed)).sum())


def _gaps(scores: NDArray[Any]) -> str:
    missing = int((~np.isfinite(scores)).sum()) if scores.dtype.kind == "f" else 0
    return f" of which {missing} are not finite" if missing else ""
