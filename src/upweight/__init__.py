"""upweight: get the best policy out of a mixed offline RL dataset.

The public names. Each is imported from its layer when first used, so ``import upweight`` costs next to nothing and
needs NumPy only.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "upweight.adapters.batches": ["Batches", "batches"],
    "upweight.behaviours.datasets": ["load", "make_dataset"],
    "upweight.behaviours.recipes": ["recipe_names"],
    "upweight.data.baseline": ["LinearBaseline"],
    "upweight.data.combine": ["concat"],
    "upweight.data.dataset": ["Dataset", "Transitions"],
    "upweight.data.mixing": ["mix"],
    "upweight.data.reference_scores": ["ReferenceScores", "normalize_returns", "reference_scores"],
    "upweight.data.statistics": [
        "effective_episodes",
        "effective_steps",
        "hoeffding_probability",
        "hoeffding_radius",
        "mass_per_label",
        "positive_sided_variance",
        "step_weighted_return",
        "weighted_return",
    ],
    "upweight.engine.run": ["Run", "algorithm_config"],
    "upweight.engine.tracking": ["tensorboard_callback", "wandb_callback"],
    "upweight.engine.train": ["RunResult", "TrainingPaused", "plan_training", "train"],
    "upweight.errors": [
        "AdapterError",
        "DataLossWarning",
        "DatasetError",
        "MissingExtraError",
        "RolloutError",
        "UpweightError",
        "UpweightWarning",
        "WeightingError",
    ],
    "upweight.experiments.experiment_file": ["Experiment", "find_experiment", "read_experiment"],
    "upweight.experiments.store": ["Store", "open_store"],
    "upweight.experiments.sweep": ["SweepPlan", "SweepResult", "plan_sweep", "sweep"],
    "upweight.inspection.report": ["Inspection", "inspect"],
    "upweight.inspection.suggestion": ["Suggestion", "suggest"],
    "upweight.io.registry": ["save"],
    "upweight.policies.onnx_export": ["export_onnx"],
    "upweight.policies.policy": ["Policy", "load_policy"],
    "upweight.report.aggregate": ["iqm", "optimality_gap", "performance_profile", "probability_of_improvement"],
    "upweight.report.bootstrap": ["interval", "interval_of_pair"],
    "upweight.report.collect": ["collect"],
    "upweight.report.comparison": ["Intervals"],
    "upweight.report.page": ["write_report"],
    "upweight.report.replicate": ["Replication", "replicate"],
    "upweight.rollout.environments": ["make_environment", "register_environments"],
    "upweight.rollout.evaluate": ["Evaluation", "evaluate"],
    "upweight.samplers.episode": ["EpisodeSampler"],
    "upweight.samplers.step": ["StepSampler"],
    "upweight.weightings.advantage_weighting": ["AdvantageWeighting"],
    "upweight.weightings.half": ["Half"],
    "upweight.weightings.registry": ["make_weighting", "weighting_from_dict"],
    "upweight.weightings.return_weighting": ["ReturnWeighting"],
    "upweight.weightings.top_fraction": ["TopFraction"],
    "upweight.weightings.uniform": ["Uniform"],
    "upweight.weightings.weighting": ["Weighting", "resolve_weights"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AdapterError",
    "AdvantageWeighting",
    "Batches",
    "DataLossWarning",
    "Dataset",
    "DatasetError",
    "EpisodeSampler",
    "Evaluation",
    "Experiment",
    "Half",
    "Inspection",
    "Intervals",
    "LinearBaseline",
    "MissingExtraError",
    "Policy",
    "ReferenceScores",
    "Replication",
    "ReturnWeighting",
    "RolloutError",
    "Run",
    "RunResult",
    "StepSampler",
    "Store",
    "Suggestion",
    "SweepPlan",
    "SweepResult",
    "TopFraction",
    "TrainingPaused",
    "Transitions",
    "Uniform",
    "UpweightError",
    "UpweightWarning",
    "Weighting",
    "WeightingError",
    "algorithm_config",
    "batches",
    "collect",
    "concat",
    "effective_episodes",
    "effective_steps",
    "evaluate",
    "export_onnx",
    "find_experiment",
    "hoeffding_probability",
    "hoeffding_radius",
    "inspect",
    "interval",
    "interval_of_pair",
    "iqm",
    "load",
    "load_policy",
    "make_dataset",
    "make_environment",
    "make_weighting",
    "mass_per_label",
    "mix",
    "normalize_returns",
    "open_store",
    "optimality_gap",
    "performance_profile",
    "plan_sweep",
    "plan_training",
    "positive_sided_variance",
    "probability_of_improvement",
    "read_experiment",
    "recipe_names",
    "reference_scores",
    "register_environments",
    "replicate",
    "resolve_weights",
    "save",
    "step_weighted_return",
    "suggest",
    "sweep",
    "tensorboard_callback",
    "train",
    "wandb_callback",
    "weighted_return",
    "weighting_from_dict",
    "write_report",
]

if TYPE_CHECKING:  # for editors and type checkers; the run-time import is __getattr__ below
    from upweight.behaviours.datasets import load, make_dataset
    from upweight.behaviours.recipes import recipe_names
    from upweight.data.baseline import LinearBaseline
    from upweight.data.combine import concat
    from upweight.data.dataset import Dataset, Transitions
    from upweight.data.mixing import mix
    from upweight.data.reference_scores import ReferenceScores, normalize_returns, reference_scores
    from upweight.data.statistics import (
        effective_episodes,
        effective_steps,
        hoeffding_probability,
        hoeffding_radius,
        mass_per_label,
        positive_sided_variance,
        step_weighted_return,
        weighted_return,
    )
    from upweight.engine.run import Run, algorithm_config
    from upweight.engine.tracking import tensorboard_callback, wandb_callback
    from upweight.engine.train import RunResult, TrainingPaused, plan_training, train
    from upweight.errors import (
        AdapterError,
        DataLossWarning,
        DatasetError,
        MissingExtraError,
        RolloutError,
        UpweightError,
        UpweightWarning,
        WeightingError,
    )
    from upweight.experiments.experiment_file import Experiment, find_experiment, read_experiment
    from upweight.experiments.store import Store, open_store
    from upweight.experiments.sweep import SweepPlan, SweepResult, plan_sweep, sweep
    from upweight.inspection.report import Inspection, inspect
    from upweight.inspection.suggestion import Suggestion, suggest
    from upweight.io.registry import save
    from upweight.policies.onnx_export import export_onnx
    from upweight.policies.policy import Policy, load_policy
    from upweight.report.aggregate import iqm, optimality_gap, performance_profile, probability_of_improvement
    from upweight.report.bootstrap import interval, interval_of_pair
    from upweight.report.collect import collect
    from upweight.report.comparison import Intervals
    from upweight.report.page import write_report
    from upweight.report.replicate import Replication, replicate
    from upweight.rollout.environments import make_environment, register_environments
    from upweight.rollout.evaluate import Evaluation, evaluate
    from upweight.samplers.episode import EpisodeSampler
    from upweight.samplers.step import StepSampler
    from upweight.weightings.advantage_weighting import AdvantageWeighting
    from upweight.weightings.half import Half
    from upweight.weightings.registry import make_weighting, weighting_from_dict
    from upweight.weightings.return_weighting import ReturnWeighting
    from upweight.weightings.top_fraction import TopFraction
    from upweight.weightings.uniform import Uniform
    from upweight.weightings.weighting import Weighting, resolve_weights


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'upweight' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
