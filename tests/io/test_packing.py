"""Packing many sources: in order, in parts, gone on with, and nothing lost where something is wrong."""

import errno
import json
import os
import shutil
import subprocess
import sys
import textwrap
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upweight as uw
from support.datasets import assert_same, random_dataset, with_arrays
from upweight.io import npz_members, packed, packing

KILLED_AT_EVERY_MOMENT = """
    import os, shutil, sys
    from pathlib import Path
    import upweight as uw

    old, new, folder = (Path(name) for name in sys.argv[1:])
    returns = {"old": uw.load(old).returns.tolist(), "new": uw.load(new).returns.tolist()}
    done, moments, found = False, 0, []
    while not done:
        moments += 1
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(old, folder)
        if (child := os.fork()) == 0:
            left = moments
            def watch(event, arguments):
                global left
                left -= event in {"os.rename", "os.remove", "os.rmdir"} and ".upweight-" not in str(arguments)
                if left == 0:
                    os._exit(9)
            sys.addaudithook(watch)
            uw.pack(new, folder, workers=1, overwrite=True)
            os._exit(0)
        done = os.waitpid(child, 0)[1] == 0
        place = folder if folder.exists() else folder.with_name(folder.name + ".upweight-replaced")
        lies = uw.load(place, verify=True).returns.tolist()
        found.append(next(name for name, expected in returns.items() if expected == lies))
        assert uw.pack(new, folder, overwrite=True).returns.tolist() == returns["new"]
        assert sorted(path.name for path in folder.parent.iterdir()) == sorted([old.name, new.name, folder.name])
        assert len([*folder.iterdir()]) == len([*new.iterdir()]), [*folder.iterdir()]
    print(moments, *found)
"""


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    """Three, of three kinds."""
    paths = [tmp_path / name for name in ("a.npz", "b.parquet", "c.npz")]
    for seed, path in enumerate(paths):
        uw.save(random_dataset(seed, labels=True), path)
    return paths


def together() -> uw.Dataset:
    return uw.concat([random_dataset(seed, labels=True) for seed in range(3)])


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "_PART_BYTES", 400)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("workers", [1, 3])
def test_many_shards_become_one_dataset(tmp_path: Path, shards: list[Path], workers: int) -> None:
    made = uw.pack(shards, tmp_path / "all", workers=workers, verify=True)
    assert_same(made, together(), metadata=False)
    assert made.source == str(tmp_path / "all") and sorted(p.name for p in tmp_path.iterdir())[:2] == ["a.npz", "all"]


def test_datasets_frames_and_names_are_packed_too(tmp_path: Path) -> None:
    ds = random_dataset(3, discrete=True, num_actions=6)
    assert_same(uw.pack(ds, tmp_path / "one"), ds)
    frame = {
        "episode": [0, 0, 1],
        "observation_x": [0.5, 1.0, 2.0],
        "action": [0.0, 1.0, 0.5],
        "reward": [1.0, 2.0, 3.0],
    }
    table = uw.pack([frame], tmp_path / "two", ends="terminated")
    assert table.returns.tolist() == [3.0, 3.0]
    named = uw.pack(["cartpole-random", "cartpole-expert"], tmp_path / "three", steps=200, seed=1)
    expected = uw.concat([uw.make_dataset(f"cartpole-{kind}", steps=200, seed=1) for kind in ("random", "expert")])
    assert_same(named, expected, metadata=False)


def test_observations_in_half_precision(tmp_path: Path) -> None:
    ds = random_dataset(0, next_known=True)
    half = uw.pack(ds, tmp_path / "half", dtype="float16")
    assert half.observations.dtype == half.next_observations.dtype == half.initial_observations.dtype == np.float16
    np.testing.assert_array_equal(half.observations, ds.observations.astype(np.float16))
    assert half.actions.dtype == np.float32 and (half.returns == ds.returns).all()
    with pytest.raises(uw.DatasetError, match=r"'observations': 70000 does not fit into float16 \(at most 65504\)"):
        uw.pack(with_arrays(ds, observations=ds.observations * 0 + 70000), tmp_path / "large", dtype="float16")
    with pytest.raises(uw.DatasetError, match="dtype 'float16' is for observations that are floats, found uint8"):
        uw.pack(random_dataset(observation_dtype=np.uint8), tmp_path / "images", dtype="float16")
    assert [path.name for path in tmp_path.iterdir()] == ["half"]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            {"observation_shape": (4,)},
            r"c\.npz: column '.*observations': expected <f4 of shape \(3,\), as in .*a\.npz, found",
        ),
        ({"observation_dtype": np.float64}, r"c\.npz: column 'initial_observations': .*<f4 .*found <f8"),
        ({"next_known": True}, "column 'next_observations': expected none"),
        ({"discrete": True}, "column 'actions': expected <f4 of shape .*found <i8"),
    ],
)
def test_shards_with_other_columns(tmp_path: Path, shards: list[Path], other: dict[str, Any], message: str) -> None:
    uw.save(random_dataset(2, labels=True, **other), shards[2])
    with pytest.raises(uw.DatasetError, match=message):
        uw.pack(shards, tmp_path / "all")
    assert not list(tmp_path.glob("all*"))


def test_categories_must_agree(tmp_path: Path) -> None:
    frames = [
        {"episode": [0, 0, 1], "observation_x": [0.5, 1.0, 2.0], "action": actions, "reward": [1.0, 2.0, 3.0]}
        for actions in (["low", "high", "low"], ["low", "none", "low"])
    ]
    sources = [uw.load(frame, categories="action", ends="terminated") for frame in frames]
    with pytest.raises(uw.DatasetError, match="other categories"):
        uw.pack(sources, tmp_path / "all")


def interrupted(*args: Any, parts: int = 1, **options: Any) -> None:
    """A packing that is stopped after so many parts."""
    written: list[Any] = []
    write_part = packing.write_part

    def stops(folder: Path, layout: Any, dataset: uw.Dataset, part: Any) -> Any:
        if len(written) == parts:
            raise KeyboardInterrupt
        written.append(part)
        return write_part(folder, layout, dataset, part)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(packing, "write_part", stops)
        uw.pack(*args, workers=1, **options)


@pytest.mark.usefixtures("small_parts")
def test_an_interrupted_packing_goes_on(tmp_path: Path, shards: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(shards, tmp_path / "all", parts=4)
    assert not (tmp_path / "all").exists()
    before = {note.name for note in (tmp_path / "all.partial").glob("part-*.json")}
    again: list[Any] = []
    write_part = packing.write_part
    monkeypatch.setattr(packing, "write_part", lambda *args: again.append(args[-1]) or write_part(*args))
    assert_same(uw.pack(shards, tmp_path / "all", verify=True), together(), metadata=False)
    parts = json.loads((tmp_path / "all" / "manifest.json").read_text())["parts"]
    assert len(before) == 4 and len(again) == len(parts) - 4
    assert not list(tmp_path.glob("all.partial"))


@pytest.fixture
def tables(tmp_path: Path) -> list[Path]:
    """Two of two episodes, each with a TOML beside it."""
    paths = [tmp_path / name for name in ("day.csv", "night.csv")]
    rows = ["stay,observation_x,action,reward,rating,ok", "0,.5,1,1,7,0", "0,1,0,2,8,1", "1,2,1,3,9,0", "1,3,1,4,9,1"]
    for path in paths:
        path.write_text("\n".join(rows))
        path.with_suffix(".toml").write_text('[table]\nepisode = "stay"\nends = "truncated"\n')
    return paths


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(
    ("then", "now", "said"),
    [
        ({}, {"score": "rating"}, "score"),
        ({"score": "rating"}, {"score": "reward"}, "score"),
        ({}, {"success": "ok"}, "success"),
        ({"rewards": "reward"}, {"rewards": "rating"}, "rewards"),
        ({"horizon": 3}, {}, "horizon"),
        ({}, {"ends": "terminated"}, "ends"),
        ({"num_actions": 2}, {"num_actions": 3}, "num_actions"),
        ({}, {"dtype": "float16"}, "observations"),
    ],
)
def test_other_options_are_not_mixed(
    tmp_path: Path, tables: list[Path], then: dict[str, Any], now: dict[str, Any], said: str
) -> None:
    interrupted(tables, tmp_path / "all", **then)
    kept = sorted((tmp_path / "all.partial").iterdir())
    with pytest.raises(uw.DatasetError, match=rf"all\.partial.*{said}.*remove"):
        uw.pack(tables, tmp_path / "all", **now)
    assert sorted((tmp_path / "all.partial").iterdir()) == kept
    made = uw.pack(tables, tmp_path / "all", guard=True, **then)
    assert_same(made, uw.pack(tables, tmp_path / "expected", **then))


@pytest.mark.usefixtures("small_parts")
def test_other_arrays_are_not_mixed(tmp_path: Path, shards: list[Path]) -> None:
    scores = np.arange(12.0)
    interrupted(shards, tmp_path / "all", score=scores)
    with pytest.raises(uw.DatasetError, match="score"):
        uw.pack(shards, tmp_path / "all", score=scores[::-1])
    assert uw.pack(shards, tmp_path / "all", score=scores.tolist()).returns.tolist() == [*scores] * 3


@pytest.mark.usefixtures("small_parts")
def test_an_edited_description_of_a_table_is_not_mixed(tmp_path: Path, tables: list[Path]) -> None:
    interrupted(tables, tmp_path / "all")
    tables[1].with_suffix(".toml").write_text('[table]\nepisode = "stay"\nends = "truncated"\nscore = "rating"\n')
    with pytest.raises(uw.DatasetError, match=r"source 2.*night\.csv"):
        uw.pack(tables, tmp_path / "all")


@pytest.mark.usefixtures("small_parts")
def test_a_replaced_source_is_not_mixed(tmp_path: Path, shards: list[Path]) -> None:
    interrupted(shards, tmp_path / "all")
    uw.save(random_dataset(0, labels=True, reward_shift=1), shards[0])
    with pytest.raises(uw.DatasetError, match=r"source 1.*a\.npz"):
        uw.pack(shards, tmp_path / "all")
    with pytest.raises(uw.DatasetError, match="source 1"):  # nor is what cannot go on
        uw.pack([uw.load(path) for path in shards], tmp_path / "all")
    assert list(tmp_path.glob("all.partial/part-*.json"))


@pytest.mark.usefixtures("small_parts")
def test_a_replaced_file_of_a_folder_is_not_mixed(tmp_path: Path) -> None:
    """Also where size and newest time of the folder stay."""
    log = tmp_path / "log.packed"
    uw.pack(random_dataset(), log)
    interrupted(log, tmp_path / "all")
    os.utime(log / "actions.bin", (1, 1))
    with pytest.raises(uw.DatasetError, match=r"source 1.*log\.packed"):
        uw.pack(log, tmp_path / "all")


@pytest.mark.usefixtures("small_parts")
def test_a_source_that_changes_while_it_is_packed(tmp_path: Path, shards: list[Path]) -> None:
    planned = packing.plan_packing(shards, tmp_path / "all", workers=1)
    uw.save(random_dataset(0, labels=True, reward_shift=1), shards[0])
    with pytest.raises(uw.DatasetError, match=r"a\.npz: changed"):
        planned.write()


def test_a_shard_that_disappears(tmp_path: Path, shards: list[Path]) -> None:
    planned = packing.plan_packing(shards, tmp_path / "all", workers=1)
    moved = shards[0].rename(tmp_path / "elsewhere.npz")
    with pytest.raises(
        uw.DatasetError, match=r"a\.npz: no such file.*all\.partial keeps what was packed: the same again"
    ):
        planned.write()
    moved.rename(shards[0])
    assert_same(uw.pack(shards, tmp_path / "all"), together(), metadata=False)


def test_a_full_disk(tmp_path: Path, shards: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    before = uw.pack(shards[:1], tmp_path / "all")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(9, 9, 0))
        with pytest.raises(uw.DatasetError, match=r"packing needs 0\.0 MiB and 0\.0 MiB are free; make room"):
            uw.pack(shards, tmp_path / "all", overwrite=True)

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(uw.DatasetError, match=r"No space left on device; make room .*all\.partial"):
            uw.pack(shards, tmp_path / "all", overwrite=True)
    assert_same(uw.load(tmp_path / "all"), before)
    assert_same(uw.pack(shards, tmp_path / "all", overwrite=True), together(), metadata=False)


def test_nothing_is_replaced_unasked(tmp_path: Path, shards: list[Path]) -> None:
    (tmp_path / "mine").mkdir()
    for overwrite in (False, True):
        with pytest.raises(uw.DatasetError, match=r"mine: exists already; choose another name$"):
            uw.pack(shards, tmp_path / "mine", overwrite=overwrite)
    uw.pack(shards, tmp_path / "all")
    with pytest.raises(uw.DatasetError, match="exists already; .* overwrite=True"):
        uw.pack(shards, tmp_path / "all")
    half = uw.pack(tmp_path / "all", tmp_path / "all", dtype="float16", overwrite=True)  # its own source
    np.testing.assert_array_equal(half.observations, together().observations.astype(np.float16))


def test_folders_of_others_stay(tmp_path: Path, shards: list[Path]) -> None:
    (tmp_path / "all.replaced").mkdir()
    (tmp_path / "all.replaced" / "mine").write_text("")
    uw.pack(shards, tmp_path / "all")
    uw.pack(shards, tmp_path / "all", overwrite=True)
    assert (tmp_path / "all.replaced" / "mine").exists()
    (tmp_path / "more.partial").mkdir()
    (tmp_path / "more.partial" / "mine").write_text("")
    with pytest.raises(uw.DatasetError, match="more.partial: expected no such folder, or an unfinished packing"):
        uw.pack(shards, tmp_path / "more")
    assert (tmp_path / "more.partial" / "mine").exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_replacement_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    """Whatever file was removed or renamed last; and the same again removes all that was left."""
    for seed, name in enumerate(("old", "new")):
        uw.pack(random_dataset(seed), tmp_path / name)
    command = [sys.executable, "-c", textwrap.dedent(KILLED_AT_EVERY_MOMENT)]
    command += [str(tmp_path / name) for name in ("old", "new", "all")]
    moments, *found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert int(moments) > 10 and found == sorted(found, reverse=True) and {*found} == {"old", "new"}


def test_a_leftover_of_a_killed_process_is_in_nobodys_way(tmp_path: Path, shards: list[Path]) -> None:
    interrupted(shards, tmp_path / "all", parts=0)
    (tmp_path / "all.partial" / ".upweight-x").mkdir()
    (tmp_path / "all.partial" / ".upweight-x" / "plan.json").write_text("half")
    uw.pack(shards, tmp_path / "all")
    assert {path.suffix for path in (tmp_path / "all").iterdir()} == {".bin", ".json"}


class Counted:
    """A decompressor that counts the bytes it gives."""

    total = 0
    make = zlib.decompressobj

    def __init__(self, *args: Any, real: Any = None) -> None:
        self._real = real or Counted.make(*args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def copy(self) -> "Counted":
        return Counted(real=self._real.copy())

    def decompress(self, *args: Any) -> bytes:
        data = self._real.decompress(*args)
        Counted.total += len(data)
        return data


@pytest.mark.parametrize("workers", [1, 3])
def test_compressed_arrays_are_unpacked_a_fixed_number_of_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """However many windows and parts there are."""
    monkeypatch.setattr(packed, "_PART_BYTES", 80_000)
    monkeypatch.setattr(packed, "_BLOCK_BYTES", 4_000)
    monkeypatch.setattr(npz_members, "_BLOCK_BYTES", 8_000)
    monkeypatch.setattr(npz_members, "_MARK_BYTES", 2_000)
    ratios = []
    for episodes in (100, 400, 1600):
        log = tmp_path / f"{episodes}.npz"
        rng = np.random.default_rng(0)
        last = np.arange(episodes * 10) % 10 == 9
        arrays = {"observations": rng.normal(size=(len(last), 8)), "actions": rng.normal(size=(len(last), 2))}
        np.savez_compressed(log, **arrays, terminals=last, qpos=last)
        with monkeypatch.context() as patch:
            patch.setattr(Counted, "total", 0)
            patch.setattr(zlib, "decompressobj", Counted)
            made = uw.pack(log, tmp_path / f"{episodes}.packed", workers=workers)
            ratios.append(Counted.total / sum(array.nbytes for array in arrays.values()))
        np.testing.assert_array_equal(made.observations, arrays["observations"][~last])
        np.testing.assert_array_equal(made.next_observations[8::9], arrays["observations"][last])
        np.testing.assert_array_equal(made.initial_observations, arrays["observations"][::10])
        np.testing.assert_array_equal(made.actions, arrays["actions"][~last])
    assert max(ratios) < (3 if workers == 1 else 6), ratios
    assert ratios[-1] <= ratios[0] * 1.2, ratios


def test_two_at_a_time_are_refused(tmp_path: Path, shards: list[Path]) -> None:
    (tmp_path / "all.partial").mkdir()
    with packing.hold(tmp_path / "all.partial" / "lock"), pytest.raises(uw.DatasetError, match="somebody else"):
        uw.pack(shards, tmp_path / "all")


def test_nothing_to_pack(tmp_path: Path) -> None:
    with pytest.raises(uw.DatasetError, match="found no dataset"):
        uw.pack([], tmp_path / "all")
    with pytest.raises(uw.DatasetError, match="found dtype 'int8'"):
        uw.pack(random_dataset(), tmp_path / "all", dtype="int8")
    with pytest.raises(uw.DatasetError, match="workers: expected a whole number of at least 1, found 0"):
        uw.pack(random_dataset(), tmp_path / "all", workers=0)
