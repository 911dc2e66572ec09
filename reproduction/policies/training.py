"""Train behaviour policies: many soft actor-critics, of several tasks and seeds, in one program beside their simulators.

    python -m reproduction.policies.training --tasks hopper walker2d --seeds 4 --steps 1000000 --output training

While the accelerator makes E updates per agent, the worker processes make a step in each of its E environments: one update per
step, as usual, unless ``--updates`` says otherwise. Started again on the same folder, the training goes on from its last
checkpoint. The folder then holds::

    plan.json                  what is trained
    progress.jsonl             steps, mean and standard deviation of the last 100 returns, per agent
    snapshots/STEPS.safetensors   all actors, every 10,000 steps or so, in float16
    checkpoint.safetensors     everything needed to go on
"""

import argparse
import json
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from reproduction.policies import soft_actor_critic as sac
from reproduction.policies.simulators import Simulators
from upweight.base.errors import DatasetError
from upweight.base.files import write_json
from upweight.base.progress import listening, report
from upweight.lab.play.environments import make_environment
from upweight.lab.recipes.tasks import find_task
from upweight.lab.train.checkpoint import load_checkpoint, save_checkpoint, take_snapshot
from upweight.policies.safetensors_file import write_safetensors

Array = jax.Array
_RECENT_EPISODES = 100
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Plan:
    """What determines a training; a folder holds one."""

    tasks: tuple[str, ...]
    seeds: int = 1
    seed: int = 0  # of the first agent of each task; the others follow
    environments: int = 64  # per agent
    updates: int | None = None  # per agent, in a round of one step in each environment; None: as many as environments
    capacity: int = 1_000_000  # of the replay, in transitions per agent
    warmup: int = 10_000  # steps with uniformly random actions, and no updates
    snapshot_every: int = 10_000  # steps
    hidden_units: tuple[int, ...] = (256, 256)
    batch_size: int = 256

    @property
    def agents(self) -> list[tuple[str, int]]:
        """Task and seed of every agent."""
        return [(task, self.seed + number) for task in self.tasks for number in range(self.seeds)]


class State(NamedTuple):
    """Everything a checkpoint holds."""

    agents: sac.Agent  # [A, ...]
    replay: Array  # [A, capacity, row]
    recent: Array  # [A, 100] returns of the last episodes, nan where there are none yet


@partial(jax.jit, static_argnames=("settings", "updates"), donate_argnums=(0, 1))
def learn(
    agents: sac.Agent,
    replay: Array,
    rows: Array,
    masks: Array,
    seeds: Array,
    position: Array,
    filled: Array,
    rounds: Array,
    *,
    settings: sac.Settings,
    updates: int,
) -> tuple[sac.Agent, Array]:
    """Put rows [A, E, row] into the replay at ``position`` and make updates from its first ``filled`` rows."""
    replay = jax.lax.dynamic_update_slice(replay, rows, (0, position, 0))

    def one_agent(agent: sac.Agent, memory: Array, mask: Array, seed: Array) -> sac.Agent:
        draw_key, noise_key = jax.random.split(jax.random.fold_in(jax.random.key(seed), rounds))
        drawn = jax.random.randint(draw_key, (updates, settings.batch_size), 0, filled)

        def step(agent: sac.Agent, inputs: tuple[Array, Array]) -> tuple[sac.Agent, None]:
            indices, number = inputs
            key = jax.random.fold_in(noise_key, number)
            return sac.update(agent, memory[indices], mask, key, settings), None

        return jax.lax.scan(step, agent, (drawn, jnp.arange(updates)))[0]

    return jax.vmap(one_agent)(agents, replay, masks, seeds) if updates else agents, replay


@partial(jax.jit, static_argnames="settings")
def act(
    actors: Any, observations: Array, masks: Array, seeds: Array, rounds: Array, *, settings: sac.Settings
) -> Array:
    """Sampled actions [A, E, a] for observations [A, E, o]."""

    def one_agent(actor: Any, observation: Array, mask: Array, seed: Array) -> Array:
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), 1 << 30), rounds)
        noise = jax.random.normal(key, (len(observation), settings.action_size))
        return sac.sample_actions(actor, observation, mask, noise, settings)[0]

    return jax.vmap(one_agent)(actors, observations, masks, seeds)


class Training:
    """One training in one folder."""

    def __init__(self, plan: Plan, folder: Path, *, workers: int) -> None:
        self.plan, self.folder = plan, folder
        self._claim_folder()
        env_ids = [environment_of(task) for task, _ in plan.agents]
        sizes = [task_sizes(env_id) for env_id in env_ids]
        self.settings = sac.Settings(
            observation_size=max(o for o, _ in sizes),
            action_size=max(a for _, a in sizes),
            hidden_units=plan.hidden_units,
            batch_size=plan.batch_size,
        )
        self.masks = jnp.asarray([np.arange(self.settings.action_size) < a for _, a in sizes], jnp.float32)
        self.seeds = jnp.asarray(
            [np.random.SeedSequence([s, i]).generate_state(1)[0] for i, (_, s) in enumerate(plan.agents)]
        )
        self.capacity = plan.capacity // plan.environments * plan.environments
        self.state, self.rounds = self._start()
        wide = (self.settings.observation_size, self.settings.action_size)
        self.simulators = Simulators(
            env_ids, plan.environments, wide, workers=workers, seed=plan.seed + 1_000_003 * self.rounds
        )
        self.running = np.zeros((len(env_ids), plan.environments))  # returns so far
        self.recent = [deque(row[~np.isnan(row)], _RECENT_EPISODES) for row in np.asarray(self.state.recent)]

    @property
    def steps(self) -> int:
        """Environment steps of each agent."""
        return self.rounds * self.plan.environments

    def run(self, steps: int, *, max_minutes: float = float("inf"), checkpoint_minutes: float = 20.0) -> bool:
        """Go on up to ``steps`` per agent or until the time is up; whether all steps are done."""
        began = saved = time.monotonic()
        first = self.steps
        agents, replay = self.state.agents, self.state.replay
        observations = self.simulators.arrays["observations"].copy()
        rows: NDArray[np.float32] | None = None
        next_snapshot = (self.steps // self.plan.snapshot_every + 1) * self.plan.snapshot_every

        def out_of_time() -> bool:
            return time.monotonic() - began > 60 * max_minutes

        while self.steps < steps and not out_of_time():
            self.simulators.start(self._actions(agents, observations))
            if rows is not None:
                agents, replay = self._learn(agents, replay, rows)
            after = self.simulators.wait()
            rows = self._pack(observations, after)
            observations = after["observations"].copy()
            self._count_episodes(after)
            self.rounds += 1
            if self.steps >= next_snapshot:
                next_snapshot += self.plan.snapshot_every
                rate = (self.steps - first) / (time.monotonic() - began)
                self._snapshot(agents, rate)
                report("steps per agent", self.steps, steps, f"{rate:,.0f}/s, mean returns {self._summary()}")
            if time.monotonic() - saved > 60 * checkpoint_minutes or self.steps >= steps or out_of_time():
                agents, replay = self._learn(agents, replay, rows)
                rows = None
                self._save(agents, replay)
                saved = time.monotonic()
        return self.steps >= steps

    def close(self) -> None:
        self.simulators.close()

    def _actions(self, agents: sac.Agent, observations: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.steps < self.plan.warmup:
            rng = np.random.default_rng([self.plan.seed, self.rounds])
            shape = (*observations.shape[:2], self.settings.action_size)
            return rng.uniform(-1, 1, shape).astype(np.float32) * np.asarray(self.masks)[:, None]
        return np.asarray(
            act(agents.actor, observations, self.masks, self.seeds, jnp.uint32(self.rounds), settings=self.settings)
        )

    def _learn(self, agents: sac.Agent, replay: Array, rows: NDArray[np.float32]) -> tuple[sac.Agent, Array]:
        past = (self.rounds - 1) * self.plan.environments  # steps before these rows
        return learn(
            agents,
            replay,
            rows,
            self.masks,
            self.seeds,
            jnp.int32(past % self.capacity),
            jnp.int32(min(self.capacity, past + self.plan.environments)),
            jnp.uint32(self.rounds),
            settings=self.settings,
            updates=(self.plan.updates or self.plan.environments) if self.steps >= self.plan.warmup else 0,
        )

    def _pack(self, observations: NDArray[np.float32], after: dict[str, NDArray[np.float32]]) -> NDArray[np.float32]:
        """Transitions [A, E, row]; an episode cut by the time limit has not terminated."""
        scalars = np.stack([after["rewards"], after["terminated"]], axis=-1)
        return np.concatenate([observations, after["actions"], scalars, after["next_observations"]], axis=-1)

    def _count_episodes(self, after: dict[str, NDArray[np.float32]]) -> None:
        self.running += after["rewards"]
        ended = (after["terminated"] > 0) | (after["truncated"] > 0)
        for agent, environment in np.argwhere(ended):
            self.recent[agent].append(self.running[agent, environment])
        self.running[ended] = 0

    def _over_recent(self, statistic: Callable[[Any], Any]) -> list[float | None]:
        """Of the returns of the last episodes, per agent; None where none has ended yet."""
        return [float(statistic(returns)) if returns else None for returns in self.recent]

    def _summary(self) -> str:
        """Best mean per task, where an episode has ended."""
        best: dict[str, float] = {}
        for (task, _), mean in zip(self.plan.agents, self._over_recent(np.mean), strict=True):
            if mean is not None:
                best[task] = max(best.get(task, mean), mean)
        return ", ".join(f"{task} {mean:,.0f}" for task, mean in best.items())

    def _snapshot(self, agents: sac.Agent, rate: float) -> None:
        arrays = {}
        for number, layer in enumerate(agents.actor):
            arrays[f"layer{number}.weight"] = np.asarray(layer.weight, np.float16)
            arrays[f"layer{number}.bias"] = np.asarray(layer.bias, np.float16)
        folder = self.folder / "snapshots"
        folder.mkdir(exist_ok=True)
        write_safetensors(folder / f"{self.steps:09d}.safetensors", arrays, {"steps": str(self.steps)})
        line = {
            "steps": self.steps,
            "steps_per_second": round(rate, 1),
            "mean_returns": self._over_recent(np.mean),
            "std_returns": self._over_recent(np.std),
        }
        with (self.folder / "progress.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def _claim_folder(self) -> None:
        there = self.folder / "plan.json"
        plan = json.loads(json.dumps(asdict(self.plan)))
        if there.exists():
            if json.loads(there.read_text()) != plan:
                raise DatasetError(f"{self.folder}: holds a training with other settings; choose another folder")
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(there, plan)

    def _start(self) -> tuple[State, int]:
        count = len(self.plan.agents)
        agents = jax.vmap(lambda seed: sac.init(jax.random.key(seed), self.settings))(self.seeds)
        replay = jnp.zeros((count, self.capacity, self.settings.row_size))
        state = State(agents, replay, jnp.full((count, _RECENT_EPISODES), jnp.nan))
        path = self.folder / "checkpoint.safetensors"
        return load_checkpoint(path, state, identity=self._identity()) if path.exists() else (state, 0)

    def _save(self, agents: sac.Agent, replay: Array) -> None:
        recent = np.full((len(self.recent), _RECENT_EPISODES), np.nan, np.float32)
        for row, returns in zip(recent, self.recent, strict=True):
            row[: len(returns)] = returns
        self.state = State(agents, replay, jnp.asarray(recent))
        path = self.folder / "checkpoint.safetensors"
        save_checkpoint(path, take_snapshot(self.state), num_updates=self.rounds, identity=self._identity())
        _log.info("checkpoint at %d steps", self.steps)

    def _identity(self) -> str:
        return json.dumps(asdict(self.plan), sort_keys=True)


def environment_of(task: str) -> str:
    """A task's environment; or the one that ``module:function`` builds, whose name may stand for a task here."""
    return task if ":" in task else find_task(task).env_id


def task_sizes(env_id: str) -> tuple[int, int]:
    """Observation and action size; actions must be continuous and in [-1, 1]."""
    with closing(make_environment(env_id)) as environment:
        observations, actions = environment.observation_space, environment.action_space
    if not hasattr(actions, "low") or not (np.all(actions.low == -1) and np.all(actions.high == 1)):
        raise DatasetError(f"{env_id}: expected actions in [-1, 1], found {actions}")
    return observations.shape[0], actions.shape[0]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tasks", nargs="+", required=True, help="hopper, halfcheetah, walker2d, ant; or module:function"
    )
    parser.add_argument("--seeds", type=int, default=1, help="agents per task (default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="of the first (default: 0)")
    parser.add_argument("--steps", type=int, default=1_000_000, help="environment steps per agent (default: 1,000,000)")
    parser.add_argument("--environments", type=int, default=64, help="per agent (default: 64)")
    parser.add_argument(
        "--updates",
        type=int,
        default=None,
        help="per agent and step of all its environments (default: as many as these)",
    )
    parser.add_argument("--capacity", type=int, default=1_000_000, help="of the replay (default: 1,000,000 steps)")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count(), help="simulator processes (default: one per core)"
    )
    parser.add_argument("--max-minutes", type=float, default=float("inf"), help="stop after this; start again to go on")
    parser.add_argument("--checkpoint-minutes", type=float, default=20.0, help="between two checkpoints (default: 20)")
    parser.add_argument("--output", type=Path, required=True, help="folder to write to")
    given = parser.parse_args(arguments)
    logging.basicConfig(format="%(message)s")
    _log.setLevel(logging.INFO)  # ours alone
    plan = Plan(
        tuple(given.tasks),
        seeds=given.seeds,
        seed=given.seed,
        environments=given.environments,
        updates=given.updates,
        capacity=given.capacity,
    )
    training = Training(plan, given.output, workers=given.workers)
    try:
        with listening(lambda _, done, total, detail: _log.info("%d of %d steps, %s", done, total, detail)):
            done = training.run(given.steps, max_minutes=given.max_minutes, checkpoint_minutes=given.checkpoint_minutes)
    finally:
        training.close()
    _log.info(
        "%s at %d steps per agent; best mean returns: %s",
        "finished" if done else "stopped",
        training.steps,
        training._summary(),
    )


if __name__ == "__main__":
    main()
