from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

import upweight as uw
from support.datasets import with_arrays, with_returns
from upweight.base.text import number
from upweight.lab.report.paper.tables import paper_rpsv, paper_scores

rng = np.random.default_rng(0)


def reason(suggestion: uw.Suggestion, topic: str) -> str:
    """What it says on a topic; empty if it says nothing."""
    return " ".join(reason.text for reason in suggestion.reasons if reason.topic == topic)


def test_a_few_good_episodes_among_many_poor_ones() -> None:
    """Hopper-like: 50 experts among 5,000 random episodes."""
    returns = np.concatenate([rng.normal(3200, 60, 50), rng.normal(20, 15, 5000)])
    suggestion = uw.suggest(with_returns(returns), env="hopper")
    assert suggestion.strength == "strong"
    assert suggestion.weighting == uw.ReturnWeighting(0.1)
    assert [each.topic for each in suggestion.reasons] == [
        *("gain", "luck", "for whom", "start", "temperature", "meaning")
    ]
    assert [each.topic for each in suggestion.checks] == ["gain"]


def test_the_headline_carries_the_strength() -> None:
    some = np.concatenate([rng.normal(3200, 60, 50), rng.normal(20, 15, 5000)])
    known = "Suggestion: rw temperature=0.1, in actor-critics for critics too (strong evidence)"
    assert uw.suggest(with_returns(some)).headline == known
    assert uw.suggest(with_returns(some[46:600])).headline.endswith("(fair evidence)")
    assert (
        uw.suggest(with_returns([20.0, 3.0])).headline
        == "Suggestion: uniform, the evidence for rw temperature=0.1 is weak"
    )
    assert "little to add" in uw.suggest(with_returns([5.0] * 10)).headline


def test_the_screen_has_the_evidence_and_at_most_three_checks() -> None:
    """Lengths, first steps, a label of which nothing is drawn, a temperature, and one episode that makes the gain."""
    lengths = np.random.default_rng(6).integers(5, 40, 60)
    ds = with_returns(lengths + 0.0, lengths=lengths, labels=[f"policy {place % 20}" for place in range(60)])
    suggestion = uw.suggest(ds)
    head, *lines = str(suggestion).splitlines()
    assert head == suggestion.headline and max(map(len, lines)) <= 110
    assert 1 <= sum(line.startswith("  - ") for line in lines) <= 4
    every = [line for line in suggestion.explain().splitlines() if line.startswith("  - ")]
    assert len(every) == len(suggestion.reasons) > len(suggestion.checks)


def test_outcomes_of_two_values_are_counted_and_not_measured() -> None:
    suggestion = uw.suggest(with_returns(np.repeat([1.0, 0.0], [40, 160])))
    assert (
        reason(suggestion, "gain")
        == "100% of the episodes drawn by rw temperature=0.1 end at 1, against 20% of all episodes."
    )
    three = uw.suggest(with_returns(np.repeat([1.0, 0.0, -1.0], [40, 80, 160])))
    assert not reason(three, "colder") and "and 1 (95%)" in reason(three, "temperature")


def test_equal_returns_need_no_weighting() -> None:
    suggestion = uw.suggest(with_returns([5.0] * 10))
    assert suggestion.strength == "none"
    assert suggestion.weighting == uw.Uniform()
    assert "--success NAME" in reason(suggestion, "equal returns")


def test_one_episode_has_nothing_to_compare_with() -> None:
    assert reason(uw.suggest(with_returns([5.0])), "one episode")


def test_all_about_as_good() -> None:
    """Nearly all as good as the best: nothing to weight. All close to their mean: only the user knows."""
    suggestion = uw.suggest(with_returns(np.concatenate([rng.normal(1000, 5, 500), [700.0] * 3])))
    assert suggestion.strength == "none"
    assert suggestion.weighting == uw.Uniform()
    assert "about as good as the best" in reason(suggestion, "gain")
    assert "only you can say" in reason(uw.suggest(with_returns(rng.normal(1000, 5, 500))), "gain")


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
        assert (there.weighting, there.strength) == (here.weighting, here.strength)


def test_random_episodes_show_nothing() -> None:
    """Two episodes: one is better, and that may be luck."""
    suggestion = uw.suggest(with_returns([20.0, 3.0]))
    assert (suggestion.weighting, suggestion.strength) == (uw.Uniform(), "weak")
    assert reason(suggestion, "one episode")


def test_one_expert_episode_far_from_all_others_is_no_luck() -> None:
    """1 expert episode of 1,000 steps among 200 random ones; and one that is merely the best."""
    poor = rng.normal(20, 15, 200)
    far = uw.suggest(with_returns(np.concatenate([[3200.0], poor]), lengths=[1000, *[20] * 200]))
    assert (far.weighting, far.strength) == (uw.ReturnWeighting(0.1), "fair")
    assert "about 1 episode only" in reason(far, "few episodes")
    best = uw.suggest(with_returns(np.concatenate([[110.0], poor])))
    assert (
        best.weighting.to_dict()["name"] == "uniform" or uw.effective_episodes(best.weighting(with_returns(poor))) > 5
    )


@pytest.mark.parametrize("seed", range(12))
def test_a_small_skewed_log_keeps_most_of_the_gain(seed: int) -> None:
    """50 episodes of CartPole, most of them short."""
    returns = np.round(np.minimum(500, 9 + np.random.default_rng(seed).lognormal(3.2, 1, 50)))
    ds = with_returns(returns)
    suggestion = uw.suggest(ds)
    if suggestion.weighting == uw.Uniform():
        assert reason(suggestion, "one episode")
        return
    gain = uw.weighted_return(suggestion.weighting(ds), returns) - returns.mean()
    usual = uw.weighted_return(uw.ReturnWeighting(0.1)(ds), returns) - returns.mean()
    assert gain > 0.3 * usual
    if suggestion.strength == "fair":
        assert " only. " in reason(suggestion, "few episodes")


def test_many_levels_may_want_a_colder_temperature() -> None:
    """26 policies from poor to good, 40 episodes each: the actor alone draws by a lower temperature."""
    returns = np.concatenate([rng.normal(100 * level, 60, 40) for level in range(26)])
    graded = uw.suggest(with_returns(returns), algorithm="td3_bc")
    assert graded.weighting == uw.Uniform() and graded.actor_weighting.temperature < 0.1
    assert 90 < uw.effective_episodes(graded.actor_weighting(with_returns(returns))) < 120  # a tenth of 1,040
    assert "Returns rise gradually" in reason(graded, "temperature")
    two = np.concatenate([rng.normal(3200, 60, 50), rng.normal(20, 15, 5000)])
    apart = uw.suggest(with_returns(two), algorithm="td3_bc")
    assert (apart.weighting, apart.actor_weighting) == (uw.ReturnWeighting(0.1), None)


@pytest.mark.parametrize(
    ("algorithm", "whom"),
    [("bc", "both"), ("discrete_bc", "both"), ("td3_bc", "actor"), ("IQL", "actor"), ("discrete_cql", "nobody")],
)
def test_who_draws_by_weights_depends_on_what_learns(algorithm: str, whom: str) -> None:
    """Graded returns: the critics draw uniformly, so what has no actor draws by no weights at all."""
    returns = np.concatenate([rng.normal(100 * level, 60, 40) for level in range(26)])
    suggestion = uw.suggest(with_returns(returns), algorithm=algorithm)
    assert [each.whom for each in suggestion.draws] == [whom]
    assert suggestion.to_dict()["draws"][0]["whom"] == whom


def test_an_unknown_algorithm_is_refused() -> None:
    with pytest.raises(uw.WeightingError, match="no advice for 'td3bc'; did you mean 'td3_bc'"):
        uw.suggest(with_returns([1.0, 2.0]), algorithm="td3bc")


def test_good_episodes_that_act_like_poor_ones_were_lucky() -> None:
    """One policy, and outcomes that are noise."""
    own = np.random.default_rng(1)
    ds = with_returns(own.normal(size=200), lengths=np.full(200, 20))
    same = with_arrays(ds, observations=own.normal(size=(4000, 2)), actions=own.normal(size=(4000, 1)))
    suggestion = uw.suggest(same)
    assert (suggestion.weighting, suggestion.strength) == (uw.Uniform(), "none")
    assert "Their returns may be luck" in str(suggestion)
    successes = same.with_success(own.random(200) < 0.4)  # two values only: they are not apart, they are two
    assert (uw.suggest(successes).weighting, uw.suggest(successes).strength) == (uw.Uniform(), "none")


@pytest.mark.parametrize(("reward", "which"), [(1.0, "Longer"), (-0.3, "Shorter")])
def test_returns_that_follow_lengths_are_pointed_out(reward: float, which: str) -> None:
    """A log with the same reward at every visit: who came longer is not who fared better."""
    lengths = np.random.default_rng(3).integers(2, 40, 150)
    text = reason(uw.suggest(with_returns(reward * lengths, lengths=lengths)), "length")
    assert text.startswith(which) and f"(rank correlation {np.sign(reward):.2f})" in text
    assert "score=ds.returns / ds.lengths" in text
    for others in (rng.permutation(lengths), np.full(150, 7)):
        assert not reason(uw.suggest(with_returns(reward * lengths, lengths=others)), "length")


def test_the_correlation_with_lengths_is_spearmans() -> None:
    """Ties have mean ranks, however many there are."""
    lengths = np.repeat([5, 6, 7, 40], [60, 60, 20, 10])
    returns = np.where(np.arange(150) < 80, 5.0, lengths)
    expected = scipy.stats.spearmanr(returns, lengths).statistic
    assert f"(rank correlation {expected:.2f})" in reason(uw.suggest(with_returns(returns, lengths=lengths)), "length")


@pytest.mark.parametrize("act", [uw.suggest, uw.inspect])
def test_returns_that_cannot_be_squared_are_refused(act: Callable[[uw.Dataset], object]) -> None:
    returns = [*rng.normal(size=30), -1e300]
    with pytest.raises(uw.DatasetError, match=r"found -1e\+300 of episode 30; correct its rewards"):
        act(with_returns(returns))


def test_random_data_on_the_expert_scale() -> None:
    suggestion = uw.suggest(with_returns(rng.normal(18, 15, 3000)), env="hopper")
    assert suggestion.strength == "none"
    assert "hardly any episode is better" in reason(suggestion, "gain")


def test_expert_data_needs_no_weighting() -> None:
    returns = np.concatenate([rng.normal(3200, 50, 900), rng.uniform(0, 3000, 20)])
    suggestion = uw.suggest(with_returns(returns), env="hopper")
    assert suggestion.strength == "none"
    assert "of expert level already" in reason(suggestion, "gain")


def test_the_start_explains_the_return() -> None:
    starts = rng.normal(size=(2000, 2))
    returns = 100 * starts[:, 0] + rng.normal(0, 30, 2000)
    suggestion = uw.suggest(with_returns(returns, observations=starts))
    assert isinstance(suggestion.weighting, uw.AdvantageWeighting)
    assert "explains 92% of the differences in return" in reason(suggestion, "start")


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
    assert "60 episodes are few for 31 features" in reason(few, "start")


@pytest.mark.parametrize(("episodes", "features"), [(40, 30), (100, 31), (300, 5)])
def test_starts_that_say_nothing_are_not_taken_for_more(episodes: int, features: int) -> None:
    chosen = np.random.default_rng(2)
    ds = with_returns(chosen.normal(size=episodes), observations=chosen.normal(size=(episodes, features)))
    suggestion = uw.suggest(ds)
    assert isinstance(suggestion.weighting, uw.ReturnWeighting | uw.Uniform)
    assert "(cross-validated): little" in reason(suggestion, "start")


def test_it_is_always_said_whether_the_start_was_looked_at() -> None:
    assert "All episodes start alike" in reason(uw.suggest(with_returns(rng.normal(size=50))), "start")
    few = with_returns(rng.normal(size=9), observations=rng.normal(size=(9, 2)))
    assert "9 complete episodes are too few" in reason(uw.suggest(few), "start")
    wide = with_returns(rng.normal(size=30), observations=rng.normal(size=(30, 1001)))
    assert "1,001 numbers" in reason(uw.suggest(wide), "start")


def test_what_weighting_leaves_out_is_said() -> None:
    """Labels that get no steps, and poor episodes that take most of the beginnings."""
    returns = np.concatenate([rng.normal(3200, 60, 20), rng.normal(20, 15, 2000)])
    labels = ["expert"] * 20 + ["random"] * 1990 + ["broken"] * 10
    returns[-10:] = -1000.0
    assert "broken" in reason(uw.suggest(with_returns(returns, labels=labels)), "left out")
    mild = np.concatenate([rng.normal(30, 10, 30), rng.normal(20, 10, 3000)])
    text = reason(uw.suggest(with_returns(mild, labels=["expert"] * 30 + ["random"] * 3000)), "first steps")
    assert "good ones (label expert)" in text


def test_the_luck_of_a_poor_policy_is_told_from_good_ones() -> None:
    """One succeeds now and then (40 of 200, mean 2), the other is steady (5): the best episodes are the lucky ones'."""
    returns = np.concatenate([np.full(40, 10.0), np.zeros(160), np.full(200, 5.0)])
    lucky = uw.suggest(with_returns(returns, labels=["risky"] * 200 + ["steady"] * 200))
    text = reason(lucky, "luck within labels")
    assert "of the steps drawn are from risky, whose 200 episodes return 2 on average and 10 at best." in text
    assert "0% of the gain" in text
    for labels in (np.repeat(["good", "poor", "fair"], [40, 160, 200]), np.full(400, "all"), None):  # levels, one, none
        assert not reason(uw.suggest(with_returns(returns, labels=labels)), "luck within labels")


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
    suggestion = uw.suggest(with_returns(returns, lengths=lengths))
    temperature = suggestion.weighting.to_dict()["temperature"]
    assert early_share_at(0.1, returns, lengths) < 0.75 <= early_share_at(temperature, returns, lengths)
    assert temperature < 0.1 and not reason(suggestion, "first steps")


def test_few_episodes_are_not_leaned_on_for_their_beginnings() -> None:
    """The best of one crowd: colder, the first steps would be drawn from ever fewer, so their share is only said."""
    chosen = np.random.default_rng(5)
    returns = chosen.exponential(1.0, 3000)
    lengths = np.where(returns > returns.max() / 2, 5, 40)
    suggestion = uw.suggest(with_returns(returns, lengths=lengths))
    assert "of the first 30 steps" in reason(suggestion, "first steps")
    assert uw.effective_episodes(suggestion.weighting(with_returns(returns))) > 25


def test_where_starts_differ_the_first_steps_are_not_compared() -> None:
    """Episodes of low return began elsewhere: what was done there tempts nobody where the others begin."""
    starts = rng.normal(size=(2000, 2))
    returns = 300 * starts[:, 0] + rng.normal(0, 30, 2000)
    ds = with_returns(returns, observations=starts)
    suggestion = uw.suggest(ds)
    assert uw.early_share(suggestion.weighting(ds), ds.lengths, returns > (returns.min() + returns.max()) / 2) < 0.75
    assert suggestion.weighting.to_dict()["name"] == "aw" and not reason(suggestion, "first steps")


def test_what_is_said_of_advantage_weighting_is_its_own() -> None:
    starts = rng.normal(size=(2000, 2))
    returns = 100 * starts[:, 0] + rng.normal(0, 30, 2000)
    ds = with_returns(returns, observations=starts)
    suggestion = uw.suggest(ds)
    weights = suggestion.weighting(ds)
    text = reason(suggestion, "gain")
    assert f"return {number(uw.weighted_return(weights, returns))} on average" in text
    gain = uw.weighted_return(weights, returns - uw.LinearBaseline()(starts, returns))
    assert f"return {number(gain)} more than their starts predict" in text
    radius = uw.hoeffding_radius(weights, return_range=float(np.ptp(returns)))
    text = reason(suggestion, "temperature")
    assert f"about {uw.effective_episodes(weights):,.0f} episodes" in text
    assert f"between {number(uw.weighted_return(weights, returns) - radius)} and" in text


def test_returns_that_the_start_decides_leave_nothing_to_weight() -> None:
    starts = rng.normal(size=(50, 2))
    suggestion = uw.suggest(with_returns(starts @ [3.0, -1.0] + 5, observations=starts))
    assert (suggestion.weighting, suggestion.strength) == (uw.Uniform(), "none")
    assert "decides the return of every episode" in reason(suggestion, "start")


def test_advantage_weighting_is_not_proposed_for_what_return_weighting_would_gain() -> None:
    """Good and bad starts differ by 100, episodes from the same kind of start hardly: there is nothing to weight."""
    starts = rng.integers(0, 2, (2000, 1)).astype(float)
    returns = 100 * starts[:, 0] + np.where(rng.random(2000) < 0.003, -1.0, 0.0)
    suggestion = uw.suggest(with_returns(returns, observations=starts))
    assert (suggestion.weighting, suggestion.strength) == (uw.Uniform(), "none")


def test_an_outlier_asks_for_a_warmer_temperature() -> None:
    """One lucky episode would take all the weight at 0.1."""
    returns = np.concatenate([[1000.0], rng.normal(400, 80, 2000)])
    suggestion = uw.suggest(with_returns(returns))
    temperature = suggestion.weighting.to_dict()["temperature"]
    weights = suggestion.weighting(with_returns(returns))
    assert temperature > 0.1
    assert uw.effective_episodes(weights) > 10
    assert "not too few of them" in reason(suggestion, "temperature")


def test_few_good_episodes_come_with_a_warning() -> None:
    returns = np.concatenate([rng.normal(3200, 60, 4), rng.normal(20, 15, 500)])
    suggestion = uw.suggest(with_returns(returns))
    assert (suggestion.weighting, suggestion.strength) == (uw.ReturnWeighting(0.1), "fair")
    text = reason(suggestion, "few episodes")
    assert "about 4 episodes only" in text
    alone = reason(uw.suggest(with_returns(np.array([3200.0, 20.0]))), "temperature")
    assert "between 20 and 3200 (95%)" in alone


def test_how_long_few_steps_last() -> None:
    """1,000 passes through the worth of 50 episodes of 200 steps: 39,000 updates. Not said of too few steps, or of many."""

    def suggested(steps: int) -> str:
        good, poor = np.full(50, 3200.0) + np.arange(50), np.full(3000, 20.0)
        lengths = np.concatenate([np.full(50, steps), np.full(3000, 20)])
        return reason(uw.suggest(with_returns(np.concatenate([good, poor]), lengths=lengths)), "updates")

    good, poor = np.full(50, 3200.0) + np.arange(50), np.full(3000, 20.0)
    ds = with_returns(np.concatenate([good, poor]), lengths=[*[200] * 50, *[20] * 3000])
    bounds = [each.most_updates for each in uw.suggest(ds).draws]  # of cloning, and of actor-critics
    assert bounds[0] == pytest.approx(39_000, rel=0.01) and bounds[1] is None
    assert not reason(uw.suggest(ds, algorithm="iql"), "updates")
    text = suggested(200)
    assert "about 39,000 updates of 256 steps" in text and "up to 1,000 passes" in text and "after 8,000" in text
    assert not suggested(10) and not suggested(6000)


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
    assert uw.suggest(with_returns(returns), env=name).strength == (
        "strong" if gain_in_the_paper(name) > 0.05 else "none"
    )


@pytest.mark.parametrize("name", [name for name in paper_rpsv() if "random-" in name])
def test_mixes_like_the_papers_gain(name: str) -> None:
    scores = uw.reference_scores(name)
    returns = scores.random + (scores.expert - scores.random) * like_the_paper(name, paper_rpsv()[name])
    assert uw.suggest(with_returns(returns), env=name).strength == "strong"
    assert gain_in_the_paper(name) > 0


def test_what_the_docs_say_of_the_papers_rpsv() -> None:
    mixes = sorted(gain_in_the_paper(name) for name in LOW_RPSV if "random-" in name)
    others = [gain_in_the_paper(name) for name in LOW_RPSV if "random-" not in name]
    assert (len(mixes), len(others)) == (2, 7)
    text = " ".join((Path(__file__).parents[2] / "docs/concepts.md").read_text().split())
    assert f"the two mixes among them gained {mixes[0]:.2f} and {mixes[1]:.2f}" in text
    assert f"the seven others between {min(others):.2f} and {max(others):.2f}" in text
