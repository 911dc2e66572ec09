import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

import upweight as uw
from upweight.lab.train.point_list import as_every


def test_settings_take_numbers_of_numpy() -> None:
    changes = {
        "batch_size": np.int64(8),
        "hidden_units": [np.int64(8)],
        "expectile": np.float32(0.5),
        "clip_actions": np.float64(0.5),
        "scale_rewards_by_return": np.False_,
    }
    config = uw.algorithm_config("iql", **changes)
    found = {
        "run": uw.Run(config, "rw", np.int64(3), reweight=np.True_).to_dict(),
        "rule": asdict(uw.SelectionRule(margin=np.float32(0.5), min_reached=np.int64(4))),
        "intervals": asdict(uw.Intervals(seed=np.int64(0), resamples=np.int64(100))),
    }
    assert json.loads(json.dumps(found)) == found
    assert type(config).from_dict(found["run"]["config"]) == config


@pytest.mark.parametrize(("given", "kept"), [(np.int64(5), 5), (np.arange(1, 4), (1, 2, 3)), ([np.uint8(2)], (2,))])
def test_points_take_numbers_of_numpy(given: Any, kept: Any) -> None:
    found = as_every(given)
    assert found == kept and json.dumps(found) == json.dumps(kept)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: uw.algorithm_config("bc", normalize_observations="false"),
            "normalize_observations: expected True or False",
        ),
        (
            lambda: uw.algorithm_config("iql", scale_rewards_by_return=1),
            "scale_rewards_by_return: expected True or False",
        ),
        (lambda: uw.algorithm_config("cql", sample_next_action="no"), "sample_next_action: expected True or False"),
        (lambda: uw.algorithm_config("cql", imitation_updates=-1), "imitation_updates: expected a whole number"),
        (lambda: uw.algorithm_config("iql", clip_actions=float("nan")), "clip_actions: expected a finite number"),
        (lambda: uw.Run("bc", reweight="false"), "reweight: expected True or False"),
    ],
)
def test_settings_have_the_type_they_were_declared_with(make: Any, message: str) -> None:
    with pytest.raises(uw.ConfigError, match=message):
        make()
