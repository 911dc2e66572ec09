"""The public names of the package, and where each lives: the only list of them."""

from upweight.adapters.batches import Batches as Batches, batches as batches
from upweight.adapters.resample import resample as resample
from upweight.base.errors import (
    AdapterError as AdapterError,
    ConfigError as ConfigError,
    DataLossWarning as DataLossWarning,
    DatasetError as DatasetError,
    MissingExtraError as MissingExtraError,
    RolloutError as RolloutError,
    UpweightError as UpweightError,
    UpweightWarning as UpweightWarning,
    WeightingError as WeightingError,
)
from upweight.data.baseline import LinearBaseline as LinearBaseline, RidgeBaseline as RidgeBaseline
from upweight.data.dataset import Dataset as Dataset, Transitions as Transitions
from upweight.data.mix import concat as concat, mix as mix
from upweight.data.reference_scores import (
    ReferenceScores as ReferenceScores,
    normalize_returns as normalize_returns,
    reference_scores as reference_scores,
)
from upweight.data.statistics import (
    early_share as early_share,
    effective_episodes as effective_episodes,
    effective_steps as effective_steps,
    hoeffding_probability as hoeffding_probability,
    hoeffding_radius as hoeffding_radius,
    mass_per_label as mass_per_label,
    positive_sided_variance as positive_sided_variance,
    step_weighted_return as step_weighted_return,
    weighted_label_return as weighted_label_return,
    weighted_return as weighted_return,
)
from upweight.explorer.page import Explorer as Explorer, explore as explore
from upweight.inspection.report import Inspection as Inspection, inspect as inspect
from upweight.inspection.suggestion import Suggestion as Suggestion, suggest as suggest
from upweight.io.loading import load as load
from upweight.io.packing import pack as pack
from upweight.io.registry import save as save
from upweight.io.weights_file import load_weights as load_weights
from upweight.lab.play.environments import (
    make_environment as make_environment,
    register_environments as register_environments,
)
from upweight.lab.play.evaluate import Evaluation as Evaluation, Evaluator as Evaluator, evaluate as evaluate
from upweight.lab.recipes.make import make_dataset as make_dataset
from upweight.lab.recipes.recipe import recipe_names as recipe_names
from upweight.lab.report.page import write_report as write_report
from upweight.lab.report.replicate import Replication as Replication, replicate as replicate
from upweight.lab.report.results import collect as collect
from upweight.lab.report.statistics.aggregate import (
    iqm as iqm,
    optimality_gap as optimality_gap,
    performance_profile as performance_profile,
    probability_of_improvement as probability_of_improvement,
)
from upweight.lab.report.statistics.bootstrap import interval as interval, interval_of_pair as interval_of_pair
from upweight.lab.report.statistics.intervals import Intervals as Intervals
from upweight.lab.select.outcome import Selection as Selection
from upweight.lab.select.rule import SelectionRule as SelectionRule
from upweight.lab.select.select import select as select
from upweight.lab.study.experiment_file import (
    Experiment as Experiment,
    find_experiment as find_experiment,
    read_experiment as read_experiment,
)
from upweight.lab.study.readers import open_store as open_store
from upweight.lab.study.store import Store as Store
from upweight.lab.sweep.ray_executor import RayExecutor as RayExecutor
from upweight.lab.sweep.sweep import (
    SweepPlan as SweepPlan,
    SweepResult as SweepResult,
    plan_sweep as plan_sweep,
    sweep as sweep,
)
from upweight.lab.train.result import RunResult as RunResult
from upweight.lab.train.run import Run as Run, algorithm_config as algorithm_config
from upweight.lab.train.tracking import tensorboard_callback as tensorboard_callback, wandb_callback as wandb_callback
from upweight.lab.train.train import (
    TrainingPaused as TrainingPaused,
    plan_training as plan_training,
    train as train,
)
from upweight.policies.onnx_export import export_onnx as export_onnx
from upweight.policies.policy import Policy as Policy, load_policy as load_policy
from upweight.samplers.episode import EpisodeSampler as EpisodeSampler
from upweight.samplers.step import StepSampler as StepSampler
from upweight.weightings.advantage_weighting import AdvantageWeighting as AdvantageWeighting
from upweight.weightings.half import Half as Half
from upweight.weightings.registry import make_weighting as make_weighting, weighting_from_dict as weighting_from_dict
from upweight.weightings.return_weighting import ReturnWeighting as ReturnWeighting
from upweight.weightings.top_fraction import TopFraction as TopFraction
from upweight.weightings.uniform import Uniform as Uniform
from upweight.weightings.weighting import Weighting as Weighting, resolve_weights as resolve_weights

__version__: str
