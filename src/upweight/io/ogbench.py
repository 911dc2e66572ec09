"""OGBench's npz: ``terminals`` marks the last *observation* of each trajectory, which has no step of its own.

::

    observations  s0 s1 s2 s3 | s0 s1 s2          a trajectory of T steps has T + 1 rows
    terminals      .  .  .  X |  .  .  X          the action in an X row leads nowhere and is dropped

Nothing ever terminates, so every episode is truncated with a known next observation. Plain files carry no rewards
(OGBench relabels in memory); a ``rewards`` array of the same length is read if there is one.

Arrays of that name are in many people's files, where ``terminals`` ends a step as in D4RL's. So a file counts as OGBench's only
if it has the simulator's ``qpos``, as all of OGBench's own do, or our mark.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from upweight.base.errors import DatasetError
from upweight.data.columns import GatheredColumn
from upweight.data.dataset import Dataset
from upweight.data.segment import segment
from upweight.data.validate import as_flags, as_rewards
from upweight.io.format import Format, losses
from upweight.io.npz_members import NpzColumn, member_names, read_member

_MARK = "ogbench_layout"  # in files that we write
_FOREIGN = {"upweight_format", "timeouts", "next_observations"}  # then ``terminals`` means something else


def read(path: Path) -> Dataset:
    """Flags (and rewards) at once; observations and actions when they are looked at."""
    source = str(path)
    last_rows = as_flags(read_member(path, "terminals"), key="terminals", source=source)
    trajectories = segment(np.zeros(len(last_rows), bool), last_rows, next_known=True, source=source)
    lengths = trajectories.lengths - 1
    if not lengths.all():
        row = int(trajectories.starts[int(np.argmin(lengths))])
        raise DatasetError(f"{path}: key 'terminals': the trajectory at row {row} has one observation and no step")
    is_step = np.ones(len(last_rows), bool)
    is_step[trajectories.last_steps] = False
    steps = np.flatnonzero(is_step)
    observations = NpzColumn(path, "observations")
    actions = NpzColumn(path, "actions")
    for key, column in (("observations", observations), ("actions", actions)):
        if column.shape[:1] != (len(last_rows),):
            raise DatasetError(f"{path}: key {key!r}: expected {len(last_rows)} rows, found shape {column.shape}")
    rewards = None
    if "rewards" in member_names(path):
        rewards = as_rewards(read_member(path, "rewards"), key="rewards", num_steps=len(last_rows), source=source)[
            steps
        ]
    return Dataset.assemble(
        episodes=replace(trajectories, lengths=lengths),
        observations=GatheredColumn(observations, steps),
        actions=GatheredColumn(actions, steps),
        rewards=rewards,
        next_observations=GatheredColumn(observations, steps + 1),
        source=source,
    )


def write(dataset: Dataset, path: Path) -> list[str]:
    """Write T + 1 rows per episode, and ``rewards``, which OGBench's own files lack."""
    ended = int(dataset.episodes.terminated.sum())
    lost = [f"that {ended} episodes terminated (all ends read as truncated)"] if ended else []
    lost += losses(dataset, "labels", "metadata", "actions", "incomplete", "last steps", "own next observations")
    kept = np.flatnonzero(dataset.num_transitions > 0)
    if len(kept) == 0:
        raise DatasetError(f"{dataset.source}: no episode has a transition that OGBench's layout could hold")
    # Row of the step each output row shows: the steps of an episode, then its last one again for the final observation.
    sizes = dataset.num_transitions[kept]
    rows = np.concatenate(
        [np.append(np.arange(s, s + t), s + t - 1) for s, t in zip(dataset.starts[kept], sizes, strict=True)]
    )
    last_rows = np.zeros(len(rows), bool)
    last_rows[np.cumsum(sizes + 1) - 1] = True
    observations = dataset.observations[rows]
    observations[last_rows] = dataset.next_observations[rows[last_rows]]
    actions = dataset.actions[rows]
    actions[last_rows] = 0
    arrays = {"observations": observations, "actions": actions, "terminals": last_rows, _MARK: np.True_}
    if dataset.has_rewards:
        rewards = dataset.rewards[rows]
        rewards[last_rows] = 0
        arrays["rewards"] = rewards
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)
    return lost


FORMAT = Format(
    name="ogbench",
    description="OGBench npz",
    recognises=lambda path: bool((names := member_names(path)) & {"qpos", _MARK}) and not names & _FOREIGN,
    read=read,
    write=write,
)
