"""A lower layer never imports a higher one, and plug-ins do not import each other."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import upweight
from upweight.io.registry import formats
from upweight.lab.train.algorithm import algorithms
from upweight.weightings.registry import weighting_classes

SOURCE = Path(upweight.__file__).parent
# Each layer may import itself, `base`, and the layers named here. The library's floor:
LIBRARY = {
    "base": set(),
    "data": set(),
    "weightings": {"data"},
    "samplers": {"data"},
    "policies": {"data"},
    "io": {"data"},
    "adapters": {"data", "weightings", "samplers", "io"},
    "inspection": {"data", "weightings", "io"},
    "explorer": {"data", "weightings", "inspection", "io"},
}
LIBRARY["cli"] = {*LIBRARY, ""}
# ... and the lab's, which stands on it:
LAB = {
    "lab.play": {"data", "policies"},
    "lab.recipes": {"data", "policies", "lab.play"},
    "lab.train": {"data", "weightings", "samplers", "policies", "io", "inspection", "lab.play"},
    "lab.study": {"data", "weightings", "io", "lab.play", "lab.recipes", "lab.train"},
    "lab.sweep": {"data", "weightings", "io", "lab.play", "lab.recipes", "lab.train", "lab.study"},
    "lab.report": {"data", "lab.train", "lab.study"},
    "lab.select": {
        *("data", "weightings", "samplers", "policies", "io", "inspection"),
        *("lab.play", "lab.train", "lab.study", "lab.report"),
    },
}
LAB["lab.cli"] = {*LIBRARY, *LAB}
ALLOWED = LIBRARY | LAB
TABLE = "upweight.base.lab"  # the one module of the library that names the lab
NUMPY_ONLY = {"base", "data", "weightings", "samplers"}
LIBRARIES = {"h5py", "pyarrow", "minari", "gymnasium", "PIL", "matplotlib", "pandas", "torch", "onnx", "mujoco", "loky"}
LIBRARIES |= {"d3rlpy", "torchrl", "tensordict", "ray"}
# Modules whose classes need a library as their base; nobody here imports them: a user or Gymnasium does.
LOADED_BY_NAME = {
    "upweight.lab.play.action_noise": {"gymnasium"},
    "upweight.lab.play.ant_maze": {"gymnasium"},
    "upweight.adapters.d3rlpy": {"d3rlpy"},
    "upweight.adapters.torchrl": {"torch", "torchrl"},
    "upweight.adapters.pytorch": {"torch"},
    "upweight.adapters.minari": {"minari"},
}
ASKED_BY_NAME = {
    "upweight.data.given": {"upweight.io.loading"}
}  # by a lower layer, when a user gives what must be read
ENGINE_LIBRARIES = {"jax", "optax"}  # at the top of what trains
MODULES = sorted(SOURCE.rglob("*.py"))


def layer_of(module: str) -> str:
    """The folder under ``upweight``, or under its lab; empty for the package itself."""
    parts = module.split(".")
    return ".".join(parts[1 : 3 if parts[1:2] == ["lab"] else 2])


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
    if own in {"", "__main__", "lab"}:
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
    assert not engine or layer_of(name_of(path)) in {"lab.train", "lab.select", "lab.study", "lab.sweep"}
    at_import = {module.split(".")[0] for module in imports(path, top_level=True)} & LIBRARIES
    assert at_import <= LOADED_BY_NAME.get(name_of(path), set())
    assert not (imports(path) & LOADED_BY_NAME.keys())
    assert not (used and layer_of(name_of(path)) in NUMPY_ONLY)


@pytest.mark.parametrize("path", MODULES, ids=[str(path.relative_to(SOURCE)) for path in MODULES])
def test_nothing_above_is_asked_for_by_a_string(path: Path) -> None:
    """But what is listed here, and the lab: that has a table of its own."""
    own = name_of(path)
    if own in {TABLE, "upweight"} or layer_of(own) in {"cli", "lab.cli"}:
        return
    tree = ast.parse(path.read_text())
    texts = {id(node.body[0].value) for node in ast.walk(tree) if _has_docstring(node)}
    named = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in texts]
    layers = {text: layer_of(text.partition(":")[0]) for text in named if str(text).startswith("upweight.")}
    below = ALLOWED.get(layer_of(own), set()) | {layer_of(own), "base"}
    above = {text for text, layer in layers.items() if layer in ALLOWED.keys() - below}
    assert above <= ASKED_BY_NAME.get(own, set())


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
        if layer_of(name_of(path)) in {"cli", "lab.cli"}:
            continue
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        assert not [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"], path


def test_names_say_something() -> None:
    for path in MODULES:
        assert path.stem not in {"utils", "util", "common", "helpers", "misc"}


def test_every_package_module_has_a_docstring() -> None:
    for path in MODULES:
        assert ast.get_docstring(ast.parse(path.read_text())), path


@pytest.mark.parametrize("path", MODULES, ids=[str(path.relative_to(SOURCE)) for path in MODULES])
def test_the_library_names_the_lab_in_one_module_only(path: Path) -> None:
    """Not by an import, nor by a string that could be imported."""
    own = name_of(path)
    if own == TABLE or layer_of(own).startswith("lab"):
        return
    tree = ast.parse(path.read_text())
    texts = {id(node.body[0].value) for node in ast.walk(tree) if _has_docstring(node)}
    named = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in texts]
    assert not [text for text in named if isinstance(text, str) and "upweight.lab" in text]
    assert not [module for module in imports(path) if module.startswith("upweight.lab")]


def _has_docstring(node: ast.AST) -> bool:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return isinstance(node, kinds) and ast.get_docstring(node) is not None


def test_the_table_leads_somewhere() -> None:
    from upweight.base.lab import COMMANDS, HOMES, from_lab

    assert all(callable(from_lab(name)) for name in HOMES)
    assert all(callable(importlib.import_module(module).run) for module in COMMANDS.values())


@pytest.mark.slow
def test_commands_of_the_library_do_without_the_lab(tmp_path: Path) -> None:
    code = f"""
import sys
for name in ("upweight.lab", "jax", "gymnasium"): sys.modules[name] = None
import numpy as np, upweight as uw
from upweight.cli.main import main
rng = np.random.default_rng(0)
episodes = [dict(observations=rng.normal(size=(n, 2)), actions=rng.normal(size=(n, 1)), rewards=rng.normal(size=n),
                 terminated=True) for n in rng.integers(2, 9, size=40)]
uw.save(uw.Dataset.from_episodes(episodes), {str(tmp_path / "a.npz")!r})
open({str(tmp_path / "log.csv")!r}, "w").write("episode,step,action,reward\\n0,0,1,0\\n0,1,0,1\\n")
a, out = {str(tmp_path / "a.npz")!r}, {str(tmp_path)!r}
for words in (
    ["inspect", a],
    ["explore", a, "-o", out + "/a.html"],
    ["mix", a, a, "--fraction", "0.5", "--steps", "50", "-o", out + "/mixed.npz"],
    ["convert", a, "-o", out + "/b.npz"],
    ["pack", a, "-o", out + "/packed"],
    ["weights", a, "--weighting", "rw", "-o", out + "/w.npz"],
    ["resample", a, "--may-lose", "0.9", "-o", out + "/r.npz"],
    ["cache"],
    ["init", out + "/log.csv"],
):
    assert main(words) == 0, words
print(sorted(set(main.__globals__["COMMANDS"]) - set(main.__globals__["lab"].COMMANDS)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(
        ["cache", "convert", "explore", "init", "inspect", "mix", "pack", "resample", "weights"]
    )


@pytest.mark.slow
def test_records_and_reports_do_without_jax(tmp_path: Path) -> None:
    store = SOURCE.parents[1] / "reproduction" / "results" / "demo_seed0.jsonl"
    code = f"""
import sys
for name in ("jax", "jaxlib", "optax", "gymnasium"): sys.modules[name] = None
import importlib, pkgutil
for name in ("run_spec", "store", "readers"):
    importlib.import_module("upweight.lab.study." + name)
for folder in ("report", "report.figures", "report.statistics"):
    for module in pkgutil.iter_modules(importlib.import_module("upweight.lab." + folder).__path__):
        importlib.import_module(f"upweight.lab.{{folder}}.{{module.name}}")
from upweight.cli.main import main
assert main(["report", {str(store)!r}, "-o", {str(tmp_path / "report.html")!r}, "--resamples", "20"]) == 0
assert main(["replicate", {str(store)!r}, "--resamples", "20"]) == 0
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_picture_is_the_tree() -> None:
    """ARCHITECTURE.md names every folder, and what each may import."""
    rows = re.findall(r"^\| `([\w/]+)/` \| (.*?) ?\| .* \|$", (SOURCE.parents[1] / "ARCHITECTURE.md").read_text(), re.M)
    shown = {name.replace("/", "."): set(re.findall(r"`([\w.]+)`", allowed)) for name, allowed in rows}
    assert shown == {name: allowed for name, allowed in ALLOWED.items() if not name.endswith("cli")}
    folders = {layer_of(name_of(path)) for path in SOURCE.glob("**/__init__.py")}
    assert folders == {*ALLOWED, "lab", ""}
