"""A population on its way: chunks of updates, with what they report."""

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, repeat
from typing import Any, NamedTuple

import jax
import numpy as np

from upweight.lab.train.population import Agents, Data, Program, Progress
from upweight.lab.train.schedule import Schedule
from upweight.lab.train.stream import StreamedData
from upweight.lab.train.tracking import Record

CHUNK_SECONDS = 2.0  # between two looks at the device: for progress, checkpoints, deadlines and Ctrl-C


class Advance(NamedTuple):
    """A population some updates later."""

    progress: Progress  # used up when the next advance is asked for
    num_updates: int  # in all
    records: list[Record]  # at the end of a log interval: a mean of each metric, per run that was healthy


def advances(
    program: Program,
    agents: Agents,
    data: Data | StreamedData,
    progress: Progress,
    done: int,
    schedule: Schedule,
    numbers: Sequence[int],
) -> Iterator[Advance]:
    """The training itself, a chunk of about two seconds at a time; nothing but the device changes.

    A chunk ends where a log interval does, or where policies are evaluated, at the latest. The first is one piece; the next
    are as long as the last one's speed promises. ``numbers`` are what the agents are called in the records.
    """
    pieces = 1
    while done < schedule.num_updates:
        began, chunk = time.perf_counter(), list(islice(schedule.pieces(done), pieces))
        for piece, rows in (
            data.feed(chunk) if isinstance(data, StreamedData) else zip(chunk, repeat(data), strict=False)
        ):
            progress = program.advance(progress, agents, rows, piece)
        jax.block_until_ready(progress)  # type: ignore[no-untyped-call]
        done, records = chunk[-1].end, []
        pieces = max(1, int(len(chunk) * CHUNK_SECONDS / (time.perf_counter() - began)))
        if progress.interval is not None and done == schedule.interval_end(chunk[-1].first):
            records = _records(numbers, done, *jax.device_get((progress.interval.sums, progress.interval.counts)))
            progress = progress._replace(interval=None)
        yield Advance(progress, done, records)


def _records(numbers: Sequence[int], done: int, sums: Mapping[str, Any], counts: Mapping[str, Any]) -> list[Record]:
    """Mean of each metric over the healthy updates that reported it, per run; runs that had none are left out."""
    records: list[Record] = []
    for place, number in enumerate(numbers):
        means = {
            name: float(np.float64(total[place]) / counts[name][place])
            for name, total in sums.items()
            if counts[name][place] > 0
        }
        if means:
            records.append({"run": number, "updates": done, **means})
    return records


def speed(rate: float, agents: int, records: Sequence[Record]) -> str:
    """Speed and losses for the progress bar."""
    text = f"{rate:,.0f} updates/s each, {rate * agents:,.0f} in all"
    names = [name for name in (records[0] if records else {}) if name.endswith("loss")]
    return ", ".join([text, *(f"{name} {np.median([r[name] for r in records]):.4g}" for name in names)])
