r"""Choose a temperature: draw from as many episodes as are good.

What a weighting follows are its values :math:`x_i`: returns for RW, advantages for AW. The gap between the values above the
middle of their range and the others,

.. math:: g = (\bar x_{high} - \bar x_{low}) / (\sigma_{high} + \sigma_{low})

says whether the better ones stand apart, as in a mix of an expert and random play. It is 1.7 for evenly spread values and 1.3
for normal ones. Where they stand apart, they are the good episodes. Where values rise gradually, the best episodes that have a
tenth of all steps are, but at least 25, or a fifth of all: fewer leave too little to learn from. The temperature is the one at
which so many episodes count, or the paper's if about as many count there.

Every episode passes through its first steps, and a policy that copies actions follows the majority there (docs/results.md). With
BC in Hopper all temperatures at which good episodes gave 76% or more of the first 30 steps came close to the best one, and none
did at which they gave 65% or less. So the temperature falls until they give 75%, if enough episodes are left.

A weighting gains :math:`\sum_i w_i x_i - \frac{1}{K} \sum_i x_i`. The firm gain is the same without the episode that weighs
most: what is left of the gain if that one was luck.
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
from upweight.weightings.boltzmann import boltzmann, min_max, solved_temperature
from upweight.weightings.return_weighting import ReturnWeighting
from upweight.weightings.weighting import Weighting

PAPER_TEMPERATURE = 0.1
FEW_EPISODES = 10.0  # effective ones, below which the data cannot tell
GOOD_BEGINNINGS = 0.75  # of the first steps drawn, those of good episodes
WIDE_GAP, FAR_GAP = 5.0, 10.0  # from which on the better group stands apart; and is no luck, even if it is one episode
_CROWD = 20  # episodes among which one that is far apart is no luck
_SHARE = 0.1  # of steps that good episodes have, where values rise gradually
_FEWEST, _FEWEST_SHARE = 25, 0.2  # good episodes, where there are enough; and their share, where there are not
_STEP = 1.5  # times colder
_COLDEST = 0.01  # temperature
_ABOUT = 1.5  # times more or fewer effective episodes are about as many
_FIRM = 1 / 2  # of the gain, that more than one episode must make


@dataclass(frozen=True)
class Gap:
    """Between the better and the poorer of two groups of values."""

    size: float  # in standard deviations within the groups
    better: int  # how many values are in the better group
    total: int  # of both

    @property
    def is_wide(self) -> bool:
        """Whether the better group stands apart: a group, or one that is far from all others."""
        return self.size >= WIDE_GAP and (self.better > 1 or self.is_far)

    @property
    def is_far(self) -> bool:
        """Whether even one better episode is no luck: it is far from many others."""
        return self.size >= FAR_GAP and self.total >= _CROWD


@dataclass(frozen=True)
class Choice:
    """A weighting of K episodes, and what it would do."""

    weighting: Weighting
    temperature: float
    gap: Gap
    weights: NDArray[np.float64]  # [K]
    weighted_return: float
    gain: float  # in the values that the weighting follows
    firm_gain: float  # without the episode that weighs most
    spread: float  # standard deviation of the values
    effective_episodes: float
    radius: float  # half-width of the 95% Hoeffding interval around weighted_return
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
        return self.firm_gain < _FIRM * self.gain


def find_gap(values: NDArray[np.float64]) -> Gap:
    """Of values [K] that are not all the same; 0 where there are two only: how far apart they are, nothing tells."""
    is_better = values > values.min() / 2 + values.max() / 2
    better, poorer = values[is_better], values[~is_better]
    width = float(better.std() + poorer.std())
    return Gap(float(better.mean() - poorer.mean()) / width if width > 0 else 0.0, len(better), len(values))


def choose(dataset: Dataset, usable: NDArray[np.bool_], starts: Starts, good: Good) -> Choice:
    """RW, or AW where the starts explain much, at the temperature of as many episodes as are good."""
    returns = dataset.returns[usable]
    values = returns if starts.expected is None else returns - starts.expected
    gap, scaled = find_gap(values), min_max(values)
    wanted = gap.better if gap.is_wide else _best(values, dataset.num_transitions[usable])
    temperature = _temperature(scaled, wanted, dataset.source)
    first = choice = _measure(temperature, gap, starts, dataset, usable, values, good)
    enough = min(wanted, _few(len(values))) / _ABOUT
    while not choice.begins_well and choice.effective_episodes >= enough and temperature > _COLDEST:
        temperature = _two_digits(temperature / _STEP)
        choice = _measure(temperature, gap, starts, dataset, usable, values, good)
    return choice if choice.begins_well and choice.effective_episodes >= enough else first


def _few(count: int) -> int:
    """As few episodes as one should learn from, of so many."""
    return max(1, min(_FEWEST, round(_FEWEST_SHARE * count)))


def _best(values: NDArray[np.float64], sizes: NDArray[np.int64]) -> int:
    """How many episodes count as good where values [K] rise gradually."""
    steps = np.cumsum(sizes[np.argsort(-values, kind="stable")])
    enough = int(np.searchsorted(steps, _SHARE * steps[-1])) + 1
    return max(enough, _few(len(values)))


def _temperature(scaled: NDArray[np.float64], wanted: float, source: str) -> float:
    """The paper's, if about as many episodes count there; else of two digits."""
    usual = effective_episodes(boltzmann(scaled, PAPER_TEMPERATURE))
    reachable = max(wanted, float((scaled == 1).sum()))  # so many share the best value
    if reachable / _ABOUT <= usual <= _ABOUT * reachable:
        return PAPER_TEMPERATURE
    return max(_two_digits(solved_temperature(scaled, reachable, source)), _COLDEST)


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


def _measure(
    temperature: float,
    gap: Gap,
    starts: Starts,
    dataset: Dataset,
    usable: NDArray[np.bool_],
    values: NDArray[np.float64],
    good: Good,
) -> Choice:
    weighting: Weighting = ReturnWeighting(temperature)
    same = weighting
    if (expected := starts.expected) is not None and starts.baseline is not None:
        weighting = AdvantageWeighting(temperature, starts.baseline)
        same = AdvantageWeighting(temperature, lambda *_: expected)  # fitted once, for every temperature
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UpweightWarning)  # incomplete episodes: the report counts them
        weights = same(dataset)[usable]
    returns = dataset.returns[usable]
    others = np.arange(len(weights)) != np.argmax(weights)
    return Choice(
        weighting=weighting,
        temperature=temperature,
        gap=gap,
        weights=weights,
        weighted_return=weighted_return(weights, returns),
        gain=weighted_return(weights, values) - float(values.mean()),
        firm_gain=weighted_return(weights[others], values[others]) - float(values[others].mean()),
        spread=float(values.std()),
        effective_episodes=effective_episodes(weights),
        radius=hoeffding_radius(weights, return_range=float(np.ptp(returns))),
        early_share=None
        if expected is not None
        else early_share(weights, dataset.num_transitions[usable], good.episodes[usable]),
    )
