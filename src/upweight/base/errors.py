"""What can go wrong, as exceptions and warnings a caller can name."""

import errno
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_SHORT_OF_MEMORY = ("can't start new thread", "RESOURCE_EXHAUSTED")  # as Python and XLA say it


class UpweightError(Exception):
    """Base of every error raised on purpose by this package.

    Examples:
        >>> try:
        ...     uw.load("nowhere.npz")
        ... except uw.UpweightError as error:
        ...     print(error)
        nowhere.npz: no such file or folder; give an existing one, or minari:<id>
    """


class DatasetError(UpweightError, ValueError):
    """A dataset, or the file it comes from, is not what it must be."""


class CheckpointError(DatasetError):
    """What a training left in its folder cannot be gone on with: a file is damaged, or belongs to another training."""


class WeightingError(UpweightError, ValueError):
    """A weighting cannot be computed for this dataset or with these settings."""


class ConfigError(UpweightError, ValueError):
    """A setting of an algorithm or of a training is unknown, out of range, or does not fit the data."""


class MissingExtraError(UpweightError, ImportError):
    """An optional package is not installed, and the message holds the line that installs it; or it fails to import."""

    def __init__(self, purpose: str, package: str, extra: str, cause: ImportError | None = None) -> None:
        trouble = f"is installed but fails to import ({cause})" if cause else "is not installed"
        again = "--force-reinstall " if cause else ""
        super().__init__(
            f'{purpose} needs the package {package!r}, which {trouble}: run  pip install {again}"upweight[{extra}]"'
        )


class RolloutError(UpweightError, ValueError):
    """An environment cannot be built, a policy does not fit it, or the processes that play it died."""


class AdapterError(UpweightError, ValueError):
    """Another library, or what was given to its adapter, is not what the adapter needs."""


class UpweightWarning(UserWarning):
    """Something a user should know although the work goes on."""


class DataLossWarning(UpweightWarning):
    """A file format cannot express part of the dataset that was saved to it."""


@contextmanager
def collecting_warnings() -> Iterator[list[str]]:
    """Collect our own warnings of the block in a list, complete at its end; other warnings are shown as usual."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UpweightWarning)
        yield found
    for warning in caught:
        if issubclass(warning.category, UpweightWarning):
            found.append(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


@contextmanager
def naming_memory(what: str) -> Iterator[None]:
    """Where ``what`` needs more memory than there is: one line that says so, and what to do."""
    try:
        yield
    except (MemoryError, OSError, RuntimeError) as error:
        if not _is_of_memory(error):
            raise
        needed = " ".join(str(error).split()) or "more than there is"  # NumPy says how much, and of what shape
        raise DatasetError(
            f"{what}: not enough memory ({needed}). Pack the data with `upweight pack` or uw.pack, and use the packed "
            "folder instead: it is read some rows at a time (float16 halves it); or use fewer episodes, or train "
            "fewer agents at a time"
        ) from None


def _is_of_memory(error: Exception) -> bool:
    """Whether memory was short: also for a memory map, for a thread, or on JAX's device."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or any(text in str(error) for text in _SHORT_OF_MEMORY)
