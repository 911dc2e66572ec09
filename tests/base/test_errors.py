"""Errors that a caller can tell apart."""

import pytest

import upweight as uw


def test_errors_are_siblings() -> None:
    """Who catches one kind does not catch another: a missing package says nothing about the data."""
    kinds = [uw.DatasetError, uw.WeightingError, uw.ConfigError, uw.MissingExtraError, uw.RolloutError, uw.AdapterError]
    for kind in kinds:
        assert issubclass(kind, uw.UpweightError)
        assert not any(issubclass(kind, other) for other in kinds if other is not kind)
        assert issubclass(kind, ImportError if kind is uw.MissingExtraError else ValueError)
    with pytest.raises(ImportError, match=r'it needs the package .x.*pip install "upweight\[train\]"'):
        raise uw.MissingExtraError("it", "x", "train")
