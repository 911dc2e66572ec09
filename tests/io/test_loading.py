"""What every public function that wants a dataset takes in its place."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import upweight as uw
from support.datasets import assert_same, random_dataset
from upweight.data.given import as_dataset
from upweight.io.weights_file import save_weights

FRAME: dict[str, Any] = {
    "episode": [0, 0, 1, 1, 2],
    "observation": [0.0, 1.0, 2.0, 3.0, 4.0],
    "action": [0.1, 0.2, 0.3, 0.4, 0.5],
    "reward": [0.0, 1.0, 0.0, 0.0, 3.0],
    "terminated": [False, True, False, True, True],
}


def train(source: Any) -> list[uw.RunResult]:
    return uw.train(source, [uw.Run(uw.algorithm_config("bc", hidden_units=(4,)), "rw")], num_updates=1)


def save(source: Any) -> list[str]:
    with TemporaryDirectory() as folder:
        return uw.save(source, Path(folder) / "log.npz")


def load_weights(source: Any) -> Any:
    dataset = uw.load(source)
    with TemporaryDirectory() as folder:
        save_weights(Path(folder) / "weights.npz", uw.Uniform()(dataset), dataset)
        return uw.load_weights(Path(folder) / "weights.npz", source)


TAKERS: dict[str, Callable[[Any], Any]] = {
    "load": uw.load,
    "inspect": uw.inspect,
    "suggest": uw.suggest,
    "explore": uw.explore,
    "save": save,
    "load_weights": load_weights,
    "batches": lambda source: next(uw.batches(source, "rw", 4)),
    "resample": lambda source: uw.resample(source, "uniform"),
    "concat": lambda source: uw.concat([source]),
    "mix": lambda source: uw.mix(source, source, fraction=0.5, num_steps=4, seed=0),
    "weighting": uw.ReturnWeighting(0.1),
    "resolve_weights": lambda source: uw.resolve_weights(uw.Uniform(), source),
    "EpisodeSampler": lambda source: uw.EpisodeSampler(source, uw.Uniform()),
    "StepSampler": lambda source: uw.StepSampler(source, np.ones(uw.load(source).num_steps)),
    "train": train,
    "plan_training": lambda source: uw.plan_training(source, [uw.Run("bc")]),
}
every = pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS)


@every
def test_paths_and_frames_will_do(take: Callable[[Any], Any], tmp_path: Path) -> None:
    uw.save(random_dataset(), tmp_path / "log.npz")
    for source in (tmp_path / "log.npz", str(tmp_path / "log.npz"), FRAME, pa.table(FRAME)):
        take(source)


@every
def test_anything_else_is_refused_with_what_would_do(take: Callable[[Any], Any]) -> None:
    for source in (3, None, [FRAME], np.zeros(4), object()):
        with pytest.raises(uw.DatasetError, match=r"expected a dataset: .*path.*frame.*d3rlpy.*Minari.*, found "):
            take(source)


def test_a_dataset_is_itself_and_a_path_is_loaded(tmp_path: Path) -> None:
    ds = random_dataset()
    assert as_dataset(ds) is ds
    uw.save(ds, tmp_path / "log.npz")
    assert_same(as_dataset(tmp_path / "log.npz"), ds)
    with pytest.raises(uw.DatasetError, match="did you mean 'hopper-expert'"):
        as_dataset("hopper-expertt")


def test_frames() -> None:
    pandas = pytest.importorskip("pandas")
    for frame in (FRAME, pandas.DataFrame(FRAME), pa.table(FRAME)):
        assert as_dataset(frame).returns.tolist() == [1.0, 0.0, 3.0]
    with pytest.raises(uw.DatasetError, match=r"which columns are observations.*upweight\.load\("):
        as_dataset(pandas.DataFrame(FRAME).rename(columns={"observation": "pulse"}))


@pytest.mark.slow
@every
@pytest.mark.parametrize("library", ["d3rlpy", "minari"])
def test_datasets_of_other_libraries_will_do(take: Callable[[Any], Any], library: str, tmp_path: Path) -> None:
    take(their_dataset(library, random_dataset(next_known=True), tmp_path / "log"))


@pytest.mark.parametrize("library", [None, "d3rlpy", "minari"])
def test_options_of_load_go_for_what_is_no_file_too(library: str | None, tmp_path: Path) -> None:
    ds = random_dataset(next_known=True)
    theirs = ds if library is None else their_dataset(library, ds, tmp_path / "log")
    scores = np.arange(uw.load(theirs).num_episodes, dtype=np.float64)
    assert uw.load(theirs, score=scores).returns.tolist() == scores.tolist()
    cut = uw.load(theirs, horizon=ds.num_steps)
    assert not cut.complete[cut.episodes.truncated].any()
    with pytest.raises(uw.DatasetError, match="episode"):
        uw.load(theirs, episode="stay_id")
    with pytest.raises(uw.DatasetError, match="made by name"):
        uw.load(theirs, seed=3)


def test_names_of_flags_are_found_in_a_view_of_minari(tmp_path: Path) -> None:
    theirs = their_dataset("minari", random_dataset(num_episodes=6, next_known=True), tmp_path / "log")
    theirs.storage.update_episode_metadata(({"rating": float(number)} for number in range(6)), range(6))
    view = theirs.filter_episodes(lambda episode: episode.id in {1, 4})
    assert uw.load(view, score="rating").returns.tolist() == [1.0, 4.0]
    assert uw.load(view, score=[5.0, 6.0]).returns.tolist() == [5.0, 6.0]


def their_dataset(library: str, ds: uw.Dataset, path: Path) -> Any:
    module = pytest.importorskip(library)
    if library == "minari":
        uw.save(ds, path, format="minari")
        return module.MinariDataset(path / "data")
    arrays = {name: getattr(ds, name) for name in ("observations", "actions", "rewards")}
    return module.dataset.MDPDataset(**arrays, terminals=ds.terminated * 1.0, timeouts=ds.truncated * 1.0)


@pytest.mark.slow
def test_d3rlpys_datasets() -> None:
    d3rlpy = pytest.importorskip("d3rlpy")
    whole = random_dataset(num_episodes=9)
    ds = whole.subset(whole.num_transitions > 0)  # d3rlpy leaves the others out
    arrays = {name: getattr(ds, name) for name in ("observations", "actions", "rewards")}
    ends = {"terminals": ds.terminated.astype(np.float32), "timeouts": ds.truncated.astype(np.float32)}
    theirs = as_dataset(d3rlpy.dataset.MDPDataset(**arrays, **ends))
    np.testing.assert_array_equal(theirs.observations, ds.observations)
    np.testing.assert_allclose(theirs.returns, ds.returns, rtol=1e-6)
    assert not theirs.discrete_actions
    choices = np.arange(ds.num_steps)[:, None] % 3
    floats = d3rlpy.dataset.MDPDataset(
        **{**arrays, "actions": choices.astype(np.float32)},
        **ends,
        action_space=d3rlpy.ActionSpace.DISCRETE,
        action_size=4,
    )
    discrete = as_dataset(floats)  # d3rlpy knows what they are
    assert discrete.discrete_actions and discrete.num_actions == 4 and discrete.actions.tolist() == choices.tolist()


@pytest.mark.slow
def test_minaris_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    ds = random_dataset(next_known=True)
    uw.save(ds, tmp_path / "log", format="minari")
    theirs = minari.MinariDataset(tmp_path / "log" / "data")
    np.testing.assert_array_equal(as_dataset(theirs).observations, ds.observations)
    assert as_dataset(theirs.filter_episodes(lambda episode: episode.id < 2)).num_episodes == 2


def test_no_library_is_imported_to_tell(tmp_path: Path) -> None:
    uw.save(random_dataset(), tmp_path / "log.npz")
    code = f"""
import sys, upweight as uw
uw.inspect({str(tmp_path / "log.npz")!r})
try: uw.inspect(3)
except uw.DatasetError: pass
print([name for name in ("d3rlpy", "minari", "pandas", "pyarrow", "jax", "gymnasium", "torch") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
