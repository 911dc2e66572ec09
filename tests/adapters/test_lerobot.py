"""LeRobot's frames by weight: the contract of its own sampler, on a dataset in its layout."""

import math
import sys
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare
from torch.utils.data import BatchSampler, DataLoader

import upweight as uw
from support.lerobot import LENGTHS, SUCCEEDED, flags_of, opened, write_lerobot
from upweight.adapters import epochs
from upweight.adapters.lerobot import WeightedEpisodeSampler
from upweight.cli.main import main

ENDS = np.cumsum(LENGTHS)
STARTS = ENDS - LENGTHS
WEIGHTS = np.array([0.4, 0.0, 0.1, 0.3, 0.2])


def sampler(**options: Any) -> WeightedEpisodeSampler:
    return WeightedEpisodeSampler(STARTS.tolist(), ENDS.tolist(), **{"weights": WEIGHTS, **options})


def frames(made: WeightedEpisodeSampler, epochs: int = 400) -> list[int]:
    return [frame for _ in range(epochs) for frame in made]


@pytest.mark.parametrize(("first", "last"), [(0, 0), (1, 1)])
def test_frames_come_by_the_weights_of_their_episodes(first: int, last: int) -> None:
    made = sampler(drop_n_first_frames=first, drop_n_last_frames=last, seed=3)
    sizes = np.array(LENGTHS) - first - last
    assert len(made) == len(list(made)) == sizes.clip(0).sum()
    expected = np.zeros(ENDS[-1])
    for start, size, weight in zip(STARTS + first, sizes, WEIGHTS, strict=True):
        expected[start : start + size] = weight / (WEIGHTS * sizes).sum()
    counts = np.bincount(frames(made), minlength=ENDS[-1])
    assert (counts[expected == 0] == 0).all()
    assert chisquare(counts[expected > 0], counts.sum() * expected[expected > 0]).pvalue > 1e-3


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    made, other_rank = sampler(seed=1), sampler(seed=1)
    first, second = list(made), list(made)
    np.random.default_rng().random()
    assert [list(other_rank), list(other_rank)] == [first, second]
    assert first != second and list(sampler(seed=2)) != first
    made.set_epoch(1)
    assert list(made) == second and made.state_dict() == {"epoch": 2, "start_index": 0}


def test_the_epoch_advances_when_it_is_begun() -> None:
    made = sampler()
    begun = iter(made)
    assert made.state_dict()["epoch"] == 1
    assert list(begun) == list(sampler())


@pytest.mark.parametrize("block", [1 << 14, 4])  # an epoch in one block, and in many
def test_a_run_resumes_at_the_frame(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "_BLOCK", block)
    whole = sampler()
    orders = [list(whole) for _ in range(3)]
    for start in (0, 1, 4, 9, len(whole)):
        made = sampler()
        made.load_state_dict({"epoch": 1, "start_index": start})
        assert made.state_dict() == {"epoch": 1, "start_index": start}
        assert list(made) == orders[1][start:] and len(made) == len(whole)
        assert list(made) == orders[2]


def test_whoever_counts_epochs_from_0_again_is_led_on_from_a_loaded_state() -> None:
    """Accelerate does, before every epoch; a caller that knows the epoch is taken at its word."""
    straight = sampler(seed=1)
    orders = [list(straight) for _ in range(5)]
    for first in (0, 2):
        made = sampler(seed=1)
        made.load_state_dict({"epoch": 2, "start_index": 7})
        found = []
        for epoch in range(first, first + 3):
            made.set_epoch(epoch)
            found.append(list(made))
        assert found == [orders[2][7:], orders[3], orders[4]]
    made.load_state_dict({"epoch": 2, "start_index": 0})
    assert list(made) == orders[2]
    made.set_epoch(0)  # not just loaded: it was begun
    assert list(made) == orders[0]


def test_a_checkpoint_of_two_ranks_resumes() -> None:
    """As LeRobot does it: the state follows from the step, and whole batches go to the ranks in turn."""
    batch_size, ranks = 5, 2  # an epoch is six batches, three steps
    straight = sampler(seed=5)
    length = len(straight)
    per_epoch = math.ceil(math.ceil(length / batch_size) / ranks)  # steps

    def steps_of(rank: int, made: WeightedEpisodeSampler, count: int) -> list[list[int]]:
        found: list[list[int]] = []
        while len(found) < count:
            found += list(BatchSampler(made, batch_size, drop_last=False))[rank::ranks]
        return found[:count]

    for step in (1, per_epoch, per_epoch + 2):
        epoch, begun = divmod(step, per_epoch)
        for rank in range(ranks):
            resumed = sampler(seed=5)
            resumed.load_state_dict({"epoch": epoch, "start_index": min(begun * batch_size * ranks, length)})
            expected = steps_of(rank, sampler(seed=5), step + 2)[step:]
            assert steps_of(rank, resumed, 2) == expected


def test_the_file_of_the_command_is_what_the_sampler_takes(tmp_path: Path) -> None:
    folder = write_lerobot(tmp_path / "robot", **{"next.success": flags_of()})
    assert main(["weights", str(folder), "--success", "success", "--in-place"]) == 0
    dataset = opened(folder)
    made = WeightedEpisodeSampler.for_dataset(dataset, seed=4, drop_n_last_frames=1)
    weights = uw.ReturnWeighting()(uw.load(folder, success="success"))
    own = WeightedEpisodeSampler(STARTS, ENDS, drop_n_last_frames=1, seed=4, weights=weights)
    named = WeightedEpisodeSampler(STARTS, ENDS, drop_n_last_frames=1, seed=4, weights=folder / "meta/upweight.parquet")
    assert list(made) == list(own) == list(named)
    drawn = np.searchsorted(ENDS, frames(own), side="right")
    assert np.array(SUCCEEDED)[drawn].mean() > 0.99


def test_a_weighting_reads_the_rewards_of_the_folder(tmp_path: Path) -> None:
    rewards = [float(m) for m in range(ENDS[-1])]
    folder = write_lerobot(tmp_path / "robot", **{"next.reward": rewards})
    weights = uw.ReturnWeighting(0.3)(uw.load(folder))
    made = WeightedEpisodeSampler.for_dataset(opened(folder), uw.ReturnWeighting(0.3))
    assert list(made) == list(sampler(weights=weights))
    assert len(list(WeightedEpisodeSampler.for_dataset(opened(folder), "rw"))) == ENDS[-1]


def test_some_episodes_number_their_frames_themselves(tmp_path: Path) -> None:
    folder = write_lerobot(tmp_path / "robot")
    dataset = opened(folder, episodes=[0, 3, 4])
    made = WeightedEpisodeSampler.for_dataset(dataset, WEIGHTS)
    drawn = set(frames(made, 50))
    assert drawn == set(range(5 + 4 + 6)) and len(made) == 15
    loader = DataLoader(range(15), batch_size=4, sampler=made)  # type: ignore[arg-type]
    assert sum(len(batch) for batch in loader) == 15


def test_weights_of_other_data_are_refused(tmp_path: Path) -> None:
    folder = write_lerobot(tmp_path / "robot", **{"next.success": flags_of()})
    file = tmp_path / "weights.parquet"
    assert main(["weights", str(folder), "--success", "success", "-o", str(file)]) == 0
    other = write_lerobot(tmp_path / "other", **{"next.success": flags_of((True,) * 5)})
    assert len(WeightedEpisodeSampler.for_dataset(opened(folder), file)) == 26
    with pytest.raises(uw.DatasetError, match="other data than .*other holds by now; weight it again"):
        WeightedEpisodeSampler.for_dataset(opened(other), file)
    shorter = write_lerobot(tmp_path / "shorter", LENGTHS[:3])
    for weights, message in (
        (file, "this dataset of 3 episodes and 16 frames, found weights of 5 episodes and 26"),
        (tmp_path / "none.parquet", "expected a file of weights, found none; upweight weights"),
        (shorter / "data/chunk-000/file-000.parquet", "weights that upweight wrote"),
        ([1.0], r"expected 3 weights \(one per episode of the dataset's metadata\), found shape \(1,\)"),
    ):
        with pytest.raises(uw.UpweightError, match=message):
            WeightedEpisodeSampler(STARTS[:3], ENDS[:3], weights=weights)
    with pytest.raises(uw.AdapterError, match="none for episode 5"):
        WeightedEpisodeSampler([*STARTS, 26], [*ENDS, 30], weights=file)


def test_episodes_too_short_are_left_out_with_a_warning() -> None:
    with pytest.warns(uw.UpweightWarning, match="2 of 5 episodes have no frame left .* e.g. episode 1 of 3 frames"):
        made = sampler(drop_n_last_frames=4)
    assert set(made) <= {0, *range(8, 12), 20, 21} and len(made) == 1 + 4 + 2
    with pytest.raises(uw.AdapterError, match="found none in 1 episodes: the longest has 3 frames"):
        sampler(episode_indices_to_use=[1], drop_n_first_frames=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drop_n_last_frames": -1}, "drop_n_last_frames: expected a whole number of at least 0"),
        ({"shuffle": False}, "no order to keep"),
        ({"seed": -1}, "seed: expected a whole number"),
        ({"weights": [0.0] * 5}, "at least one above zero"),
    ],
)
@pytest.mark.filterwarnings("ignore::upweight.UpweightWarning")
def test_what_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(uw.UpweightError, match=message):
        sampler(**options)
    with pytest.raises(uw.AdapterError, match="found 4 and 5"):
        WeightedEpisodeSampler(STARTS, ENDS[:4], weights=WEIGHTS)
    assert list(islice(sampler(), 0)) == []


def test_the_program_of_the_page_trains_by_the_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for LeRobot's training, which makes its sampler as that does; reproduction/robots.py has the real one."""
    page = Path(__file__).parents[2] / "docs" / "adapters" / "lerobot.md"
    program = page.read_text().split("```text\n# weighted_train.py\n")[1].split("```")[0]
    folder = write_lerobot(tmp_path / "pick_place", **{"next.success": flags_of()})
    assert main(["weights", str(folder), "--success", "success", "--in-place"]) == 0
    script = ModuleType("lerobot.scripts.lerobot_train")
    drawn: list[int] = []

    def train() -> None:
        about = opened(folder).meta.episodes
        ends = about["dataset_from_index"], about["dataset_to_index"]
        made = script.EpisodeAwareSampler(
            *ends,
            episode_indices_to_use=None,
            drop_n_last_frames=0,
            shuffle=True,
            seed=1000,
            absolute_to_relative_idx=None,
        )
        drawn.extend(made)

    script.main = train  # type: ignore[attr-defined]
    packages = {"lerobot": ModuleType("lerobot"), "lerobot.scripts": ModuleType("lerobot.scripts")}
    packages["lerobot"].scripts = packages["lerobot.scripts"]  # type: ignore[attr-defined]
    packages["lerobot.scripts"].lerobot_train = script  # type: ignore[attr-defined]
    for name, module in {**packages, script.__name__: script}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.chdir(tmp_path)
    exec(compile(program, str(page), "exec"), {"__name__": "__main__"})
    assert len(drawn) == 26 and set(drawn) <= {*range(5), *range(16, 20)}
