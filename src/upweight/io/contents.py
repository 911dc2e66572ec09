"""What an unknown file holds and how to load it: the helpful part of the error that no format recognises it."""

import json
import re
from pathlib import Path

from upweight.io.format import WAYS_IN, listed, starts_with
from upweight.io.npz_members import member_names

_MOST_BYTES = 1 << 24  # of JSON
_MOST_TEXT = 1 << 12


def describe(path: Path) -> str:
    """A sentence or two; empty if the content is unknown."""
    if path.is_dir():
        return f" It holds {listed(entry.name for entry in path.iterdir())}; name the file that has the data."
    if starts_with(path, b"\x80") or path.suffix.lower() in {".pkl", ".pickle"}:
        return (
            " It is a pickle, which is never loaded: that can run anything. If you trust it, open it with pickle.load and give "
            f"what is in it {WAYS_IN}."
        )
    if starts_with(path, b"\x93NUMPY"):
        return f" It is one NumPy array: open it with np.load, and give it with the others {WAYS_IN}."
    names = member_names(path)
    if not names and not (names := _json_keys(path)):
        return _describe_text(path)
    text = f" It holds {listed(names)}: give these {WAYS_IN}."
    if "terminals" in names and member_names(path):
        text += (
            " If 'terminals' marks last observations that have no step, as in OGBench, read it with format 'ogbench'; if it ends "
            "steps, with format 'arrays'."
        )
    return text


def _describe_text(path: Path) -> str:
    """How a text begins, and whether that looks like a table."""
    with path.open("rb") as file:
        start = file.read(_MOST_TEXT)
    try:
        line = start.decode("utf-8-sig").partition("\n")[0].strip()
    except UnicodeDecodeError:
        line = "\0"
    if not line.isprintable():
        return f" It is no text, and begins with the bytes {start[:8]!r}."
    if line[:1] not in "[{" and len(fields := re.split(r"[,;\t|]", line)) > 1:
        return f" It looks like a table with the columns {listed(fields)}: give it a name that ends in .csv, then upweight init."
    return f" It is text that begins with {line[:40]!r}."


def _json_keys(path: Path) -> set[str]:
    """Keys of the first object in JSON, JSON lines or a JSON list; empty for anything else."""
    with path.open("rb") as file:
        start = file.read(_MOST_BYTES)
    if start.lstrip()[:1] not in {b"{", b"["}:
        return set()
    try:
        value, _ = json.JSONDecoder().raw_decode(start.decode("utf-8", "replace").lstrip())
    except (ValueError, RecursionError):
        return set()
    first = value[0] if isinstance(value, list) and value else value
    return set(first) if isinstance(first, dict) else set()
