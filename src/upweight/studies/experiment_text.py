"""The text of an experiment file: parsed, and with the line of every key, for messages that name it."""

import re
import tomllib
from pathlib import Path
from typing import Any, NoReturn

from upweight.base.errors import DatasetError

Place = tuple[str | int, ...]  # where a key stands: () at the top, ("grid", 0), ("scale", "smoke"), or an option
TOP: Place = ()
OPTION: Place = ("--set",)  # not in the file at all

_STRINGS_AND_COMMENTS = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}' r"|'''.*?'{3,5}" r'|"(?:[^"\\\n]|\\.)*"' r"|'[^'\n]*'" r"|#[^\n]*", re.DOTALL
)


class ExperimentError(DatasetError):
    """An experiment file is malformed or contradicts itself."""


class ExperimentText:
    """One file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ExperimentError(f"{path}: not a TOML file: not text in UTF-8 (byte {error.start})") from None
        self._statements = find_statements(text)
        try:
            self.content: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:  # its message has line and column
            raise ExperimentError(f"{path}: not a TOML file: {self._twice(error) or error}") from None

    def fail(self, key: str, message: str, place: Place = TOP) -> NoReturn:
        """Raise an error that names the line of a key, or of what it stands in; or the option that gave it."""
        if place == OPTION:
            raise ExperimentError(f"--set {key}: {message}")
        wanted = (*place, key)
        for length in range(len(wanted), 0, -1):  # the key, the first thing in it, or what it stands in
            found = [line for line, keys in self._statements if keys[:length] == wanted[:length]]
            if found:
                raise ExperimentError(f"{self.path}: line {found[0]}: {key}: {message}")
        raise ExperimentError(f"{self.path}: {key}: {message}")

    def _twice(self, error: tomllib.TOMLDecodeError) -> str | None:
        """A better message for a key that is given twice: the parser does not say which."""
        found = re.search(r"overwrite a value \(at (?:line (\d+)|end)", str(error))
        if found is None:
            return None
        last = max((s for s in self._statements if found[1] is None or s[0] <= int(found[1])), default=None)
        first = next((line for line, keys in self._statements if last and keys == last[1]), None)
        if last is None or first is None or first == last[0]:
            return None
        return f"{last[1][-1]}: given twice, in lines {first} and {last[0]}"


def find_statements(text: str) -> list[tuple[int, Place]]:
    """Line and full name of every ``key =`` and of every ``[table]``; the tables of an array are numbered.

    >>> find_statements('a = 1\\n[[grid]]\\nb.c = [\\n]')
    [(1, ('a',)), (2, ('grid', 0)), (3, ('grid', 0, 'b', 'c'))]
    """
    # Strings and comments are filled up, so that every sign that is left means something; places stay what they are.
    plain = _STRINGS_AND_COMMENTS.sub(lambda match: (" " if match[0][0] == "#" else "_") * len(match[0]), text)
    found: list[tuple[int, Place]] = []
    counts: dict[Place, int] = {}
    table: Place = TOP
    depth = start = 0  # of brackets that are open; where the row starts
    for row in plain.split("\n"):
        line = text.count("\n", 0, start) + 1
        value = row
        if depth == 0 and (head := re.fullmatch(r"\s*(\[\[?)(.*?)\]\]?\s*", row)):
            table = _names(text[start + head.start(2) : start + head.end(2)])
            if head[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            found.append((line, table))
            value = ""
        elif depth == 0 and "=" in row:
            end = row.index("=")
            found.append((line, (*table, *_names(text[start : start + end]))))
            value = row[end:]
        depth += sum(value.count(sign) for sign in "[{") - sum(value.count(sign) for sign in "]}")
        start += len(row) + 1
    return found


def _names(dotted: str) -> Place:
    """The parts of a key: bare or quoted, joined by dots."""
    try:
        value: Any = tomllib.loads(f"{dotted.strip()} = 0")
    except tomllib.TOMLDecodeError:
        return (dotted.strip(),)
    names: list[str] = []
    while isinstance(value, dict):
        ((name, value),) = value.items()
        names.append(name)
    return tuple(names)
