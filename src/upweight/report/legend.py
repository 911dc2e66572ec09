"""What the marks and numbers of a score table mean, in words: the same in a page, a comment of LaTeX and Markdown."""

from collections.abc import Sequence

from upweight.report.statistics.bootstrap import FEW_RUNS
from upweight.report.tables import ScoreTable

_BETTER = (
    "Bold: better than Uniform, that is, the 95% interval of the probability of improvement on this dataset lies above one "
    "half (the paper's bold is any higher mean). *: the row's maximum, ties as shown included."
)
_CAUTION = (
    f"Neither is given to results of fewer than {FEW_RUNS} seeds, and each bold is a test of its own, not corrected for "
    "their number. The last row counts the datasets where a sampler is better than Uniform, of those that can be judged."
)
_PAPER = (
    "The paper's numbers, where it has a dataset of that name, come from a million updates, five seeds and D4RL's data; "
    "datasets made by name are collected anew, with the policies that come with upweight."
)


def legend(tables: Sequence[ScoreTable]) -> list[str]:
    """Sentences that say how to read the tables."""
    found = ["Mean over seeds ± standard deviation.", _BETTER, _CAUTION]
    if any(table.fewest_seeds < FEW_RUNS for table in tables):
        found.append(f"Here some results have fewer than {FEW_RUNS} seeds, and so no marks.")
    if any(table.has_paper_values(place) for table in tables for place in range(len(table.samplers))):
        found.append(_PAPER)
    return found
