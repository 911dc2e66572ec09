import json

import numpy as np
import pytest

import upweight as uw
from support.datasets import random_dataset, tiny, with_arrays, with_returns


def mixed() -> uw.Dataset:
    good = random_dataset(1, num_episodes=20, max_length=60, reward_shift=5)
    good = with_arrays(good, actions=good.actions + 1)
    poor = random_dataset(2, num_episodes=300, max_length=6)
    return uw.mix(good, poor, fraction=0.5, num_steps=800, seed=0)


def test_hand_computed_values() -> None:
    report = uw.inspect(tiny(), weightings=[uw.TopFraction(0.5)])
    assert (report.num_episodes, report.num_steps, report.num_transitions) == (3, 8, 7)
    assert (report.num_terminated, report.num_truncated, report.num_incomplete) == (2, 1, 0)
    assert report.returns.mean == 4.0
    assert report.returns.rpsv == pytest.approx((2**2 + 5**2) / 3)
    assert report.returns.quantiles["min"] == -3.0
    assert report.returns.quantiles["50%"] == 6.0
    uniform, top = report.effects
    assert uniform.weighted_return == pytest.approx(4.0)
    assert uniform.step_weighted_return == pytest.approx((3 * 6 + 1 * 9 + 3 * -3) / 7)
    assert uniform.effective_steps == pytest.approx(7)
    assert top.weighted_return == 9.0
    assert top.effective_episodes == 1.0


def test_normalised_by_reference_scores() -> None:
    report = uw.inspect(with_returns([-20.272305, 3234.3]), env="hopper")
    assert report.normalized_returns is not None
    assert report.normalized_returns.mean == pytest.approx(0.5)
    assert report.normalized_returns.rpsv == pytest.approx(0.5 * 0.25)
    assert "normalised (hopper)" in str(report)


def test_to_dict_is_json_and_complete() -> None:
    report = uw.inspect(mixed(), env="hopper")
    plain = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert plain["num_steps"] == report.num_steps
    assert plain["suggestion"]["weighting"]["name"] in {"rw", "aw", "uniform"}
    assert plain["metadata"]["mix"]["good"]["distinct_episodes"] > 0
    names = [effect["name"].split()[0] for effect in plain["effects"]]
    assert names[:5] == ["uniform", "top", "half", "rw", "aw"]


def test_the_text_shows_what_a_person_looks_for() -> None:
    report = uw.inspect(mixed())
    for wanted in ("effective episodes", "% good", "% poor", "Suggestion: rw"):
        assert wanted in str(report)
    for wanted in ("distinct", "RPSV", "J(mu_W)", "% good early", "half", "top", "luck"):
        assert wanted in report.explain() and wanted not in str(report)
    assert max(map(len, str(report).splitlines())) <= 110 and max(map(len, report.explain().splitlines())) <= 130


@pytest.mark.parametrize("kind", ["mix", "outcomes", "few", "starts", "labels", "alike"])
def test_it_fits_on_a_screen(kind: str) -> None:
    rng = np.random.default_rng(0)
    starts = rng.normal(size=(300, 2))
    lengths = rng.integers(3, 50, 300)
    ds = {
        "mix": mixed(),
        "outcomes": with_returns(rng.integers(0, 2, 200), lengths=rng.integers(3, 50, 200)),
        "few": with_returns(rng.exponential(20, 12), lengths=rng.integers(3, 50, 12)),
        "starts": with_returns(100 * starts[:, 0] + lengths, observations=starts, lengths=lengths),
        "labels": with_returns(
            lengths + rng.normal(0, 9, 300), lengths=lengths, labels=[f"policy {k % 9}" for k in range(300)]
        ),
        "alike": with_returns([5.0] * 30),
    }[kind]
    report = uw.inspect(ds)
    assert len(str(report).splitlines()) + 3 <= 25  # with the next commands


def test_weightings_that_were_asked_for_are_all_shown() -> None:
    assert "top fraction=0.1" in str(uw.inspect(mixed(), weightings=[uw.TopFraction(0.1)]))


def test_incomplete_episodes_are_counted_and_left_out() -> None:
    ds = with_returns([1.0, 2.0, 3.0, 1000.0]).mark_incomplete([3])
    report = uw.inspect(ds)
    assert report.num_incomplete == 1
    assert report.returns.quantiles["max"] == 3.0
    assert report.effects[0].weighted_return == pytest.approx(2.0)
    assert "1 episodes cut short" in str(report)


def test_warnings_become_notes() -> None:
    """On the first screen if they concern what was asked for."""
    few = with_returns([1.0, 2.0], observations=np.eye(2))
    asked, usual = uw.inspect(few, weightings=[uw.AdvantageWeighting()]), uw.inspect(few)
    assert "Note: 2 episodes are too few" in str(asked) and "Note: 2 episodes are too few" in asked.explain()
    assert "Note:" not in str(usual) and "Note: 2 episodes are too few" in usual.explain()


def test_given_weights_are_measured() -> None:
    report = uw.inspect(with_returns([1.0, 2.0]), weightings=[np.array([0.0, 5.0])])
    assert report.effects[1].name == "given weights"
    assert report.effects[1].weighted_return == 2.0


def test_a_baseline_of_ones_own_is_measured() -> None:
    mine = uw.AdvantageWeighting(0.1, baseline=lambda states, returns: np.zeros(len(returns)))
    assert uw.inspect(with_returns([1.0, 2.0]), weightings=[mine]).effects[1].name == "aw (own settings)"


def test_nothing_complete_is_an_error() -> None:
    with pytest.raises(uw.WeightingError, match="at least one complete episode"):
        uw.inspect(with_returns([1.0]).mark_incomplete([0]))


def test_large_images_are_not_read() -> None:
    ds = random_dataset(observation_shape=(64, 64, 3), observation_dtype=np.uint8)
    uw.inspect(ds)
    assert "initial_observations" not in ds.__dict__


def test_what_weighting_drops_is_shown() -> None:
    """Starts decide: RW gives those of the poorest quarter next to nothing, AW does not."""
    rng = np.random.default_rng(0)
    start = rng.normal(size=(400, 1))
    ds = with_returns(100 * start[:, 0] + rng.normal(0, 10, 400), observations=start)
    report = uw.inspect(ds, weightings=[uw.ReturnWeighting(0.03), uw.AdvantageWeighting(0.1)])
    assert report.explained_by_start == pytest.approx(0.99, abs=0.01)
    uniform, rw, aw = report.effects
    assert uniform.mass_per_start is not None and rw.mass_per_start is not None and aw.mass_per_start is not None
    assert uniform.mass_per_start == pytest.approx(dict.fromkeys(uniform.mass_per_start, 0.25))
    assert rw.mass_per_start["poorest starts"] < 0.001
    assert aw.mass_per_start["poorest starts"] > 0.1
    assert uniform.dropped_episodes == 0
    assert rw.dropped_episodes > 0.7
    text = report.explain()
    assert "% poorest starts" in text
    assert "% dropped" in text


def test_labels_tell_luck_from_policies() -> None:
    """20 of 200 episodes of one are lucky (mean 1), the other is steady: J by label is the mean of the labels drawn."""
    returns = np.concatenate([np.full(20, 10.0), np.zeros(180), np.full(200, 5.0)])
    labels = np.repeat(["risky", "steady"], 200)
    report = uw.inspect(with_returns(returns, labels=labels), weightings=[uw.TopFraction(0.05)])
    uniform, top = report.effects
    assert (uniform.weighted_return, uniform.weighted_label_return) == pytest.approx((3.0, 3.0))
    assert (top.weighted_return, top.weighted_label_return) == pytest.approx((10.0, 1.0))
    assert "J by label" in report.explain()
    assert "J by label" not in uw.inspect(with_returns(returns, labels=["all"] * 400)).explain()


def test_many_small_weights_that_come_to_nothing_are_dropped() -> None:
    """Ten experts among 4,000: no random episode's weight is small beside the mean, all of them together are."""
    ds = with_returns([3400.0] * 10 + [20.0] * 4000 + [0.0])
    assert uw.inspect(ds, weightings=[uw.ReturnWeighting(0.05)]).effects[1].dropped_episodes == pytest.approx(
        0.9975, abs=1e-4
    )


def test_nothing_is_dropped_where_all_are_drawn_about_alike() -> None:
    """Whatever the lengths; and what gets no weight is dropped, however little of the data it is."""
    ds = random_dataset(num_episodes=300, max_length=50)
    almost, few, half = np.linspace(0.9, 1.1, 300), np.r_[np.zeros(3), np.ones(297)], np.repeat([0.0, 1.0], 150)
    uniform, near, second, without = uw.inspect(ds, weightings=[almost, half, few]).effects
    assert (uniform.dropped_episodes, near.dropped_episodes) == (0, 0)
    assert second.dropped_episodes == pytest.approx(0.5, abs=0.02)
    assert without.dropped_episodes == pytest.approx(0.01, abs=0.003)


def test_groups_of_starts_are_shown_only_where_they_matter() -> None:
    report = uw.inspect(mixed())
    assert report.effects[0].mass_per_start is None
    assert "poorest starts" not in report.explain()


def test_good_early_steps_by_label_and_by_return() -> None:
    returns, lengths = [100.0, *[0.0] * 10], [1000, *[10] * 10]
    labelled = uw.inspect(with_returns(returns, lengths=lengths, labels=["expert", *["random"] * 10]))
    assert labelled.good == "label expert"
    assert labelled.effects[0].early_share == pytest.approx(30 / 130)
    plain = uw.inspect(with_returns(returns, lengths=lengths))
    assert plain.good == "return above 50"
    assert plain.effects[0].early_share == pytest.approx(30 / 130)
    assert "% good early" in plain.explain()
    assert uw.inspect(with_returns([1.0, 1.0])).good is None


def test_reference_scores_of_other_data_are_not_used() -> None:
    """Kitchen rewards counted at every step: hundreds, where an expert's return is 4."""
    ds = with_returns(np.random.default_rng(0).normal(324, 100, 200))
    report = uw.inspect(ds, env="kitchen")
    assert report.normalized_returns is None
    text = str(report)
    assert text.count("The reference scores of kitchen (random 0, expert 4) do not seem to be for this data") == 1
    assert "normalised (kitchen)" not in text
    assert "times expert level" in text
    advice = uw.suggest(ds, env="kitchen")
    assert "reference scores" in [reason.topic for reason in advice.checks]
    assert "random-to-expert scale" not in advice.explain()


def rewardless(count: int = 6) -> uw.Dataset:
    """Episodes of two steps that say nothing of how good they were; where they start differs in one of three numbers."""
    observations = np.zeros((2 * count, 3), np.float32)
    observations[:, 1] = np.arange(2 * count)
    return uw.Dataset.from_arrays(
        observations=observations,
        actions=np.random.default_rng(0).uniform(-1, 1, (2 * count, 2)),
        rewards=None,
        terminated=np.arange(2 * count) % 2 == 1,
        labels=["ann", "bob"] * (count // 2),
        source="robots",
    )


def test_data_without_rewards_are_described() -> None:
    report = uw.inspect(rewardless())
    assert (report.num_episodes, report.num_steps, report.lengths["mean"]) == (6, 12, 2.0)
    assert (report.observation_shape, report.action_shape) == ((3,), (2,))
    assert report.episodes_per_label == {"ann": 3, "bob": 3}
    assert report.varying_starts == 1
    assert report.returns is None and report.suggestion is None and report.effects == ()
    text = str(report)
    for wanted in ("6 terminated", "ann 3, bob 3", "no rewards", "--success NAME"):
        assert wanted in text
    assert "differ in 1 of 3" in report.explain() and "starts" not in text
    assert max(len(line) for line in text.splitlines()) <= 120
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["returns"] is None


def test_weightings_of_data_without_rewards_are_refused() -> None:
    with pytest.raises(uw.DatasetError, match=r"robots: .* no rewards.*success=NAME"):
        uw.inspect(rewardless(), weightings=[uw.ReturnWeighting()])


def test_a_nan_in_the_starts_is_found_without_rewards_too() -> None:
    observations = np.zeros((2, 1))
    observations[1] = np.nan
    ds = uw.Dataset.from_arrays(observations=observations, actions=np.zeros((2, 1)), rewards=None, terminated=[1, 1])
    with pytest.raises(uw.DatasetError, match="NaN"):
        uw.inspect(ds)


def test_what_is_suggested_is_among_what_is_compared() -> None:
    """Quick successes among slow failures, where the suggestion is colder than the paper's temperature."""
    rng = np.random.default_rng(3)
    returns = np.concatenate([rng.normal(100, 0.5, 14), rng.normal(38, 4, 4900)])
    report = uw.inspect(with_returns(returns, lengths=[8] * 14 + [40] * 4900))
    assert report.suggestion is not None and report.suggestion.weighting == uw.ReturnWeighting(0.067)
    assert [effect.name for effect in report.effects][-2:] == ["aw temperature=0.1", "rw temperature=0.067"]
    assert f"return {report.effects[-1].weighted_return:.4g} on average" in report.suggestion.reasons[0].text
    alone = uw.inspect(with_returns(returns), weightings=[uw.TopFraction(0.1)])
    assert [effect.name for effect in alone.effects] == ["uniform", "top fraction=0.1"]


def test_sizes_are_said_in_words() -> None:
    for shape, words in (
        ((3,), "3 numbers"),
        ((4, 4, 2), "4 x 4 x 2 numbers"),
        ((), "one number"),
        ((1,), "one number"),
    ):
        text = uw.inspect(random_dataset(observation_shape=shape, discrete=True)).explain()
        (line,) = [line for line in text.splitlines() if line.startswith("observations")]
        assert line.split(maxsplit=1)[1] == words
        assert "one number, discrete" in text


def test_many_labels_and_categories_do_not_widen_the_text() -> None:
    ds = with_returns(np.arange(240.0))
    labels = [f"doctor number {place % 24}" for place in range(240)]
    named = with_arrays(ds, labels=labels, metadata={"categories": {"icd": [f"code {place}" for place in range(300)]}})
    text = uw.inspect(named).explain()
    assert max(map(len, text.splitlines())) < 160 and "and 294 more" in text and "4 most frequent of 24" in text
