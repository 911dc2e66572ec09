"""``upweight replicate``: do the paper's claims hold in a store of results?"""

import argparse

from upweight.cli.terminal import print_json
from upweight.lab.cli.report import add_results
from upweight.lab.report.replicate import replicate
from upweight.lab.report.results import collect
from upweight.lab.report.statistics.intervals import Intervals
from upweight.lab.study.readers import open_store

HELP = "check the paper's claims against a store of results, with the numbers"
EXAMPLES = """\
examples:
  upweight sweep demo -o results/ && upweight replicate results/       # two minutes on two cores
  upweight replicate results/ --json
  upweight replicate hopper.jsonl more_results/             # a packed file of results, and several at once

verdicts, for each algorithm and sampler:
  better      the 95% interval of the probability of improvement lies above 0.5 (and that of the IQM difference not below 0)
  no loss     else, the interval of the difference in IQM lies above -0.02 of normalised return
  worse       else, the interval of the probability of improvement lies below 0.5
  alike       where that is the claim: the interval of the difference in IQM lies between -0.05 and 0.05
  grows       the interval of the rank correlation of gain and RPSV, over datasets (five at least), lies above 0
  not shown   else; that is no proof of the opposite: look at the interval, or train more seeds
  no data     the runs for it are missing; suites: paper/mixed, paper/regular, paper/stochastic, paper/temperature
a check pools datasets: "RW, 5%" is RW on all mixes with 5% of good steps, expert and medium, against what the claim names
verdicts are by intervals over seeds, as in the paper: other trainings on these datasets. "over datasets" are intervals with the
datasets resampled too, about other datasets of the kind; with fewer than ten datasets they are still too narrow
"better (few seeds)" and the like: fewer than five seeds, whose intervals are too narrow to be relied on
[1.00, 1.00] means that every run seen beat every other, not that new ones must; each check is a single test"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_results(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(arguments: argparse.Namespace) -> None:
    results = collect([open_store(path) for path in arguments.results], updates=arguments.updates)
    replication = replicate(results, Intervals(arguments.seed, arguments.resamples))
    if arguments.json:
        print_json(replication.to_dict())
    else:
        print(replication)
