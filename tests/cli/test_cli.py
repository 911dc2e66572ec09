"""The command line as a user meets it."""

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar
from urllib.request import urlopen

import h5py
import numpy as np
import pytest

import upweight as uw
from support.datasets import random_dataset
from upweight.cli.main import COMMANDS, GROUPS, main
from upweight.cli.terminal import command_name
from upweight.data.holdout import held_out_episodes
from upweight.weightings.registry import weighting_classes


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """good.hdf5, poor.hdf5 and mixed.npz in one folder."""
    good = random_dataset(1, num_episodes=30, max_length=60, reward_shift=5, next_known=True)
    poor = random_dataset(2, num_episodes=300, max_length=6, next_known=True)
    uw.save(good, tmp_path / "good.hdf5")
    uw.save(poor, tmp_path / "poor.hdf5")
    uw.save(uw.mix(good, poor, fraction=0.2, num_steps=800, seed=0), tmp_path / "mixed.npz")
    return tmp_path


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


class TestInspect:
    def test_prints_tables_without_colours(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("inspect", files / "mixed.npz") == 0
        out, err = capsys.readouterr()
        assert "Suggestion:" in out and "RPSV" not in out and len(out.splitlines()) <= 25
        assert f"upweight explore {files / 'mixed.npz'}" in out
        assert "\x1b" not in out + err
        assert err == ""

    def test_json(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        options = ("--weighting", "rw", "--temperature", "0.3", "--env", "hopper", "--json", "--check")
        assert run("inspect", files / "mixed.npz", *options) == 0
        report = json.loads(capsys.readouterr().out)
        assert [effect["name"] for effect in report["effects"]] == ["uniform", "rw temperature=0.3"]
        assert report["env"] == "hopper"

    def test_several_weightings_share_settings(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        options = ("--weighting", "rw", "--weighting", "top", "--temperature", "0.3", "--fraction", "0.5", "--json")
        assert run("inspect", files / "mixed.npz", *options) == 0
        names = [effect["name"] for effect in json.loads(capsys.readouterr().out)["effects"]]
        assert names == ["uniform", "rw temperature=0.3", "top fraction=0.5"]

    def test_an_effective_size_in_the_place_of_a_temperature(
        self, files: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        weightings = ("--weighting", "rw", "--weighting", "aw")
        assert run("inspect", files / "mixed.npz", *weightings, "--effective-episodes", "3", "--json") == 0
        effects = json.loads(capsys.readouterr().out)["effects"]
        assert [effect["name"] for effect in effects[1:]] == ["rw effective_episodes=3", "aw effective_episodes=3"]
        assert [effect["effective_episodes"] for effect in effects[1:]] == pytest.approx([3, 3])
        both = ("--effective-share", "0.1", "--temperature", "0.1")
        assert run("inspect", files / "mixed.npz", *weightings, *both) == 2
        assert "found temperature and effective_share" in capsys.readouterr().err

    def test_the_baseline_has_an_option(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("inspect", files / "mixed.npz", "--weighting", "aw", "--baseline", "ridge", "--json") == 0
        names = [effect["name"] for effect in json.loads(capsys.readouterr().out)["effects"]]
        assert names == ["uniform", "aw temperature=0.1 baseline=ridge"]

    @pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
    def test_plot(self, files: Path, capsys: pytest.CaptureFixture[str], suffix: str) -> None:
        picture = files / f"out.{suffix}"
        assert run("inspect", files / "mixed.npz", "--plot", picture) == 0
        signature = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix]
        assert picture.read_bytes().startswith(signature)
        assert f"wrote {picture}" in capsys.readouterr().out

    def test_check_finds_what_a_plain_look_does_not(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        ds = uw.load(files / "good.hdf5")
        inside = int(ds.starts[np.argmax(ds.lengths > 1)]) + 1
        with h5py.File(files / "good.hdf5", "a") as file:
            file["observations"][inside, 0] = np.nan
        assert run("inspect", files / "good.hdf5") == 0
        capsys.readouterr()
        assert run("inspect", files / "good.hdf5", "--check") == 2
        assert "good.hdf5: key 'observations'" in capsys.readouterr().err

    def test_success(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        with h5py.File(files / "poor.hdf5", "r+") as file:
            file["infos/won"] = np.arange(len(file["rewards"])) < 20
        assert run("inspect", files / "poor.hdf5", "--success", "won", "--json") == 0
        quantiles = json.loads(capsys.readouterr().out)["returns"]["quantiles"]
        assert (quantiles["min"], quantiles["max"]) == (0.0, 1.0)

    def test_horizon(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("inspect", files / "poor.hdf5", "--horizon", 1000, "--json") == 0
        assert json.loads(capsys.readouterr().out)["num_incomplete"] > 0

    def test_the_number_of_actions_is_said_once_and_kept(self, files: Path) -> None:
        uw.save(random_dataset(discrete=True), files / "choices.npz")
        assert run("convert", files / "choices.npz", "--num-actions", 6, "-o", files / "six.npz") == 0
        assert uw.load(files / "six.npz").num_actions == 6
        assert run("train", files / "six.npz", "--algorithm", "discrete_bc", "--updates", 1, "-o", files / "run") == 0
        policy = uw.load_policy(files / "run" / "policies" / "run-000.safetensors")
        assert len(policy.layers[-1][1]) == 6


class TestMix:
    def test_writes_and_tells(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        options = ("--fraction", 0.1, "--steps", 500, "--labels", "expert", "random", "-o", files / "m.parquet")
        assert run("mix", files / "good.hdf5", files / "poor.hdf5", *options) == 0
        assert "distinct" in capsys.readouterr().out
        ds = uw.load(files / "m.parquet")
        assert ds.labels is not None
        assert set(ds.labels) == {"expert", "random"}
        assert ds.num_steps >= 500

    def test_json_and_seed(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        base = ("mix", files / "good.hdf5", files / "poor.hdf5", "--fraction", 0.1, "--steps", 500, "--json")
        assert run(*base, "--seed", 3, "-o", files / "a.npz") == 0
        assert json.loads(capsys.readouterr().out)["good"]["distinct_episodes"] >= 1
        assert run(*base, "--seed", 3, "-o", files / "b.npz") == 0
        assert run(*base, "--seed", 4, "-o", files / "c.npz") == 0
        returns = [uw.load(files / f"{name}.npz").returns.tolist() for name in "abc"]
        assert returns[0] == returns[1] != returns[2]

    def test_too_short_a_source(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        base = ("mix", files / "good.hdf5", files / "poor.hdf5", "--fraction", 0.9, "--steps", 10**6)
        assert run(*base, "-o", files / "m.npz") == 2
        assert "replace" in capsys.readouterr().err
        assert not (files / "m.npz").exists()


class TestConvert:
    @pytest.mark.parametrize("name", ["npz", "parquet", "d4rl", "d3rlpy", "minari", "ogbench"])
    def test_to_every_format(self, files: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
        assert run("convert", files / "mixed.npz", "-o", files / "out", "--format", name, "--json") == 0
        out, err = capsys.readouterr()
        lost = json.loads(out)["lost"]
        assert bool(lost) == ("warning:" in err)
        assert uw.load(files / "out").num_episodes == uw.load(files / "mixed.npz").num_episodes

    def test_the_suffix_names_the_format(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("convert", files / "mixed.npz", "-o", files / "out.h5") == 0
        assert "wrote" in capsys.readouterr().out
        assert run("convert", files / "mixed.npz", "-o", files / "out.csv") == 2


@pytest.fixture
def icu(tmp_path: Path) -> Path:
    """Ten stays, hour by hour, of patients that lie side by side."""
    rows = [f"{stay},{hour},{stay + hour},{50 + hour},{hour % 2},{stay % 3}" for hour in range(4) for stay in range(10)]
    (tmp_path / "icu.csv").write_text("\n".join(["stay_id,hour,age,hr,dose,r", *rows, ""]))
    return tmp_path / "icu.csv"


class TestTables:
    options = (
        "--episode",
        "stay_id",
        "--observations",
        "age, hr",
        "--action",
        "dose",
        "--reward",
        "r",
        "--timestep",
        "hour",
    )

    def test_every_command_takes_them(self, icu: Path, capsys: pytest.CaptureFixture[str]) -> None:
        options = (*self.options, "--ends", "truncated")
        assert run("inspect", icu, *options, "--json") == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["num_episodes"], report["num_truncated"], report["returns"]["quantiles"]["max"]) == (10, 10, 8.0)
        assert run("weights", icu, *options, "-o", icu.with_name("weights.npz")) == 0
        assert run("convert", icu, *options, "-o", icu.with_name("icu.npz")) == 0
        assert uw.load(icu.with_name("icu.npz")).observations[:2].tolist() == [[0, 50], [1, 51]]
        assert run("mix", icu, icu, *options, "--fraction", 0.5, "--steps", 16, "-o", icu.with_name("mix.npz")) == 0
        assert capsys.readouterr().err == ""

    def test_the_output_says_what_was_assumed(self, icu: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("inspect", icu, *self.options) == 0
        out, err = capsys.readouterr()
        assert "10 terminated, 0 truncated" in out
        assert "warning:" in err and "nothing says how 10 episodes ended" in err and "--ends terminated" in err

    def test_a_toml_file_is_enough(self, icu: Path, capsys: pytest.CaptureFixture[str]) -> None:
        icu.with_suffix(".toml").write_text(
            '[table]\nepisode = "stay_id"\ntimestep = "hour"\nobservations = ["age"]\nactions = "dose"\n'
            'rewards = "r"\nends = "terminated"\ncategories = ["dose"]\n'
        )
        assert run("inspect", icu, "--explain") == 0
        out, err = capsys.readouterr()
        assert err == "" and "discrete" in out and "dose: 0 is 0, 1 is 1" in out

    def test_the_next_command_reads_the_data_alike(self, icu: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("inspect", icu, *self.options, "--ends", "terminated") == 0
        (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Next: ")]
        words = shlex.split(line.removeprefix("Next: upweight ").split("#")[0])
        assert run(*words, "-o", icu.with_name("page.html")) == 0

    def test_the_next_command_without_rewards_asks_for_success(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (table := tmp_path / "log.csv").write_text("episode,x,action,well\n1,2,0,1\n1,3,0,1\n2,2,0,0\n2,3,1,0\n")
        options = ("--observations", "x", "--ends", "terminated")
        assert run("inspect", table, *options) == 0
        (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Next: ")]
        words = shlex.split(line.removeprefix("Next: upweight ").split("#")[0].replace("NAME", "well"))
        assert run(*words) == 0 and "returns       0 to 1" in capsys.readouterr().out

    def test_mistakes_are_one_line(self, icu: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("inspect", icu, *self.options, "--label", "ward") == 2
        assert "missing column 'ward'" in capsys.readouterr().err

    @pytest.mark.slow
    def test_train(self, icu: Path) -> None:
        small = ("--set", "hidden_units=[8, 8]", "--set", "batch_size=8", "--updates", 20)
        options = (*self.options, "--ends", "truncated", "--algorithm", "discrete_bc", "-o", icu.with_name("runs"))
        assert run("train", icu, *options, *small) == 0


class TestExplore:
    def test_the_page(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        page = files / "page.html"
        assert run("explore", files / "mixed.npz", "-o", page, "--title", "Third export") == 0
        assert capsys.readouterr().out == f"wrote {page}: open it in a browser\n"
        assert "<h1>Third export</h1>" in page.read_text()
        assert run("explore", files / "mixed.npz", "-o", page) == 2
        assert "exists already" in capsys.readouterr().err

    def test_serving_ends_with_ctrl_c(
        self, files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def pressed() -> None:
            address = re.search(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", capsys.readouterr().out)
            assert address is not None and b"mixed.npz" in urlopen(address[0]).read()
            raise KeyboardInterrupt

        monkeypatch.setattr("upweight.cli.explore.until_interrupted", pressed)
        monkeypatch.chdir(files)
        assert run("explore", "mixed.npz", "--serve") == 0
        assert capsys.readouterr().out == "\nended\n"
        assert not (files / "explore.html").exists()


class TestWeights:
    def test_the_file(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("weights", files / "mixed.npz", "-o", files / "w.npz") == 0
        assert "rw temperature=0.1" in capsys.readouterr().out
        ds = uw.load(files / "mixed.npz")
        with np.load(files / "w.npz") as saved:
            assert set(saved) == {"weights", "lengths", "returns"}
            np.testing.assert_array_equal(saved["weights"], uw.ReturnWeighting(0.1)(ds))
            np.testing.assert_array_equal(saved["returns"], ds.returns)
            sampler = uw.EpisodeSampler.from_lengths(saved["lengths"], saved["weights"])
        np.testing.assert_allclose(
            sampler.probabilities(), uw.EpisodeSampler(ds, uw.ReturnWeighting(0.1)).probabilities()
        )

    def test_a_log_without_rewards(self, icu: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Can be drawn from uniformly, and by nothing that asks for returns."""
        unrewarded = ("--episode", "stay_id", "--observations", "age", "--actions", "dose", "--timestep", "hour")
        output = icu.with_name("w.npz")
        assert run("weights", icu, *unrewarded, "--weighting", "uniform", "-o", output) == 0
        with np.load(output) as saved:
            assert saved["weights"].tolist() == [0.1] * 10 and np.isnan(saved["returns"]).all()
        assert run("weights", icu, *unrewarded, "-o", output, "--overwrite") == 2
        assert "no rewards, so there are no returns to weight by" in capsys.readouterr().err

    def test_other_weightings(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        options = ("--weighting", "half", "--high", "good", "--json", "-o", files / "w.npz")
        assert run("weights", files / "mixed.npz", *options) == 0
        assert json.loads(capsys.readouterr().out)["weighting"]["name"] == "half"


@pytest.mark.slow
class TestTrain:
    small = ("--set", "hidden_units=[8, 8]", "--set", "batch_size=8", "--updates", 20)

    def test_actions_are_compared_with_held_out_ones(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        options = ("--weighting", "uniform", *self.small)
        assert run("train", files / "mixed.npz", *options, "--holdout", 0.25, "-o", files / "runs") == 0
        out = capsys.readouterr().out
        assert "action error: mean squared distance (bounds at -1 and 1) from those of held-out episodes" in out
        assert re.search(r"loss [\d.]+ +[\d.]+ \(constant [\d.]+\)", out)
        plan = json.loads((files / "runs" / "plan.json").read_text())
        assert plan["holdout"] == held_out_episodes(uw.load(files / "mixed.npz"), 0.25).tolist()
        assert run("train", files / "mixed.npz", *options, "-o", files / "all", "--json") == 0
        assert json.loads(capsys.readouterr().out)[0]["agreement"]["held_out"] is False
        assert run("train", files / "mixed.npz", *options, "--holdout", 10, "-o", files / "other") == 2
        assert "holdout: expected a number above 0 and below 1" in capsys.readouterr().err
        assert not (files / "other").exists()

    def test_everything_with_everything(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        grid = (
            "--algorithm",
            "bc",
            "--algorithm",
            "td3_bc",
            "--weighting",
            "uniform",
            "--weighting",
            "rw",
            "--seeds",
            2,
        )
        assert run("train", files / "mixed.npz", *grid, *self.small, "-o", files / "runs") == 0
        out, err = capsys.readouterr()
        assert "per agent" in err
        assert out.count("finished") == 8
        assert len(list((files / "runs" / "policies").iterdir())) == 8
        policy = uw.load_policy(files / "runs" / "policies" / "run-007.safetensors")
        assert policy.metadata["run"]["weighting"] == {"name": "rw", "temperature": 0.1}
        assert run("train", files / "mixed.npz", *grid, *self.small, "-o", files / "runs") == 2
        assert "--resume" in capsys.readouterr().err
        assert run("train", files / "mixed.npz", *grid, *self.small, "-o", files / "runs", "--resume", "--json") == 0
        assert [entry["seed"] for entry in json.loads(capsys.readouterr().out)] == [0, 1] * 4

    def test_updates_may_be_left_to_the_data(
        self, files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("upweight.lab.train.length.POINTS", (10, 20))
        options = (*self.small[:4], "--updates", "auto")
        assert run("train", files / "mixed.npz", *options, "-o", files / "runs") == 0
        assert "20 updates, by 1,000 passes" in capsys.readouterr().out
        held = (*options, "--weighting", "uniform", "--holdout", 0.5, "-o", files / "held")
        assert run("train", files / "mixed.npz", *held) == 0
        assert " updates, by held-out actions of 2 points up to 20" in capsys.readouterr().out
        plan = json.loads((files / "held" / "plan.json").read_text())
        assert plan["holdout"] == plan["auto"][0]["holdout"] and plan["auto"][0]["points"] == [10, 20]

    def test_a_name_means_the_papers_temperature_for_the_algorithm(
        self, files: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        grid = ("--algorithm", "td3_bc", "--algorithm", "cql", "--actor-weighting", "aw")
        assert run("train", files / "mixed.npz", *grid, *self.small, "-o", files / "runs", "--json") == 0
        for entry, temperature in zip(json.loads(capsys.readouterr().out), (0.1, 0.2), strict=True):
            assert entry["weighting"] == {"name": "rw", "temperature": temperature}
            assert entry["actor_weighting"]["temperature"] == temperature
        options = ("--algorithm", "TD3+BC", "--algorithm", "CQL", "--weighting", "RW")
        assert run("train", files / "mixed.npz", *options, *self.small, "-o", files / "loud", "--json") == 0
        assert [entry["weighting"]["temperature"] for entry in json.loads(capsys.readouterr().out)] == [0.1, 0.2]
        options = ("--algorithm", "bc", "--temperature", 0.3, "--weighting", "RW", "--weighting", "aw")
        assert run("train", files / "mixed.npz", *options, *self.small, "-o", files / "other", "--json") == 0
        weightings = [entry["weighting"] for entry in json.loads(capsys.readouterr().out)]
        assert [(each["name"], each["temperature"]) for each in weightings] == [("rw", 0.3), ("aw", 0.3)]

    def test_policies_know_the_environment_of_a_dataset_made_by_name(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        data = tmp_path / "mixed.npz"
        assert run("make", "cartpole-expert-random-10", "--steps", 500, "-o", data) == 0
        small = ("--set", "hidden_units=[8, 8]", "--set", "batch_size=8", "--updates", 5)
        assert run("train", data, "--algorithm", "discrete_bc", *small, "-o", tmp_path / "runs") == 0
        assert f"wrote 1 policy to {tmp_path / 'runs' / 'policies'}" in capsys.readouterr().out
        assert run("evaluate", tmp_path / "runs", "--episodes", 2) == 0
        assert "upweight/StochasticCartPole-v1, 2 episodes per policy" in capsys.readouterr().out
        assert json.loads((tmp_path / "runs" / "evaluation.json").read_text())["episodes"] == 2

    def test_evaluation_on_the_way_ends_in_what_evaluate_says(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        data = tmp_path / "mixed.npz"
        assert run("make", "cartpole-expert-random-10", "--steps", 500, "-o", data) == 0
        small = ("--set", "hidden_units=[8, 8]", "--set", "batch_size=8", "--updates", 30, "--episodes", 3)
        options = ("--algorithm", "discrete_bc", "--evaluate-every", 10, "-o", tmp_path / "runs")
        assert run("train", data, *options, *small) == 0
        shown = capsys.readouterr().out
        assert (
            "best of 3 points*" in shown and f"* chosen with the simulator; these policies are in {tmp_path}" in shown
        )
        points = json.loads((tmp_path / "runs" / "results.json").read_text())["runs"][0]["points"]
        assert [point["updates"] for point in points] == [10, 20, 30]
        assert run("evaluate", tmp_path / "runs", "--episodes", 3) == 0
        evaluated = json.loads((tmp_path / "runs" / "evaluation.json").read_text())["policies"][0]
        assert points[-1]["returns"] == evaluated["returns"]

    @pytest.mark.parametrize(
        "options",
        [
            ("--evaluate-every", 10),
            ("--algorithm", "iqll"),
            ("--set", "expectile"),
            ("--set", "hidden_units=8,8"),
            ("--set", "expectile=2", "--algorithm", "iql"),
            ("--preset", "official"),
            ("--algorithm", "discrete_cql"),
            ("--seeds", 0),
            ("--reweight", "--actor-weighting", "rw"),
            ("--actor-weighting", "rw"),
        ],
    )
    def test_bad_input(self, files: Path, capsys: pytest.CaptureFixture[str], options: tuple[object, ...]) -> None:
        assert run("train", files / "mixed.npz", *options, "-o", files / "runs") == 2
        assert capsys.readouterr().err.count("\n") == 1
        assert not (files / "runs").exists()


class TestBadInput:
    @pytest.mark.parametrize(
        "arguments",
        [
            ("inspect", "nothing.hdf5"),
            ("inspect", "."),
            ("inspect", "mixed.npz", "--weighting", "wr"),
            ("inspect", "mixed.npz", "--temperature", "0.1"),
            ("inspect", "mixed.npz", "--weighting", "top", "--temperature", "0.1"),
            ("inspect", "mixed.npz", "--weighting", "rw", "--temperature", "0"),
            ("inspect", "mixed.npz", "--env", "hoper"),
            ("inspect", "mixed.npz", "--plot", "out.xyz"),
            ("inspect", "mixed.npz", "--confidence", "2"),
            ("inspect", "good.hdf5", "--input-format", "npz"),
            ("weights", "mixed.npz", "-o", "weights.txt"),
            ("weights", "mixed.npz", "-o", "no/such/folder/w.npz"),
            ("weights", "good.hdf5", "--weighting", "half", "-o", "w.npz"),
            ("mix", "good.hdf5", "poor.hdf5", "--fraction", "2", "--steps", "10", "-o", "m.npz"),
        ],
        ids=" ".join,
    )
    def test_one_line_and_exit_code_2(
        self,
        files: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        arguments: tuple[str, ...],
    ) -> None:
        monkeypatch.chdir(files)
        before = sorted(files.iterdir())
        assert run(*arguments) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("upweight: error: ")
        assert err.count("\n") == 1
        assert sorted(files.iterdir()) == before

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("x", "--zz"), "inspect: no option '--zz'; see upweight inspect --help"),
            (("x", "--temprature=3"), "inspect: no option '--temprature'; did you mean '--temperature'?"),
            (("x", "y"), "inspect: unexpected 'y'; see upweight inspect --help"),
        ],
    )
    def test_unknown_words(self, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("inspect", *words) == 2
        assert capsys.readouterr().err == f"upweight: error: {said}\n"

    def test_a_file_that_may_not_be_read(self, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (files / "link.npz").symlink_to(files / "link.npz")  # a loop: the system refuses to open it
        assert run("inspect", files / "link.npz") == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_teaches(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert "examples:" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["--help"], ["help"]])
def test_alone_it_lists_the_commands_by_job(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    out = capsys.readouterr().out
    assert all(f"\n{group}:\n" in out for group in GROUPS) and all(f"\n  {name} " in out for name in COMMANDS)


def test_how_data_are_read_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "data"]) == 0
    told = capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["help", "inspect"])
    inspecting = capsys.readouterr().out
    for option in ("--success NAME", "--horizon STEPS", "--missing-rewards", "--input-format"):
        assert option in told and option not in inspecting
    assert "upweight help data" in inspecting
    assert main(["inspect", "x", "--sucess=y"]) == 2
    assert "did you mean '--success'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["inspect"], "inspect: the following arguments are required: DATA; see upweight inspect --help"),
        (["inspect", "x", "--horizon", "long"], "see upweight inspect --help"),
        (["train", "x", "--seeds"], "see upweight train --help"),
    ],
)
def test_missing_words_are_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(words)
    err = capsys.readouterr().err
    assert stop.value.code == 2 and err.count("\n") == 1 and err.endswith(f"{said}\n")


@pytest.mark.parametrize(
    ("command", "default"),
    [
        ("train", "may be given several times; default: rw)"),
        ("weights", "sources (default: rw)"),
        ("inspect", "all that fit the data)"),
    ],
)
def test_help_names_the_weighting_that_is_used(command: str, default: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert default in " ".join(capsys.readouterr().out.split())


@dataclass(frozen=True)
class Sharpened(uw.Weighting):
    """A weighting that somebody adds."""

    name: ClassVar[str] = "sharpened"
    power: int = field(default=2, metadata={"help": "100% of the weight goes to the best as it grows"})
    above_mean: bool = False
    at_least: float | None = None
    steps: tuple[int, ...] = field(default=(), metadata={"json": False})
    shape: Callable[[float], float] | None = field(default=None, metadata={"json": False})

    def weigh(self, dataset: uw.Dataset, eligible: np.ndarray) -> np.ndarray:
        above = dataset.returns[eligible] - dataset.returns[eligible].min() + 1
        return above**self.power * (dataset.returns[eligible] > dataset.returns.mean() if self.above_mean else 1)


def test_the_settings_of_a_new_weighting_are_options(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    classes = {**weighting_classes(), "sharpened": Sharpened}
    for module in ("upweight.cli.options", "upweight.weightings.registry"):
        monkeypatch.setattr(f"{module}.weighting_classes", lambda: classes)
    with pytest.raises(SystemExit):
        main(["weights", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "of sharpened: 100% of the weight goes to the best as it grows (default 2)" in told
    assert "--above-mean, --no-above-mean of sharpened: above mean" in told
    assert "--at-least AT_LEAST of sharpened: at least" in told
    assert "--shape" not in told and "--steps" not in told  # not on a command line
    options = ("--weighting", "sharpened", "--power", 3, "--above-mean", "--json", "-o", files / "w.npz")
    assert run("weights", files / "mixed.npz", *options) == 0
    told = json.loads(capsys.readouterr().out)["weighting"]
    assert told == {"name": "sharpened", "power": 3, "above_mean": True, "at_least": None}
    assert run("inspect", files / "mixed.npz", "--weighting", "rw", "--power", 3) == 2
    assert "--power is not a setting of rw" in capsys.readouterr().err


def test_help_of_report_says_what_bold_means(capsys: pytest.CaptureFixture[str]) -> None:
    """As the notes below the score tables do."""
    with pytest.raises(SystemExit):
        main(["report", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "bold: better than Uniform by the exact Mann-Whitney test of the seeds, corrected" in text


def test_help_of_sweep_names_every_suite(capsys: pytest.CaptureFixture[str]) -> None:
    from upweight.lab.study.experiment_file import suite_names

    with pytest.raises(SystemExit):
        main(["sweep", "--help"])
    told = capsys.readouterr().out.split("suites that come with the package:")[1]
    assert all(name in told for name in suite_names())


def test_the_command_is_named_as_it_can_be_called_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / ".venv" / "bin" / "upweight"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin")
    for called, told in {
        ".venv/bin/upweight": ".venv/bin/upweight",
        "/somewhere/upweight/__main__.py": "python -m upweight",
        "/somewhere/pytest": "upweight",
    }.items():
        monkeypatch.setattr("sys.argv", [called])
        assert command_name() == told
    monkeypatch.setenv("PATH", str(script.parent))  # activated: the shell finds it
    monkeypatch.setattr("sys.argv", [str(script)])
    assert command_name() == "upweight"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("inspect", "x.npz"), "interrupted; nothing was written"),
        (("sweep", "x.toml", "-o", "x"), "interrupted; finished runs are stored, and the same command goes on"),
        (("train", "x.npz", "-o", "x"), "interrupted; the same command with --resume goes on from the last checkpoint"),
    ],
)
def test_who_interrupts_is_told_how_to_go_on(
    arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"{COMMANDS[arguments[0]]}.run", stop)
    assert run(*arguments) == 130
    assert message in capsys.readouterr().err


@pytest.mark.slow
class TestAsAProcess:
    """The installed command itself."""

    command = str(Path(sys.executable).parent / "upweight")

    def test_version_and_module(self) -> None:
        for command in ([self.command], [sys.executable, "-m", "upweight"]):
            out = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout
            assert out == f"upweight {uw.__version__}\n"

    def test_errors_have_no_traceback(self, tmp_path: Path) -> None:
        done = subprocess.run([self.command, "inspect", tmp_path / "x"], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr

    @pytest.mark.parametrize("words", ["inspect mixed.npz", "", "help data"])
    def test_a_closed_pipe_is_no_error(self, files: Path, words: str) -> None:
        shell = f"cd {files}; for _ in 1 2 3; do {self.command} {words} | true; done"
        done = subprocess.run(["bash", "-o", "pipefail", "-c", shell], capture_output=True, text=True, check=False)
        assert done.returncode in (0, 141)
        assert done.stderr == ""

    def test_colours_on_a_terminal_only(self, files: Path) -> None:
        def seen(**environment: str) -> str:
            leader, follower = pty.openpty()
            subprocess.run(
                [self.command, "inspect", files / "mixed.npz"],
                stdout=follower,
                check=True,
                env={**os.environ, "TERM": "xterm", **environment},
            )
            os.close(follower)
            text = b""
            while True:
                try:
                    piece = os.read(leader, 65536)
                except OSError:
                    break
                if not piece:
                    break
                text += piece
            os.close(leader)
            return text.decode()

        assert "\x1b[1m" in seen()
        assert "\x1b" not in seen(NO_COLOR="1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["inspect", "minari:no/such-v0"], "error: minari:no/such-v0: not found in "),
        (["inspect", "good.hdf5", "--weighting", "half"], "Half(threshold=...) (--threshold)"),
        (
            ["mix", "good.hdf5", "poor.hdf5", "--fraction", "0.5", "--steps", "1e9", "-o", "m.npz"],
            "replace=True (--replace)",
        ),
        (["demo", "-o", "good.hdf5"], "good.hdf5: expected a folder to write to, found a file; choose another name"),
        (["train", "good.hdf5", "--env", "Hopper-v5", "-o", "runs"], "--env: needs --evaluate-every N"),
        (
            ["train", "good.hdf5", "--env", "mod:make", "--evaluate-every", "9", "-o", "runs"],
            "or module:function of your own",
        ),
        (
            ["explore", "good.hdf5", "--port", "8000"],
            "--port: needs --serve, which shows the page instead of writing it",
        ),
        (["sweep", "demo"], "-o: expected a folder to keep results in; only --plan needs none"),
        (
            ["explore", "good.hdf5", "--serve", "--port", "99999999"],
            "--port): expected a whole number from 0 to 65,535",
        ),
    ],
)
def test_errors_say_what_to_do(
    files: Path,
    options: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(files)
    assert run(*options) == 2
    assert message in capsys.readouterr().err


def test_examples_name_options_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    run("help", "data")
    reading = capsys.readouterr().out
    for command in ("inspect", "explore", "select", "train"):
        with pytest.raises(SystemExit):
            run(command, "--help")
        options, examples = capsys.readouterr().out.split("examples:")
        lines = " ".join(re.findall(rf"upweight {command} .*", examples))
        assert set(re.findall(r"--[a-z][a-z-]*", lines)) <= set(re.findall(r"--[a-z][a-z-]*", reading + options))
