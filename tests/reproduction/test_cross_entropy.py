from pathlib import Path

import numpy as np
import pytest

import upweight as uw
from reproduction.policies import cross_entropy
from reproduction.policies.cross_entropy import Settings, main, mountain_car_energy, train, write_snapshots
from upweight.base.progress import listening
from upweight.lab.play.block import Episode, Trajectory
from upweight.policies.policy import load_policy

TINY = Settings(generations=2, population=6, elites=2, episodes=2, last_episodes=2, hidden_units=4)


def parameters(policy: uw.Policy) -> np.ndarray:
    return np.concatenate([array.ravel() for layer in policy.layers for array in layer])


def car(*visited: tuple[float, float]) -> Episode:
    """An episode that was at these positions with these velocities."""
    steps = len(visited) - 1
    trajectory = Trajectory(np.array(visited, np.float32), np.zeros(steps, np.int64), -np.ones(steps, np.float32))
    return Episode(-float(steps), steps, False, False, trajectory)


class TestTraining:
    def test_depends_on_the_seed_and_not_on_the_workers(self) -> None:
        one = list(train("cartpole", seed=3, settings=TINY, workers=1))
        two = list(train("cartpole", seed=3, settings=TINY, workers=2))
        other = list(train("cartpole", seed=4, settings=TINY, workers=1))
        assert [g.number for g in one] == [0, 1]
        for a, b, c in zip(one, two, other, strict=True):
            np.testing.assert_array_equal(parameters(a.policy), parameters(b.policy))
            assert (a.mean_return, a.elite_return) == (b.mean_return, b.elite_return)
            assert a.elite_return != c.elite_return

    def test_begins_with_equally_likely_actions(self) -> None:
        first = next(iter(train("acrobot", settings=TINY, workers=1)))
        assert not parameters(first.policy).any()
        rngs = np.random.default_rng(0).spawn(300)
        chosen = first.policy.act(np.ones((300, 6)), rngs)
        assert np.bincount(chosen, minlength=3).min() > 60

    def test_the_elites_move_the_mean(self) -> None:
        """With a rate of 1 and everybody an elite, the next mean is that of the population."""
        settings = Settings(generations=2, population=4, elites=4, episodes=1, rate=1.0, std=2.0)
        _, second = train("mountaincar", seed=1, settings=settings, workers=1)
        size = (2 + 1) * 16 + (16 + 1) * 3
        rng = np.random.default_rng(np.random.SeedSequence((1, 0x63656D)))
        expected = 2.0 * rng.standard_normal((4, size)).mean(axis=0)
        np.testing.assert_allclose(parameters(second.policy), expected, rtol=1e-5, atol=1e-6)

    def test_later_generations_may_play_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        played = []

        def no_play(
            task: str, env_id: str, networks: list[uw.Policy], seeds: list[tuple[int, ...]], workers: object
        ) -> object:
            played.append(seeds)
            return np.zeros(len(networks)), np.zeros(len(networks))

        monkeypatch.setattr(cross_entropy, "_play", no_play)
        settings = Settings(generations=3, population=4, elites=2, episodes=2, last_episodes=6)
        list(train("cartpole", settings=settings))
        assert [len(seeds) for seeds in played] == [2, 4, 6]
        assert len({seed for seeds in played for seed in seeds}) == 12

    @pytest.mark.slow
    def test_learns_to_balance_the_pole(self) -> None:
        settings = Settings(generations=10, population=24, elites=5, episodes=5, last_episodes=5, rate=0.7)
        *_, last = train("cartpole", seed=0, settings=settings)
        result = uw.evaluate(last.policy, "upweight/StochasticCartPole-v1", 20, 1, stochastic=True)
        assert result.mean_return > 100  # random actions: 22; seeds 0 to 5 reach 187 to 500

    def test_reports_progress(self) -> None:
        heard: list[tuple[str, int, int, str]] = []
        with listening(lambda *event: heard.append(event)):
            list(train("cartpole", settings=TINY, workers=1))
        assert [event[:3] for event in heard] == [("training cartpole", 1, 2), ("training cartpole", 2, 2)]
        assert "mean return" in heard[0][3]


class TestEnergy:
    def test_at_rest_in_the_valley(self) -> None:
        assert mountain_car_energy(car((-np.pi / 6, 0.0), (-np.pi / 6, 0.0))) == pytest.approx(0, abs=1e-4)

    def test_at_the_goal_and_beyond(self) -> None:
        assert mountain_car_energy(car((-0.5, 0.0), (0.5, 0.0))) == pytest.approx(100)
        assert mountain_car_energy(car((-0.5, 0.0), (0.55, 0.05))) == 100

    def test_height_and_speed_count_and_the_best_moment_is_kept(self) -> None:
        height = 100 * (np.sin(3 * -0.9) + 1) / (np.sin(1.5) + 1)
        speed = 100 * (0.02**2 / 2) / (0.0025 / 3 * (np.sin(1.5) + 1))
        assert mountain_car_energy(car((-0.5, 0.0), (-0.9, 0.0), (-0.5, 0.0))) == pytest.approx(height, rel=1e-4)
        assert mountain_car_energy(car((-np.pi / 6, 0.02), (-np.pi / 6, 0.0))) == pytest.approx(speed, rel=1e-4)


class TestSnapshots:
    def test_one_file_per_generation(self, tmp_path: Path) -> None:
        generations = list(train("mountaincar", seed=5, settings=TINY, workers=1))
        paths = write_snapshots(iter(generations), tmp_path / "snapshots")
        assert [path.name for path in paths] == ["000.safetensors", "001.safetensors"]
        policy = load_policy(paths[1])
        np.testing.assert_array_equal(parameters(policy), parameters(generations[1].policy))
        assert policy.metadata == {
            "env_id": "upweight/StochasticMountainCar-v0",
            "algorithm": "cross-entropy method",
            "generation": 1,
            "seed": 5,
        }

    def test_program(self, tmp_path: Path) -> None:
        main(["--task", "cartpole", "--output", str(tmp_path), "--seed", "2", "--generations", "1", "--workers", "1"])
        assert load_policy(tmp_path / "000.safetensors").metadata["seed"] == 2


class TestBadInput:
    def test_unknown_task(self) -> None:
        with pytest.raises(uw.DatasetError, match="did you mean 'cartpole"):
            train("cartpol")

    def test_continuous_task(self) -> None:
        with pytest.raises(uw.DatasetError, match=r"hopper: expected a task .* discrete actions \(cartpole, acrobot"):
            train("hopper")

    @pytest.mark.parametrize("elites", [1, 7])
    def test_elites_that_do_not_fit(self, elites: int) -> None:
        with pytest.raises(uw.DatasetError, match=f"from 2 up to the population of 6, found {elites}"):
            train("cartpole", settings=Settings(population=6, elites=elites))
