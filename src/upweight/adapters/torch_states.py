"""The state of draws as PyTorch keeps states: its arrays as tensors."""

from collections.abc import Mapping
from typing import Any

import numpy as np


def as_tensors(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state with a tensor instead of every array."""
    import torch

    return {
        name: as_tensors(value)
        if isinstance(value, Mapping)
        else torch.from_numpy(value)
        if isinstance(value, np.ndarray)
        else value
        for name, value in state.items()
    }


def as_arrays(state: Mapping[str, Any]) -> dict[str, Any]:
    """The way back, from whichever device the tensors are on."""
    import torch

    return {
        name: as_arrays(value)
        if isinstance(value, Mapping)
        else value.cpu().numpy()
        if isinstance(value, torch.Tensor)
        else value
        for name, value in state.items()
    }
