"""How sharply RW and AW follow their values: a temperature, or the effective number of episodes that it leaves."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import upweight as uw
from support.datasets import with_returns
from upweight.weightings.boltzmann import Boltzmann, boltzmann, solved_temperature

pytestmark = pytest.mark.filterwarnings("ignore::upweight.base.errors.UpweightWarning")
both = pytest.mark.parametrize("kind", [uw.ReturnWeighting, uw.AdvantageWeighting], ids=["rw", "aw"])
integers = st.lists(st.integers(-1000, 1000), min_size=2, max_size=30).filter(lambda values: len(set(values)) > 1)


@given(integers, st.floats(1e-3, 1e3), st.floats(1, 100))
def test_the_effective_number_grows_with_the_temperature(returns: list[int], temperature: float, factor: float) -> None:
    ds = with_returns(returns)
    cold, warm = (uw.effective_episodes(uw.ReturnWeighting(t)(ds)) for t in (temperature, temperature * factor))
    assert cold <= warm * (1 + 1e-12)
    assert returns.count(max(returns)) * (1 - 1e-12) <= cold and warm <= len(returns) * (1 + 1e-12)


@both
@given(returns=integers, place=st.floats(0, 1))
def test_the_number_asked_for_is_had_by_the_softmax_of_one_temperature(
    kind: type[Boltzmann], returns: list[int], place: float
) -> None:
    ds = with_returns(returns)
    fewest = returns.count(max(returns))
    wanted = fewest + place * (len(returns) - fewest)
    for weighting in (kind(effective_episodes=wanted), kind(effective_share=wanted / len(returns))):
        weights = weighting(ds)
        assert uw.effective_episodes(weights) == pytest.approx(wanted, rel=1e-12)
        x = (np.array(returns) - min(returns)) / np.ptp(returns)
        temperature = solved_temperature(x, wanted, "here")
        np.testing.assert_allclose(weights, boltzmann(x, temperature) / boltzmann(x, temperature).sum(), atol=1e-9)


def test_two_episodes_by_hand() -> None:
    """Weights p and 1 - p: 1 / (p^2 + (1 - p)^2) = 1.6 has p = 3/4, and p / (1 - p) = 3 = exp(1 / temperature)."""
    np.testing.assert_allclose(uw.ReturnWeighting(effective_episodes=1.6)(with_returns([0.0, 5.0])), [1 / 4, 3 / 4])
    assert solved_temperature(np.array([0.0, 1.0]), 1.6, "") == pytest.approx(1 / np.log(3), rel=1e-12)


@both
def test_the_limits_are_reached(kind: type[Boltzmann]) -> None:
    ds = with_returns([1.0, 7.0, 3.0, 7.0])
    np.testing.assert_array_equal(kind(effective_episodes=2)(ds), [0, 0.5, 0, 0.5])
    np.testing.assert_allclose(kind(effective_episodes=4)(ds), [0.25] * 4, rtol=1e-6)
    np.testing.assert_allclose(kind(effective_share=1)(ds), [0.25] * 4, rtol=1e-6)
    np.testing.assert_array_equal(kind(effective_episodes=3)(with_returns([2.0] * 3)), [1 / 3] * 3)
    assert 0.29 * 100 < 29
    np.testing.assert_array_equal(kind(effective_share=0.29)(with_returns([0.0] * 71 + [1.0] * 29))[71:], [1 / 29] * 29)


@both
def test_what_cannot_be_reached_is_told_with_what_can(kind: type[Boltzmann]) -> None:
    ds = with_returns([1.0, 7.0, 3.0, 7.0])
    with pytest.raises(uw.WeightingError, match="1.5 effective episodes cannot be reached: 2 share the best value"):
        kind(effective_episodes=1.5)(ds)
    with pytest.raises(uw.WeightingError, match="0.4 effective episodes cannot be reached: 2 share the best value"):
        kind(effective_share=0.1)(ds)
    with pytest.raises(
        uw.WeightingError, match="expected at most 4 effective episodes, as many as are complete, found 5"
    ):
        kind(effective_episodes=5)(ds)
    with pytest.raises(uw.WeightingError, match="2 effective episodes cannot be reached: 3 share the best value"):
        kind(effective_episodes=2)(with_returns([2.0] * 3))


def test_a_share_is_of_the_complete_episodes() -> None:
    ds = with_returns(np.arange(10.0)).mark_incomplete([8, 9])
    assert uw.effective_episodes(uw.ReturnWeighting(effective_share=0.5)(ds)) == pytest.approx(4, rel=1e-12)


def test_values_that_differ_in_the_last_bits() -> None:
    best = np.nextafter(1.0, 0)
    ds = with_returns([0.0, best, 1.0])
    assert uw.effective_episodes(uw.ReturnWeighting(effective_episodes=1.5)(ds)) == pytest.approx(1.5, rel=1e-12)


@both
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"temperature": 0.1, "effective_episodes": 20},
            "expected one of .*, found temperature and effective_episodes",
        ),
        ({"effective_episodes": 20, "effective_share": 0.1}, "found effective_episodes and effective_share"),
        ({"effective_episodes": 0.5}, "effective_episodes: expected a number of at least 1, found 0.5"),
        ({"effective_episodes": "20"}, "effective_episodes: expected a number of at least 1, found '20'"),
        ({"effective_episodes": float("inf")}, "effective_episodes: expected a number"),
        ({"effective_share": 0}, "effective_share: expected a number .*above 0"),
        ({"effective_share": 1.5}, "effective_share: expected a number .*at most 1"),
    ],
)
def test_bad_sizes(kind: type[Boltzmann], settings: dict[str, float], message: str) -> None:
    with pytest.raises(uw.WeightingError, match=message):
        kind(**settings)


@both
def test_what_was_given_is_what_is_shown_and_written(kind: type[Boltzmann]) -> None:
    """A weighting by temperature is described as one that knows nothing of effective sizes, so that runs keep their names."""
    assert kind(0.2).to_dict() == kind(temperature=0.2).to_dict() == {"name": kind.name, "temperature": 0.2}
    assert kind() == kind(0.1) and "effective" not in repr(kind())
    for name, value in (("effective_episodes", 20), ("effective_share", 0.1)):
        weighting = kind(**{name: value})
        assert weighting.to_dict() == {"name": kind.name, name: value}
        assert uw.weighting_from_dict(weighting.to_dict()) == weighting != kind()
        assert repr(weighting).startswith(f"{kind.__name__}({name}={value}") and "temperature" not in repr(weighting)
