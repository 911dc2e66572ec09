"""robomimic's sequences by the weights of their demonstrations, on what its SequenceDataset shows of itself."""

import pickle  # what worker processes are sent with
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare
from torch.utils.data import DataLoader

import upweight as uw
from support.files import write_robomimic
from upweight.adapters.robomimic import draw_by_weight

LENGTHS = (4, 9, 6, 5, 7)
RETURNS = (0.0, 1.0, 3.0, 2.0, 1.0)


class SequenceDataset:
    """robomimic's, as far as drawing is concerned: demonstrations by number, sequences of ``seq_length`` without padding."""

    def __init__(self, path: Path, demos: list[str], seq_length: int = 1) -> None:
        self.hdf5_path, self.demos = str(path), sorted(demos, key=lambda demo: int(demo[5:]))
        self._demo_id_to_start_indices, self.total_num_sequences = {}, 0
        for demo in self.demos:
            self._demo_id_to_start_indices[demo] = self.total_num_sequences
            self.total_num_sequences += LENGTHS[int(demo[5:])] - seq_length + 1

    def __len__(self) -> int:
        return self.total_num_sequences

    def __getitem__(self, index: int) -> int:
        return index

    def get_dataset_sampler(self) -> Any:
        return None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    demos = [
        {"actions": np.zeros((T, 2)), "rewards": np.eye(1, T, T - 1)[0] * G, "obs/object": np.zeros((T, 3))}
        for T, G in zip(LENGTHS, RETURNS, strict=True)
    ]
    return write_robomimic(tmp_path / "low_dim.hdf5", demos, better=["demo_1", "demo_4"])


def test_sequences_come_by_the_weights_of_their_demonstrations(path: Path) -> None:
    trainset = draw_by_weight(SequenceDataset(path, ["demo_4", "demo_1", "demo_3"], 3), uw.ReturnWeighting(1.0), seed=2)
    sizes = np.array([7, 3, 5])
    weights = uw.ReturnWeighting(1.0)(uw.load(path).subset([1, 3, 4]))  # of the demonstrations that it has
    expected = np.repeat(weights / (weights * sizes).sum(), sizes)
    loader = DataLoader(trainset, 4, sampler=trainset.get_dataset_sampler(), drop_last=True)
    drawn = [index for _ in range(800) for batch in loader for index in batch.tolist()]
    assert len(drawn) == 800 * 12
    assert chisquare(np.bincount(drawn, minlength=15), len(drawn) * expected).pvalue > 1e-3


def test_the_seed_decides_and_every_epoch_differs(path: Path) -> None:
    def epochs(seed: int) -> list[list[int]]:
        sampler = draw_by_weight(
            SequenceDataset(path, ["demo_1", "demo_2"]), "uniform", seed=seed
        ).get_dataset_sampler()
        return [list(sampler), list(sampler)]

    assert epochs(0) == epochs(0) != epochs(1)
    assert epochs(0)[0] != epochs(0)[1]


def test_a_mask_or_an_array_may_say_what_is_good(path: Path) -> None:
    everything = [f"demo_{number}" for number in range(5)]
    by_mask = draw_by_weight(SequenceDataset(path, everything), uw.TopFraction(0.4), success="better")
    assert set(by_mask.get_dataset_sampler()) <= {*range(4, 13), *range(24, 31)}
    by_array = draw_by_weight(SequenceDataset(path, ["demo_0", "demo_2"]), [0.0, 1.0])
    assert set(by_array.get_dataset_sampler()) <= set(range(4, 10))


def test_it_goes_to_worker_processes(path: Path) -> None:
    trainset = draw_by_weight(SequenceDataset(path, ["demo_1", "demo_2"]), "rw", seed=3)
    copy = pickle.loads(pickle.dumps(trainset))
    assert list(copy.get_dataset_sampler()) == list(trainset.get_dataset_sampler())


def test_what_is_no_dataset_of_robomimic_is_refused(path: Path) -> None:
    with pytest.raises(uw.AdapterError, match="SequenceDataset of robomimic .* found list without 'hdf5_path'"):
        draw_by_weight([1, 2], "rw")
    with pytest.raises(uw.WeightingError, match=r"expected 2 weights \(one per demonstration of trainset.demos\)"):
        draw_by_weight(SequenceDataset(path, ["demo_1", "demo_2"]), [1.0] * 5)
    with pytest.raises(uw.AdapterError, match="expected all 5 demonstrations .* found 2: leave out masks"):
        draw_by_weight(SequenceDataset(path, ["demo_1", "demo_4"]), "rw", masks="better")
