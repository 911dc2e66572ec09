"""``explore``: a dataset as a page, in a notebook, in a file or from a server on this machine."""

import json
import os
import re
import shlex
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from upweight.base.errors import DatasetError
from upweight.base.files import atomic_target
from upweight.base.text import Shown
from upweight.data.dataset import Dataset
from upweight.data.given import AnyDataset, as_dataset
from upweight.data.validate import check_finite
from upweight.explorer.facts import gather_facts
from upweight.explorer.server import PageServer
from upweight.io.loading import load

_SCRIPTS = ("page_data", "weights", "charts", "table", "npz", "main")  # as they build on each other
_MODULE_WORDS = re.compile(r"^(import .*\n|export )", re.MULTILINE)
_RECIPE = {"steps", "seed", "workers"}  # options of datasets that are made by name
_FOLDER = Path(__file__).parent
_HEIGHT = 900  # pixels of a notebook
_MAX_POINTS, _MAX_CURVES = 1000, 8  # of an episode that is read when asked for


def explore(dataset: AnyDataset, *, env: str | None = None, title: str | None = None, **options: Any) -> "Explorer":
    """A page on which to see what weightings do to a dataset: a slider, the numbers of ``inspect``, every episode.

    In a notebook it shows itself; :meth:`Explorer.save` writes it, complete in one file. ``dataset`` may be a path, the name of
    one, a frame, or a dataset of d3rlpy or Minari; ``options`` are those of :func:`upweight.load` for a path or name, and are
    part of the code that the page offers to copy. ``env`` names the task whose reference scores the suggestion is judged by.

    Examples:
        >>> page = uw.explore(ds).save("explore.html")  # open it in a browser
        >>> page.name
        'explore.html'
    """
    if not isinstance(dataset, str | os.PathLike):
        if options:
            raise DatasetError(
                f"{next(iter(options))}: options are for a path or a name, found {type(dataset).__name__}"
            )
        loaded = as_dataset(dataset)
        where = loaded.source if Path(loaded.source).exists() else "DATA"
        return Explorer(loaded, _code(where, {}, python="# ds: your dataset"), env, title)
    where = os.fspath(dataset)
    loaded = load(dataset, **options)
    given = {key: value for key, value in options.items() if value is not None and key != "guard"}
    arguments = "".join(f", {key}={_literal(value)}" for key, value in given.items())
    return Explorer(loaded, _code(where, given, python=f"ds = uw.load({_literal(where)}{arguments})"), env, title)


def _literal(value: Any) -> str:
    plain = os.fspath(value) if isinstance(value, os.PathLike) else value
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, str | list) else repr(plain)


def _code(where: str, options: dict[str, Any], *, python: str) -> dict[str, str]:
    """What the page's lines to copy begin with; a dataset that is made by name is made first."""
    words = [where]
    for key, value in options.items():
        words.append("--input-format" if key == "format" else f"--{key.replace('_', '-')}")
        if value is not True:
            words.append(",".join(value) if isinstance(value, list | tuple) else str(value))
    weights = "upweight weights"
    made = f"upweight make {shlex.join(words)} -o data.npz && {weights} data.npz"
    return {"python": python, "command": made if _RECIPE & options.keys() else f"{weights} {shlex.join(words)}"}


@dataclass(frozen=True, repr=False)
class Explorer(Shown):
    """What :func:`explore` made. Look at it in a notebook, :meth:`save` it, or :meth:`serve` it."""

    dataset: Dataset
    code: dict[str, str]  # how to get the dataset in Python, and the command up to the weighting
    env: str | None = None
    title: str | None = None

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page: one file that needs nothing else, no network either."""
        page = Path(path)
        if page.suffix not in {".html", ".htm"}:
            raise DatasetError(f"{page}: expected a page that ends in .html")
        with atomic_target(page) as target:
            target.write_text(self.html(), encoding="utf-8")
        return page

    def serve(self, *, port: int = 0) -> PageServer:
        """Serve the page on 127.0.0.1, under a random name, with curves of episodes that are read when asked for.

        Goes on until it is closed, or left as a context (``with explorer.serve() as server: print(server.address)``).
        """
        return PageServer(self.html(served=True), self._episode, self.dataset.num_episodes, port)

    def html(self, *, served: bool = False) -> str:
        """The page."""
        facts = {**self._facts_of_page, "code": self.code, "served": served}
        text = json.dumps(facts, allow_nan=False).replace("<", "\\u003c")  # so that nothing in it ends the script
        scripts = [_MODULE_WORDS.sub("", _read(f"{name}.js")) for name in _SCRIPTS]
        return Template(_read("page.html")).substitute(
            title=escape(self.title or Path(self.dataset.source).name or self.dataset.source),
            style=_read("page.css"),
            connect="'self'" if served else "'none'",
            facts=text,
            script="\n".join(scripts),
        )

    def _repr_html_(self) -> str:
        frame = f'title="Explorer" style="width: 100%; height: {_HEIGHT}px; border: 0"'
        return f'<iframe srcdoc="{escape(self.html())}" {frame}></iframe>'

    @cached_property
    def _facts_of_page(self) -> dict[str, Any]:
        return gather_facts(self.dataset, env=self.env)

    def _facts(self) -> dict[str, Any]:
        return {"source": self.dataset.source, "episodes": self.dataset.num_episodes, "steps": self.dataset.num_steps}

    def _episode(self, number: int) -> dict[str, Any]:
        """Curves of an episode, thinned out where it is long: k steps, their rewards, the sum so far, and observations [d][k]."""
        self.dataset.check_files()
        steps = self.dataset.episodes.steps_of(np.array([number]))
        shown = np.unique(np.linspace(0, len(steps) - 1, _MAX_POINTS).round().astype(np.int64))
        columns = self.dataset.columns  # some rows, and not the whole array before them
        rewards = columns["rewards"].rows(steps)
        observations = columns["observations"].rows(steps[shown]).reshape(len(shown), -1)[:, :_MAX_CURVES]
        for key, values in (("observations", observations), ("rewards", rewards)):
            check_finite(values, key=key, source=f"{self.dataset.source}: episode {number}")
        return {
            "steps": shown.tolist(),
            "rewards": rewards[shown].astype(np.float64).tolist(),
            "returns": np.cumsum(rewards, dtype=np.float64)[shown].tolist(),
            "observations": observations.T.astype(np.float64).tolist(),
        }


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
