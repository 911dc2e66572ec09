"""``upweight explore``: a page on which to see what weighting does."""

import argparse
import threading
from pathlib import Path

from upweight.cli import options
from upweight.explorer.page import explore

HELP = "a page with a slider on which to see what weighting does to a dataset"
AFTER_INTERRUPTION = "no page was written"
EXAMPLES = """\
examples:
  upweight explore mixed.hdf5                        # writes explore.html: open it in a browser
  upweight explore icu.csv --episode stay_id --timestep hour --observations age,hr --actions dose --rewards r -o icu.html
  upweight explore packed/ --serve                   # too large for a page: curves and observations are read when asked for

the page is one file that needs nothing else and opens no connection: weights of RW, AW, Top-x%, Half and Uniform as you
move the slider, what a run would draw, every episode with its flags, the suggestion with its reasons, and at the
end the code, the command and the weights of what you chose
it holds return, length, label and start of every episode, and the rewards of up to a million steps: think before you send it"""

_PAGE = Path("explore.html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_data(parser)
    parser.add_argument("-o", "--output", type=Path, help=f"the page (default: {_PAGE})")
    options.add_overwrite(parser)
    parser.add_argument("--title", help="what the page is called (default: as the data are)")
    parser.add_argument("--env", help="task whose reference scores the suggestion is judged by: hopper, ant, ...")
    parser.add_argument(
        "--serve",
        action="store_true",
        help="write nothing: serve the page to this machine only (127.0.0.1), under an address nobody can guess, until Ctrl-C",
    )
    parser.add_argument("--port", type=int, help="for --serve (default: one that is free)")
    options.add_reading(parser)


def run(arguments: argparse.Namespace) -> None:
    options.check_partner(arguments, ["port"], arguments.serve, "--serve, which shows the page instead of writing it")
    writes = "a command without --serve, which writes nothing"
    options.check_partner(arguments, ["output", "overwrite"], not arguments.serve, writes)
    output = arguments.output or _PAGE
    if not arguments.serve:
        options.check_free(output, arguments)
    explorer = explore(arguments.data, env=arguments.env, title=arguments.title, **options.reading_options(arguments))
    if not arguments.serve:
        print(f"wrote {explorer.save(output)}: open it in a browser")
        return
    with explorer.serve(port=arguments.port or 0) as server:
        print(f"open {server.address}\nonly this machine can; Ctrl-C ends it", flush=True)
        try:
            until_interrupted()
        except KeyboardInterrupt:
            print("\nended")


def until_interrupted() -> None:
    """Wait for Ctrl-C."""
    threading.Event().wait()
