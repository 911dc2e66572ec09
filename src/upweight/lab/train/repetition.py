"""Warn before a training that will see its few steps too often."""

import warnings
from collections.abc import Sequence
from itertools import pairwise

from upweight.base.errors import UpweightWarning
from upweight.base.text import number
from upweight.data.repetition import FEWEST_STEPS, KEPT, LOST, WEIGHTS, updates_text, updates_until
from upweight.data.statistics import effective_steps
from upweight.lab.train.prepare import RunEpisodes
from upweight.lab.train.run import Run
from upweight.weightings.weighting import Weighting


def warn_of_repetition(runs: Sequence[Run], parts: Sequence[RunEpisodes], num_updates: int) -> None:
    """One warning for all runs that copy actions, by weights that follow returns, of steps that they will know by heart."""
    found = []
    for run, part in zip(runs, parts, strict=True):
        follows = isinstance(run.weighting, Weighting) and run.weighting.uses_returns
        is_large = sum(a * b for a, b in pairwise(run.config.hidden_units)) >= WEIGHTS
        if follows and is_large and not run.method.uses_rewards:
            steps = effective_steps(part.weights(run.weighting), part.own.num_transitions)
            if steps >= FEWEST_STEPS and num_updates > updates_until(LOST, steps, run.config.batch_size):
                found.append((steps, run))
    if not found:
        return
    steps, run = min(found, key=lambda each: each[0])
    batch, weighting = run.config.batch_size, run.weighting
    most = updates_text(updates_until(KEPT, steps, batch))
    warnings.warn(
        f"{run.method.name} will know the steps that it draws by heart in {len(found)} of {len(runs)} runs: with {weighting} "
        f"{number(round(steps))} steps are drawn in effect, and {num_updates:,} updates of {batch} see them "
        f"{num_updates * batch / steps:,.0f} times. With BC on the paper's mixes, of continuous actions, the gain of weighting "
        f"was kept up to {KEPT:,} times, here {most} updates, and mostly lost after {LOST:,}. Train for less long, or a smaller "
        "network",
        UpweightWarning,
        stacklevel=4,
    )
