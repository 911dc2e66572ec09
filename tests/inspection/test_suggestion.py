import numpy as np

import upweight as uw
from support.datasets import with_returns

rng = np.random.default_rng(0)


def test_a_few_good_episodes_among_many_poor_ones() -> None:
    """Hopper-like: 50 experts among 5,000 random episodes."""
    returns = np.concatenate([rng.normal(3200, 60, 50), rng.normal(20, 15, 5000)])
    suggestion = uw.suggest(with_returns(returns), env="hopper")
    assert suggestion.helps
    assert suggestion.weighting == uw.ReturnWeighting(0.1)
    text = str(suggestion)
    assert "rises from" in text
    assert "luck" in text


def test_equal_returns_need_no_weighting() -> None:
    suggestion = uw.suggest(with_returns([5.0] * 10))
    assert not suggestion.helps
    assert suggestion.weighting == uw.Uniform()
    assert "same return" in str(suggestion)


def test_one_episode_has_nothing_to_compare_with() -> None:
    assert "nothing to compare" in str(uw.suggest(with_returns([5.0])))


def test_all_about_as_good() -> None:
    suggestion = uw.suggest(with_returns(rng.normal(1000, 5, 500)))
    assert not suggestion.helps
    assert "will not help" in str(suggestion)


def test_random_data_on_the_expert_scale() -> None:
    suggestion = uw.suggest(with_returns(rng.normal(18, 15, 3000)), env="hopper")
    assert not suggestion.helps
    assert "hardly any episode is better" in str(suggestion)


def test_expert_data_needs_no_weighting() -> None:
    returns = np.concatenate([rng.normal(3200, 50, 900), rng.uniform(0, 3000, 20)])
    suggestion = uw.suggest(with_returns(returns), env="hopper")
    assert not suggestion.helps
    assert "already at" in str(suggestion)


def test_the_start_explains_the_return() -> None:
    starts = rng.normal(size=(2000, 2))
    returns = 100 * starts[:, 0] + rng.normal(0, 30, 2000)
    suggestion = uw.suggest(with_returns(returns, observations=starts))
    assert isinstance(suggestion.weighting, uw.AdvantageWeighting)
    assert "Where an episode starts explains" in str(suggestion)


def test_an_outlier_asks_for_a_warmer_temperature() -> None:
    """One lucky episode would take all the weight at 0.1."""
    returns = np.concatenate([[1000.0], rng.normal(400, 80, 2000)])
    suggestion = uw.suggest(with_returns(returns))
    temperature = suggestion.weighting.to_dict()["temperature"]
    weights = suggestion.weighting(with_returns(returns))
    assert temperature > 0.1
    assert uw.effective_episodes(weights) > 10
    assert "too few episodes" in str(suggestion)


def test_few_good_episodes_come_with_a_warning() -> None:
    returns = np.concatenate([rng.normal(3200, 60, 4), rng.normal(20, 15, 500)])
    assert "Careful: only about 4 episodes in effect" in str(uw.suggest(with_returns(returns)))
    alone = str(uw.suggest(with_returns(np.array([3200.0, 20.0]))))
    assert "Careful: only about 1 episode in effect" in alone
    assert "draws on the worth of about 1 episode; the weighted return is known to within 4319 (95%)" in alone


def test_incomplete_episodes_do_not_count() -> None:
    returns = np.concatenate([rng.normal(100, 1, 50), [1e6]])
    ds = with_returns(returns).mark_incomplete([50])
    assert not uw.suggest(ds).helps
