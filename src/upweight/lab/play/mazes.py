"""D4RL's three mazes, and the way through them.

Cells are squares of 4 metres; the start is at (0, 0), columns lie along x, rows along y. A planner leads an ant from centre to
centre on a shortest path. Where it is told to go is its command:

``goal``      from the start to the goal (and back, and again, where that is not the end)
``play``      from anywhere to the cells that D4RL picked by hand, one after the other; the goal is one of them
``diverse``   from anywhere to anywhere, and on
``wander``    the same, but never to the goal
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

SIZE = 4.0  # metres of a cell
GOAL_RADIUS = 0.5
COMMANDS = ("goal", "play", "diverse", "wander")
_NEAR = 1.0  # metres from a centre at which the next one is headed for
Cell = tuple[int, int]  # row, column
Place = tuple[float, float]  # x, y
Spot = Place | NDArray[np.float64]


@dataclass(frozen=True)
class Maze:
    """A map: ``#`` wall, ``S`` start, ``G`` goal, ``p`` picked, ``.`` open."""

    rows: tuple[str, ...]
    max_steps: int

    def cells(self, kinds: str) -> list[Cell]:
        return [(i, j) for i, row in enumerate(self.rows) for j, kind in enumerate(row) if kind in kinds]

    def walls(self) -> Iterator[tuple[float, float, float, float]]:
        """Centre, half the width and half the height of each block."""
        return ((*centre(cell), SIZE / 2, SIZE / 4) for cell in self.cells("#"))

    @property
    def goal(self) -> Place:
        return centre(self.cells("G")[0])

    def starts(self, command: str) -> list[Cell]:
        return self.cells("S" if command == "goal" else "Sp.")

    def targets(self, command: str) -> list[Cell]:
        return self.cells({"goal": "G", "play": "pG", "diverse": "Sp.G", "wander": "Sp."}[command])

    @cache  # noqa: B019  (there are three mazes)
    def distances(self, target: Cell) -> dict[Cell, int]:
        """Steps from cell to cell to a target, breadth first."""
        found, upcoming = {target: 0}, [target]
        for cell in upcoming:
            for near in _neighbours(cell):
                if near not in found and self.rows[near[0]][near[1]] != "#":
                    found[near] = found[cell] + 1
                    upcoming.append(near)
        return found


MAZES = {
    "umaze": Maze(
        (
            "#####",
            "#S..#",
            "###.#",
            "#G..#",
            "#####",
        ),
        max_steps=700,
    ),
    "medium": Maze(
        (
            "########",
            "#S.##..#",
            "#..#..p#",
            "##...###",
            "#..#...#",
            "#p#..#.#",
            "#...#pG#",
            "########",
        ),
        max_steps=1000,
    ),
    "large": Maze(
        (
            "############",
            "#S...#p....#",
            "#.##.#.#.#.#",
            "#....p.#..p#",
            "#.####.###.#",
            "#.p#.#.....#",
            "##.#.#.#.###",
            "#..#p.p#.G.#",
            "############",
        ),
        max_steps=1000,
    ),
}


def maze_id(maze: str, command: str | None = None, *, ends: bool = True) -> str:
    """The environment's id; with a command it is one to collect in, and ``ends`` whether it ends at the goal."""
    return f"upweight/AntMaze-{maze}{f'-{command}' if command else ''}{'' if ends else '-endless'}-v0"


def centre(cell: Cell) -> Place:
    return (cell[1] - 1) * SIZE, (cell[0] - 1) * SIZE


def cell_of(place: Spot) -> Cell:
    return round(place[1] / SIZE) + 1, round(place[0] / SIZE) + 1


class Planner:
    """Says where to head for: the centres of a shortest path to a target, and then another target."""

    def __init__(self, maze: Maze, command: str, start: Spot, rng: np.random.Generator) -> None:
        self.maze, self.rng = maze, rng
        self.targets = maze.targets(command)
        self.target = self._draw()
        self.waypoint = cell_of(start)

    def direction(self, place: Spot) -> Place:
        """Of length 1, from ``place`` to the next waypoint."""
        if self.waypoint == self.target:
            if math.dist(place, centre(self.target)) <= GOAL_RADIUS:
                back = [self.target] == self.targets
                self.target = self.maze.cells("S")[0] if back else self._draw()
        elif math.dist(place, centre(self.waypoint)) <= _NEAR:
            distances = self.maze.distances(self.target)
            self.waypoint = min(_neighbours(self.waypoint), key=lambda near: distances.get(near, math.inf))
        elif cell_of(place) not in {self.waypoint, *_neighbours(self.waypoint)}:  # it was pushed off its way
            self.waypoint = cell_of(place)
        x, y = centre(self.waypoint)
        east, north = x - float(place[0]), y - float(place[1])
        size = math.hypot(east, north) or 1.0
        return east / size, north / size

    def _draw(self) -> Cell:
        return self.targets[int(self.rng.integers(len(self.targets)))]


def _neighbours(cell: Cell) -> list[Cell]:
    i, j = cell
    return [(i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)]
