"""What can go wrong, as exceptions and warnings a caller can name."""


class UpweightError(Exception):
    """Base of every error raised on purpose by this package."""


class DatasetError(UpweightError, ValueError):
    """A dataset, or the file it comes from, is not what it must be."""


class WeightingError(UpweightError, ValueError):
    """A weighting cannot be computed for this dataset or with these settings."""


class MissingExtraError(DatasetError, ImportError):
    """An optional dependency is needed; the message holds the pip line that installs it."""

    def __init__(self, purpose: str, package: str, extra: str) -> None:
        super().__init__(
            f'{purpose} needs the package {package!r}, which is not installed: run  pip install "upweight[{extra}]"'
        )


class RolloutError(UpweightError, ValueError):
    """An environment cannot be built, a policy does not fit it, or the processes that play it died."""


class AdapterError(UpweightError, ValueError):
    """Another library, or what was given to its adapter, is not what the adapter needs."""


class UpweightWarning(UserWarning):
    """Something a user should know although the work goes on."""


class DataLossWarning(UpweightWarning):
    """A file format cannot express part of the dataset that was saved to it."""
