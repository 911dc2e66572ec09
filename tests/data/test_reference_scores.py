import numpy as np
import pytest

import upweight as uw


@pytest.mark.parametrize(
    ("name", "expert"),
    [
        ("hopper", 3234.3),
        ("Hopper-v5", 3234.3),
        ("hopper-medium-v2", 3234.3),
        ("antmaze-umaze-v0", 1.0),
        ("ant_random", 3879.7),
    ],
)
def test_names_are_understood(name: str, expert: float) -> None:
    assert uw.reference_scores(name).expert == expert


def test_zero_is_random_and_one_is_expert() -> None:
    scores = uw.reference_scores("walker2d")
    np.testing.assert_allclose(uw.normalize_returns(np.array([1.629008, 4592.3]), scores), [0, 1])


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(uw.DatasetError, match="did you mean hopper"):
        uw.reference_scores("hoper")
