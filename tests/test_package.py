"""The package as it is installed: light to import, complete as a wheel."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import upweight as uw
from support.datasets import random_dataset
from support.results import make_study

ROOT = Path(__file__).parents[1]
PAPER = ("mixed", "regular", "stochastic", "temperature", "percentage", "official_iql", "official_antmaze")
SUITES = ("demo", *(f"paper/{name}" for name in PAPER))
POLICIES = ROOT / "src" / "upweight" / "lab" / "recipes" / "policies"
HEAVY = ("jax", "torch", "gymnasium", "h5py", "pyarrow", "pandas", "matplotlib", "minari", "scipy", "mujoco", "loky")


def python(code: str, **options: object) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, **options)  # type: ignore[call-overload]
    return str(done.stdout)


def test_importing_loads_nothing_heavy() -> None:
    code = f"import sys, upweight; print([name for name in {HEAVY} if name in sys.modules])"
    assert python(code).strip() == "[]"


def test_the_core_works_with_numpy_alone() -> None:
    """Load, weight and sample our own npz with every optional package made unimportable."""
    code = f"""
import sys
for name in {HEAVY}: sys.modules[name] = None
import numpy as np, upweight as uw, tempfile, pathlib
ds = uw.Dataset.from_arrays(observations=np.zeros((4, 2)), actions=np.zeros((4, 1)), rewards=np.arange(4.0),
                            terminated=[0, 1, 0, 1])
path = pathlib.Path(tempfile.mkdtemp()) / "a.npz"
uw.save(ds, path)
ds = uw.load(path)
uw.EpisodeSampler(ds, uw.AdvantageWeighting()).sample(np.random.default_rng(0), 4)
print(uw.inspect(ds))
"""
    assert "Suggestion" in python(code)


def test_without_jax_what_trains_names_the_extra() -> None:
    code = """
import sys
for name in ("jax", "jaxlib", "optax"): sys.modules[name] = None
import upweight as uw
for name in ("train", "Run", "plan_training", "algorithm_config", "sweep"):
    try:
        getattr(uw, name)
    except uw.MissingExtraError as error:
        print(error)
"""
    lines = python(code).splitlines()
    assert len(lines) == 5
    assert lines[0].startswith("upweight.train needs the package 'jax', which is not installed")
    assert all(line.endswith('pip install "upweight[train]"') for line in lines)


def test_public_names_resolve_and_are_listed() -> None:
    for name in uw.__all__:
        assert getattr(uw, name) is not None
    assert set(dir(uw)) >= set(uw.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        uw.nothing  # noqa: B018


@pytest.mark.slow
def test_type_checkers_know_the_public_names(tmp_path: Path) -> None:
    """Each has a type of its own, which a name that is only found at run time would not have."""
    script = tmp_path / "script.py"
    script.write_text("import upweight as uw\n" + "".join(f"reveal_type(uw.{name})\n" for name in uw.__all__))
    options = [
        "--config-file",
        str(ROOT / "pyproject.toml"),
        "--follow-imports",
        "silent",
        "--cache-dir",
        str(tmp_path),
    ]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(script)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split('"')[1] for line in done.stdout.splitlines() if "Revealed type" in line]
    types = dict(zip(uw.__all__, lines, strict=True))
    assert [name for name, kind in types.items() if kind in {"Any", "object", "builtins.object"}] == []
    assert types["batches"].startswith("def (dataset: upweight.data.dataset.Dataset")
    assert types["batches"].endswith("-> upweight.adapters.batches.Batches")
    assert types["Batches"].endswith("-> upweight.adapters.batches.Batches")


def test_the_version_is_said_once_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == uw.__version__
    assert f"## {uw.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert f"version: {uw.__version__}" in (ROOT / "CITATION.cff").read_text()


def test_extras_are_the_promised_ones_and_all_means_all() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    product = ["hdf5", "parquet", "minari", "plot", "train", "mujoco", "onnx", "torch", "d3rlpy", "torchrl", "ray"]
    assert list(extras) == [*product, "all", "docs", "dev"]
    assert extras["all"] == [f"upweight[{','.join(product)}]"]


@pytest.mark.slow
def test_the_source_distribution_holds_what_the_wheel_is_built_of(tmp_path: Path) -> None:
    """And no tests: they need folders that it lacks."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(build, check=True, capture_output=True, cwd=ROOT)
    (made,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(made) as archive:
        found = {Path(name).parts[1] for name in archive.getnames()}
    assert found == {"src", "README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "PKG-INFO", ".gitignore"}


@pytest.mark.slow
def test_the_wheel_works_outside_the_tree(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("upweight-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    target = ["--no-deps", "--no-index", "--target", str(tmp_path / "installed")]
    subprocess.run([sys.executable, "-m", "pip", "install", *target, str(wheel)], check=True, capture_output=True)
    packaged = {name for name in names if name.startswith("upweight/")}
    expected = {f"upweight/{p.relative_to(ROOT / 'src' / 'upweight')}" for p in (ROOT / "src").rglob("*.py")}
    policies = {f"upweight/{p.relative_to(ROOT / 'src' / 'upweight')}" for p in POLICIES.rglob("*") if p.is_file()}
    assert len(policies) > 60
    suites = {f"upweight/lab/study/suites/{name}.toml" for name in SUITES}
    tables = {f"upweight/lab/report/{name}" for name in ("paper/rpsv.csv", "paper/scores.csv", "page.html")} | suites
    tables |= {f"upweight/explorer/{p.name}" for p in (ROOT / "src" / "upweight" / "explorer").glob("*.[hjc]*")}
    assert packaged == expected | policies | tables | {"upweight/py.typed", "upweight/__init__.pyi"}
    # Not the editable install: site-packages joins the path without its .pth files being processed.
    path = os.pathsep.join([str(tmp_path / "installed"), sysconfig.get_paths()["purelib"]])
    code = "import upweight, numpy; print(upweight.__file__); upweight.Uniform(); import upweight.cli.main"
    out = subprocess.run(
        [sys._base_executable, "-c", code],  # type: ignore[attr-defined]
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
    ).stdout
    assert out.strip() == str(tmp_path / "installed" / "upweight" / "__init__.py")
    assert (tmp_path / "installed" / "bin" / "upweight").exists()


def test_what_people_look_at_shows_itself_in_a_line_and_in_a_notebook(tmp_path: Path) -> None:
    ds = random_dataset(next_known=True).with_labels("<b>label</b>")
    ds = replace(ds, source="<i>path</i>")
    make_study(tmp_path / "results", seeds=1, algorithms=["bc"]).pack(tmp_path / "packed.jsonl")
    store = uw.Store(tmp_path / "results")
    shown = [
        ds,
        uw.inspect(ds),
        uw.suggest(ds),
        uw.EpisodeSampler(ds, uw.ReturnWeighting(0.1)),
        uw.StepSampler(ds, np.ones(ds.num_steps)),
        uw.batches(ds, "rw"),
        store,
        uw.open_store(tmp_path / "packed.jsonl"),
        uw.Evaluation("Hopper-v5", np.ones(2), np.ones(2, np.int64), np.ones(2, bool)),
    ]
    for thing in shown:
        assert repr(thing).startswith(f"{type(thing).__name__}(")
        assert "\n" not in repr(thing) and len(repr(thing)) < 300
        html = thing._repr_html_()
        assert html.startswith("<div><strong>") and html.endswith("</div>")
        assert "<b>" not in html and "<i>" not in html
    assert "&lt;b&gt;label&lt;/b&gt;" in uw.inspect(ds)._repr_html_()
    assert uw.inspect(ds)._repr_html_().count("<table") == 2
    (store.path / "runs" / "damaged.json").write_text("{")
    assert "runs=" in repr(store)  # whatever the files hold
    assert len(repr(uw.collect(uw.open_store(tmp_path / "packed.jsonl")))) < 1000  # with versions, without all its runs
