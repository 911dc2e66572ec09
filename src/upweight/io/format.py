"""What every file format is, and the guard all readers work under.

To add one, write a file in this folder with a module-level ``FORMAT = Format(...)``. ``load``, ``save``, the command
line and the contract tests pick it up. Third-party packages are imported inside functions, through
:func:`~upweight.base.optional.require`. A module-level ``IN_MEMORY = Format(...)`` reads objects of a library
instead of paths.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upweight.base.errors import DatasetError, UpweightError, UpweightWarning, naming_memory
from upweight.data.dataset import Dataset

# A reader refuses what claims to be larger than this unless the file stores a fair share of it: deflate cannot do better than
# 1032 to 1, so a bigger claim is a damaged or hostile file.
_CLAIM_FLOOR_BYTES = 256 << 20
_CLAIM_RATIO = 5000
WAYS_IN = "to Dataset.from_arrays (steps), from_episodes (trajectories) or from_frame (a table)"
_MOST_NAMES = 20  # in a message


@dataclass(frozen=True)
class Format:
    """A file format: how to know it, read it and write it."""

    name: str
    description: str
    recognises: Callable[[Any], bool]  # a path, by content; must not raise on damaged files
    read: Callable[..., Dataset]  # read(path, **options)
    write: Callable[[Dataset, Path], list[str]] | None = None  # to a path that is free; returns what was lost
    suffixes: tuple[str, ...] = ()  # that ``save`` maps to this format
    lossless: bool = False  # a round trip gives back every bit of the dataset
    needs_rewards: bool = False  # there is no writing a dataset without
    flags: Callable[[Any, str], Any] | None = None  # flags(path, name): 0 and 1 per step [M] or episode [N]
    # The files that hold the data; a change of one is noticed.
    files: Callable[[Any], Iterable[Path]] = lambda source: [source] if isinstance(source, Path) else []


@contextmanager
def reading(path: Path | str, what: str) -> Iterator[None]:
    """Turn any exception of a library into one :class:`DatasetError` that names the file.

    Pipes and devices are refused: to open one may take for ever.
    """
    if isinstance(path, Path) and not path.is_file() and not path.is_dir() and path.exists():
        raise DatasetError(f"{path}: expected a file, found a pipe or a device; write what comes out of it to a file")
    try:
        with naming_memory(f"{path}: reading {what}"):
            yield
    except (UpweightError, UpweightWarning):  # the latter where warnings are errors
        raise
    except FileNotFoundError:
        raise DatasetError(
            f"{path}: cannot read {what}: the file is no longer there; put it back, or load the dataset again"
        ) from None
    except Exception as error:
        text = " ".join(str(error).split())[:200] or type(error).__name__
        raise DatasetError(f"{path}: cannot read {what}: the file is damaged or not what it seems ({text})") from error


def missing_key(path: Path, key: str, present: Iterable[str]) -> DatasetError:
    """The error to raise where a file lacks an array: what it has instead, and the way in for that."""
    return DatasetError(f"{path}: missing key {key!r}; the file has {listed(present)}. Give what is in it {WAYS_IN}")


def listed(names: Iterable[str]) -> str:
    """Names for a message: the first twenty, and how many more there are."""
    known = sorted(names)
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    return (", ".join(known[:_MOST_NAMES]) or "nothing") + more


def losses(dataset: Dataset, *kinds: str) -> list[str]:
    """What a layout without a place for ``kinds`` loses of this dataset, in words."""
    cut, dropped = int((~dataset.complete).sum()), int((dataset.num_transitions < dataset.lengths).sum())
    found = {
        "labels": (dataset.labels is not None, "labels"),
        "metadata": (dataset.metadata, "metadata"),
        "actions": (
            dataset.unseen_actions,
            f"that there are {dataset.num_actions} actions, of which the last are never taken",
        ),
        "incomplete": (cut, f"that {cut} episodes are incomplete"),
        "last steps": (dropped, f"the last step of {dropped} episodes, whose next observation is unknown"),
        "own next observations": (
            not dataset.next_observations_follow,
            "next observations that differ from the following observation",
        ),
    }
    return [words for kind, (is_lost, words) in found.items() if kind in kinds and is_lost]


def no_flags(path: Path, name: str, found: Iterable[str]) -> DatasetError:
    """For a format that looked for the flags ``name`` and has others."""
    return DatasetError(
        f"{path}: no {name!r} to tell success or a score by; it has {', '.join(sorted(found)) or 'none'}"
    )


def check_claim(nbytes: int, *files: Path, key: str, stored: int | None = None) -> None:
    """Refuse what would take memory out of proportion to its files: to what they say they store of it, or their whole size."""
    size = sum(file.stat().st_size for file in files)
    there = size if stored is None else min(stored, size)
    if nbytes > max(_CLAIM_FLOOR_BYTES, _CLAIM_RATIO * there):
        raise DatasetError(
            f"{files[0]}: key {key!r}: claims {nbytes:,} bytes but the file stores only {there:,}; refusing to load it"
        )


def comes_from(source: Any, library: str) -> bool:
    """Whether the class of an object, or one that it is made from, is of this library. Nothing is imported to tell."""
    return any(kind.__module__.partition(".")[0] == library for kind in type(source).__mro__)


def starts_with(path: Path, signature: bytes) -> bool:
    """Whether the file (not a directory) begins with ``signature``."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(signature)) == signature
