"""Links in HDF5 files: inside a file they are followed, out of it never."""

import os
import shutil
import sys
from pathlib import Path

import h5py
import pytest

import upweight as uw
from support.datasets import assert_same, random_dataset
from support.files import save_quietly

UNREAD = {  # names of entries that no reader asks for
    "d3rlpy": {"columns", "version"},
    "d4rl": set[str](),
    "minari": set[str](),
    "robomimic": {"mask", "mask/train"},
}
formats = pytest.mark.parametrize("name", UNREAD)


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """Whoever opens it waits for ever."""
    path = tmp_path / "pipe.hdf5"
    os.mkfifo(path)
    return path


def write(path: Path, name: str) -> Path:
    save_quietly(random_dataset(0, num_episodes=2, next_known=True, labels=True), path, name)
    return path


def copy_of(data: Path, path: Path) -> Path:
    return Path(shutil.copytree(data, path) if data.is_dir() else shutil.copyfile(data, path))


def names_in(path: Path) -> list[str]:
    """All groups and arrays of a file."""
    names: list[str] = []
    with h5py.File(hdf5_file(path)) as file:
        file.visit(names.append)
        if "metadata" not in names and "terminals" in names:
            names += ["metadata", "metadata/algorithm"]  # of D4RL's own files
    return names


def hdf5_file(path: Path) -> Path:
    return path / "data" / "main_data.hdf5" if path.is_dir() else path


def put(path: Path, name: str, link: object, **others: object) -> None:
    """A link in the place of an entry."""
    with h5py.File(hdf5_file(path), "a") as file:
        if name in file:
            del file[name]
        file[name] = link
        file.update(others)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pipes")
@formats
def test_a_link_out_of_the_file_is_refused_and_not_followed(name: str, tmp_path: Path, pipe: Path) -> None:
    whole = write(tmp_path / "whole", name)
    for number, entry in enumerate(names_in(whole)):
        for kind in ("external", "soft"):
            path = copy_of(whole, tmp_path / f"{number}-{kind}")
            outside = h5py.ExternalLink(str(pipe), "/")
            link = outside if kind == "external" else h5py.SoftLink("/outside/inner")
            put(path, entry, link, **({"outside": outside} if kind == "soft" else {}))
            if entry in UNREAD[name]:
                uw.load(path).check()
                continue
            with pytest.raises(uw.DatasetError, match="a link to another file") as refused:
                uw.load(path, format=name).check()  # no link says what the file is
                raise AssertionError(entry)
            assert str(hdf5_file(path)) in str(refused.value)


@formats
def test_a_link_inside_the_file_is_followed(name: str, tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", name)
    path = copy_of(whole, tmp_path / "linked")
    for entry in names_in(whole):
        with h5py.File(hdf5_file(path), "a") as file:
            if isinstance(file.get(entry), h5py.Dataset):
                file.move(entry, f"kept/{entry}")
                file[entry] = h5py.SoftLink(f"/kept/{entry}")
    assert_same(uw.load(path), uw.load(whole))


def test_a_link_to_itself_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", "d4rl")
    put(path, "actions", h5py.SoftLink("actions"))
    with pytest.raises(uw.DatasetError, match=r"key 'actions': .*a link to itself"):
        uw.load(path)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pipes")
def test_a_pipe_is_no_file(tmp_path: Path, pipe: Path) -> None:
    folder = tmp_path / "shards"
    uw.save(random_dataset(), folder, format="parquet")
    pipe = pipe.rename(folder / "part-00001.parquet")
    for path, format_ in ((folder, "parquet"), (pipe, None), (pipe, "d4rl"), (pipe, "csv")):
        with pytest.raises(uw.DatasetError, match="expected a file"):
            uw.load(path, format=format_)
