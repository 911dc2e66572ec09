"""A lower layer never imports a higher one, and plug-ins do not import each other."""

import ast
import re
from pathlib import Path

import pytest

import upweight
from upweight.engine.algorithm import algorithms
from upweight.io.registry import formats
from upweight.weightings.registry import weighting_classes

SOURCE = Path(upweight.__file__).parent
# Each layer may import itself, `base`, and the layers named here.
ALLOWED = {
    "base": set(),
    "data": set(),
    "paper": set(),
    "weightings": {"data"},
    "samplers": {"data"},
    "io": {"data"},
    "policies": {"data"},
    "adapters": {"data", "weightings", "samplers", "io", "loading"},
    "inspection": {"data", "weightings", "io", "loading"},
    "explorer": {"data", "weightings", "inspection", "loading"},
    "engine": {"data", "weightings", "samplers", "policies", "rollout", "loading"},
    "rollout": {"data", "policies"},
    "recipes": {"data", "policies", "rollout"},
    "loading": {"data", "io", "recipes"},
    "packing": {"data", "io", "loading"},
    "studies": {"data", "weightings", "engine", "rollout", "recipes", "loading"},
    "sweeps": {"data", "weightings", "engine", "rollout", "recipes", "loading", "studies"},
    "report": {"data", "engine", "studies", "paper"},
    "selection": {
        "data",
        "weightings",
        "samplers",
        "policies",
        "engine",
        "rollout",
        "loading",
        "studies",
        "inspection",
        "report",
    },
}
ALLOWED["cli"] = {*ALLOWED, ""}
NUMPY_ONLY = {"base", "data", "paper", "weightings", "samplers"}
LIBRARIES = {"h5py", "pyarrow", "minari", "gymnasium", "PIL", "matplotlib", "pandas", "torch", "onnx", "mujoco", "loky"}
LIBRARIES |= {"d3rlpy", "torchrl", "tensordict", "ray"}
# Modules whose classes need a library as their base; nobody here imports them: a user or Gymnasium does.
LOADED_BY_NAME = {
    "upweight.rollout.action_noise": {"gymnasium"},
    "upweight.rollout.ant_maze": {"gymnasium"},
    "upweight.adapters.d3rlpy": {"d3rlpy"},
    "upweight.adapters.torchrl": {"torch", "torchrl"},
    "upweight.adapters.pytorch": {"torch"},
    "upweight.adapters.minari": {"minari"},
    "upweight.adapters.rllib": {"ray"},
}
ENGINE_LIBRARIES = {"jax", "optax"}  # at the top of what trains
MODULES = sorted(SOURCE.rglob("*.py"))


def layer_of(module: str) -> str:
    """The folder (or top-level module) under ``upweight``; empty for the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def imports(path: Path, *, top_level: bool = False) -> set[str]:
    tree = ast.parse(path.read_text())
    inside = [node for statement in tree.body if isinstance(statement, ast.With) for node in statement.body]
    nodes = tree.body + inside if top_level else list(ast.walk(tree))
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return found


def name_of(path: Path) -> str:
    return ".".join(["upweight", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")


@pytest.mark.parametrize("path", MODULES, ids=[str(path.relative_to(SOURCE)) for path in MODULES])
def test_imports_point_downwards(path: Path) -> None:
    own = layer_of(name_of(path))
    if own in {"", "__main__"}:
        return  # the facade sees all layers
    for module in imports(path):
        if module.split(".")[0] == "upweight" and module.count("."):
            layer = layer_of(module)
            is_version = module == "upweight.__version__"
            assert layer in ALLOWED[own] | {own, "base"} or is_version, f"{name_of(path)} imports {module}"


@pytest.mark.parametrize("path", MODULES, ids=[str(path.relative_to(SOURCE)) for path in MODULES])
def test_libraries_are_imported_late_and_only_where_they_belong(path: Path) -> None:
    used = {module.split(".")[0] for module in imports(path)} & LIBRARIES
    engine = {module.split(".")[0] for module in imports(path)} & ENGINE_LIBRARIES
    assert not engine or layer_of(name_of(path)) in {"engine", "studies", "sweeps"}
    at_import = {module.split(".")[0] for module in imports(path, top_level=True)} & LIBRARIES
    assert at_import <= LOADED_BY_NAME.get(name_of(path), set())
    assert not (imports(path) & LOADED_BY_NAME.keys())
    assert not (used and layer_of(name_of(path)) in NUMPY_ONLY)


def test_plug_ins_do_not_import_each_other() -> None:
    formats_ = {format_.read.__module__ for format_ in formats().values()}
    weightings = {kind.__module__ for kind in weighting_classes().values()}
    methods = {algorithm.init.__module__ for algorithm in algorithms().values()}
    for group in (formats_, weightings, methods):
        assert len(group) >= 5
        for module in group:
            path = SOURCE / Path(*module.split(".")[1:]).with_suffix(".py")
            assert not (imports(path) & (group - {module})), module


def test_only_the_command_line_prints() -> None:
    for path in MODULES:
        if layer_of(name_of(path)) == "cli":
            continue
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        assert not [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"], path


def test_names_say_something() -> None:
    for path in MODULES:
        assert path.stem not in {"utils", "util", "common", "helpers", "misc"}


def test_every_package_module_has_a_docstring() -> None:
    for path in MODULES:
        assert ast.get_docstring(ast.parse(path.read_text())), path


def test_the_picture_is_the_tree() -> None:
    """ARCHITECTURE.md names every folder, and what each may import."""
    rows = re.findall(
        r"^\| `(\w+)(?:/|\.py)` \| (.*?) ?\| .* \|$", (SOURCE.parents[1] / "ARCHITECTURE.md").read_text(), re.M
    )
    shown = {
        name: set(re.findall(r"`(\w+)`", allowed)) for name, allowed in rows if name not in {"__init__", "tools", "cli"}
    }
    assert shown == {name: allowed for name, allowed in ALLOWED.items() if name != "cli"}
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert folders | {"loading", "packing"} == ALLOWED.keys()
