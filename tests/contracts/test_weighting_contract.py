"""What every weighting must do; a new one is tested by being in its folder."""

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st

import upweight as uw
from support.datasets import datasets, with_returns
from upweight.weightings.registry import weighting_classes, weighting_from_dict
from upweight.weightings.weighting import Weighting

pytestmark = pytest.mark.filterwarnings("ignore::upweight.base.errors.UpweightWarning")


def those(promise: Callable[[type[Weighting]], bool]) -> pytest.MarkDecorator:
    """The weightings that make a promise."""
    return pytest.mark.parametrize(
        "kind", list(filter(promise, weighting_classes().values())), ids=lambda kind: kind.name
    )


every = those(lambda kind: True)
finite_returns = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20)


def labelled(returns: list[float], **options: object) -> uw.Dataset:
    return with_returns(returns, labels=[("good", "poor")[i % 2] for i in range(len(returns))], **options)


def check_simplex(weights: np.ndarray, count: int) -> None:
    assert weights.shape == (count,)
    assert weights.dtype == np.float64
    assert np.isfinite(weights).all()
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)


@every
@given(ds=datasets(labels=True))
def test_simplex_on_any_dataset_or_a_clean_error(kind: type[Weighting], ds: uw.Dataset) -> None:
    try:
        weights = kind()(ds)
    except uw.WeightingError:  # nothing complete, nothing trainable, or one side empty
        return
    check_simplex(weights, ds.num_episodes)
    assert (weights[ds.num_transitions == 0] == 0).all()
    if kind().uses_returns:
        assert (weights[~ds.complete] == 0).all()


@those(lambda kind: "temperature" in kind.__dataclass_fields__)
@pytest.mark.parametrize("temperature", [1e-300, 1e-3, 1e3, 1e300])
def test_extreme_temperatures_stay_finite(kind: type[Weighting], temperature: float) -> None:
    rng = np.random.default_rng(0)
    ds = labelled((1e4 * rng.normal(size=50)).tolist(), observations=rng.normal(size=(50, 3)))
    check_simplex(kind(temperature=temperature)(ds), 50)  # type: ignore[call-arg]


@every
def test_one_episode_gets_all_the_weight_or_a_clean_error(kind: type[Weighting]) -> None:
    ds = with_returns([3.0], labels=["only"])
    try:
        assert kind()(ds).tolist() == [1.0]
    except uw.WeightingError as error:
        assert "two labels" in str(error)


@every
def test_deterministic(kind: type[Weighting]) -> None:
    ds = labelled([1.0, 5.0, 2.0, 8.0])
    assert kind()(ds).tobytes() == kind()(ds).tobytes()


@every
def test_frozen_and_json_round_trip(kind: type[Weighting]) -> None:
    weighting = kind()
    for name in kind.__dataclass_fields__:
        with pytest.raises(AttributeError):
            setattr(weighting, name, None)
    assert weighting_from_dict(json.loads(json.dumps(weighting.to_dict()))) == weighting


@those(lambda kind: kind.permutation_equivariant)
@given(returns=finite_returns, seed=st.integers(0, 99))
def test_permutation_equivariance(kind: type[Weighting], returns: list[float], seed: int) -> None:
    ds = labelled(returns)
    order = np.random.default_rng(seed).permutation(len(returns))
    np.testing.assert_allclose(kind()(ds.subset(order)), kind()(ds)[order], rtol=1e-6, atol=1e-12)


@those(lambda kind: kind.affine_invariant)
@given(
    returns=st.lists(st.integers(-1000, 1000), min_size=2, max_size=20),
    scale=st.floats(0.1, 10),
    shift=st.floats(-100, 100),
)
def test_affine_invariance(kind: type[Weighting], returns: list[float], scale: float, shift: float) -> None:
    moved = [scale * value + shift for value in returns]
    np.testing.assert_allclose(kind()(labelled(moved)), kind()(labelled(returns)), rtol=1e-6, atol=1e-12)


@those(lambda kind: kind.uniform_when_constant)
@pytest.mark.parametrize("value", [0.0, -7.5, 1e-300, 1e300])
def test_constant_returns_give_uniform_weights(kind: type[Weighting], value: float) -> None:
    np.testing.assert_allclose(kind()(labelled([value] * 8)), 1 / 8)


@every
def test_the_name_is_registered_and_described(kind: type[Weighting]) -> None:
    assert uw.make_weighting(kind.name) == kind()
    assert kind.__doc__
