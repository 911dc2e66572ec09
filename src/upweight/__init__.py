"""upweight: get the best policy out of a mixed offline RL dataset.

The public names are listed, with their homes, in ``__init__.pyi``, which type checkers and editors read too. Each is imported
when first used, so ``import upweight`` costs next to nothing and needs NumPy only.
"""

import ast
from importlib import import_module

__version__ = "0.1.0"

with open(f"{__file__}i", encoding="utf-8") as _file:  # importing pathlib would take longer than all the rest
    _LIST = _file.read()
_HOME_OF = {
    alias.name: statement.module
    for statement in ast.parse(_LIST).body
    if isinstance(statement, ast.ImportFrom) and statement.module is not None
    for alias in statement.names
}
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'upweight' has no attribute {name!r}")
    from upweight.base.optional import importing

    with importing(extra="train", purpose=f"upweight.{name}"):  # all but JAX and optax are imported inside functions
        value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
