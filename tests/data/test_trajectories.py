"""Lists of trajectories as people have them."""

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import upweight as uw
from support.datasets import assert_same, random_dataset


def of_episodes(ds: uw.Dataset, **names: str) -> list[dict[str, Any]]:
    """The episodes of a dataset as dictionaries, each array under the name given for it."""
    spans = [slice(start, start + length) for start, length in zip(ds.starts, ds.lengths, strict=True)]
    return [{name: getattr(ds, array)[span] for array, name in names.items()} for span in spans]


USUAL = {
    "decision transformer": {
        "observations": "observations",
        "next_observations": "next_observations",
        "actions": "actions",
        "rewards": "rewards",
        "terminated": "terminals",
    },
    "gym": {
        "observations": "obs",
        "next_observations": "next_obs",
        "actions": "action",
        "rewards": "reward",
        "terminated": "terminated",
        "truncated": "truncated",
    },
    "states": {
        "observations": "states",
        "next_observations": "next_states",
        "actions": "acts",
        "rewards": "rews",
        "terminated": "dones",
        "truncated": "timeouts",
    },
}


@pytest.mark.parametrize("names", USUAL.values(), ids=list(USUAL))
def test_the_usual_names(names: dict[str, str]) -> None:
    ds = random_dataset(next_known=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        back = uw.Dataset.from_episodes(of_episodes(ds, **names))
    assert_same(back, ds, metadata=False)


def test_done_means_terminated_unless_it_is_said_to_be_truncated() -> None:
    episode = {"obs": np.zeros((2, 1)), "acts": np.zeros(2), "rews": [0, 1]}
    only, both, cut = (
        uw.Dataset.from_episodes([{**episode, **flags}])
        for flags in ({"dones": [0, 1]}, {"dones": [0, 1], "timeouts": [0, 1]}, {"dones": [0, 0], "timeouts": [0, 0]})
    )
    assert [ds.episodes.terminated.tolist() for ds in (only, both, cut)] == [[True], [False], [False]]
    assert [ds.episodes.truncated.tolist() for ds in (only, both, cut)] == [[False], [True], [False]]
    assert cut.complete.tolist() == [False]


def test_what_objects_hold_is_read_under_its_names() -> None:
    trajectory = SimpleNamespace(
        obs=np.eye(3), acts=np.array([1, 0]), rews=np.array([0.0, 2.0]), infos=None, terminal=False
    )
    with pytest.raises(uw.DatasetError, match=r"episode 0: expected a mapping .* found SimpleNamespace; vars\(\)"):
        uw.Dataset.from_episodes([trajectory])
    ds = uw.Dataset.from_episodes([vars(trajectory)])
    assert ds.returns.tolist() == [2.0] and ds.num_transitions.tolist() == [2]
    assert ds.episodes.truncated.tolist() == [True]
    np.testing.assert_array_equal(ds.next_observations, np.eye(3)[1:])


def test_without_flags_the_last_step_ends_the_episode_and_a_warning_says_how() -> None:
    episode = {"observations": np.zeros((2, 1)), "actions": np.zeros(2), "rewards": [0, 1]}
    with pytest.warns(uw.UpweightWarning, match=r"how 2 episodes ended .* ends='truncated'"):
        ds = uw.Dataset.from_episodes([episode, episode])
    assert ds.episodes.terminated.tolist() == [True, True]
    with pytest.warns(uw.UpweightWarning, match="how 1 episodes ended"):
        ds = uw.Dataset.from_episodes([{**episode, "truncated": False}, {**episode, "truncated": True}])
    assert ds.episodes.truncated.tolist() == [False, True]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds = uw.Dataset.from_episodes([{**episode, "truncated": True}, {**episode, "terminated": True}])
        assert ds.episodes.truncated.tolist() == [True, False]
        assert uw.Dataset.from_episodes([episode], ends="truncated").episodes.truncated.tolist() == [True]
        assert uw.Dataset.from_episodes([episode], ends="terminated").episodes.terminated.tolist() == [True]
    with pytest.raises(uw.DatasetError, match="ends: expected 'terminated' or 'truncated', found 'cut'"):
        uw.Dataset.from_episodes([episode], ends="cut")


def test_without_rewards() -> None:
    episode = {"observations": np.zeros((3, 1)), "actions": np.zeros(3), "terminated": True}
    assert not uw.Dataset.from_episodes([episode, episode]).has_rewards
    with pytest.raises(uw.DatasetError, match="expected 'rewards' in every episode or in none"):
        uw.Dataset.from_episodes([episode, {**episode, "rewards": [1, 2, 3]}])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"obs": None}, r"episode 0: missing key 'observations' \(or obs, states, .*\); it has acts, rews, terminal"),
        ({"acts": None}, r"episode 0: missing key 'actions' \(or acts, action\); it has obs"),
        ({"obs": np.zeros((5, 1))}, "episode 0: key 'obs': expected 2 rows"),
        ({"next_obs": np.zeros((3, 1))}, "episode 0: key 'next_obs': expected 2 rows"),
        ({"obs": {"image": np.zeros(2)}}, "episode 0: key 'obs': expected numbers"),
        ({"obs": [[1.0], [1.0, 2.0]]}, "episode 0: key 'obs': expected a rectangular array"),
        ({"rews": []}, "episode 0: key 'rews': expected at least one step"),
        ({"rews": np.zeros((2, 2))}, "episode 0: key 'rews': expected one number per step"),
        ({"terminal": [1, 0]}, "episode 0: key 'terminal': step 0 of 2 is flagged, but is not the last"),
    ],
)
def test_bad_episodes(change: dict[str, Any], message: str) -> None:
    episode = {"obs": np.zeros((2, 1)), "acts": np.zeros(2), "rews": [0, 1], "terminal": True}
    kept = {key: value for key, value in {**episode, **change}.items() if value is not None}
    with pytest.raises(uw.DatasetError, match=message):
        uw.Dataset.from_episodes([kept])
