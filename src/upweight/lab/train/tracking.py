"""Callbacks for :func:`upweight.train` that send metrics to a tracker. Neither tracker is a dependency."""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from upweight.base.errors import ConfigError

Record = dict[str, Any]  # of one run at one log interval: its number, its updates so far, the mean of each metric
Callback = Callable[[Sequence[Record]], None]


def tensorboard_callback(folder: str | Path) -> Callback:
    """Write event files under ``folder``, one tag per run and metric; needs ``pip install tensorboard``.

    Examples:
        >>> callback = uw.tensorboard_callback("events")  # uw.train(..., callbacks=[callback])
    """
    writer = _import("tensorboard.summary", "tensorboard").Writer(str(folder))

    def log(records: Sequence[Record]) -> None:
        for record in records:
            for name, value in _metrics(record).items():
                writer.add_scalar(f"run-{record['run']:03d}/{name}", value, record["updates"])
        writer.flush()

    return log


def wandb_callback(**options: Any) -> Callback:
    """Log to a Weights & Biases run started with ``options`` (project, name, mode, ...); needs ``pip install wandb``."""
    run = _import("wandb", "wandb").init(**options)

    def log(records: Sequence[Record]) -> None:
        for record in records:
            tagged = {f"run-{record['run']:03d}/{name}": value for name, value in _metrics(record).items()}
            run.log({**tagged, "updates": record["updates"]})

    return log


def _metrics(record: Record) -> Record:
    return {name: value for name, value in record.items() if name not in {"run", "updates"}}


def _import(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ConfigError(f"tracking needs the package {package!r}: run  pip install {package}") from error
