import numpy as np
import pytest

import upweight as uw
from support.datasets import with_returns


def test_unknown_names_and_settings() -> None:
    with pytest.raises(uw.WeightingError, match="did you mean 'uniform'"):
        uw.make_weighting("unifrom")
    with pytest.raises(uw.WeightingError, match="known: aw, half, rw, top, uniform"):
        uw.make_weighting("zzzzz")
    with pytest.raises(uw.WeightingError, match="no setting 'alpha'; it has temperature"):
        uw.make_weighting("rw", alpha=0.1)


def test_an_array_is_accepted_wherever_a_weighting_is() -> None:
    ds = with_returns([0.0, 1.0])
    np.testing.assert_allclose(uw.resolve_weights([1, 3], ds), [0.25, 0.75])
    np.testing.assert_allclose(uw.resolve_weights(uw.Uniform(), ds), [0.5, 0.5])
    np.testing.assert_allclose(uw.resolve_weights([1e308, 1e308], ds), [0.5, 0.5])
    for bad in ([1], [1, -1], [np.nan, 1], [0, 0], "no", [[1, 1]]):
        with pytest.raises(uw.WeightingError):
            uw.resolve_weights(bad, ds)
