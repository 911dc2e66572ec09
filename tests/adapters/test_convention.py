"""What all adapters agree on: how seeds and replacing are asked for, and what is named how."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

import upweight.adapters
from upweight.adapters.epochs import EpochSampler

pytestmark = pytest.mark.slow


def public() -> Iterator[tuple[str, Any]]:
    """The classes and functions of the adapters, and the classes' own methods that are no part of a protocol."""
    for module in pkgutil.iter_modules(upweight.adapters.__path__):
        home = importlib.import_module(f"upweight.adapters.{module.name}")
        for name, thing in vars(home).items():
            if not name.startswith("_") and getattr(thing, "__module__", None) == home.__name__ and callable(thing):
                yield f"{module.name}.{name}", thing
                if inspect.isclass(thing):
                    made = {key: value for key, value in vars(thing).items() if isinstance(value, classmethod)}
                    yield from ((f"{module.name}.{name}.{key}", getattr(thing, key)) for key in made)


INSIDE = {  # users do not call them
    "draws.Draws",
    "draws.Draws.of",
    "draws.checked_seed",
    "draws.one_or_pair",
    "epochs.EpochSampler",
}


def test_a_seed_is_a_number_with_one_default() -> None:
    found = {}
    for name, thing in public():
        seed = inspect.signature(thing).parameters.get("seed")
        if seed is not None and name not in INSIDE:
            found[name] = (seed.default, seed.annotation)
    assert len(found) >= 9
    assert set(found.values()) == {(0, int)}, found


def test_the_actors_weighting_is_asked_for_by_one_name() -> None:
    """Wherever there are batches to learn critics from, and not otherwise."""
    found = {}
    for name, thing in public():
        asked = inspect.signature(thing.__init__ if inspect.isclass(thing) else thing).parameters.get("actor_weighting")
        if asked is not None and name not in INSIDE:
            found[name] = (asked.default, asked.kind)
    assert set(found.values()) == {(None, inspect.Parameter.KEYWORD_ONLY)}
    classes = {"d3rlpy.WeightedReplayBuffer", "pytorch.WeightedBatchSampler", "pytorch.WeightedTransitions"}
    assert set(found) == classes | {"torchrl.WeightedEpisodeSampler", "batches.batches"}


def test_nothing_is_replaced_unless_asked() -> None:
    found = [inspect.signature(thing).parameters.get("overwrite") for _, thing in public()]
    asked = [parameter for parameter in found if parameter is not None]
    assert len(asked) == 2
    assert all(each.default is False and each.kind is each.KEYWORD_ONLY for each in asked)


def test_what_stands_for_a_class_of_another_library_is_called_weighted() -> None:
    from torch.utils.data import IterableDataset, Sampler
    from torchrl.data.replay_buffers.samplers import Sampler as TorchRLSampler

    from upweight.adapters.d3rlpy import ReplayBuffer

    bases = (IterableDataset, Sampler, TorchRLSampler, ReplayBuffer, EpochSampler)
    drawing = [name for name, thing in public() if inspect.isclass(thing) and issubclass(thing, bases)]
    drawing = [name for name in drawing if name not in INSIDE]
    assert len(drawing) == 5
    assert all(name.split(".")[1].startswith("Weighted") for name in drawing)
