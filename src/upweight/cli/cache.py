"""``upweight cache``: what is kept in the cache folder, and how to get rid of it."""

import argparse
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from upweight.base.cache import CacheEntry, cache_entries, cache_folder
from upweight.base.checks import whole_number
from upweight.base.errors import ConfigError
from upweight.base.names import hint
from upweight.base.text import size, table
from upweight.cli import options
from upweight.cli.terminal import print_json

HELP = "list what the cache folder keeps, or remove some of it"
EXAMPLES = """\
examples:
  upweight cache
  upweight cache remove datasets/hopper xla
  upweight cache remove --older-than 90
  upweight cache remove --all

the folder keeps the episodes of datasets by name and compiled programs; what is removed is made again when it is needed
files that are not ours stay; UPWEIGHT_CACHE says where the folder is"""
AFTER_INTERRUPTION = "the same command removes the rest"
_DAY = 24 * 3600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", nargs="?", choices=["remove"], help="remove what NAME, --all or --older-than says (default: list)"
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="as the list has it, or the beginning of some: datasets/hopper"
    )
    parser.add_argument("--all", action="store_true", help="remove everything")
    parser.add_argument(
        "--older-than", type=options.count, metavar="DAYS", help="remove what was last used more than so many days ago"
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    if arguments.action is None:
        _list(arguments)
    else:
        _remove(arguments)


def _list(arguments: argparse.Namespace) -> None:
    if arguments.all or arguments.older_than is not None:
        raise ConfigError("--all and --older-than say what to remove: upweight cache remove ...")
    entries = cache_entries()
    if arguments.json:
        print_json({"folder": str(cache_folder()), "entries": [_as_dict(entry) for entry in entries]})
        return
    print(f"{cache_folder()}: {size(_bytes(entries))}")
    if entries:
        rows = [[entry.name, entry.kind, size(entry.size), _date(entry)[:10]] for entry in entries]
        print(table(rows, header=["name", "kind", "size", "last used"]))


def _remove(arguments: argparse.Namespace) -> None:
    chosen = _chosen(arguments)
    for entry in chosen:
        entry.remove()
        if not arguments.json:
            print(f"removed {entry.name}")
    if arguments.json:
        print_json({"removed": [_as_dict(entry) for entry in chosen], "freed_bytes": _bytes(chosen)})
        return
    print(f"freed {size(_bytes(chosen))} in {cache_folder()}")


def _chosen(arguments: argparse.Namespace) -> list[CacheEntry]:
    """The entries to remove. Exactly one of names, ``--all`` and ``--older-than`` must be given."""
    if [bool(arguments.names), arguments.all, arguments.older_than is not None].count(True) != 1:
        raise ConfigError(
            "upweight cache remove: expected names, or --all, or --older-than DAYS, and one of these only"
        )
    entries = cache_entries()
    if arguments.all:
        return entries
    if arguments.older_than is not None:
        days = whole_number("--older-than", arguments.older_than, least=0, error=ConfigError)
        return [entry for entry in entries if entry.last_used < time.time() - days * _DAY]
    for name in arguments.names:
        if not any(_is_meant(entry, name) for entry in entries):
            known = hint(name, [entry.name for entry in entries], otherwise="upweight cache lists what there is")
            raise ConfigError(f"{name}: not in {cache_folder()}; {known}")
    return [entry for entry in entries if any(_is_meant(entry, name) for name in arguments.names)]


def _is_meant(entry: CacheEntry, name: str) -> bool:
    return f"{entry.name}/".startswith(f"{name.rstrip('/')}/")


def _bytes(entries: Sequence[CacheEntry]) -> int:
    return sum(entry.size for entry in entries)


def _date(entry: CacheEntry) -> str:
    return datetime.fromtimestamp(entry.last_used, UTC).isoformat(timespec="seconds")


def _as_dict(entry: CacheEntry) -> dict[str, object]:
    return {"name": entry.name, "kind": entry.kind, "bytes": entry.size, "last_used": _date(entry)}
