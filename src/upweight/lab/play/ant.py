"""The ant of D4RL's and OGBench's mazes.

It is Gymnasium's ant with weaker motors, a step of a tenth of a second and softer contacts; a test holds it to OGBench's, number
by number.
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from upweight.base.optional import require

# Positions [15]: x, y, z, quaternion, 8 joints; velocities [14]: linear 3 (of the world), angular 3 (of the torso), 8 joints.
STATE_SIZE = 29
VIEW_SIZE = 7  # what `own_view` adds
_FRAMES_PER_STEP = 5
_RESET_NOISE = 0.1
Vector = NDArray[np.float64]
Box = tuple[float, float, float, float]  # of a wall: centre x, y; half its width; half its height


class Ant:
    """The simulation: one ant on a plane, between walls."""

    def __init__(self, walls: Iterable[Box] = ()) -> None:
        self._mujoco = require("mujoco", extra="mujoco", purpose="simulating an ant")
        self.model = self._mujoco.MjModel.from_xml_string(_xml(walls))
        self.data = self._mujoco.MjData(self.model)
        self.start = self.data.qpos.copy()

    def reset(self, rng: np.random.Generator, place: Sequence[float] | Vector = (0.0, 0.0)) -> Vector:
        """The state [29] of an ant at rest around ``place``, as OGBench draws it."""
        self._mujoco.mj_resetData(self.model, self.data)
        noise = rng.uniform(-_RESET_NOISE, _RESET_NOISE, self.model.nq)
        self.data.qpos[:] = self.start + noise
        self.data.qpos[:2] += place
        self.data.qvel[:] = _RESET_NOISE * rng.standard_normal(self.model.nv)
        self._mujoco.mj_forward(self.model, self.data)
        return self.state()

    def step(self, action: NDArray[np.float32]) -> Vector:
        self.data.ctrl[:] = action
        self._mujoco.mj_step(self.model, self.data, _FRAMES_PER_STEP)
        return self.state()

    def state(self) -> Vector:
        return np.concatenate([self.data.qpos, self.data.qvel])


def own_view(state: Vector, direction: tuple[float, float]) -> list[float]:
    """[7] as the ant sees it: where up is (3), its velocity over the ground (2) and a direction (2), ahead and to the left."""
    w, x, y, z = (float(value) for value in state[3:7])
    scale = 2 / (w * w + x * x + y * y + z * z)
    up = (scale * (x * z - w * y), scale * (y * z + w * x), 1 - scale * (x * x + y * y))
    ahead_x, ahead_y = 1 - scale * (y * y + z * z), scale * (x * y + w * z)  # the torso's first axis, over the ground
    size = math.hypot(ahead_x, ahead_y) or 1.0
    cosine, sine = ahead_x / size, ahead_y / size

    def turned(east: float, north: float) -> tuple[float, float]:
        return cosine * east + sine * north, cosine * north - sine * east

    return [*up, *turned(float(state[15]), float(state[16])), *turned(*direction)]


def _xml(walls: Iterable[Box]) -> str:
    """Gymnasium's model file, changed to what the mazes have."""
    gymnasium = require("gymnasium", extra="mujoco", purpose="simulating an ant")
    tree = ElementTree.parse(Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / "ant.xml").getroot()
    option, geoms, world = tree.find("option"), tree.find("default/geom"), tree.find("worldbody")
    assert option is not None and geoms is not None and world is not None
    option.set("timestep", "0.02")
    geoms.set("solimp", ".8 .8 .01")
    for motor in tree.iter("motor"):
        motor.set("gear", "30")
    for x, y, half_width, half_height in walls:
        ElementTree.SubElement(
            world,
            "geom",
            type="box",
            pos=f"{x} {y} {half_height}",
            size=f"{half_width} {half_width} {half_height}",
            contype="1",
            conaffinity="1",
        )
    return ElementTree.tostring(tree, "unicode")
