"""``upweight``: the command and its sub-commands."""

import argparse
import os
import re
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import NoReturn

from upweight import __version__
from upweight.base import lab
from upweight.base.errors import UpweightError, naming_memory
from upweight.base.interrupts import answering, terminated_as_interrupted
from upweight.base.names import hint
from upweight.base.progress import ProgressBar, ProgressLog, listening
from upweight.cli.options import reading_help
from upweight.cli.terminal import INTERRUPTED, answer_interrupt, print_error, show_warnings_as_lines

GROUPS = {  # of --help
    "data": "init inspect explore convert mix pack weights resample make cache",
    "training": "train evaluate select",
    "studies": "demo sweep report replicate",
}
COMMANDS = {
    name: lab.COMMANDS.get(name, f"upweight.cli.{name}") for names in GROUPS.values() for name in names.split()
}  # the module of each
ALIASES = {"suggest": "inspect"}
BAD_INPUT = 2


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with the words of a command on one line."""

    def error(self, message: str) -> NoReturn:
        print_error(f"{self.prog.removeprefix('upweight ')}: {message}; see {self.prog} --help")
        sys.exit(BAD_INPUT)


def overview() -> str:
    """Every command with what it is for, by job."""
    lines = ["usage: upweight COMMAND ...", "", "Get the best policy out of a mixed offline RL dataset."]
    for group, names in GROUPS.items():
        lines += ["", f"{group}:", *(f"  {name:<10} {import_module(COMMANDS[name]).HELP}" for name in names.split())]
    return "\n".join(
        [
            *lines,
            "",
            "upweight COMMAND --help explains a command, upweight help data how data are read.",
            "Start with:  upweight inspect DATA",
        ]
    )


def build_parser(names: Iterable[str]) -> argparse.ArgumentParser:
    """The parser of these commands, whose modules are imported."""
    parser = _Parser(prog="upweight")
    parser.add_argument("--version", action="version", version=f"upweight {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in names:
        command = import_module(COMMANDS[name])
        sub = commands.add_parser(
            name,
            aliases=[alias for alias, meant in ALIASES.items() if meant == name],
            description=command.HELP[0].upper() + command.HELP[1:] + ".",
            epilog=command.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(sub)
        after = getattr(command, "AFTER_INTERRUPTION", "nothing was written")  # commands that keep what they did say so
        sub.set_defaults(called=name, run=command.run, after_interruption=after, usage=sub.format_usage)
    return parser


def _about_unknown(word: str, parsed: argparse.Namespace) -> str:
    """What to say of a word that the command does not take."""
    name, see = word.split("=")[0], f"see upweight {parsed.called} --help"
    if not name.startswith("-"):
        return f"{parsed.called}: unexpected {word!r}; {see}"
    usage = parsed.usage() + (reading_help() if "input_format" in parsed else "")
    return f"{parsed.called}: no option {name!r}; {hint(name, re.findall('--[a-z-]+', usage), otherwise=see)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (2 for bad input, or where something failed)."""
    try:
        return _answer(list(sys.argv[1:] if arguments is None else arguments))
    except BrokenPipeError:  # `upweight inspect ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _answer(words: list[str]) -> int:
    if words[:1] == ["help"]:
        if words[1:] == ["data"]:
            print(reading_help(), flush=True)
            return 0
        words = [*words[1:], "--help"]
    first = words[0] if words else "--help"
    if first in {"-h", "--help"}:
        print(overview(), flush=True)
        return 0
    if not first.startswith("-") and first not in {**COMMANDS, **ALIASES}:
        print_error(f"no command {first!r}; {hint(first, [*COMMANDS, *ALIASES])}")
        return BAD_INPUT
    asked = [] if first.startswith("-") else [ALIASES.get(first, first)]  # one command imports no other
    parsed, unknown = build_parser(asked).parse_known_args(words)
    if unknown:
        print_error(_about_unknown(unknown[0], parsed))
        return BAD_INPUT
    show_warnings_as_lines()
    try:
        with (
            listening(ProgressBar(sys.stderr) if sys.stderr.isatty() else ProgressLog(sys.stderr)),
            answering(answer_interrupt),
            terminated_as_interrupted(),
            naming_memory(parsed.called),
        ):
            succeeded = parsed.run(parsed) is not False
        sys.stdout.flush()
    except UpweightError as error:
        print_error(str(error))
        return BAD_INPUT
    except BrokenPipeError:  # no error of a file
        raise
    except FileExistsError as error:  # of a folder to be made
        print_error(f"{error.filename}: expected a folder to write to, found a file; choose another name")
        return BAD_INPUT
    except OSError as error:
        print_error(f"{error.filename or ''}: {error.strerror or error}".lstrip(": "))
        return BAD_INPUT
    except KeyboardInterrupt:
        print_error(f"interrupted; {parsed.after_interruption}")
        return INTERRUPTED
    return 0 if succeeded else BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
