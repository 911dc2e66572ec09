"""Endless streams of episodes, collected as far as they are needed and kept in the cache folder.

A stream is one policy (or uniformly random actions) in one task with one seed. Its episodes are numbered and each has its own
seed, so the first n are the same however many are asked for, whoever collects them, and in however many pieces::

    datasets/hopper/15-seed0-1a2b3c4d/index.json      what the stream is; episodes, steps and hash of each chunk
                                      0000.npz ...    the chunks, in order

An interrupted collection goes on after its last chunk. A chunk that is not what the index says is collected again.
"""

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from upweight.base.cache import cache_folder, mark_used
from upweight.base.files import atomic_target, read_json, write_json
from upweight.base.optional import installed_versions
from upweight.base.progress import report
from upweight.lab.play.block import LANES, Block, Episode, make_block, play
from upweight.lab.play.environments import find_spec
from upweight.lab.play.processes import run_tasks
from upweight.lab.recipes.ladder import Rung
from upweight.lab.recipes.tasks import Task

FORMAT_VERSION = 1
_EPISODES_PER_BLOCK = LANES  # part of what a stream is: it decides how inference is batched
_STEPS_PER_CHUNK = 50_000
_SEED_TAG = 0x64617461  # keeps the episodes of datasets apart from those of evaluations
_ARRAYS = ("visited", "actions", "rewards", "lengths", "terminated", "truncated")


def episodes_for(lengths: NDArray[np.int64], steps: int) -> int:
    """How many of the first episodes it takes to reach ``steps``."""
    return int(np.searchsorted(np.cumsum(lengths), steps)) + 1


class Chunk(NamedTuple):
    """Some consecutive episodes n with m steps in all."""

    visited: NDArray[np.float32]  # [m + n, ...] observations, each episode's last one included
    actions: NDArray[Any]  # [m, ...]
    rewards: NDArray[np.float32]  # [m]
    lengths: NDArray[np.int64]  # [n]
    terminated: NDArray[np.bool_]  # [n]
    truncated: NDArray[np.bool_]  # [n]

    def first(self, steps: int) -> "Chunk":
        """Up to and including the first episode that reaches ``steps``."""
        episodes = episodes_for(self.lengths, steps)
        lengths = self.lengths[:episodes]
        stop = int(lengths.sum())
        return Chunk(
            self.visited[: stop + len(lengths)],
            self.actions[:stop],
            self.rewards[:stop],
            lengths,
            self.terminated[:episodes],
            self.truncated[:episodes],
        )


@dataclass(frozen=True)
class Stream:
    """What is collected: ``rung`` None plays uniformly random actions."""

    task: Task
    rung: Rung | None
    seed: int
    env_id: str  # the task's own, or one to collect in

    @property
    def name(self) -> str:
        """The policy's."""
        return "random" if self.rung is None else self.rung.path.stem

    def identity(self) -> dict[str, Any]:
        """Everything that determines the episodes, on one kind of machine."""
        return {
            "format": FORMAT_VERSION,
            "env_id": self.env_id,
            "policy_sha256": None if self.rung is None else self.rung.sha256,
            "seed": self.seed,
            "episodes_per_block": _EPISODES_PER_BLOCK,
            "versions": installed_versions("gymnasium", "mujoco", "numpy"),
        }

    @property
    def folder(self) -> Path:
        text = json.dumps(self.identity(), sort_keys=True)
        name = f"{self.name}-seed{self.seed}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        return cache_folder() / "datasets" / self.task.name / name

    def collect(self, steps: int, *, workers: int | None = None) -> Chunk:
        """The first episodes that have ``steps`` steps together, from the cache as far as it goes."""
        return _Collection(self, steps, workers).run().first(steps)

    def blocks(self, first: int) -> Iterator[Block]:
        """The blocks of episodes from number ``first`` on, without end."""
        policy = None if self.rung is None else self.rung.load()
        who = 0 if self.rung is None else int(self.rung.sha256[:7], 16)
        for number in count(first):
            episodes = range(number * _EPISODES_PER_BLOCK, (number + 1) * _EPISODES_PER_BLOCK)
            seeds = [(_SEED_TAG, self.seed, who, episode) for episode in episodes]
            yield make_block(self.env_id, policy, seeds, stochastic=True, record=True)


@dataclass
class _Collection:
    """One call of :meth:`Stream.collect`."""

    stream: Stream
    target: int  # steps
    workers: int | None
    chunks: list[Chunk] = field(default_factory=list)
    entries: list[dict[str, Any]] = field(default_factory=list)  # of the index, one per chunk

    def run(self) -> Chunk:
        folder = self.stream.folder
        mark_used(folder)
        known = self._read_index(folder)
        for entry in known:
            if self._steps() >= self.target:
                return _join(self.chunks)  # the index is complete and stays
            chunk = _read_chunk(folder, entry) or self._collect_again(folder, entry)
            self._add(chunk, entry)
        while self._steps() < self.target:
            self._extend(folder)
        report(self._description(), self.target, self.target)
        return _join(self.chunks)

    def _extend(self, folder: Path) -> None:
        """Play about as many blocks as are missing, and store them chunk by chunk."""
        done = sum(entry["blocks"] for entry in self.entries)
        missing = self.target - self._steps()
        if done:
            wanted = int(missing / (self._steps() / done)) + 1
        else:  # nothing is known of a new stream: so many blocks are needed even if no episode ends early
            wanted = math.ceil(missing / (_EPISODES_PER_BLOCK * find_spec(self.stream.env_id).max_episode_steps))
        pending: list[list[Episode]] = []
        steps = 0
        for episodes in run_tasks(play, islice(self.stream.blocks(done), wanted), workers=self.workers):
            pending.append(episodes)
            steps += sum(episode.length for episode in episodes)
            report(self._description(), min(self.target, self._steps() + steps), self.target)
            if steps >= _STEPS_PER_CHUNK:
                self._store(folder, pending)
                pending, steps = [], 0
        if pending:
            self._store(folder, pending)

    def _store(self, folder: Path, blocks: list[list[Episode]]) -> None:
        chunk = _pack([episode for block in blocks for episode in block])
        entry = {"file": f"{len(self.entries):04d}.npz", "blocks": len(blocks)}
        self._add(chunk, _write_chunk(folder, entry, chunk))
        write_json(folder / "index.json", {"stream": self.stream.identity(), "chunks": self.entries})

    def _collect_again(self, folder: Path, entry: dict[str, Any]) -> Chunk:
        """What a damaged file should hold."""
        first = sum(earlier["blocks"] for earlier in self.entries)
        blocks = list(islice(self.stream.blocks(first), entry["blocks"]))
        played = run_tasks(play, blocks, workers=self.workers, description=f"{self._description()}, a damaged part")
        chunk = _pack([episode for block in played for episode in block])
        entry.update(_write_chunk(folder, entry, chunk))
        return chunk

    def _add(self, chunk: Chunk, entry: dict[str, Any]) -> None:
        self.chunks.append(chunk)
        self.entries.append(entry)

    def _steps(self) -> int:
        return sum(len(chunk.rewards) for chunk in self.chunks)

    def _description(self) -> str:
        return f"collecting {self.stream.task.name}, policy {self.stream.name}"

    def _read_index(self, folder: Path) -> list[dict[str, Any]]:
        try:
            index = read_json(folder / "index.json")
            chunks = index["chunks"] if index["stream"] == self.stream.identity() else []
            return [{**entry, "file": str(entry["file"]), "blocks": int(entry["blocks"])} for entry in chunks]
        except (OSError, ValueError, KeyError, TypeError):
            return []  # none yet, or damaged: everything is collected again


def _pack(episodes: list[Episode]) -> Chunk:
    paths = [episode.trajectory for episode in episodes if episode.trajectory is not None]
    assert len(paths) == len(episodes)
    return Chunk(
        np.concatenate([path.visited for path in paths]),
        np.concatenate([path.actions for path in paths]),
        np.concatenate([path.rewards for path in paths]),
        np.array([episode.length for episode in episodes], np.int64),
        np.array([episode.terminated for episode in episodes], np.bool_),
        np.array([episode.truncated for episode in episodes], np.bool_),
    )


def _join(chunks: list[Chunk]) -> Chunk:
    return Chunk(*(np.concatenate(arrays) for arrays in zip(*chunks, strict=True)))


def _write_chunk(folder: Path, entry: dict[str, Any], chunk: Chunk) -> dict[str, Any]:
    """Write the file and return its entry for the index."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / entry["file"]
    with atomic_target(path) as target:
        arrays: dict[str, Any] = dict(zip(_ARRAYS, chunk, strict=True))
        np.savez(target, **arrays)
    size = {"episodes": len(chunk.lengths), "steps": len(chunk.rewards)}
    return {**entry, **size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def _read_chunk(folder: Path, entry: dict[str, Any]) -> Chunk | None:
    """The chunk, or None if its file is missing or not the one that was written."""
    path = folder / Path(entry["file"]).name
    try:
        if hashlib.sha256(path.read_bytes()).hexdigest() != entry.get("sha256"):
            return None
        with np.load(path, allow_pickle=False) as arrays:
            return Chunk(*(arrays[name] for name in _ARRAYS))
    except (OSError, ValueError, KeyError):
        return None
