"""The oldest versions that pyproject.toml promises, as pip's words: ``python -m tools.oldest`` prints one a line.

PyTorch, what is built on it and Ray are left out: their old versions bring gigabytes, or no wheel for this Python.
"""

import re
import tomllib
from pathlib import Path

_PROJECT = Path(__file__).parents[1] / "pyproject.toml"
EXTRAS = ("hdf5", "parquet", "minari", "plot", "train", "mujoco", "onnx")
_FLOOR = re.compile(r"([\w-]+(?:\[[\w,-]+\])?)>=([\w.]+)")


def oldest() -> list[str]:
    """``numpy==2.0`` and so on: NumPy, and all that the extras need."""
    project = tomllib.loads(_PROJECT.read_text())["project"]
    needed = [*project["dependencies"], *(each for extra in EXTRAS for each in project["optional-dependencies"][extra])]
    floors = (_FLOOR.match(each) for each in needed)
    return [f"{floor[1]}=={floor[2]}" for floor in floors if floor is not None]


if __name__ == "__main__":
    print("\n".join(oldest()))  # noqa: T201
