"""The one ``load``: a file, a dataset by name, a frame, or a dataset of another library."""

import os
import re
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike, NDArray

from upweight.base.checks import yes_or_no
from upweight.base.errors import DatasetError
from upweight.base.lab import from_lab
from upweight.base.names import closest
from upweight.data.dataset import Dataset
from upweight.data.given import AnyDataset
from upweight.data.table import KEYS
from upweight.io import table
from upweight.io.format import reading
from upweight.io.guard import look_first
from upweight.io.registry import locate, read_dataset

_PLAIN_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")  # no folder, no suffix


def load(
    name: AnyDataset,
    *,
    format: str | None = None,
    horizon: int | None = None,
    num_actions: int | None = None,
    success: str | ArrayLike | None = None,
    score: str | ArrayLike | None = None,
    ends: str | None = None,
    join: bool = False,
    steps: int | None = None,
    seed: int | None = None,
    workers: int | None = None,
    guard: bool = False,
    **options: Any,
) -> Dataset:
    """Make a dataset of a file or folder, ``minari:<id>``, a frame, a ``MinariDataset``, a replay buffer of d3rlpy, or a name.

    Whoever takes a dataset takes all of these in its place. Names are those of recipes, such as ``hopper-expert``.

    Args:
        name: what to make a dataset of.
        format: the format of a file; by default it is recognised by the content.
        horizon: the environment's time limit in steps. Truncated episodes that are shorter were cut by the collector and are
            marked incomplete (replay-buffer datasets flag such cuts as time-outs).
        num_actions: how many discrete actions there are, where the file does not know it and some are never taken.
        success: flags that tell successful episodes and take the place of rewards (:meth:`Dataset.with_success`): an array, or
            the name of a column (LeRobot's "next.success", or "success" for short) or of an entry of the episodes' metadata.
        score: a number per episode that takes the place of rewards (:meth:`Dataset.with_score`): an array, or the name of a
            column (an episode's last value counts: a rating, progress) or of an entry of the episodes' metadata; or
            "mean_reward" or "last_reward", made of the rewards. Give ``success`` or ``score``, not both.
        ends: how episodes end where no flag says it: "terminated" or "truncated". Where flags do, "truncated" takes the terminal
            states after the longest length for time limits, and leaves the others.
        join: whether to join pieces of episodes: those that stop, without a terminal state, where the next one begins.
        steps: of a recipe: how many steps the dataset has (:func:`make_dataset`).
        seed: of a recipe.
        workers: of a recipe: the processes that play.
        guard: whether a process of its own looks at HDF5 and Minari first (some 0.2 s): damaged files crash libhdf5 or keep it
            busy.
        options: of a table (CSV, Parquet of your own, a pandas, polars or Arrow frame): which column is what, as in
            :meth:`Dataset.from_frame`. They go to the format's reader otherwise.

    Examples:
        >>> uw.save(ds, "log.npz")
        []
        >>> uw.load("log.npz")
        Dataset(episodes=8, steps=24, observations=(1,), actions='continuous (1,)', source='log.npz')
    """
    given: dict[str, Any] = {
        "format": format,
        "horizon": horizon,
        "num_actions": num_actions,
        "success": success,
        "score": score,
        "ends": ends,
        "join": join,
    }
    text = os.fspath(name) if isinstance(name, str | os.PathLike) else None
    if text is not None and is_recipe(text):
        if options or any(option is not None and option is not False for option in given.values()):
            raise DatasetError(f"{text}: is made, not read from a file; it takes steps, seed and workers only")
        return from_lab("make_dataset")(text, steps=steps, seed=seed or 0, workers=workers)
    if steps is not None or seed is not None or workers is not None:
        shown = text or f"the {type(name).__name__}"
        raise DatasetError(f"{shown}: steps, seed and workers are for datasets made by name, such as hopper-expert")
    if yes_or_no("guard", guard, error=DatasetError) and text is not None:
        named = {
            key: value
            for key, value in given.items()
            if key in ("format", "success", "score", "ends") and isinstance(value, str)
        }
        look_first(text, **named, **options)
    return read_dataset(name if text is None else text, **given, **options)


def load_beside(name: str | os.PathLike[str], part: str, columns: str, **options: Any) -> NDArray[Any]:
    """[M, ...] numbers in ``columns`` of the table that ``load(name, **options)`` reads, in the order of the dataset's steps.

    ``columns`` is one, or what several begin with; messages call them ``part``.
    """
    text = os.fspath(name)
    if is_recipe(text):
        raise DatasetError(f"{text}: is made, not read from a table")
    path, said = locate(text), {key: options[key] for key in KEYS if key in options}
    with reading(path, "it as a table"):
        return table.read_beside(path, options.get("format"), said, part, columns)


def is_recipe(name: str) -> bool:
    """Whether a name means a recipe: one that exists, or something very like one that is no file."""
    if not _PLAIN_NAME.fullmatch(name) or Path(name).exists():
        return False
    return bool(closest(name, from_lab("recipe_names")(), cutoff=0.75))
