"""What the library needs of the lab, by name: the one module of the library that knows where the lab keeps things.

The lab (:mod:`upweight.lab`) needs JAX or a simulator, the library NumPy only. So the library imports nothing of the lab; it asks
here, when a user asks for it. (The public names of the lab are listed with all others, in ``upweight/__init__.pyi``.)
"""

from importlib import import_module
from typing import Any

HOMES = {
    "make_dataset": "upweight.lab.recipes.make",
    "recipe_names": "upweight.lab.recipes.recipe",
}
COMMANDS = {
    "demo": "upweight.lab.cli.demo",
    "make": "upweight.lab.cli.make",
    "train": "upweight.lab.cli.train",
    "evaluate": "upweight.lab.cli.evaluate",
    "select": "upweight.lab.cli.select",
    "sweep": "upweight.lab.cli.sweep",
    "report": "upweight.lab.cli.report",
    "replicate": "upweight.lab.cli.replicate",
}


def from_lab(name: str) -> Any:
    """The function or class of the lab that ``HOMES`` lists as ``name``."""
    return getattr(import_module(HOMES[name]), name)
