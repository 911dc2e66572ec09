"""How runs are packed."""

import upweight as uw
from support.training import dataset_for, small_config
from upweight.engine.run import program_key


def test_runs_with_one_key_share_a_program() -> None:
    one = uw.Run(small_config("bc"), "rw", 0)
    alike = [uw.Run(small_config("bc", learning_rate=0.5), "aw", 7), uw.Run(small_config("bc"), episodes=[0, 1])]
    others = [
        uw.Run(small_config("bc", batch_size=4)),
        uw.Run(small_config("td3_bc")),
        uw.Run(small_config("bc"), reweight=True),
        uw.Run(small_config("bc"), actor_weighting="rw"),
    ]
    assert {program_key(run) for run in alike} == {program_key(one)}
    assert len({program_key(run) for run in [one, *others]}) == 5
    plan = uw.plan_training(dataset_for("bc"), [one, *others, *alike])
    assert [part.runs for part in plan.programs] == [(0, 5, 6), (1,), (2,), (3,), (4,)]
