"""Groups of an HDF5 file that never lead out of it.

A link in a file may name another file. libhdf5 follows it even when asked only whether the name exists, and it waits for ever if
the link leads to a pipe. So every link on the path to an array is checked before it is followed.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from upweight.base.errors import DatasetError
from upweight.base.optional import require

_MOST_LINKS = 32  # followed for one key, inside the file


class Group(Mapping[str, Any]):
    """A group or the whole file, indexed by name or path. Groups inside are of this class too; arrays are h5py's."""

    def __init__(self, group: Any, path: Path) -> None:
        self._group, self._path = group, path

    @property
    def name(self) -> str:
        """Where it is in the file."""
        return str(self._group.name)

    @property
    def attrs(self) -> Any:
        return self._group.attrs

    def arrays(self) -> list[str]:
        """Paths of the arrays in it and in the groups in it, sorted; what only links to one is left out."""
        h5py = require("h5py", extra="hdf5", purpose="working with HDF5 files")
        found: list[str] = []
        self._group.visititems(lambda name, node: found.append(name) if isinstance(node, h5py.Dataset) else None)
        return sorted(found)

    def __iter__(self) -> Iterator[str]:
        return iter(self._group)

    def __len__(self) -> int:
        return len(self._group)

    def __getitem__(self, key: str) -> Any:
        h5py = require("h5py", extra="hdf5", purpose="working with HDF5 files")
        node, names, links = self._group, key.split("/")[::-1], 0
        while names:
            name = names.pop()
            if name in ("", "."):
                continue
            raw = name.encode("utf-8", "surrogateescape")
            if not isinstance(node, h5py.Group) or not node.id.links.exists(raw):
                raise KeyError(key)
            kind = node.id.links.get_info(raw).type
            if kind == h5py.h5l.TYPE_HARD:
                node = node[name]
            elif kind == h5py.h5l.TYPE_SOFT and (links := links + 1) <= _MOST_LINKS:
                aim = node.id.links.get_val(raw).decode("utf-8", "surrogateescape")
                names += aim.split("/")[::-1]
                node = node["/"] if aim.startswith("/") else node
            else:
                raise DatasetError(
                    f"{self._path}: key {key!r}: expected what is stored in this file, found a link to "
                    f"{'itself' if kind == h5py.h5l.TYPE_SOFT else 'another file'}; copy the numbers into this one"
                )
        return Group(node, self._path) if isinstance(node, h5py.Group) else node
