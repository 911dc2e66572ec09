r"""Choose a temperature by numbers that stay the same when returns are shifted or scaled, as weights do.

What a weighting follows are its values :math:`x_i`: returns for RW, advantages for AW. It gains
:math:`\sum_i w_i x_i - \frac{1}{K} \sum_i x_i`. The firm gain is the same without the episode that weighs most: what is left of
the gain if that one was luck.

Every episode passes through its first steps, and a policy that copies actions follows the majority there (docs/results.md). With
BC in Hopper all temperatures at which good episodes gave 76% or more of the first 30 steps came close to the best one, and none
did at which they gave 65% or less.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import UpweightWarning
from upweight.data.dataset import Dataset
from upweight.data.statistics import early_share, effective_episodes, hoeffding_radius, weighted_return
from upweight.inspection.effect import Good
from upweight.inspection.starts import Starts
from upweight.weightings.advantage_weighting import AdvantageWeighting
from upweight.weightings.return_weighting import ReturnWeighting
from upweight.weightings.weighting import Weighting

PAPER_TEMPERATURE = 0.1
TEMPERATURES = (0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
FEW_EPISODES = 10.0  # effective ones, below which the data cannot tell
GOOD_BEGINNINGS = 0.75  # of the first steps drawn, those of good episodes
_CLEARLY_BETTER = 0.05  # of the range of the values
_KEPT, _KEPT_AT_LEAST = 1 / 2, 1 / 3  # of the paper's temperature's firm gain, which another one may not give up


@dataclass(frozen=True)
class Choice:
    """A weighting of K episodes, and what it would do."""

    weighting: Weighting
    temperature: float
    weights: NDArray[np.float64]  # [K]
    weighted_return: float
    gain: float  # in the values that the weighting follows
    firm_gain: float  # without the episode that weighs most
    spread: float  # standard deviation of the values
    effective_episodes: float
    radius: float  # half-width of the 95% Hoeffding interval around weighted_return
    lower: float  # gain less the Hoeffding radius of the values
    early_share: float | None  # of the first 30 steps drawn, those of good episodes; None: starts differ too much

    @property
    def begins_well(self) -> bool:
        """Whether the first steps are drawn from good episodes mostly."""
        return self.early_share is None or self.early_share >= GOOD_BEGINNINGS

    @property
    def is_firm(self) -> bool:
        """Whether enough episodes are left to tell."""
        return self.effective_episodes >= FEW_EPISODES and not self.rests_on_one

    @property
    def rests_on_one(self) -> bool:
        """Whether most of the gain is one episode's."""
        return self.firm_gain < _KEPT * self.gain


def choices(dataset: Dataset, usable: NDArray[np.bool_], starts: Starts, good: Good) -> dict[float, Choice]:
    """By temperature: RW, or AW where the starts explain much."""
    returns = dataset.returns[usable]
    if starts.expected is None or starts.baseline is None:
        return {
            temperature: _measure(temperature, ReturnWeighting(temperature), None, dataset, usable, returns, good)
            for temperature in TEMPERATURES
        }
    values, baseline = returns - starts.expected, starts.baseline
    return {
        temperature: _measure(
            temperature, AdvantageWeighting(temperature, baseline), starts.expected, dataset, usable, values, None
        )
        for temperature in TEMPERATURES
    }


def _measure(
    temperature: float,
    weighting: Weighting,
    expected: NDArray[np.float64] | None,
    dataset: Dataset,
    usable: NDArray[np.bool_],
    values: NDArray[np.float64],
    good: Good | None,
) -> Choice:
    # what the starts let expect was fitted already, and does not depend on the temperature
    same = weighting if expected is None else AdvantageWeighting(temperature, baseline=lambda *_: expected)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UpweightWarning)  # incomplete episodes: the report counts them
        weights = same(dataset)[usable]
    returns = dataset.returns[usable]
    others = np.arange(len(weights)) != np.argmax(weights)
    gain = weighted_return(weights, values) - float(values.mean())
    return Choice(
        weighting=weighting,
        temperature=temperature,
        weights=weights,
        weighted_return=weighted_return(weights, returns),
        gain=gain,
        firm_gain=weighted_return(weights[others], values[others]) - float(values[others].mean()),
        spread=float(values.std()),
        effective_episodes=effective_episodes(weights),
        radius=hoeffding_radius(weights, return_range=float(np.ptp(returns))),
        lower=gain - hoeffding_radius(weights, return_range=float(np.ptp(values))),
        early_share=None
        if good is None
        else early_share(weights, dataset.num_transitions[usable], good.episodes[usable]),
    )


def choose(found: dict[float, Choice], value_range: float) -> Choice:
    """The paper's temperature, unless another has a clearly higher lower bound and keeps most of the firm gain.

    If most of the paper's temperature's gain is one episode's, a third of the firm gain is enough. If it does not draw the first
    steps from good episodes, the warmest below it that does, and leaves enough episodes, takes its place. What begins well and
    is firm gives way only to what is so too.
    """
    usual = found[PAPER_TEMPERATURE]
    sound = [choice for choice in found.values() if choice.begins_well and choice.is_firm]
    if not usual.begins_well:
        usual = next((choice for choice in reversed(sound) if choice.temperature < usual.temperature), usual)
    least = (_KEPT_AT_LEAST if usual.rests_on_one else _KEPT) * usual.firm_gain
    among = sound if usual.begins_well and usual.is_firm else found.values()
    kept = [choice for choice in among if choice.firm_gain >= least and not choice.rests_on_one]
    best = max([usual, *kept], key=lambda choice: choice.lower)
    return best if best.lower > usual.lower + _CLEARLY_BETTER * value_range else usual


def colder(found: dict[float, Choice], chosen: Choice, value_range: float) -> Choice | None:
    """The coldest choice that leaves enough episodes, if it draws clearly better ones: replay data with many levels."""
    coldest = safe(found)
    if coldest is None or chosen.temperature > PAPER_TEMPERATURE or coldest.temperature >= chosen.temperature:
        return None
    return coldest if coldest.firm_gain > chosen.firm_gain + _CLEARLY_BETTER * value_range else None


def safe(found: dict[float, Choice]) -> Choice | None:
    """The coldest choice that leaves enough episodes to tell."""
    return next((choice for choice in found.values() if choice.effective_episodes >= FEW_EPISODES), None)
