import re
from dataclasses import replace

import pytest

import upweight as uw
from support.datasets import random_dataset, with_arrays
from support.policies import random_policy
from upweight.lab.select.fit import check_fit


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (random_policy("deterministic", observation=5), "numbers in an observation: dataset has 3, the policy 5"),
        (random_policy("tanh_gaussian", action=3), "number of actions: dataset has 2, the policy 3"),
        (random_policy("greedy"), "kind of actions: dataset has continuous, the policy discrete"),
        (random_policy("deterministic", bound=0.1), "bounded by [-0.1, 0.1], but 9"),
        (random_policy("deterministic", bound=50.0), "bounded by [-50, 50], 50 times the range in dataset, [-1, 1]"),
    ],
)
def test_policies_of_other_data_are_refused(policy: uw.Policy, message: str) -> None:
    with pytest.raises(uw.DatasetError, match=f"mine: .*{re.escape(message)}"):
        check_fit(random_dataset(0, num_episodes=30), [policy], ["mine"])


def test_policies_that_may_be_of_the_data_are_not_refused() -> None:
    fine = [random_policy("gaussian"), random_policy("tanh_gaussian"), random_policy("deterministic", bound=0.9)]
    check_fit(random_dataset(0), fine)
    unsaid = random_dataset(0, discrete=True)  # shows four actions
    check_fit(unsaid, [random_policy("greedy", action=4), random_policy("categorical", action=6)])
    with pytest.raises(uw.DatasetError, match="number of actions: dataset has 4, the policy 3"):
        check_fit(unsaid, [random_policy("greedy", action=3)])
    with pytest.raises(uw.DatasetError, match="number of actions: dataset has 5, the policy 4"):
        check_fit(unsaid.with_num_actions(5), [random_policy("greedy", action=4)])


def test_categories_must_be_the_policys() -> None:
    """Action 0 is another drug if the list is another."""
    learned = replace(random_policy("greedy", action=4), metadata={"categories": {"drug": ["a", "b", "c", "d"]}})
    log = random_dataset(0, discrete=True)
    for same in (["a", "b", "c", "d"], None):
        check_fit(with_arrays(log, metadata={} if same is None else {"categories": {"drug": same}}), [learned])
    other = with_arrays(log, metadata={"categories": {"drug": ["b", "a", "c", "d"]}})
    with pytest.raises(uw.DatasetError, match="dataset has the categories b, a, c, d, the policy learned with a, b"):
        check_fit(other, [learned])


def test_whole_numbers_are_floats_where_cells_are_empty() -> None:
    learned = replace(random_policy("greedy", action=4), metadata={"categories": {"ward": [1, 2]}})
    check_fit(with_arrays(random_dataset(0, discrete=True), metadata={"categories": {"ward": [1.0, 2.0]}}), [learned])
