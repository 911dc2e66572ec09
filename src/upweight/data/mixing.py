r"""Mix a good dataset into a poor one: the paper's :math:`\sigma\%` datasets.

A share ``fraction`` of the *steps* comes from the good dataset, the rest from the other, in whole episodes
drawn at random. Each part stops at the first episode that reaches its target, so it overshoots by less than
one episode. The good part comes first.
"""

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.data.combine import concat
from upweight.data.dataset import Dataset


def mix(
    good: Dataset,
    poor: Dataset,
    *,
    fraction: float,
    num_steps: int,
    seed: int,
    replace: bool = False,
    labels: tuple[str, str] | None = None,
) -> Dataset:
    """Whole episodes of ``good`` and ``poor``, ``fraction`` of ``num_steps`` steps from the former.

    Episodes are drawn without replacement; ``replace=True`` draws with replacement, as the paper's code did
    (duplicates then make the mix less diverse than it looks). Incomplete episodes are never drawn. Labels of the
    sources are kept; a source without any is labelled ``labels[i]``, by default "good" or "poor". The counts,
    distinct episodes included, are in ``metadata["mix"]``.
    """
    if not 0 <= fraction <= 1 or num_steps < 1:
        raise DatasetError(
            f"mix: expected a fraction between 0 and 1 and at least one step, "
            f"found fraction {fraction} and {num_steps} steps"
        )
    rng_good, rng_poor = np.random.default_rng(seed).spawn(2)
    good_target = round(fraction * num_steps)
    parts, counts = [], {}
    plan = (("good", good, good_target, rng_good), ("poor", poor, num_steps - good_target, rng_poor))
    for place, (role, source, target, rng) in enumerate(plan):
        if target == 0:
            continue
        drawn = _draw_episodes(source, target, rng, replace)
        part = source.subset(drawn)
        if labels is not None or part.labels is None:
            part = part.with_labels(labels[place] if labels is not None else role)
        parts.append(part)
        counts[role] = {
            "source": source.source,
            "target_steps": target,
            "steps": part.num_steps,
            "episodes": len(drawn),
            "distinct_episodes": len(np.unique(drawn)),
        }
    mixed = concat(parts, source=f"mix of {good.source} and {poor.source}")
    return mixed.with_metadata(
        mix={"fraction": fraction, "num_steps": num_steps, "seed": seed, "replace": replace, **counts}
    )


def _draw_episodes(source: Dataset, target: int, rng: np.random.Generator, replace: bool) -> NDArray[np.int64]:
    """Random whole episodes up to and including the first that brings their steps to ``target``."""
    whole = np.flatnonzero(source.complete)
    if len(whole) == 0:
        raise DatasetError(f"{source.source}: expected complete episodes to mix, found none")
    lengths = source.lengths[whole]
    if replace:
        order = np.empty(0, np.int64)
        while lengths[order].sum() < target:
            missing = target - lengths[order].sum()
            block = int(missing / lengths.mean()) + 16
            order = np.append(order, rng.integers(0, len(whole), block))
    else:
        if lengths.sum() < target:
            raise DatasetError(
                f"{source.source}: expected at least {target} steps in complete episodes to draw from, "
                f"found {int(lengths.sum())}; ask for fewer steps, bring more data, or allow repeats with replace=True"
            )
        order = rng.permutation(len(whole))
    reached = np.cumsum(lengths[order])
    return whole[order[: int(np.searchsorted(reached, target)) + 1]]
