"""``upweight report``: results as a page, tables and figures."""

import argparse
from pathlib import Path

from upweight.cli import options
from upweight.lab.report.page import write_report

HELP = "turn the results of sweep or train into a page with tables and figures, the paper's numbers next to yours"
EXAMPLES = """\
examples:
  upweight sweep demo -o results/ && upweight report results/ -o report.html       # two minutes on two cores
  upweight evaluate runs/iql && upweight report runs/iql   # one training: its scores, and how its losses went
  upweight report results/ packed.jsonl -o report.html      # several stores at once, folders or packed files
  upweight report results/ -o early.html --updates 100000   # runs of another length, or as they were then
  upweight report results/ --title "ICU, third export"      # else the page is called as the folder or file

the page needs nothing else: send it, print it, open it without a network; next to report.html, the folder report/ holds
each table as CSV (one line per dataset and sampler), LaTeX (booktabs) and Markdown, and each figure as SVG
bold: better than Uniform by the exact Mann-Whitney test of the seeds, corrected for all comparisons of a table; *: the maximum
of a dataset; neither is given to fewer than 5 seeds
a diverged run counts as 0 (a random policy) or as the worst other run on its dataset, whichever is lower; as the latter where
there are no reference scores; the page lists every run"""


def add_results(parser: argparse.ArgumentParser) -> None:
    """Which results to look at, and the bootstrap of their intervals; also for ``upweight replicate``."""
    about = "folder written by `upweight sweep` or `upweight train`, or a file that `Store.pack` wrote"
    parser.add_argument("results", metavar="RESULTS", type=Path, nargs="+", help=about)
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap (default: 0)")
    parser.add_argument("--resamples", type=int, default=2000, help="of the bootstrap (default: 2000)")
    about = (
        "take runs of this length, and longer ones as they were then, if evaluated (default: each algorithm's longest)"
    )
    parser.add_argument("--updates", type=options.count, help=about)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_results(parser)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("report.html"), help="the page (default: report.html)"
    )
    options.add_overwrite(parser)
    parser.add_argument("--title", help="what the page is called (default: as the results are)")


def run(arguments: argparse.Namespace) -> None:
    options.check_free(arguments.output, arguments)
    folder = write_report(
        arguments.results,
        arguments.output,
        seed=arguments.seed,
        resamples=arguments.resamples,
        updates=arguments.updates,
        title=arguments.title,
    )
    print(f"wrote {arguments.output} and its tables and figures in {folder}/")
