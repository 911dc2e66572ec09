import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from upweight.samplers.alias import AliasTable, build_alias_table


def table_probabilities(table: AliasTable) -> NDArray[np.float64]:
    """[K] the probabilities the table really draws with."""
    count = len(table.threshold)
    owned = table.threshold / count
    return owned + np.bincount(table.alias, weights=(1.0 - table.threshold) / count, minlength=count)


@given(st.lists(st.one_of(st.just(0.0), st.floats(1e-12, 1e6)), min_size=1, max_size=200))
def test_the_table_draws_with_the_given_probabilities(values: list[float]) -> None:
    p = np.array(values)
    if not p.any():
        return
    p /= p.sum()
    table = build_alias_table(p)
    assert ((table.threshold >= 0) & (table.threshold <= 1)).all()
    drawn = table_probabilities(table)
    np.testing.assert_allclose(drawn, p, atol=1e-12)
    assert (drawn[p == 0] == 0).all()


@pytest.mark.parametrize("count", [1, 2, 7, 8, 1000])
def test_equal_probabilities(count: int) -> None:
    np.testing.assert_allclose(table_probabilities(build_alias_table(np.full(count, 1 / count))), 1 / count)


def test_exactly_average_outcomes_between_light_and_heavy_ones() -> None:
    p = np.array([0.25, 0.0, 0.25, 0.5])
    np.testing.assert_allclose(table_probabilities(build_alias_table(p)), p, atol=1e-15)


def test_a_million_outcomes_over_thirty_orders_of_magnitude() -> None:
    rng = np.random.default_rng(0)
    p = np.exp(rng.uniform(-70, 0, 1_000_000))
    p /= p.sum()
    np.testing.assert_allclose(table_probabilities(build_alias_table(p)), p, rtol=1e-6, atol=1e-13)


def test_sums_over_many_outcomes_do_not_round() -> None:
    rng = np.random.default_rng(0)
    wanted = np.exp(2 * rng.standard_normal(100_000))
    wanted /= wanted.sum()
    np.testing.assert_allclose(table_probabilities(build_alias_table(wanted)), wanted, rtol=2e-11)
