"""Do the paper's settings keep CQL's values down on expert data? Ours beside d3rlpy's, update by update: 25 minutes on two cores.

    python -m reproduction.cql_values
    python -m reproduction.cql_values --task ant --no-peer --name cql_values_ant

Both learn from the same 300 episodes of a task's expert (HalfCheetah's), with small networks and batches: one agent of d3rlpy's,
and ours with the same weight of the conservative term and with larger ones. d3rlpy 2 sums that term over its two critics where
version 1, the paper's, takes the mean: half the weight is the same loss. What episodes earn bounds what a policy's actions can be
worth: the best logged one, were it endless, is worth its mean reward / (1 - discount).
"""

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

import upweight as uw
from benchmarks.measure import record
from upweight.lab.train.run import algorithm_config

HIDDEN, BATCH, EVERY = (128, 128, 128), 64, 1_000
WEIGHTS = (5.0, 10.0, 20.0, 50.0)  # the first is the paper's


def of_d3rlpy(dataset: uw.Dataset, updates: int) -> list[dict[str, Any]]:
    """Value of the policy's actions, and by how much sampled actions exceed logged ones, on average over EVERY updates."""
    import d3rlpy
    from d3rlpy.models.encoders import VectorEncoderFactory

    d3rlpy.seed(0)
    paper, encoder = algorithm_config("cql"), VectorEncoderFactory(list(HIDDEN))
    config = d3rlpy.algos.CQLConfig(
        actor_learning_rate=paper.actor_learning_rate,
        critic_learning_rate=paper.critic_learning_rate,
        temp_learning_rate=paper.temperature_learning_rate,
        alpha_learning_rate=0.0,
        initial_alpha=1.0,
        alpha_threshold=0.0,
        batch_size=BATCH,
        actor_encoder_factory=encoder,
        critic_encoder_factory=encoder,
        conservative_weight=WEIGHTS[0] / 2,
        n_action_samples=paper.action_samples,
    )
    data = d3rlpy.dataset.MDPDataset(
        dataset.observations, dataset.actions, dataset.rewards, dataset.terminated, dataset.truncated
    )
    learner, rows, sums = config.create(), list[dict[str, Any]](), dict[str, float]()
    learner.build_with_dataset(data)
    for update in range(1, updates + 1):
        for name, value in learner.update(data.sample_transition_batch(BATCH)).items():
            sums[name] = sums.get(name, 0.0) + float(value) / EVERY
        if update % EVERY == 0:
            gap = sums["conservative_loss"] / WEIGHTS[0]
            rows.append(row("d3rlpy", WEIGHTS[0], update, -sums["actor_loss"], gap, sums["temp"]))
            sums = {}
    return rows


def of_ours(dataset: uw.Dataset, updates: int) -> tuple[list[dict[str, Any]], dict[float, float]]:
    """The same of each weight; and what the last policies score."""
    small = replace(algorithm_config("cql"), hidden_units=HIDDEN, batch_size=BATCH)
    rows: list[dict[str, Any]] = []

    def keep(records: list[dict[str, Any]]) -> None:
        for each in records:
            about = ("upweight", WEIGHTS[each["run"]], each["updates"])
            rows.append(row(*about, -each["actor_loss"], each["conservative_loss"], each["temperature"]))

    runs = [uw.Run(replace(small, conservative_weight=weight)) for weight in WEIGHTS]
    found = uw.train(dataset, runs, num_updates=updates, log_every_updates=EVERY, callbacks=[keep])
    played = uw.evaluate([each.policy for each in found], dataset.metadata["env_id"], episodes=10)
    return rows, {weight: round(float(each.score), 3) for weight, each in zip(WEIGHTS, played, strict=True)}


def row(who: str, weight: float, updates: int, value: float, gap: float, temperature: float) -> dict[str, Any]:
    found = {"who": who, "conservative_weight": weight, "updates": updates, "value_of_policy": round(value, 2)}
    found |= {"conservative_gap": round(gap, 3), "temperature": round(temperature, 4)}
    print("  ".join(f"{name} {each}" for name, each in found.items()), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=20_000)
    parser.add_argument("--task", default="halfcheetah")
    parser.add_argument("--peer", action=argparse.BooleanOptionalAction, default=True, help="d3rlpy beside ours")
    parser.add_argument("--name", default="cql_values", help="of the file of results")
    arguments = parser.parse_args()
    dataset = uw.make_dataset(f"{arguments.task}-expert", steps=300_000)
    bound = float(np.max(dataset.returns / dataset.lengths)) / (1 - algorithm_config("cql").discount)
    rows = of_d3rlpy(dataset, arguments.updates) if arguments.peer else []
    ours, scores = of_ours(dataset, arguments.updates)
    about = {"dataset": f"{arguments.task}-expert, 300,000 steps", "hidden_units": HIDDEN, "batch_size": BATCH}
    about |= {"best_logged_value": round(bound, 1), "scores": scores}
    packages = ["upweight", "jax", "d3rlpy", "torch", "numpy", "mujoco"]
    print(f"wrote {record(arguments.name, packages, rows + ours, about=about)}")


if __name__ == "__main__":
    main()
