"""The ant is OGBench's, by its own model file and step by step."""

import math
from pathlib import Path

import mujoco
import numpy as np
import ogbench.locomaze
import pytest

from upweight.lab.play.ant import STATE_SIZE, VIEW_SIZE, Ant, own_view

PHYSICS = ("body_", "jnt_", "dof_", "actuator_", "qpos0", "geom_solimp", "geom_solref", "geom_friction", "geom_margin")


def test_the_model_is_the_one_of_ogbench() -> None:
    theirs = mujoco.MjModel.from_xml_path(str(Path(ogbench.locomaze.__file__).parent / "assets" / "ant.xml"))
    ours = Ant().model
    names = [name for name in dir(theirs) if name.startswith(PHYSICS)]
    assert len(names) > 50
    for name in names:
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name
    for name in ("timestep", "integrator", "gravity", "solver", "iterations", "density", "viscosity", "cone"):
        assert np.array_equal(getattr(ours.opt, name), getattr(theirs.opt, name)), name
    assert np.array_equal(ours.geom_size[1:], theirs.geom_size[1:])  # the floor is smaller than theirs


def test_its_own_view_does_not_depend_on_the_heading() -> None:
    """Turn the ant, its velocity and the direction by one angle: it sees the same."""
    state = Ant().reset(np.random.default_rng(0))
    state[15:17] = 0.3, -0.7

    def turned(angle: float) -> list[float]:
        other, half = state.copy(), angle / 2
        turn = np.array([math.cos(half), 0, 0, math.sin(half)])
        mujoco.mju_mulQuat(other[3:7], turn, np.ascontiguousarray(state[3:7]))
        matrix = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        other[15:17] = matrix @ state[15:17]
        return own_view(other, tuple(matrix @ [0.6, 0.8]))

    assert turned(2.0) == pytest.approx(turned(0.0))
    assert turned(-3.0) == pytest.approx(turned(0.0))
    upright = np.zeros(STATE_SIZE)
    upright[3:7] = math.sqrt(0.5), 0, 0, math.sqrt(0.5)  # it looks along y
    upright[15:17] = 0, 2
    assert own_view(upright, (1, 0)) == pytest.approx([0, 0, 1, 2, 0, 0, -1])  # up, 2 m/s ahead, to the right
    assert len(own_view(upright, (1, 0))) == VIEW_SIZE
