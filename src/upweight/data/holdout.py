"""Which episodes a training does not see, so that its policies can be judged by them."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upweight.base.checks import finite_number
from upweight.base.errors import DatasetError
from upweight.data.dataset import Dataset
from upweight.data.validate import as_episode_index

_SEED = 0  # the draw follows from the data alone: all runs, of whatever seed, leave the same episodes out


def held_out_episodes(dataset: Dataset, holdout: float | ArrayLike) -> NDArray[np.int64]:
    """[K] in order: ``holdout`` times N episodes, drawn the same way every time, or those that it names (indices or a mask).

    Of each label its share is drawn, give or take one. At least one episode is held out, and one is left.
    """
    count, source = dataset.num_episodes, dataset.source
    if np.ndim(holdout) > 0:
        held = np.unique(as_episode_index(holdout, num_episodes=count, source=f"{source}: holdout"))
        if len(held) == count:
            raise DatasetError(f"{source}: holdout: names all {count} episodes, and leaves none to learn from")
        return held
    share = finite_number(
        f"{source}: holdout",
        holdout,
        above=0,
        below=1,
        advice="give a share such as 0.2, or the episodes",
        error=DatasetError,
    )
    if count < 2:
        raise DatasetError(f"{source}: holdout: expected at least two episodes, one to learn from, found {count}")
    order = np.random.default_rng(_SEED).permutation(count)
    if dataset.labels is not None:
        order = order[np.argsort(dataset.labels[order], kind="stable")]
    wanted = min(max(1, round(share * count)), count - 1)
    steps = np.diff(np.arange(count + 1) * wanted // count)  # [N] of 0 and 1, evenly spread
    return np.sort(order[steps > 0])
