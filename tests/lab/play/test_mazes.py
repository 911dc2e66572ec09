"""The mazes are OGBench's, and the planner finds its way."""

import numpy as np
import ogbench.locomaze.maze
import pytest

from upweight.data.reference_scores import reference_scores
from upweight.lab.play.ant import STATE_SIZE, VIEW_SIZE
from upweight.lab.play.environments import make_environment
from upweight.lab.play.mazes import COMMANDS, GOAL_RADIUS, MAZES, Planner, cell_of, centre, maze_id


@pytest.mark.parametrize("name", ["medium", "large"])
def test_walls_and_movements_are_those_of_ogbench(name: str) -> None:
    theirs = ogbench.locomaze.maze.make_maze_env("ant", "maze", maze_type=name)
    maze = MAZES[name]
    assert maze.cells("#") == [tuple(cell) for cell in np.argwhere(theirs.maze_map == 1)]
    assert all(theirs.ij_to_xy(cell) == centre(cell) for cell in maze.cells("SpG."))
    ours = make_environment(maze_id(name)).unwrapped
    theirs.reset()
    state, _ = ours.reset(seed=0)
    state[:2] = -1.2, -0.9  # in a corner: walls are felt
    for simulation in (ours.ant, theirs):
        simulation.data.qpos[:], simulation.data.qvel[:] = state[:15], state[15:]
    rng = np.random.default_rng(0)
    touched = 0
    for _ in range(20):
        action = rng.uniform(-1, 1, 8).astype(np.float32)
        mine, other = ours.step(action)[0], theirs.step(action)[0]
        assert mine == pytest.approx(other, abs=1e-6)
        touched += sum(ours.ant.model.geom_type[contact.geom1] == 6 for contact in ours.ant.data.contact)
        touched += sum(ours.ant.model.geom_type[contact.geom2] == 6 for contact in ours.ant.data.contact)
    assert touched  # boxes


@pytest.mark.parametrize("name", MAZES)
@pytest.mark.parametrize("command", COMMANDS)
def test_whoever_follows_the_planner_gets_everywhere_and_into_no_wall(name: str, command: str) -> None:
    maze, rng = MAZES[name], np.random.default_rng(0)
    reached: set[tuple[int, int]] = set()
    for start in maze.starts(command)[::2]:
        place = np.array(centre(start)) + rng.uniform(-1, 1, 2)
        planner = Planner(maze, command, place, rng)
        for _ in range(1000):
            if np.linalg.norm(place - centre(planner.target)) <= GOAL_RADIUS:
                reached.add(planner.target)
            place = place + 0.2 * np.array(planner.direction(place)) + rng.normal(0, 0.05, 2)
            assert cell_of(place) in maze.distances(planner.target)
    assert reached >= set(maze.targets(command))


def test_ways_are_the_shortest() -> None:
    maze = MAZES["umaze"]
    assert maze.distances((3, 1)) == {(3, 1): 0, (3, 2): 1, (3, 3): 2, (2, 3): 3, (1, 3): 4, (1, 2): 5, (1, 1): 6}
    assert [len(each.cells("SpG.")) for each in MAZES.values()] == [7, 26, 46]
    assert [each.goal for each in MAZES.values()] == [(0, 8), (20, 20), (32, 24)]
    planner = Planner(maze, "goal", (0.1, 0.1), np.random.default_rng(0))
    assert planner.direction((0.0, 0.0)) == (1, 0)
    assert planner.direction((7.0, 0.0)) == (-1, 0)  # pushed past the next centre, and back to it
    assert planner.direction((8.0, 3.0)) == (0, 1)  # two cells off its way: on from here
    planner.waypoint = planner.target
    planner.direction((0.2, 7.9))
    assert planner.target == (1, 1)  # back, where the goal is not the end


@pytest.mark.parametrize("name", MAZES)
def test_reaching_the_goal_is_rewarded_and_the_end(name: str) -> None:
    for ends in (True, False):
        environment = make_environment(maze_id(name, ends=ends))
        first, about = environment.reset(seed=4)
        assert first.shape == (STATE_SIZE,) and np.abs(first[:2]).max() <= 0.1 and about == {"success": False}
        assert np.array_equal(first, environment.reset(seed=4)[0])
        nothing = np.zeros(8, np.float32)
        assert environment.step(nothing)[1:] == (0.0, False, False, {"success": False})
        environment.unwrapped.ant.data.qpos[:2] = MAZES[name].goal
        assert environment.step(nothing)[1:] == (1.0, ends, False, {"success": True})
        assert environment.spec.max_episode_steps == (700 if name == "umaze" else 1000)
    assert reference_scores(maze_id(name)) == (0, 1)


def test_an_ant_under_command_is_told_the_way() -> None:
    environment = make_environment(maze_id("medium", "diverse"))
    places = []
    for seed in range(20):
        observation, _ = environment.reset(seed=seed)
        assert observation.shape == (STATE_SIZE + VIEW_SIZE,)
        assert np.linalg.norm(observation[-2:]) == pytest.approx(1)
        places.append(cell_of(observation[:2]))
    assert len(set(places)) > 8
