"""The rule: hand-computed choices, and what must not change them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from upweight.base.errors import ConfigError
from upweight.lab.select.rule import Baseline, Evidence, SelectionRule, without_common_luck

BC = Baseline("BC on all data", 10.0, 1.0)


def evidence(name: str, *estimates: float, outside: float = 0.1, reached: int | None = None) -> Evidence:
    return Evidence(name, np.array([estimates], np.float64), outside, reached)


def test_the_highest_lower_bound_is_chosen() -> None:
    wild = evidence("wild", 10, 30, 50)  # mean 30, spread 20: lower bound 10
    calm = evidence("calm", 19, 20, 21)  # mean 20, spread 1: lower bound 19
    decision = SelectionRule().decide([wild, calm], BC)
    assert decision.chosen == 1
    assert decision.verdicts == ("not above the chosen", "chosen")
    assert "lower bound 19" in decision.reason and "10 above BC on all data (10)" in decision.reason
    by_mean = SelectionRule(pessimism=0, margin=0.5).decide([wild, calm], BC)
    assert by_mean.chosen == 0  # 20 above, noise 0.5 x 20.02


def test_what_is_within_the_noise_is_not_chosen() -> None:
    # s_c = s_b = 1: the noise is 2 sqrt(2) = 2.83
    assert SelectionRule().decide([evidence("a", 11.5, 12.5, 13.5)], BC).chosen is None
    decision = SelectionRule().decide([evidence("a", 12, 13, 14)], BC)
    assert decision.chosen == 0
    within = SelectionRule().decide([evidence("a", 11, 12, 13)], BC)
    assert within.reason == (
        "nothing is shown to beat BC on all data: the best, a, is estimated 2 above it (12 and 10), and the noise is 2.828"
    )
    assert within.verdicts == ("not shown",)
    below = SelectionRule().decide([evidence("a", 1, 2, 3)], BC)
    assert below.reason.endswith("a, is estimated at 2, and BC on all data at 10")


def test_support_is_a_veto() -> None:
    far = evidence("far", 98, 99, 100, outside=0.31)
    near = evidence("near", 18, 19, 20, outside=0.3)
    decision = SelectionRule().decide([far, near], BC)
    assert decision.chosen == 1 and decision.verdicts[0] == "31% of its actions are outside the data"
    alone = SelectionRule().decide([far], BC)
    assert alone.chosen is None and "no candidate can be judged (far: 31% of its actions" in alone.reason


def test_diverged_evaluations_are_not_chosen() -> None:
    decision = SelectionRule().decide([evidence("a", 98, float("nan"), 100)], BC)
    assert decision.chosen is None and decision.verdicts == ("1 of 3 evaluations diverged",)
    lost = SelectionRule().decide([evidence("a", float("nan"))], BC)
    assert lost.chosen is None


def test_a_single_estimate_shows_nothing() -> None:
    decision = SelectionRule().decide([evidence("a", 1000)], BC)
    assert decision.chosen is None and "use more seeds" in decision.reason


def test_nobody_to_choose_from() -> None:
    decision = SelectionRule().decide([], BC)
    assert decision.reason == "nothing is shown to beat BC on all data: there is no other candidate"


def test_equal_estimates_beat_nothing() -> None:
    equal = [evidence(name, 10, 10, 10) for name in "ab"]
    assert SelectionRule().decide(equal, Baseline("BC", 10.0, 0.0)).chosen is None
    assert SelectionRule().decide([evidence("a", 10 + 1e-12, 10 + 1e-12)], Baseline("BC", 10.0, 0.0)).chosen is None


def test_estimates_that_hardly_any_episode_was_worth_are_a_veto() -> None:
    few, none = (evidence("a", 98, 99, 100, reached=count) for count in (1, 0))
    decision = SelectionRule().decide([few, evidence("b", 18, 19, 20, reached=5)], BC)
    assert (
        decision.chosen == 1 and decision.verdicts[0] == "only 1 of the logged episodes was worth as much, discounted"
    )
    alone = SelectionRule().decide([none], BC)
    assert (
        alone.chosen is None
        and "no candidate can be judged (a: none of the logged episodes was worth as much, discounted)" in alone.reason
    )
    assert SelectionRule(min_reached=0).decide([none], BC).chosen == 0
    second = SelectionRule().decide([none, evidence("b", 9, 10, 11)], BC)
    assert second.reason.endswith(
        "BC on all data at 10; a is estimated at 99, but none of the logged episodes was worth as much, discounted"
    )


def test_common_luck_counts_for_nobody() -> None:
    luck = np.array([-5.0, 0.0, 5.0])
    plain = [evidence("a", 10, 11, 12), evidence("b", 13, 13, 13), evidence("c", 7, 6, 5)]
    lucky = [replace(each, estimates=each.estimates + luck) for each in plain]
    for first, second in zip(without_common_luck(plain), without_common_luck(lucky), strict=True):
        np.testing.assert_allclose(first.estimates, second.estimates)
    assert [each.mean for each in without_common_luck(lucky)] == pytest.approx([11.0, 13.0, 6.0])
    # two candidates that err apart: the spread of the difference, 2, is kept
    apart = without_common_luck([evidence("a", 9, 10, 11), evidence("b", 11, 10, 9)])
    assert np.hypot(apart[0].spread, apart[1].spread) == pytest.approx(2.0)
    alone = [evidence("a", 9, 10, 11), evidence("lost", 1, float("nan"), 3)]
    assert without_common_luck(alone) == alone


@pytest.mark.parametrize(
    "wrong", [{"pessimism": -1}, {"margin": float("nan")}, {"max_outside": 1.5}, {"min_reached": -1}]
)
def test_settings_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="expected a number (of at least|from) 0"):
        SelectionRule(**wrong)


CANDIDATES = st.lists(
    st.tuples(
        arrays(np.float64, (2, 3), elements=st.floats(-100, 100, width=16)),
        st.sampled_from([0.0, 0.2, 0.4, 0.9]),
    ),
    min_size=1,
    max_size=6,
).map(lambda rows: [Evidence(f"c{place}", values, outside) for place, (values, outside) in enumerate(rows)])
BASELINES = st.tuples(st.floats(-100, 100, width=16), st.floats(0.125, 8, width=16)).map(
    lambda pair: Baseline("BC", pair[0], pair[1])
)


@given(CANDIDATES, BASELINES, st.randoms(use_true_random=False))
def test_order_does_not_matter(candidates: list[Evidence], baseline: Baseline, random: object) -> None:
    shuffled = list(candidates)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    first, second = SelectionRule().decide(candidates, baseline), SelectionRule().decide(shuffled, baseline)
    if first.chosen is None:
        assert second.chosen is None
    else:
        assert second.chosen is not None and candidates[first.chosen].name == shuffled[second.chosen].name
        assert first.reason == second.reason


@given(CANDIDATES, BASELINES, st.sampled_from([-64.0, 8.0, 1024.0]), st.sampled_from([0.25, 1.0, 16.0]))
def test_a_constant_and_a_scale_do_not_matter(
    candidates: list[Evidence], baseline: Baseline, shift: float, scale: float
) -> None:
    moved = [replace(each, estimates=scale * each.estimates + shift) for each in candidates]
    base = Baseline("BC", scale * baseline.mean + shift, scale * baseline.spread)
    before, after = SelectionRule().decide(candidates, baseline), SelectionRule().decide(moved, base)
    best = max(SelectionRule().lower(each) for each in candidates)
    near = [each.name for each in candidates if best - SelectionRule().lower(each) < 1e-6]
    if len(near) == 1:  # rounding may decide between equal ones
        assert before.chosen == after.chosen


@given(CANDIDATES, BASELINES, st.integers(0, 5), st.floats(0, 50, width=16))
def test_raising_estimates_never_loses_a_choice(
    candidates: list[Evidence], baseline: Baseline, which: int, more: float
) -> None:
    before = SelectionRule().decide(candidates, baseline).chosen
    which %= len(candidates)
    raised = list(candidates)
    raised[which] = replace(candidates[which], estimates=candidates[which].estimates + more)
    after = SelectionRule().decide(raised, baseline).chosen
    assert after in ({which} if before == which else {before, which})
    lowered = replace(baseline, mean=baseline.mean - more)
    if before is not None:
        assert SelectionRule().decide(candidates, lowered).chosen == before


@given(CANDIDATES, BASELINES)
def test_what_is_chosen_keeps_its_promises(candidates: list[Evidence], baseline: Baseline) -> None:
    rule = SelectionRule()
    decision = rule.decide(candidates, baseline)
    if decision.chosen is None:
        assert decision.reason.startswith("nothing is shown to beat BC")
        return
    chosen = candidates[decision.chosen]
    assert chosen.outside <= rule.max_outside
    assert chosen.mean - baseline.mean > rule.margin * np.hypot(chosen.spread, baseline.spread)
    assert all(rule.lower(each) <= rule.lower(chosen) for each in candidates if each.outside <= rule.max_outside)
