"""Environments of several tasks in worker processes, over shared memory.

Agent i owns E environments of its task. Every round each environment makes one step; the numbers lie in arrays that all
processes see, and a byte through a pipe says "go" or "done". An episode that ends is followed by the next at once:
``observations`` then holds the new start, ``next_observations`` the end.
"""

import multiprocessing
from collections.abc import Sequence
from ctypes import c_float
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import RolloutError
from upweight.lab.play.environments import make_environment

_GO, _STOP = b"g", b"s"


class SharedArrays:
    """What passes between the program and the workers, padded to the widest task."""

    def __init__(self, agents: int, environments: int, observation_size: int, action_size: int) -> None:
        self.shapes = {
            "observations": (agents, environments, observation_size),
            "next_observations": (agents, environments, observation_size),
            "actions": (agents, environments, action_size),
            "rewards": (agents, environments),
            "terminated": (agents, environments),  # 0 or 1
            "truncated": (agents, environments),
        }
        context = multiprocessing.get_context("spawn")
        self.memory = {name: context.RawArray(c_float, int(np.prod(shape))) for name, shape in self.shapes.items()}

    def views(self) -> dict[str, NDArray[np.float32]]:
        memory: dict[str, Any] = self.memory
        return {name: np.frombuffer(memory[name], np.float32).reshape(shape) for name, shape in self.shapes.items()}


class Simulators:
    """The environments of all agents; ``start`` a round, do other work, ``wait`` for it."""

    def __init__(
        self, env_ids: Sequence[str], environments: int, sizes: tuple[int, int], *, workers: int, seed: int
    ) -> None:
        shared = SharedArrays(len(env_ids), environments, *sizes)
        self.arrays = shared.views()
        # Environment j of every agent goes to worker j mod workers: all workers then have the same mixture of tasks.
        context = multiprocessing.get_context("spawn")
        self._connections: list[Connection] = []
        self._processes = []
        for worker in range(min(workers, environments)):
            mine = range(worker, environments, min(workers, environments))
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(shared, list(env_ids), list(mine), seed, theirs), daemon=True)
            process.start()
            theirs.close()
            self._connections.append(ours)
            self._processes.append(process)
        self.wait()  # for the first observations

    def start(self, actions: NDArray[np.float32]) -> None:
        """Let every environment make a step with actions [A, E, a]."""
        self.arrays["actions"][...] = actions
        for connection in self._connections:
            connection.send_bytes(_GO)

    def wait(self) -> dict[str, NDArray[np.float32]]:
        """The arrays after the step; they are overwritten by the next one."""
        for connection, process in zip(self._connections, self._processes, strict=True):
            try:
                connection.recv_bytes()
            except EOFError:
                process.join(1)
                raise RolloutError(
                    f"a simulator process ended with exit code {process.exitcode}; start again to go on from the checkpoint"
                ) from None
        return self.arrays

    def close(self) -> None:
        for connection, process in zip(self._connections, self._processes, strict=True):
            try:
                connection.send_bytes(_STOP)
            except OSError:
                process.terminate()
            process.join(5)


def _work(shared: SharedArrays, env_ids: list[str], mine: list[int], seed: int, connection: Connection) -> None:
    """A worker: owns the environments ``mine`` of every agent."""
    arrays = shared.views()
    places: list[tuple[int, int, Any, int, int]] = []
    for agent, env_id in enumerate(env_ids):
        for number in mine:
            environment = make_environment(env_id)
            first = int(np.random.SeedSequence([seed, agent, number]).generate_state(1)[0])
            observation, _ = environment.reset(seed=first)
            arrays["observations"][agent, number, : len(observation)] = observation
            places.append((agent, number, environment, len(observation), environment.action_space.shape[0]))
    observations, ends, actions = arrays["observations"], arrays["next_observations"], arrays["actions"]
    connection.send_bytes(b"d")
    while connection.recv_bytes() == _GO:
        for agent, number, environment, size, width in places:
            observation, reward, terminated, truncated, _ = environment.step(actions[agent, number, :width])
            ends[agent, number, :size] = observation
            arrays["rewards"][agent, number] = reward
            arrays["terminated"][agent, number] = terminated
            arrays["truncated"][agent, number] = truncated
            if terminated or truncated:
                observation, _ = environment.reset()
            observations[agent, number, :size] = observation
        connection.send_bytes(b"d")
    for _, _, environment, _, _ in places:
        environment.close()
