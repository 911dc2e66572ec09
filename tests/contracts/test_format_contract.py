"""What every file format must do; a new one is tested by being in its folder."""

import json
import os
import pickle  # what worker processes are sent with
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upweight as uw
from support.datasets import assert_same, random_dataset, with_arrays
from support.files import save_quietly
from upweight.data.fingerprint import fingerprint
from upweight.io.format import Format
from upweight.io.registry import formats, writable

every = pytest.mark.parametrize("format_", formats().values(), ids=list(formats()))
written = pytest.mark.parametrize("format_", [formats()[name] for name in writable()], ids=writable())
lossless = pytest.mark.parametrize("format_", [f for f in formats().values() if f.lossless], ids=lambda f: f.name)

SHAPES: dict[str, dict[str, Any]] = {
    "vectors": {},
    "final observations known": {"next_known": True},
    "double precision": {"observation_dtype": np.float64},
    "discrete actions": {"discrete": True},
    "actions never taken": {"discrete": True, "num_actions": 6},
    "images": {"observation_shape": (8, 6, 3), "observation_dtype": np.uint8, "next_known": True},
    "labels": {"labels": True},
    "a trailing fragment": {"fragment": True, "next_known": True},
}
every_shape = pytest.mark.parametrize("options", SHAPES.values(), ids=list(SHAPES))

WITH_LITTLE_ROOM = """
    import os, resource, signal, sys, warnings
    from pathlib import Path
    import upweight as uw

    warnings.simplefilter("ignore")
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    ds = uw.load(sys.argv[1])
    for name in sys.argv[3:]:
        for limit in (3_000, 30_000):
            if (child := os.fork()) == 0:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))  # as on a full disk: no file may grow beyond
                try:
                    uw.save(ds, Path(sys.argv[2]) / name, format=name)
                except OSError as error:
                    print(name, error.filename, error.strerror, sep="|", flush=True)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0, name
"""


def target(format_: Format, folder: Path) -> Path:
    return folder / f"data{format_.suffixes[0] if format_.suffixes else ''}"


@lossless
@every_shape
def test_a_lossless_format_round_trips_bit_for_bit(format_: Format, options: dict[str, Any], tmp_path: Path) -> None:
    ds = random_dataset(3, **options)
    path = target(format_, tmp_path)
    assert uw.save(ds, path, format=format_.name) == []
    assert_same(uw.load(path), ds)


@lossless
def test_a_lossless_format_keeps_the_awkward_cases(format_: Format, tmp_path: Path) -> None:
    mixed = uw.concat([random_dataset(0, next_known=True, labels=True), random_dataset(1, labels=True)])
    marked = mixed.mark_incomplete([2, 5]).with_metadata(note="ünï", nested={"a": [1, None]})
    path = target(format_, tmp_path)
    assert uw.save(marked, path, format=format_.name) == []
    assert_same(uw.load(path), marked)


@every
@every_shape
def test_what_is_read_back_is_what_was_kept(format_: Format, options: dict[str, Any], tmp_path: Path) -> None:
    """Lossy formats may drop steps, labels and flags, but what they return is the dataset's own data."""
    ds = random_dataset(4, num_episodes=8, **options)
    path = target(format_, tmp_path)
    lost = save_quietly(ds, path, format_.name)
    back = uw.load(path)
    if not any("last step" in item for item in lost):
        np.testing.assert_array_equal(back.lengths, ds.lengths)
        np.testing.assert_allclose(back.returns, ds.returns, rtol=1e-12)
        np.testing.assert_array_equal(back.observations, ds.observations)
        np.testing.assert_array_equal(back.actions.reshape(ds.actions.shape), ds.actions)
        np.testing.assert_array_equal(back.rewards, ds.rewards)
    if not any("actions" in item for item in lost):
        assert ds.num_actions is None or back.num_actions == ds.num_actions
    if len(back.lengths) == len(ds.lengths) and not any("terminated" in item for item in lost):
        np.testing.assert_array_equal(back.episodes.terminated, ds.episodes.terminated)
    trainable = np.concatenate([np.arange(s, s + t) for s, t in zip(back.starts, back.num_transitions, strict=True)])
    original = np.concatenate([np.arange(s, s + t) for s, t in zip(ds.starts, ds.num_transitions, strict=True)])
    if len(trainable) == len(original):
        ours, theirs = back.transitions(trainable), ds.transitions(original)
        alive = ~theirs.terminated
        np.testing.assert_array_equal(ours.observations, theirs.observations)
        np.testing.assert_array_equal(ours.next_observations[alive], theirs.next_observations[alive])


@every
def test_next_observations_that_do_not_follow_are_kept_or_reported(format_: Format, tmp_path: Path) -> None:
    ds = random_dataset(4, num_episodes=8)
    odd = with_arrays(ds, next_observations=ds.observations + 1)
    path = target(format_, tmp_path)
    lost = save_quietly(odd, path, format_.name)
    if not any("next observations that differ" in item for item in lost):
        np.testing.assert_array_equal(uw.load(path).next_observations, odd.next_observations)


@every
def test_next_observations_of_which_some_last_ones_are_known_are_kept_or_reported(
    format_: Format, tmp_path: Path
) -> None:
    ds = random_dataset(4, num_episodes=8)
    known = np.arange(8) % 2 == 0
    odd = with_arrays(ds, next_observations=ds.observations + 1, final_known=known)
    path = target(format_, tmp_path)
    lost = save_quietly(odd, path, format_.name)
    back = uw.load(path)
    if not any("next observations that differ" in item for item in lost):
        np.testing.assert_array_equal(back.next_observations, odd.next_observations)
    if not any("last step" in item for item in lost):
        np.testing.assert_array_equal(back.num_transitions, odd.num_transitions)


@every
def test_truncation_never_comes_back_as_termination(format_: Format, tmp_path: Path) -> None:
    ds = random_dataset(9, num_episodes=10, next_known=True)
    path = target(format_, tmp_path)
    save_quietly(ds, path, format_.name)
    back = uw.load(path)
    assert not (back.episodes.terminated & ~ds.episodes.terminated).any()
    assert not (back.terminated & back.truncated).any()


@written
def test_losses_are_said(format_: Format, tmp_path: Path) -> None:
    ds = random_dataset(0, labels=True)
    path = target(format_, tmp_path)
    if format_.lossless:
        uw.save(ds, path, format=format_.name)
        return
    lost = save_quietly(ds, path, format_.name)
    back = uw.load(path)
    if back.labels is None:
        assert "labels" in lost
    if back.num_steps != ds.num_steps:
        assert any("last step" in item for item in lost)
    if lost:
        other = tmp_path / "again"
        with pytest.warns(uw.DataLossWarning, match="does not keep"):
            uw.save(ds, other, format=format_.name)


@every
def test_weights_are_computed_without_loading_observations(format_: Format, tmp_path: Path) -> None:
    ds = random_dataset(1, num_episodes=30, next_known=True, reward_shift=1)
    path = target(format_, tmp_path)
    save_quietly(ds, path, format_.name)
    back = uw.load(path)
    uw.ReturnWeighting()(back)
    uw.AdvantageWeighting()(back)
    uw.inspect(back)
    assert not any(column.is_loaded for name, column in back.columns.items() if name not in {"rewards", "flags"})
    np.testing.assert_array_equal(back.initial_observations, ds.initial_observations)


@every
@pytest.mark.parametrize("block", [1, 1 << 22])
def test_the_fingerprint_is_that_of_the_arrays_and_reads_none_as_a_whole(
    format_: Format, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("upweight.data.fingerprint._BLOCK_BYTES", block)
    path = target(format_, tmp_path)
    save_quietly(random_dataset(1, num_episodes=5, next_known=True), path, format_.name)
    unread, whole = uw.load(path), uw.load(path).check()
    before = [column.is_loaded for column in unread.columns.values()]
    found = fingerprint(unread)
    assert [column.is_loaded for column in unread.columns.values()] == before
    assert found == fingerprint(whole)


@every
def test_rows_are_the_same_read_alone_or_with_the_rest(format_: Format, tmp_path: Path) -> None:
    ds = random_dataset(1, num_episodes=30, max_length=40, next_known=True)
    path = target(format_, tmp_path)
    save_quietly(ds, path, format_.name)
    alone, whole = uw.load(path), uw.load(path)
    index = np.random.default_rng(0).permutation(whole.num_steps)[:17]
    np.testing.assert_array_equal(alone.columns["observations"].rows(index), whole.observations[index])
    assert "next_observations" not in alone.columns or not alone.columns["next_observations"].is_loaded
    np.testing.assert_array_equal(alone.columns["observations"].rows(index[:0]), whole.observations[index[:0]])


@every
def test_a_dataset_may_be_sent_to_another_process_unread(format_: Format, tmp_path: Path) -> None:
    path = target(format_, tmp_path)
    save_quietly(random_dataset(next_known=True), path, format_.name)
    here = uw.load(path)
    there = pickle.loads(pickle.dumps(here))
    assert not there.columns["observations"].is_loaded
    assert_same(there, here)


@every
@pytest.mark.parametrize("in_place", [True, False])
def test_numbers_of_two_files_never_mix(
    format_: Format, in_place: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Returns and lengths were read by ``load``; observations that are looked at later must be of the same file."""
    monkeypatch.setattr("upweight.io.packed._LOOK_SECONDS", 0)
    (tmp_path / "new").mkdir()
    path, other = target(format_, tmp_path), target(format_, tmp_path / "new")
    save_quietly(random_dataset(0, num_episodes=8, next_known=True), path, format_.name)
    save_quietly(random_dataset(1, num_episodes=8, next_known=True), other, format_.name)
    whole, some, subset, joined = uw.load(path), uw.load(path), uw.load(path).subset([1, 2]), uw.load(path)
    joined, sent = uw.concat([joined, joined]), pickle.dumps(whole)
    whole.check_files()
    replace_files(path, other, in_place=in_place)
    looks = {
        "observations": lambda: whole.observations,
        "actions": lambda: whole.actions,
        "first observations": lambda: some.initial_observations,
        "rows": lambda: some.columns["observations"].rows(np.array([3, 1])),
        "subset": lambda: subset.observations,
        "joined": lambda: joined.steps(np.array([0])),
        "sent": lambda: pickle.loads(sent).observations,
        "files": whole.check_files,
        "files of a subset": subset.check_files,
    }
    for what, look in looks.items():
        with pytest.raises(uw.DatasetError, match=r"changed since it was loaded.* load it again") as refused:
            look()
            raise AssertionError(what)
        assert str(path) in str(refused.value)
    assert uw.load(path).check().num_episodes == uw.load(other).num_episodes


def replace_files(path: Path, other: Path, *, in_place: bool) -> None:
    """Put other data where a dataset was loaded from: into the same files, or into files that take their names."""
    if not in_place:
        path.rename(path.with_name("old"))
    shutil.copytree(other, path, dirs_exist_ok=True) if other.is_dir() else shutil.copyfile(other, path)
    for file in [path, *path.rglob("*")]:
        os.utime(file, ns=(0, 1))  # whatever the clock of the disk can tell apart


@written
def test_a_failed_write_leaves_nothing(format_: Format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = target(format_, tmp_path)

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="No space"):
        save_quietly(random_dataset(next_known=True), path, format_.name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_no_room_is_said_to_be_that(tmp_path: Path) -> None:
    """Of all formats in a process of its own: the limit holds for all that a process writes."""
    uw.save(random_dataset(next_known=True, num_episodes=100, observation_shape=(100,)), tmp_path / "log.npz")
    (tmp_path / "full").mkdir()
    names = sorted({*writable()} - {"minari"})  # Minari writes its files itself
    folders = [str(tmp_path / name) for name in ("log.npz", "full")]
    command = [sys.executable, "-c", textwrap.dedent(WITH_LITTLE_ROOM), *folders, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = [line.split("|") for line in done.stdout.splitlines()]
    assert len(said) == 2 * len(names) and not done.stderr
    for name, file, why in said:
        assert file == str(tmp_path / "full" / name) and "too large; make room" in why
    assert list((tmp_path / "full").iterdir()) == []


@written
def test_a_path_relative_to_the_working_folder_will_do(
    format_: Format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner").mkdir()
    for path in (target(format_, Path()), target(format_, Path("inner"))):
        save_quietly(random_dataset(next_known=True), path, format_.name)
        assert uw.load(path).check().num_episodes == 12


@every
def test_metadata_is_plain_json(format_: Format, tmp_path: Path) -> None:
    path = target(format_, tmp_path)
    save_quietly(random_dataset(next_known=True), path, format_.name)
    json.dumps(dict(uw.load(path).metadata), allow_nan=False)


@pytest.mark.parametrize("name", sorted(formats().keys() - set(writable())))
def test_what_is_only_read_is_not_written(name: str, tmp_path: Path) -> None:
    with pytest.raises(uw.DatasetError, match=f"{name} .* is read but not written; write one of .*npz"):
        uw.save(random_dataset(), tmp_path / "a.npz", format=name)
    assert not list(tmp_path.iterdir())


@every
def test_the_format_is_recognised_whatever_the_name(format_: Format, tmp_path: Path) -> None:
    path = tmp_path / "no-suffix"
    save_quietly(random_dataset(next_known=True), path, format_.name)
    assert uw.load(path).num_episodes == 12
    with pytest.raises(uw.DatasetError):
        uw.load(path, format="npz" if format_.name != "npz" else "d4rl")
