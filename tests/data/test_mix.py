import numpy as np
import pytest
from hypothesis import given, strategies as st

import upweight as uw
from support.datasets import assert_same, random_dataset, with_arrays


def sources() -> tuple[uw.Dataset, uw.Dataset]:
    good = random_dataset(1, num_episodes=40, max_length=20, reward_shift=5)
    return good, random_dataset(2, num_episodes=200, max_length=6)


@given(st.floats(0, 1), st.integers(1, 200), st.integers(0, 1000))
def test_each_part_stops_at_the_first_episode_that_reaches_its_target(fraction: float, steps: int, seed: int) -> None:
    good, poor = sources()
    mixed = uw.mix(good, poor, fraction=fraction, num_steps=steps, seed=seed)
    targets = {"good": round(fraction * steps), "poor": steps - round(fraction * steps)}
    assert mixed.labels is not None
    for label, target in targets.items():
        lengths = mixed.lengths[mixed.labels == label]
        assert (target == 0) == (len(lengths) == 0)
        if target:
            assert lengths.sum() >= target
            assert lengths[:-1].sum() < target


def test_whole_episodes_good_part_first_without_repetition() -> None:
    good, poor = sources()
    mixed = uw.mix(good, poor, fraction=0.4, num_steps=300, seed=0)
    assert mixed.labels is not None
    switch = int(np.argmax(mixed.labels == "poor"))
    assert set(mixed.labels[:switch]) == {"good"}
    assert set(mixed.labels[switch:]) == {"poor"}
    assert set(mixed.returns[:switch]) <= set(good.returns)
    counts = mixed.metadata["mix"]["good"]
    assert counts["distinct_episodes"] == counts["episodes"] == switch


def test_same_seed_same_mix() -> None:
    good, poor = sources()
    one, two, other = (uw.mix(good, poor, fraction=0.3, num_steps=200, seed=seed) for seed in (7, 7, 8))
    assert_same(one, two)
    assert one.returns.tolist() != other.returns.tolist()


def test_too_short_a_source_is_an_error_unless_repeats_are_allowed() -> None:
    good, poor = sources()
    with pytest.raises(uw.DatasetError, match="expected at least 5000 steps.*replace=True"):
        uw.mix(good, poor, fraction=0.5, num_steps=10_000, seed=0)
    mixed = uw.mix(good, poor, fraction=0.5, num_steps=10_000, seed=0, replace=True)
    counts = mixed.metadata["mix"]["good"]
    assert counts["distinct_episodes"] <= good.num_episodes < counts["episodes"]


def test_incomplete_episodes_are_never_drawn() -> None:
    good = random_dataset(1, num_episodes=5, fragment=True)
    mixed = uw.mix(good, sources()[1], fraction=1.0, num_steps=int(good.lengths[:-1].sum()), seed=0)
    assert mixed.complete.all()
    assert mixed.num_episodes == 4


def test_labels_of_sources_are_kept_and_can_be_given() -> None:
    good, poor = sources()
    kept = uw.mix(good.with_labels("expert"), poor, fraction=0.5, num_steps=50, seed=0)
    given_ = uw.mix(good, poor, fraction=0.5, num_steps=50, seed=0, labels=("e", "r"))
    assert kept.labels is not None and given_.labels is not None
    assert set(kept.labels) == {"expert", "poor"}
    assert set(given_.labels) == {"e", "r"}


@pytest.mark.parametrize(("fraction", "steps"), [(-0.1, 10), (1.1, 10), (0.5, 0)])
def test_bad_settings(fraction: float, steps: int) -> None:
    with pytest.raises(uw.DatasetError, match="fraction|num_steps"):
        uw.mix(*sources(), fraction=fraction, num_steps=steps, seed=0)


def test_categories_must_be_the_same_and_are_kept() -> None:
    def log(*drugs: str, **categories: list[str]) -> uw.Dataset:
        columns = {"obs": [0.0, 1.0], "action": list(drugs), "reward": [1, 2], "episode": [0, 0], "terminated": [0, 1]}
        return uw.Dataset.from_frame(columns, observations=["obs"], categories=categories or ["action"])

    joined = uw.concat([log("high", "low"), log("low", "high")])
    assert joined.actions.tolist() == [0, 1, 1, 0] and joined.metadata["categories"] == {"action": ["high", "low"]}
    with pytest.raises(uw.DatasetError, match="other categories: found .*'high', 'low'.* and .*'low', 'none'"):
        uw.concat([log("high", "low"), log("low", "none")])
    every = ["none", "low", "high"]
    assert uw.concat([log("high", "low", action=every), log("low", "none", action=every)]).num_actions == 3


def test_metadata_that_all_parts_agree_on_are_kept() -> None:
    good, poor = sources()
    facts = {"made_by": "test", "env_id": "Hopper-v5", "units": {"dose": "mg"}}
    made_of = {"mix": {"seed": 3}, "recipe": {"name": "x"}, "content_sha256": "0", "minari": {"dataset_id": "x/y-v0"}}
    parts = [each.with_metadata(**facts, **made_of) for each in (good, poor)]
    assert dict(uw.concat(parts).metadata) == facts
    assert dict(uw.concat(parts[:1]).metadata) == {**facts, "seed": 1}
    for fraction in (0.5, 1.0):
        mixed = uw.mix(*parts, fraction=fraction, num_steps=50, seed=0).metadata
        assert facts.items() <= mixed.items() and mixed["mix"]["seed"] == 0
        assert not {"recipe", "content_sha256", "minari"} & mixed.keys()


@pytest.mark.parametrize("other", [{}, {"env_id": "Ant-v5"}, {"env_id": None}])
def test_metadata_that_a_part_denies_or_does_not_say_are_dropped(other: dict[str, str]) -> None:
    good, poor = sources()
    for pair in ([{"env_id": "Hopper-v5"}, other], [other, {"env_id": "Hopper-v5"}]):
        parts = [each.with_metadata(**entries) for each, entries in zip((good, poor), pair, strict=True)]
        assert "env_id" not in uw.concat(parts).metadata


def test_the_number_of_actions_that_any_part_knows_is_kept() -> None:
    known, unknown = (random_dataset(seed, discrete=True, num_actions=4) for seed in range(2))
    unknown = unknown.with_num_actions(None)
    assert uw.concat([known, unknown]).num_actions == uw.concat([unknown, known]).num_actions == 4


@pytest.mark.parametrize(
    "kinds", [("uint64", "int64"), ("int8", "uint64"), ("bool", "uint8"), ("int32", "uint32", "uint64")]
)
def test_whole_numbers_stay_whole_when_they_are_joined(kinds: tuple[str, ...]) -> None:
    """NumPy makes float64 of uint64 and int64, and codes would become amounts."""
    plain = random_dataset(4, discrete=True)
    codes = plain.actions % 2
    joined = uw.concat([with_arrays(plain, actions=codes.astype(kind)) for kind in kinds])
    assert joined.discrete_actions
    some = np.array([0, joined.num_steps - 1])
    np.testing.assert_array_equal(joined.columns["actions"].rows(some), [codes[0], codes[-1]])
    np.testing.assert_array_equal(joined.actions, np.tile(codes, len(kinds)))


def test_whole_numbers_that_do_not_fit_are_refused() -> None:
    plain = random_dataset(4, discrete=True)
    large = with_arrays(plain, actions=np.full(plain.num_steps, 2**63, np.uint64))
    joined = uw.concat([large, plain])
    for look in (lambda: joined.actions, lambda: joined.columns["actions"].rows(np.array([0]))):
        with pytest.raises(uw.DatasetError, match="9223372036854775808"):
            look()
