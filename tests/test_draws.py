"""What docs/results.md says of two draws of the data."""

from math import pi, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.pages import load_benchmark, text_of
from support.results import add_points, add_runs, data_spec
from upweight.studies.store import Store

pytestmark = pytest.mark.slow  # reading and resampling thousands of runs takes seconds


@pytest.fixture(scope="module")
def page() -> Any:
    return load_benchmark("draws_page")


def test_what_two_draws_differ_by(page: Any, tmp_path: Path) -> None:
    """The second after 500 updates, the first at this point of a longer training; by hand."""
    paths = [tmp_path / "mixed.jsonl", tmp_path / "mixed_seed1.jsonl"]
    first, second = Store(tmp_path / "first", create=True), Store(tmp_path / "second", create=True)
    for mix, level in (("hopper-expert-random-1", 0.2), ("hopper-expert-random-5", 0.6)):
        for name, gain in (("Uniform", 0.0), ("RW", 0.2)):
            data = [data_spec(mix, seed=seed) for seed in (0, 1)]
            runs = add_runs(first, data[0], name, [0.0] * 4)
            at = level + gain
            add_points(first, runs, *({500: at + step} for step in (-0.1, -0.1, 0.1, 0.1)))
            add_runs(second, data[1], name, [at + (0.3 if mix.endswith("1") else -0.1)] * 2, updates=500)
    add_runs(first, "hopper-expert", "Uniform", [1.0] * 4)  # has no second draw
    for store, path in zip((first, second), paths, strict=True):
        store.pack(path)
    draws = page.Draws(load_benchmark("scores_page").Study("mixed", tuple(paths)))
    assert draws.method == "BC" and draws.weightings == ["Uniform", "RW"]
    assert [pair[0].base for pair in draws.pairs] == ["hopper-expert-random-1", "hopper-expert-random-5"]
    assert draws.scores(0, "RW")["hopper-expert-random-1"] == pytest.approx([0.3, 0.3, 0.5, 0.5])
    spread = draws.spread("RW")
    variance = 4 * 0.01 / 4  # of the first's four seeds; the second's two are equal; 4 degrees of freedom
    error = variance * (1 / 4 + 1 / 2)
    assert spread.distance == pytest.approx(0.2) and spread.by_seeds == pytest.approx(sqrt(2 / pi * error))
    assert spread.seeds == pytest.approx(sqrt(variance))
    assert spread.draws == pytest.approx(sqrt(((0.09 + 0.01) / 2 - error) / 2))
    rows = {row[0]: row[1:] for row in page.draw_rows(draws)}
    assert rows["Uniform"][:2] == ("0.40", "0.50")
    claims = {row[0]: row[1:] for row in page.draw_claim_rows(draws, lambda claim: claim.name == "mixed")}
    assert list(claims) == ["claim", "RW and AW beat Uniform at each sigma"]


def test_a_second_draw_of_the_mixes(page: Any) -> None:
    text, study = text_of("docs/results.md"), load_benchmark("results_page").studies()["mixed"]
    draws = page.Draws(study)
    assert (draws.method, dict(draws.both.updates)) == ("BC, bfloat16", {"BC, bfloat16": 250_000})
    assert len(draws.pairs) == 32 and len(draws.weightings) == 5
    seeds = [{len(values) for name in draws.weightings for values in draws.scores(at, name).values()} for at in (0, 1)]
    assert seeds == [{5}, {3}]
    rows = page.draw_rows(draws)[1:]
    moved = [abs(float(row[3].split()[0])) for row in rows]
    assert max(moved) < 0.01  # "No sampler's IQM moves by more than 0.01"
    distance, _, over_seeds, over_draws = (np.array([float(row[at]) for row in rows]) for at in (4, 5, 6, 7))
    assert f"single mixes differ by {min(distance):.2f} to {max(distance):.2f}," in text
    assert (
        f"a standard deviation of {min(over_draws):.2f} to {max(over_draws):.2f} to the {min(over_seeds):.2f} to"
        in text
    )
    assert f"to {max(over_seeds):.2f} of seeds." in text
    apart = {}
    for name in draws.weightings:
        first, second = (draws.scores(at, name) for at in (0, 1))
        apart |= {(mix, name): (np.mean(first[mix]), np.mean(second[mix])) for mix in first}
    furthest = max(apart, key=lambda key: abs(apart[key][0] - apart[key][1]))
    assert furthest == ("hopper-expert-random-1", "AW")
    assert "AW on `hopper-expert-random-1`, with ten of them, {:.2f} and {:.2f},".format(*apart[furthest]) in text
    (beats,) = page.draw_claim_rows(draws, lambda claim: claim.name == "mixed")[1:]
    assert [cell[:6] for cell in beats[1:]] == ["8 of 8"] * 3
    assert "and BC does so on [another draw](docs/results.md#another-draw-of-the-data) of the data too" in text_of(
        "README.md"
    )
