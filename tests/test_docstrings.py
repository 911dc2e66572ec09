"""The reference has every public name, and the examples in their docstrings run."""

import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import upweight as uw
from support.results import add_runs

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# What another name's example gives, and errors, which are raised rather than made.
WITHOUT_EXAMPLE = {
    *(
        "Batches",
        "Evaluation",
        "Evaluator",
        "Experiment",
        "Explorer",
        "Inspection",
        "ReferenceScores",
        "Replication",
        "RunResult",
    ),
    *("Selection", "Suggestion", "SweepPlan", "SweepResult", "Transitions", "RayExecutor", "wandb_callback"),
    *("AdapterError", "ConfigError", "DataLossWarning", "DatasetError", "MissingExtraError", "RolloutError"),
    *("TrainingPaused", "UpweightWarning", "WeightingError"),
}
MANY = 5  # parameters that need no section of their own
SLOW = {"train", "evaluate", "make_dataset", "write_report"}
NAMES = [name for name in uw.__all__ if name not in WITHOUT_EXAMPLE]


def test_the_reference_has_every_public_name_once() -> None:
    text = "\n".join(page.read_text() for page in REFERENCE.glob("*.md"))
    assert sorted(re.findall(r"^::: upweight\.(\w+)$", text, re.MULTILINE)) == uw.__all__


@pytest.mark.parametrize("name", uw.__all__)
def test_every_public_name_says_what_it_is(name: str) -> None:
    said = inspect.getdoc(getattr(uw, name)) or ""
    assert said.partition("Examples:")[0].strip()
    assert ("Examples:\n    >>> " in said) == (name not in WITHOUT_EXAMPLE)


def functions() -> Iterator[tuple[str, Any]]:
    """Public functions, and methods of public classes."""
    for name in uw.__all__:
        thing = getattr(uw, name)
        names = [each for each in vars(thing) if not each.startswith("_")] if inspect.isclass(thing) else []
        found = [(f"{name}.{each}", getattr(thing, each)) for each in names] or [(name, thing)]
        yield from ((each, one) for each, one in found if inspect.isfunction(one) or inspect.ismethod(one))


def test_functions_of_many_parameters_say_what_each_is_in_order() -> None:
    many = 0
    for name, function in functions():
        parameters = [each for each in inspect.signature(function).parameters if each != "self"]
        if len(parameters) <= MANY:
            continue
        _, _, section = (inspect.getdoc(function) or "").partition("Args:\n")
        said = re.findall(r"^    (\w+): \S", re.split(r"\n\n|\n(?=\S)", section)[0], re.MULTILINE)
        assert said == parameters, name
        many += 1
    assert many >= 12


@pytest.mark.filterwarnings("ignore::UserWarning")  # eight episodes are few
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in NAMES])
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = uw.Store("results", create=True)
    for sampler, scores in (("Uniform", [0.1, 0.1, 0.2, 0.1, 0.3]), ("RW", [0.6, 0.7, 0.6, 0.8, 0.7])):
        add_runs(store, "hopper-expert-random-10", sampler, scores)
    names: dict[str, object] = {}
    exec(re.findall(r"^```python\n(.*?)^```", (REFERENCE / "index.md").read_text(), re.M | re.S)[0], names)
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(getattr(uw, name)) or "", names, name, None, None)
    told: list[str] = []
    doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=told.append)
    assert not told, "".join(told)
