"""A weighting of one's own."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import upweight as uw
from support.datasets import with_returns


@dataclass(frozen=True)
class ByReturn(uw.Weighting):
    """Right only where no return is below zero."""

    name: ClassVar[str] = "by_return"

    def weigh(self, dataset: uw.Dataset, eligible: Any) -> Any:
        return dataset.returns[eligible]


@pytest.mark.parametrize("returns", [[-500.0, -69.0], [0.0, 0.0], [-1.0, 3.0]])
def test_weights_that_are_none_are_refused(returns: list[float]) -> None:
    """Negative ones would all be positive once they are divided by their sum, the worst the largest."""
    with pytest.raises(uw.WeightingError, match="non-negative weights"):
        ByReturn()(with_returns(returns))


def test_others_are_scaled() -> None:
    np.testing.assert_array_equal(ByReturn()(with_returns([1.0, 3.0])), [0.25, 0.75])


def test_weights_are_never_the_array_that_was_given() -> None:
    kept = np.array([0.5, 0.25, 0.25])
    for weighting in (kept, lambda _: kept):
        assert not np.shares_memory(uw.resolve_weights(weighting, with_returns([1.0, 2.0, 3.0])), kept)
