import copy
import dataclasses
import json
import pickle  # what worker processes are sent with
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given, settings

import upweight as uw
from support.datasets import assert_same, datasets, random_dataset, tiny


class TestFromArrays:
    def test_hand_computed_values(self) -> None:
        ds = tiny()
        assert (ds.num_episodes, ds.num_steps) == (3, 8)
        assert ds.lengths.tolist() == [3, 2, 3]
        assert ds.starts.tolist() == [0, 3, 5]
        assert ds.returns.tolist() == [6.0, 9.0, -3.0]
        assert ds.num_transitions.tolist() == [3, 1, 3]  # the truncated episode loses its last step
        assert ds.initial_observations.tolist() == [[0, 1], [6, 7], [10, 11]]

    def test_returns_are_summed_in_float64(self) -> None:
        rewards = np.full(100_000, 0.1, np.float32)
        terminated = np.zeros(100_000, bool)
        terminated[-1] = True
        ds = uw.Dataset.from_arrays(
            observations=np.zeros((100_000, 1)), actions=np.zeros(100_000), rewards=rewards, terminated=terminated
        )
        assert ds.returns[0] == pytest.approx(np.float64(np.float32(0.1)) * 100_000, rel=1e-12)

    def test_odd_but_common_shapes(self) -> None:
        ds = uw.Dataset.from_arrays(
            observations=np.zeros((4, 2)),
            actions=np.zeros(4, np.int64),
            rewards=np.ones((4, 1)),
            terminated=np.array([[0.0], [0.0], [0.0], [1.0]]),
        )
        assert ds.returns.tolist() == [4.0]
        assert ds.discrete_actions

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"rewards": np.zeros(7)}, "key 'rewards': expected 8 rows"),
            ({"rewards": np.full(8, np.nan)}, "key 'rewards': expected finite numbers, found NaN or infinity in row 0"),
            ({"rewards": np.array([0, 0, 0, np.inf, 0, 0, 0, 0])}, "row 3"),
            ({"rewards": ["a"] * 8}, "key 'rewards': expected numbers"),
            ({"observations": np.zeros((7, 2))}, "key 'observations': expected 8 rows"),
            ({"observations": np.zeros((8, 0))}, "at least one number per step"),
            ({"observations": np.array(3.0)}, "key 'observations'"),
            ({"observations": [[1], [1, 2]]}, "rectangular"),
            ({"actions": np.zeros((9, 1))}, "key 'actions': expected 8 rows"),
            ({"actions": np.zeros((8, 1), complex)}, "key 'actions': expected numbers"),
            ({"terminated": np.full(8, 0.5)}, "key 'terminated': expected only 0 and 1"),
            ({"terminated": np.zeros((2, 4))}, "key 'terminated': expected one number per step"),
            ({"terminated": np.zeros(8, bool), "truncated": None}, "expected at least one episode end"),
            ({"next_observations": np.zeros((8, 3))}, "key 'next_observations': expected the shape"),
            ({"labels": ["a"]}, "expected 3 labels"),
            ({"complete": [True]}, "key 'complete'"),
        ],
    )
    def test_bad_input_names_the_key(self, change: dict[str, Any], message: str) -> None:
        good: dict[str, Any] = {
            "observations": np.zeros((8, 2)),
            "actions": np.zeros((8, 1)),
            "rewards": np.zeros(8),
            "terminated": np.array([0, 0, 1, 0, 0, 0, 0, 1], bool),
            "truncated": np.array([0, 0, 0, 0, 1, 0, 0, 0], bool),
        }
        with pytest.raises(uw.DatasetError, match=message):
            uw.Dataset.from_arrays(**{**good, **change})

    def test_bad_observations_are_found_where_they_are_used(self) -> None:
        def build(row: int) -> uw.Dataset:
            observations = np.zeros((4, 2))
            observations[row, 1] = np.nan
            return uw.Dataset.from_arrays(
                observations=observations, actions=np.zeros(4), rewards=np.zeros(4), terminated=[0, 1, 0, 1]
            )

        inside = build(1)
        assert inside.initial_observations.shape == (2, 2)  # not the bad row
        with pytest.raises(uw.DatasetError, match="key 'observations'.*row 1"):
            inside.observations  # noqa: B018
        with pytest.raises(uw.DatasetError, match="key 'observations'"):
            inside.next_observations  # noqa: B018
        with pytest.raises(uw.DatasetError, match="key 'observations'"):
            build(1).check()
        with pytest.raises(uw.DatasetError, match="first observation of each episode"):
            build(2).initial_observations  # noqa: B018

    def test_cut_episodes_are_kept_and_marked(self) -> None:
        ds = uw.Dataset.from_arrays(
            observations=np.zeros((4, 1)),
            actions=np.zeros(4),
            rewards=np.ones(4),
            terminated=[0, 0, 0, 0],
            truncated=[0, 1, 0, 1],
            complete=[True, False],
        )
        assert ds.complete.tolist() == [True, False]
        assert ds.num_episodes == 2

    def test_an_overflowing_return_is_an_error(self) -> None:
        ds = uw.Dataset.from_arrays(
            observations=np.zeros((2, 1)), actions=np.zeros(2), rewards=np.full(2, 1e308), terminated=[0, 1]
        )
        with pytest.raises(uw.DatasetError, match="overflows"):
            ds.returns  # noqa: B018


class TestFromEpisodes:
    def test_final_observations_make_truncated_ends_trainable(self) -> None:
        ds = uw.Dataset.from_episodes(
            [
                {
                    "observations": [[0.0], [1.0], [2.0]],
                    "actions": [[0.0]] * 2,
                    "rewards": [1, 1],
                    "terminated": False,
                    "truncated": True,
                    "label": "a",
                },
                {
                    "observations": [[5.0]],
                    "actions": [[0.0]],
                    "rewards": [3],
                    "terminated": False,
                    "truncated": True,
                    "label": "b",
                },
            ]
        )
        assert ds.num_transitions.tolist() == [2, 0]
        assert ds.next_observations.tolist() == [[1.0], [2.0], [5.0]]
        assert ds.labels is not None
        assert ds.labels.tolist() == ["a", "b"]

    def test_flags_may_be_arrays(self) -> None:
        episode = {"observations": np.zeros((2, 1)), "actions": np.zeros(2), "rewards": [0, 1]}
        ds = uw.Dataset.from_episodes([{**episode, "terminated": [False, True], "truncated": [False, False]}])
        assert ds.terminated.tolist() == [False, True]
        with pytest.raises(uw.DatasetError, match="step 0 of 2 is flagged"):
            uw.Dataset.from_episodes([{**episode, "terminated": [True, False], "truncated": [False, False]}])

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"rewards": []}, "expected at least one step"),
            ({"observations": np.zeros((5, 1))}, "episode 0: key 'observations': expected 2 rows"),
            ({"actions": np.zeros(3)}, "episode 0: key 'actions'"),
        ],
    )
    def test_bad_episodes(self, change: dict[str, Any], message: str) -> None:
        episode = {"observations": np.zeros((2, 1)), "actions": np.zeros(2), "rewards": [0, 1], "terminated": True}
        with pytest.raises(uw.DatasetError, match=message):
            uw.Dataset.from_episodes([{**episode, **change}])
        del episode["actions"]
        with pytest.raises(uw.DatasetError, match="missing key 'actions'"):
            uw.Dataset.from_episodes([episode])

    def test_no_episode_or_unequal_shapes(self) -> None:
        with pytest.raises(uw.DatasetError, match="at least one episode"):
            uw.Dataset.from_episodes([])
        one = {"observations": np.zeros((1, 1)), "actions": [0], "rewards": [0], "terminated": True}
        with pytest.raises(uw.DatasetError, match="one shape in all episodes"):
            uw.Dataset.from_episodes([one, {**one, "observations": np.zeros((1, 2))}])


class TestTransitions:
    @given(datasets())
    def test_never_cross_an_episode(self, ds: uw.Dataset) -> None:
        trainable = np.concatenate([np.arange(s, s + t) for s, t in zip(ds.starts, ds.num_transitions, strict=True)])
        if len(trainable) == 0:
            return
        batch = ds.transitions(trainable)
        episode_of = np.repeat(np.arange(ds.num_episodes), ds.lengths)
        np.testing.assert_array_equal(batch.next_observations, ds.next_observations[trainable])
        np.testing.assert_array_equal(batch.terminated, ds.terminated[trainable])
        if "next_observations" not in ds.columns:
            for place, step in enumerate(trainable):
                if not batch.terminated[place]:
                    assert episode_of[step + 1] == episode_of[step]
                    np.testing.assert_array_equal(batch.next_observations[place], ds.observations[step + 1])

    @pytest.mark.parametrize("index", [4, -1, 8])
    def test_refuses_steps_without_a_known_transition(self, index: int) -> None:
        with pytest.raises(IndexError):
            tiny().transitions(np.array([0, index]))

    def test_the_explicit_next_observation_is_used_at_a_truncated_end(self) -> None:
        ds = random_dataset(3, next_known=True)
        end = int(ds.episodes.last_steps[ds.episodes.truncated][0])
        np.testing.assert_array_equal(ds.transitions(np.array([end])).next_observations[0], ds.next_observations[end])


def arrays_of(ds: uw.Dataset) -> dict[str, np.ndarray]:
    """Every array that a user can get hold of."""
    public = {name: getattr(ds, name) for name in dir(ds) if not name.startswith("_")}
    episodes = {f"episodes.{name}": getattr(ds.episodes, name) for name in dir(ds.episodes) if not name.startswith("_")}
    columns = {f"columns.{name}": column.read() for name, column in ds.columns.items()}
    return {name: each for name, each in (public | episodes | columns).items() if isinstance(each, np.ndarray)}


def through_files(ds: uw.Dataset) -> list[uw.Dataset]:
    with TemporaryDirectory() as folder:
        uw.save(ds, Path(folder) / "log.npz")
        found = [uw.load(Path(folder) / "log.npz"), uw.pack(ds, Path(folder) / "log.packed")]
        return [each.check() for each in found if arrays_of(each)]


MADE_FROM: dict[str, Callable[[uw.Dataset], list[uw.Dataset]]] = {
    "itself": lambda ds: [ds],
    "subset": lambda ds: [ds.subset([1, 0, 1]), *ds.split(0.5, seed=0)],
    "declared": lambda ds: [ds.mark_incomplete([0]), ds.with_labels("a"), ds.with_metadata(note="x")],
    "rewarded": lambda ds: [ds.with_score(ds.returns), ds.with_success(ds.complete)],
    "concat": lambda ds: [uw.concat([ds]), uw.concat([ds, ds])],
    "mix": lambda ds: [uw.mix(ds, ds, fraction=0.5, num_steps=2, seed=0)],
    "resample": lambda ds: [uw.resample(ds, "uniform")] if ds.num_transitions.any() else [],
    "pickle": lambda ds: [pickle.loads(pickle.dumps(ds)), pickle.loads(pickle.dumps(ds.check()))],
    "copy": lambda ds: [copy.copy(ds), copy.deepcopy(ds.check())],
    "files": through_files,
}


class TestFrozen:
    @pytest.mark.parametrize("make", MADE_FROM.values(), ids=MADE_FROM)
    @given(ds=datasets())
    @settings(max_examples=15)
    def test_every_array_is_read_only(self, make: Callable[[uw.Dataset], list[uw.Dataset]], ds: uw.Dataset) -> None:
        for made in make(ds):
            arrays = arrays_of(made)
            assert len(arrays) >= 20
            assert not [name for name, array in arrays.items() if array.flags.writeable]

    def test_no_array_is_a_view_of_the_users(self) -> None:
        steps = np.arange(8.0)
        flat = {
            "observations": np.stack([steps, steps], axis=1),
            "actions": steps[:, None] / 8,
            "rewards": steps + 1,
            "next_observations": np.stack([steps, steps], axis=1) + 1,
        }
        ends = {"terminated": steps % 4 == 3, "truncated": np.zeros(8, bool)}
        per_episode = {"labels": np.array(["a", "b"]), "complete": np.ones(2, bool), "final_known": np.ones(2, bool)}
        frame = {
            "episode": steps // 4,
            "observation": steps,
            "action": flat["actions"][:, 0],
            "reward": steps + 1,
            **ends,
        }
        episodes = [
            {**{name: each[low : low + 4] for name, each in flat.items()}, "terminated": True} for low in (0, 4)
        ]
        score, labels, success = np.array([1.0, 2.0]), np.array(["a", "b"]), np.array([True, False])
        made = [
            uw.Dataset.from_arrays(**flat, **ends, **per_episode),
            uw.Dataset.from_episodes(episodes),
            uw.Dataset.from_episodes(episodes[:1]),
            uw.Dataset.from_frame(frame),
            uw.Dataset.from_frame(pandas.DataFrame(frame)),
            tiny().subset([0, 1]).with_score(score).with_labels(labels),
            tiny().subset([0, 1]).with_success(success),
        ]
        given_ = [*flat.values(), *ends.values(), *per_episode.values(), *frame.values(), score, labels, success]
        before = [{name: array.copy() for name, array in arrays_of(ds).items()} for ds in made[:3]]
        for ds in made:
            for name, array in arrays_of(ds).items():
                assert not any(np.shares_memory(array, each) for each in given_), name
        for array in given_[:7]:
            array[...] = 0
        for ds, kept in zip(made, before, strict=False):
            for name, array in arrays_of(ds).items():
                np.testing.assert_array_equal(array, kept[name], err_msg=name)

    def test_fields_refuse_assignment(self) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            tiny().labels = None  # type: ignore[misc]

    def test_the_users_array_stays_writable(self) -> None:
        rewards = np.zeros(2)
        uw.Dataset.from_arrays(observations=np.zeros((2, 1)), actions=np.zeros(2), rewards=rewards, terminated=[0, 1])
        rewards[0] = 1.0


class TestMetadata:
    def test_is_read_only_and_checked(self) -> None:
        ds = tiny().with_metadata(note="x")
        assert ds.metadata["note"] == "x"
        with pytest.raises(TypeError):
            ds.metadata["note"] = "y"  # type: ignore[index]
        with pytest.raises(uw.DatasetError, match="written as JSON"):
            ds.with_metadata(bad=object())

    def test_is_a_copy_that_every_reader_of_json_can_read(self) -> None:
        given: dict[str, Any] = {"scale": [1.5, float("nan"), float("-inf")], "nested": {"best": float("inf")}}
        ds = tiny().with_metadata(**given)
        given["scale"][0] = 7.0
        assert dict(ds.metadata) == {"scale": [1.5, None, None], "nested": {"best": None}}
        assert json.loads(json.dumps(uw.inspect(ds).to_dict(), allow_nan=False))["metadata"] == dict(ds.metadata)


@given(datasets())
def test_travels_to_worker_processes(ds: uw.Dataset) -> None:
    assert_same(copy.deepcopy(ds), ds)
    assert_same(pickle.loads(pickle.dumps(ds)), ds)


class TestParts:
    @given(datasets())
    def test_split_is_a_partition(self, ds: uw.Dataset) -> None:
        first, second = ds.split(0.7, seed=1)
        assert first.num_episodes + second.num_episodes == ds.num_episodes
        returns = np.concatenate([first.returns, second.returns])
        np.testing.assert_array_equal(np.sort(returns), np.sort(ds.returns))
        again, _ = ds.split(0.7, seed=1)
        assert_same(first, again)

    @given(datasets())
    def test_subset_of_all_and_concat_of_parts_give_the_same_dataset(self, ds: uw.Dataset) -> None:
        assert_same(ds, ds.subset(np.arange(ds.num_episodes)))
        cut = ds.num_episodes // 2
        parts = [ds.subset(np.arange(cut)), ds.subset(np.arange(cut, ds.num_episodes))]
        assert_same(ds, uw.concat(parts), metadata=False)

    def test_subset_by_mask_order_and_repetition(self) -> None:
        ds = tiny()
        assert ds.subset([2, 0, 2]).returns.tolist() == [-3.0, 6.0, -3.0]
        assert ds.subset(np.array([True, False, True])).returns.tolist() == [6.0, -3.0]
        assert ds.subset([-1]).returns.tolist() == [-3.0]

    @pytest.mark.parametrize("episodes", [[], [3], [0.5], [[0]], [True]])
    def test_bad_subsets(self, episodes: Any) -> None:
        with pytest.raises(uw.DatasetError):
            tiny().subset(episodes)

    def test_bad_splits(self) -> None:
        for fraction in (0, 1, 1.5):
            with pytest.raises(uw.DatasetError, match="fraction"):
                tiny().split(fraction, seed=0)

    def test_concat_of_known_and_unknown_ends(self) -> None:
        known, unknown = random_dataset(0, next_known=True), random_dataset(1)
        both = uw.concat([known, unknown])
        np.testing.assert_array_equal(
            both.num_transitions, np.concatenate([known.num_transitions, unknown.num_transitions])
        )
        np.testing.assert_array_equal(
            both.next_observations, np.concatenate([known.next_observations, unknown.next_observations])
        )

    def test_concat_refuses_what_does_not_fit(self) -> None:
        with pytest.raises(uw.DatasetError, match="discrete_actions|action_shape"):
            uw.concat([random_dataset(), random_dataset(discrete=True)])
        with pytest.raises(uw.DatasetError, match="at least one"):
            uw.concat([])

    def test_images_are_carried_through_unharmed(self) -> None:
        ds = random_dataset(observation_shape=(8, 8, 3), observation_dtype=np.uint8)
        part = uw.concat([ds.subset([1]), ds.subset([0])])
        assert part.observations.dtype == np.uint8
        first = slice(ds.starts[1], ds.starts[1] + ds.lengths[1])
        np.testing.assert_array_equal(part.observations[: ds.lengths[1]], ds.observations[first])


class TestNumberOfActions:
    def test_it_is_kept_and_checked(self) -> None:
        ds = random_dataset(discrete=True, num_actions=6)
        assert ds.num_actions == 6 and ds.actions.max() == 3 and ds.unseen_actions == 2
        half, other = ds.split(0.5, seed=0)
        unknown = random_dataset(1, discrete=True)
        assert unknown.num_actions is None and unknown.unseen_actions == 0
        assert uw.concat([half, other]).num_actions == uw.concat([half, unknown]).num_actions == 6
        mixed = uw.mix(ds, unknown, fraction=0.5, num_steps=20, seed=0)
        assert mixed.num_actions == ds.with_labels("a").mark_incomplete([0]).num_actions == 6
        assert unknown.with_num_actions(5).num_actions == 5
        with pytest.raises(uw.DatasetError, match=r"different num_actions: found \[5, 6\]"):
            uw.concat([ds, unknown.with_num_actions(5)])
        with pytest.raises(uw.DatasetError, match="below 3 .num_actions., found 3"):
            unknown.with_num_actions(3).actions  # noqa: B018

    def test_every_constructor_takes_it(self) -> None:
        episode = {"observations": [[0.0], [1.0]], "actions": [0, 1], "rewards": [1, 1], "terminated": True}
        assert uw.Dataset.from_episodes([episode], num_actions=4).num_actions == 4
        frame = {"observation": [0.0, 1.0], "action": [0, 1], "reward": [1, 1], "episode": [0, 0], "terminated": [0, 1]}
        assert uw.Dataset.from_frame(frame, num_actions=4).num_actions == 4

    @pytest.mark.parametrize("number", [0, -1, 2.5, True, "4"])
    def test_nonsense_is_refused(self, number: Any) -> None:
        with pytest.raises(uw.DatasetError, match="num_actions: expected a whole number"):
            random_dataset(discrete=True, num_actions=number)

    def test_continuous_actions_have_no_number(self) -> None:
        with pytest.raises(uw.DatasetError, match="one whole number per step"):
            random_dataset(num_actions=4)


def test_without_rewards_only_what_needs_them_fails() -> None:
    ds = uw.Dataset.from_arrays(observations=np.zeros((2, 1)), actions=np.zeros(2), rewards=None, terminated=[0, 1])
    assert uw.Uniform()(ds).tolist() == [1.0]
    for use in (lambda: ds.returns, lambda: uw.ReturnWeighting()(ds), lambda: uw.suggest(ds)):
        with pytest.raises(uw.DatasetError, match="no rewards"):
            use()


def test_repr_says_what_it_is() -> None:
    assert repr(tiny()) == (
        "Dataset(episodes=3, steps=8, observations=(2,), actions='continuous (1,)', source='dataset')"
    )
