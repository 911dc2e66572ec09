from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

import upweight as uw
from support.datasets import with_returns
from upweight.base.text import number
from upweight.lab.report.paper.tables import paper_rpsv, paper_scores

rng = np.random.default_rng(0)


def words(suggestion: uw.Suggestion) -> str:
    """Its text, on one line."""
    return " ".join(str(suggestion).split())


def test_a_few_good_episodes_among_many_poor_ones() -> None:
    """Hopper-like: 50 experts among 5,000 random episodes."""
    returns = np.concatenate([rng.normal(3200, 60, 50), rng.normal(20, 15, 5000)])
    suggestion = uw.suggest(with_returns(returns), env="hopper")
    assert suggestion.helps
    assert suggestion.weighting == uw.ReturnWeighting(0.1)
    text = words(suggestion)
    assert "That is the return of the data drawn, not of a policy trained on it." in text
    assert "for BC the paper states none" in text
    assert "luck" in text


def test_lines_are_not_longer_than_a_screen() -> None:
    text = str(uw.suggest(with_returns(np.random.default_rng(6).normal(10, 5, 300))))
    head, *lines = text.splitlines()
    assert head == "Suggestion: rw temperature=0.1" and max(map(len, lines)) <= 110
    assert {line[:4] for line in lines} == {"  - ", "    "}


def test_equal_returns_need_no_weighting() -> None:
    suggestion = uw.suggest(with_returns([5.0] * 10))
    assert not suggestion.helps
    assert suggestion.weighting == uw.Uniform()
    assert "same return" in words(suggestion) and "--success NAME" in words(suggestion)


def test_one_episode_has_nothing_to_compare_with() -> None:
    assert "nothing to compare" in words(uw.suggest(with_returns([5.0])))


def test_all_about_as_good() -> None:
    """Nearly all as good as the best: nothing to weight. All close to their mean: only the user knows."""
    suggestion = uw.suggest(with_returns(np.concatenate([rng.normal(1000, 5, 500), [700.0] * 3])))
    assert not suggestion.helps
    assert suggestion.weighting == uw.Uniform()
    assert "most episodes are about as good as the best" in words(suggestion)
    assert "whether that matters only you can say" in words(uw.suggest(with_returns(rng.normal(1000, 5, 500))))


@pytest.mark.parametrize("kind", ["normal", "mixed", "few", "mostly good"])
def test_advice_does_not_change_with_the_zero_or_the_unit_of_returns(kind: str) -> None:
    returns = {
        "normal": rng.normal(10, 5, 300),
        "mixed": np.concatenate([rng.normal(100, 1, 30), rng.normal(0, 1, 300)]),
        "few": rng.exponential(20, 12),
        "mostly good": np.concatenate([rng.normal(100, 1, 500), np.zeros(5)]),
    }[kind]
    here = uw.suggest(with_returns(returns))
    for scale, shift in ((1, 1e4), (1, -1e4), (0.01, 0), (100, 7)):
        there = uw.suggest(with_returns(scale * returns + shift))
        assert (there.weighting, there.helps) == (here.weighting, here.helps)


def test_random_episodes_show_nothing() -> None:
    """Two episodes: one is better, and that may be luck."""
    suggestion = uw.suggest(with_returns([20.0, 3.0]))
    assert not suggestion.helps
    assert suggestion.weighting == uw.Uniform()
    assert "Most of the gain is one episode's, good or lucky: the data cannot tell" in words(suggestion)


def test_one_expert_episode_is_named_as_one() -> None:
    """1 expert episode of 1,000 steps among 4,000 random steps."""
    returns = np.concatenate([[3200.0], rng.normal(20, 15, 200)])
    suggestion = uw.suggest(with_returns(returns, lengths=[1000, *[20] * 200]))
    assert (suggestion.weighting, suggestion.helps) == (uw.Uniform(), False)
    text = words(suggestion)
    assert (
        "Most of the gain is one episode's, good or lucky: the data cannot tell whether rw temperature=0.1 helps."
        in text
    )
    assert "Uniform sampling is safe; take rw temperature=0.1 only if you know that episode to be good." in text


@pytest.mark.parametrize("seed", range(12))
def test_a_small_skewed_log_keeps_most_of_the_gain(seed: int) -> None:
    """50 episodes of CartPole, most of them short."""
    returns = np.round(np.minimum(500, 9 + np.random.default_rng(seed).lognormal(3.2, 1, 50)))
    ds = with_returns(returns)
    suggestion = uw.suggest(ds)
    if suggestion.weighting == uw.Uniform():
        assert "Most of the gain is one episode's" in words(suggestion)
        return
    gain = uw.weighted_return(suggestion.weighting(ds), returns) - returns.mean()
    usual = uw.weighted_return(uw.ReturnWeighting(0.1)(ds), returns) - returns.mean()
    assert gain > 0.5 * usual
    if not suggestion.helps:
        assert "the data cannot tell" in words(suggestion)
        assert "Uniform sampling is safe, and so is temperature" in words(suggestion)


def test_many_levels_may_want_a_colder_temperature() -> None:
    """26 policies from poor to good, 40 episodes each."""
    returns = np.concatenate([rng.normal(100 * level, 60, 40) for level in range(26)])
    text = words(uw.suggest(with_returns(returns)))
    assert "as in replay data with many levels: 0.1 may be too warm. At 0.025" in text
    two = np.concatenate([rng.normal(3200, 60, 50), rng.normal(20, 15, 5000)])
    assert "too warm" not in words(uw.suggest(with_returns(two)))


@pytest.mark.parametrize(("reward", "which"), [(1.0, "Longer"), (-0.3, "Shorter")])
def test_returns_that_follow_lengths_are_pointed_out(reward: float, which: str) -> None:
    """A log with the same reward at every visit: who came longer is not who fared better."""
    lengths = np.random.default_rng(3).integers(2, 40, 150)
    text = words(uw.suggest(with_returns(reward * lengths, lengths=lengths)))
    assert f"{which} episodes have higher returns (rank correlation with length {np.sign(reward):.2f})" in text
    assert "score=ds.returns / ds.lengths" in text
    for others in (rng.permutation(lengths), np.full(150, 7)):
        assert "rank correlation" not in words(uw.suggest(with_returns(reward * lengths, lengths=others)))


def test_the_correlation_with_lengths_is_spearmans() -> None:
    """Ties have mean ranks, however many there are."""
    lengths = np.repeat([5, 6, 7, 40], [60, 60, 20, 10])
    returns = np.where(np.arange(150) < 80, 5.0, lengths)
    expected = scipy.stats.spearmanr(returns, lengths).statistic
    assert f"rank correlation with length {expected:.2f})" in words(uw.suggest(with_returns(returns, lengths=lengths)))


@pytest.mark.parametrize("act", [uw.suggest, uw.inspect])
def test_returns_that_cannot_be_squared_are_refused(act: Callable[[uw.Dataset], object]) -> None:
    returns = [*rng.normal(size=30), -1e300]
    with pytest.raises(uw.DatasetError, match=r"found -1e\+300 of episode 30; correct its rewards"):
        act(with_returns(returns))


def test_random_data_on_the_expert_scale() -> None:
    suggestion = uw.suggest(with_returns(rng.normal(18, 15, 3000)), env="hopper")
    assert not suggestion.helps
    assert "hardly any episode is better" in words(suggestion)


def test_expert_data_needs_no_weighting() -> None:
    returns = np.concatenate([rng.normal(3200, 50, 900), rng.uniform(0, 3000, 20)])
    suggestion = uw.suggest(with_returns(returns), env="hopper")
    assert not suggestion.helps
    assert "already at" in words(suggestion)


def test_the_start_explains_the_return() -> None:
    starts = rng.normal(size=(2000, 2))
    returns = 100 * starts[:, 0] + rng.normal(0, 30, 2000)
    suggestion = uw.suggest(with_returns(returns, observations=starts))
    assert isinstance(suggestion.weighting, uw.AdvantageWeighting)
    assert "Where an episode starts explains 92% of the differences in return (cross-validated)" in words(suggestion)


def patients(count: int = 280, features: int = 31) -> tuple[np.ndarray, np.ndarray]:
    """Stays of 15 patients; the first observation tells the patient, and the patient most of the return."""
    chosen = np.random.default_rng(1)
    profiles, worth = chosen.normal(size=(15, features)), chosen.normal(0, 10, 15)
    patient = chosen.integers(0, 15, count)
    states = profiles[patient] + 0.1 * chosen.normal(size=(count, features))
    return states, worth[patient] + chosen.normal(0, 6, count)


def test_few_episodes_for_many_features_are_checked_too() -> None:
    states, returns = patients()
    suggestion = uw.suggest(with_returns(returns, observations=states))
    assert isinstance(suggestion.weighting, uw.AdvantageWeighting)
    assert suggestion.weighting.baseline == uw.LinearBaseline()
    few = uw.suggest(with_returns(returns[:60], observations=states[:60]))
    assert few.weighting.to_dict()["name"] == "aw"
    assert few.weighting.to_dict()["baseline"] == "ridge"
    assert "60 episodes are few for 31 features: by ridge regression" in words(few)


@pytest.mark.parametrize(("episodes", "features"), [(40, 30), (100, 31), (300, 5)])
def test_starts_that_say_nothing_are_not_taken_for_more(episodes: int, features: int) -> None:
    chosen = np.random.default_rng(2)
    ds = with_returns(chosen.normal(size=episodes), observations=chosen.normal(size=(episodes, features)))
    suggestion = uw.suggest(ds)
    assert isinstance(suggestion.weighting, uw.ReturnWeighting | uw.Uniform)
    assert "of the differences in return (cross-validated): little" in words(suggestion)


def test_it_is_always_said_whether_the_start_was_looked_at() -> None:
    assert "All episodes start alike" in words(uw.suggest(with_returns(rng.normal(size=50))))
    few = with_returns(rng.normal(size=9), observations=rng.normal(size=(9, 2)))
    assert "could not be checked: 9 complete episodes are too few" in words(uw.suggest(few))
    wide = with_returns(rng.normal(size=30), observations=rng.normal(size=(30, 1001)))
    assert "could not be checked: initial observations have 1,001 numbers" in words(uw.suggest(wide))


def test_what_weighting_leaves_out_is_said() -> None:
    """Labels that get no steps, and poor episodes that take most of the beginnings."""
    returns = np.concatenate([rng.normal(3200, 60, 20), rng.normal(20, 15, 2000)])
    labels = ["expert"] * 20 + ["random"] * 1990 + ["broken"] * 10
    returns[-10:] = -1000.0
    text = words(uw.suggest(with_returns(returns, labels=labels)))
    assert "Next to nothing (under 0.05%) is drawn from: broken." in text
    mild = np.concatenate([rng.normal(30, 10, 30), rng.normal(20, 10, 3000)])
    text = words(uw.suggest(with_returns(mild, labels=["expert"] * 30 + ["random"] * 3000)))
    assert "Of the first 30 steps of episodes only" in text
    assert "are drawn from good ones (label expert)" in text
    assert "None of the temperatures down to 0.025 reaches 75%." in text


def test_the_luck_of_a_poor_policy_is_told_from_good_ones() -> None:
    """One succeeds now and then (20 of 200, mean 1), the other is steady (5). Weights 1 : e^-5 leave 94% to the lucky ones."""
    returns = np.concatenate([np.full(20, 10.0), np.zeros(180), np.full(200, 5.0)])
    lucky = words(uw.suggest(with_returns(returns, labels=["risky"] * 200 + ["steady"] * 200)))
    assert (
        "Of the gain 0% would be left if every episode had the mean of its label: 94% of the steps are drawn from risky"
        in lucky
    )
    assert "whose 200 episodes have a mean return of 1, the best of them 10." in lucky
    for labels in (np.repeat(["good", "poor", "fair"], [20, 180, 200]), np.full(400, "all"), None):  # levels, one, none
        assert "mean of its label" not in words(uw.suggest(with_returns(returns, labels=labels)))


def early_share_at(temperature: float, returns: np.ndarray, lengths: np.ndarray) -> float:
    weights = uw.ReturnWeighting(temperature)(with_returns(returns, lengths=lengths))
    return uw.early_share(weights, lengths, returns > (returns.min() + returns.max()) / 2)


def quick_successes(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Of 8 steps, each among 350 slow failures: at 0.1 nearly all episodes drawn are good ones, but not the steps."""
    chosen, failures = np.random.default_rng(3), 350 * count
    returns = np.concatenate([chosen.normal(100, 0.5, count), chosen.normal(38, 4, failures)])
    return returns, np.concatenate([np.full(count, 8), np.full(failures, 40)])


def test_poor_beginnings_ask_for_a_colder_temperature() -> None:
    returns, lengths = quick_successes(14)
    at = {temperature: f"{early_share_at(temperature, returns, lengths):.0%}" for temperature in (0.1, 0.05)}
    suggestion = uw.suggest(with_returns(returns, lengths=lengths))
    assert suggestion.weighting == uw.ReturnWeighting(0.05)
    text = words(suggestion)
    assert "At temperature 0.05 the batch draws on the worth of about 13 episodes" in text
    assert (
        f"At 0.1 only {at[0.1]} of the first 30 steps of episodes would be drawn from good ones (return above" in text
    )
    assert f"here it is {at[0.05]}." in text and "may follow the poor ones" not in text


def test_few_episodes_are_not_leaned_on_for_their_beginnings() -> None:
    """Six of them: the temperature stays, and the share and what a colder one would cost are said."""
    returns, lengths = quick_successes(6)
    at = {temperature: f"{early_share_at(temperature, returns, lengths):.0%}" for temperature in (0.1, 0.05)}
    suggestion = uw.suggest(with_returns(returns, lengths=lengths))
    assert suggestion.weighting == uw.ReturnWeighting(0.1)
    assert f"Of the first 30 steps of episodes only {at[0.1]} are drawn from good ones" in words(suggestion)
    assert f"At temperature 0.05 it would be {at[0.05]}, but from about 6 episodes." in words(suggestion)


def test_beginnings_are_not_given_up_for_a_warmer_temperature() -> None:
    """0.2 would leave more episodes in effect, but draw the first steps from poorer ones; where 0.1 rests on one it is taken."""
    chosen = np.random.default_rng(4)
    poor, lengths = chosen.normal(400, 80, 300), np.full(301, 40)
    enough = np.concatenate([poor, [720.0]])
    assert early_share_at(0.2, enough, lengths) < 0.75 < early_share_at(0.1, enough, lengths)
    assert uw.suggest(with_returns(enough, lengths=lengths)).weighting == uw.ReturnWeighting(0.1)
    outlier = np.concatenate([poor, [1000.0]])
    assert early_share_at(0.2, outlier, lengths) < 0.75
    assert uw.suggest(with_returns(outlier, lengths=lengths)).weighting == uw.ReturnWeighting(0.3)


def test_where_starts_differ_the_first_steps_are_not_compared() -> None:
    """Episodes of low return began elsewhere: what was done there tempts nobody where the others begin."""
    starts = rng.normal(size=(2000, 2))
    returns = 300 * starts[:, 0] + rng.normal(0, 30, 2000)
    ds = with_returns(returns, observations=starts)
    suggestion = uw.suggest(ds)
    assert uw.early_share(suggestion.weighting(ds), ds.lengths, returns > (returns.min() + returns.max()) / 2) < 0.75
    assert suggestion.weighting.to_dict()["name"] == "aw" and "first 30 steps" not in words(suggestion)


def test_what_is_said_of_advantage_weighting_is_its_own() -> None:
    starts = rng.normal(size=(2000, 2))
    returns = 100 * starts[:, 0] + rng.normal(0, 30, 2000)
    ds = with_returns(returns, observations=starts)
    suggestion = uw.suggest(ds)
    weights = suggestion.weighting(ds)
    text = words(suggestion)
    assert f"a mean return of {number(uw.weighted_return(weights, returns))} instead of" in text
    assert f"the worth of about {uw.effective_episodes(weights):,.0f} episodes" in text
    radius = uw.hoeffding_radius(weights, return_range=float(np.ptp(returns)))
    assert f"known to within {number(radius)} (95%)" in text
    gain = uw.weighted_return(weights, returns - uw.LinearBaseline()(starts, returns))
    assert f"do {number(gain)} better than their starts let expect" in text


def test_returns_that_the_start_decides_leave_nothing_to_weight() -> None:
    starts = rng.normal(size=(50, 2))
    suggestion = uw.suggest(with_returns(starts @ [3.0, -1.0] + 5, observations=starts))
    assert (suggestion.weighting, suggestion.helps) == (uw.Uniform(), False)
    assert "The start decides the return of every episode" in words(suggestion)


def test_advantage_weighting_is_not_proposed_for_what_return_weighting_would_gain() -> None:
    """Good and bad starts differ by 100, episodes from the same kind of start hardly: there is nothing to weight."""
    starts = rng.integers(0, 2, (2000, 1)).astype(float)
    returns = 100 * starts[:, 0] + np.where(rng.random(2000) < 0.003, -1.0, 0.0)
    suggestion = uw.suggest(with_returns(returns, observations=starts))
    assert (suggestion.weighting, suggestion.helps) == (uw.Uniform(), False)


def test_an_outlier_asks_for_a_warmer_temperature() -> None:
    """One lucky episode would take all the weight at 0.1."""
    returns = np.concatenate([[1000.0], rng.normal(400, 80, 2000)])
    suggestion = uw.suggest(with_returns(returns))
    temperature = suggestion.weighting.to_dict()["temperature"]
    weights = suggestion.weighting(with_returns(returns))
    assert temperature > 0.1
    assert uw.effective_episodes(weights) > 10
    assert "too few episodes" in words(suggestion)


def test_few_good_episodes_come_with_a_warning() -> None:
    returns = np.concatenate([rng.normal(3200, 60, 4), rng.normal(20, 15, 500)])
    suggestion = uw.suggest(with_returns(returns))
    assert (suggestion.weighting, suggestion.helps) == (uw.ReturnWeighting(0.1), False)
    text = words(suggestion)
    assert "Only about 4 episodes in effect: the data cannot tell whether rw temperature=0.1 helps." in text
    assert "Uniform sampling is safe, and so is temperature 0.2" in text
    alone = words(uw.suggest(with_returns(np.array([3200.0, 20.0]))))
    assert "draws on the worth of about 1 episode; the weighted return is known to within 4319 (95%)" in alone
    assert "wider than the range of returns" in alone


def test_how_long_few_steps_last() -> None:
    """1,000 passes through the worth of 50 episodes of 200 steps: 39,000 updates. Not said of too few steps, or of many."""

    def suggested(steps: int) -> str:
        good, poor = np.full(50, 3200.0) + np.arange(50), np.full(3000, 20.0)
        lengths = np.concatenate([np.full(50, steps), np.full(3000, 20)])
        return words(uw.suggest(with_returns(np.concatenate([good, poor]), lengths=lengths)))

    text = suggested(200)
    assert "Networks of the usual size (256, 256) that copy actions (BC) come to know few by heart" in text
    assert "up to 1,000 times, here for about 39,000 updates of 256 steps, and after 8,000 times most" in text
    assert "by heart" not in suggested(10) and "by heart" not in suggested(6000)


def test_incomplete_episodes_do_not_count() -> None:
    returns = np.concatenate([rng.normal(100, 1, 50), [1e6]])
    ds = with_returns(returns).mark_incomplete([50])
    assert uw.suggest(ds) == uw.suggest(with_returns(returns[:50]))


LOW_RPSV = {name: value for name, value in paper_rpsv().items() if value < 1.5e-4}


def like_the_paper(name: str, rpsv: float) -> np.ndarray:
    """Normalised returns with that RPSV: two levels where a share of good steps is in the name, else a bell."""
    if "random-" not in name:
        mean = 0.95 if "expert" in name else 0.4 if "medium" in name else 0.02
        return mean + np.sqrt(2 * rpsv) * np.random.default_rng(0).normal(size=1000)
    share = int(name.rsplit("-", 1)[1]) / 100  # the paper's RPSV of mixes counts steps: share (1 - share)^2 level^2
    level = np.sqrt(rpsv / (share * (1 - share) ** 2))
    return np.concatenate([np.full(20, level), np.zeros(round(20 * (1 - share) / share))])


def gain_in_the_paper(name: str) -> float:
    """RW less Uniform, mean of the four algorithms."""
    gains = [scores["RW"] - scores["Uniform"] for (_, dataset), scores in paper_scores().items() if dataset == name]
    assert len(gains) == 4
    return float(np.mean(gains))


@pytest.mark.parametrize(("name", "rpsv"), LOW_RPSV.items())
def test_a_low_rpsv_alone_decides_nothing(name: str, rpsv: float) -> None:
    """As in the paper: its mixes gain even there, its other sets do not."""
    scores = uw.reference_scores(name)
    returns = scores.random + (scores.expert - scores.random) * like_the_paper(name, rpsv)
    assert uw.suggest(with_returns(returns), env=name).helps == (gain_in_the_paper(name) > 0.05)


@pytest.mark.parametrize("name", [name for name in paper_rpsv() if "random-" in name])
def test_mixes_like_the_papers_gain(name: str) -> None:
    scores = uw.reference_scores(name)
    returns = scores.random + (scores.expert - scores.random) * like_the_paper(name, paper_rpsv()[name])
    assert uw.suggest(with_returns(returns), env=name).helps
    assert gain_in_the_paper(name) > 0


def test_what_the_docs_say_of_the_papers_rpsv() -> None:
    mixes = sorted(gain_in_the_paper(name) for name in LOW_RPSV if "random-" in name)
    others = [gain_in_the_paper(name) for name in LOW_RPSV if "random-" not in name]
    assert (len(mixes), len(others)) == (2, 7)
    text = " ".join((Path(__file__).parents[2] / "docs/concepts.md").read_text().split())
    assert f"the two mixes among them gained {mixes[0]:.2f} and {mixes[1]:.2f}" in text
    assert f"the seven others between {min(others):.2f} and {max(others):.2f}" in text
