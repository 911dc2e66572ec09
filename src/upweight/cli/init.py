"""``upweight init``: begin the file that says which column of a table is what."""

import argparse
import shlex
from pathlib import Path

from upweight.base.errors import DatasetError
from upweight.base.files import atomic_target
from upweight.cli import options
from upweight.cli.terminal import print_json
from upweight.io.layout_guess import guess_layout
from upweight.io.table import layout_file

HELP = "guess which column of your CSV or Parquet table is what, and write it down"
EXAMPLES = """\
examples:
  upweight init log.csv         # writes log.toml: check it, complete it
  upweight inspect log.csv      # reads log.toml too

guesses are by the names of the columns (episode, time, action, reward, success, outcome, ...) and their first rows
what the keys mean: upweight help data"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="TABLE", type=Path, help="a CSV or Parquet file with one row per step")
    options.add_overwrite(parser)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    table: Path = arguments.table
    if not table.is_file():
        found = "a folder" if table.is_dir() else "no regular file" if table.exists() else "none"
        raise DatasetError(f"{table}: expected a CSV or Parquet file, found {found}")
    target = layout_file(table)
    options.check_free(target, arguments)
    guess = guess_layout(table)
    text = guess.toml(table.name)
    with atomic_target(target) as workplace:
        workplace.write_text(text, encoding="utf-8")
    if arguments.json:
        guesses = {"layout": dict(guess.layout), "left_out": dict(guess.left_out), "missing": list(guess.missing)}
        print_json({"output": str(target), **guesses})
        return
    print(text)
    todo = f"complete it ({', '.join(guess.missing)})" if guess.missing else "check it"
    count = len(guess.left_out)
    todo += f" ({count} column{'s are' if count > 1 else ' is'} left out)" if count else ""
    print(f"wrote {target}: {todo}, then  upweight inspect {shlex.quote(str(table))}")
