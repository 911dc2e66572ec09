"""Figures: what they draw, what their captions say, and the true reason where there is none."""

import numpy as np
import pytest

from support.results import MIXES, add_dataset, add_returns, add_runs, data_spec, make_study
from upweight.lab.report.figures.datasets import draw_gains, draw_performance
from upweight.lab.report.figures.drawing import FONT_SIZE, WIDTH, NothingToDraw, style_of, wrap
from upweight.lab.report.figures.figures import ReportFigure, all_figures
from upweight.lab.report.figures.settings import draw_percentage, draw_temperature
from upweight.lab.report.figures.weightings import draw_improvement, draw_overview, draw_profiles, draw_sigma
from upweight.lab.report.names import WeightingName, name_weighting
from upweight.lab.report.results import Results, collect
from upweight.lab.report.statistics.intervals import Intervals
from upweight.lab.study.run_spec import DataSpec
from upweight.lab.study.store import Store

INTERVALS = Intervals(resamples=50)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return collect(make_study(tmp_path_factory.mktemp("study") / "results", seeds=2, algorithms=["bc"]))


def figures(store: Store) -> dict[str, ReportFigure]:
    return {figure.name: figure for figure in all_figures(collect(store), INTERVALS)}


def test_the_reason_is_the_true_one(store: Store) -> None:
    add_runs(store, "mine-expert-random-5", "Uniform", [None, None])
    scale = "scores are returns of several environments without reference scores, which cannot be pooled"
    assert figures(store)["improvement"].missing == "there are no runs with another sampler than Uniform"
    add_runs(store, "mine-expert-random-5", "RW", [None, None])
    other = DataSpec("other-expert-random-5", 1000, 0, "Other-v0")
    for sampler in ("Uniform", "RW"):
        add_runs(store, other, sampler, [None, None])
    found = figures(store)
    assert found["sigma"].missing == scale
    assert found["improvement"].pictures and found["profile"].pictures  # needs no scale; has one panel each
    assert found["gain"].missing == "the store does not describe the datasets"
    assert found["temperature"].missing == "there are no runs at several temperatures (suite paper/temperature)"


def test_reasons_that_samplers_do_not_meet(store: Store) -> None:
    add_runs(store, "hopper-expert-random-5", "RW", [0.5, 0.6])
    assert figures(store)["improvement"].missing == "there are no runs with Uniform"
    add_runs(store, "hopper-expert-random-10", "Uniform", [0.5, 0.6])
    found = figures(store)
    assert found["improvement"].missing == "no sampler has runs on the same datasets as Uniform"
    assert found["sigma"].missing == "no dataset has runs of all of Uniform, RW"
    add_runs(store, "hopper-medium", "Uniform", [0.5], algorithm="iql")
    assert figures(store)["sigma"].missing == (
        "BC: no dataset has runs of all of Uniform, RW; "
        "IQL: there are no runs on mixed datasets (such as hopper-expert-random-5)"
    )


def test_runs_at_unusual_settings_alone(store: Store) -> None:
    """A sweep of temperatures without the usual one: the whole report can be drawn."""
    for temperature in (0.05, 0.2):
        add_runs(store, "hopper-expert-random-5", {"name": "rw", "temperature": temperature}, [0.5, 0.6])
    found = figures(store)
    assert found["sigma"].missing == (
        "all runs on mixed datasets are at other temperatures or percentages than the usual ones"
    )
    assert found["temperature"].pictures and draw_overview(collect(store), INTERVALS).label


def test_the_medium_panel_has_the_full_expert_too(study: Results) -> None:
    figure = draw_sigma(study, INTERVALS, "BC").figure
    expert, medium = figure.axes
    whole = [[line for line in axis.get_lines() if line.get_marker() == "None"] for axis in (expert, medium)]
    assert [len(lines) for lines in whole] == [1, 2]
    heights = [[line.get_ydata()[0] for line in lines] for lines in whole]
    assert heights[0][0] == heights[1][1] > heights[1][0]  # the expert's level in both, above the medium's
    dashes = [line._unscaled_dash_pattern for line in whole[1]]
    others = [line._unscaled_dash_pattern for line in medium.get_lines() if line.get_marker() != "None"]
    assert dashes[0] != dashes[1] and not any(dash in others for dash in dashes)


def test_the_full_set_is_found_among_several_data_seeds(store: Store) -> None:
    for seed in (0, 1):
        add_runs(store, data_spec("hopper-expert", seed=seed), "Uniform", [1.0, 1.1])
        for sampler in ("Uniform", "RW"):
            add_runs(store, data_spec("hopper-expert-random-5", seed=seed), sampler, [0.5, 0.6])
    assert "Uniform on the whole expert set (long dashes)." in figures(store)["sigma"].caption


def test_samplers_at_one_share_stand_side_by_side_and_captions_say_what_is_drawn(store: Store) -> None:
    for sampler in ("Uniform", "RW", "AW"):
        add_runs(store, "hopper-expert-random-10", sampler, [0.5, 0.6])
    drawing = draw_sigma(collect(store), INTERVALS, "BC")
    (axis,) = drawing.figure.axes
    assert np.allclose([line.get_xdata()[0] for line in axis.get_lines()], [-0.1, 0.0, 0.1])
    caption = " ".join(drawing.notes)
    assert "samplers stand side by side" in caption
    assert "whole expert set" not in caption and "medium" not in caption


def test_mixes_of_classic_control_are_drawn_too(store: Store) -> None:
    for sigma, level in ((5, 0.3), (50, 0.6)):
        for sampler in ("Uniform", "RW"):
            add_runs(store, f"cartpole-expert-random-{sigma}", sampler, [level] * 2, algorithm="discrete_bc")
    add_runs(store, "cartpole-expert", "Uniform", [1.0] * 2, algorithm="discrete_bc")
    drawing = draw_sigma(collect(store), INTERVALS, "discrete BC")
    assert drawing.label.endswith("expert: at 5% Uniform 0.30, RW 0.30; at 50% Uniform 0.60, RW 0.60.")
    assert "Uniform on the whole expert set" in " ".join(drawing.notes)


def test_uniform_looks_the_same_everywhere(study: Results) -> None:
    color = style_of(WeightingName("Uniform", "uniform")).color
    assert color == "#666666"
    for draw in (draw_sigma, draw_temperature, draw_percentage, draw_profiles):
        figure = draw(study, INTERVALS, "BC").figure
        (legend,) = figure.legends
        handles = dict(zip([text.get_text() for text in legend.get_texts()], legend.get_lines(), strict=True))
        assert (handles["Uniform"].get_color(), handles["Uniform"].get_linestyle()) == (color, "-")


def test_samplers_can_be_told_apart() -> None:
    """The paper's, and every two of them for critics and actor: by colour and mark, though not by either alone."""
    kinds = {"uniform": "Uniform", "top": "Top-10%", "half": "Half", "rw": "RW", "aw": "AW"}
    alone = [WeightingName(name, kind) for kind, name in kinds.items()]
    apart = [
        name_weighting({"name": own, "actor": {"name": actor}}, "iql")
        for own in kinds
        for actor in kinds
        if own != actor
    ]
    styles = {(style.color, style.marker) for style in map(style_of, [*alone, *apart])}
    assert len(styles) == len(alone) + len(apart) == 25
    both = style_of(name_weighting({"name": "uniform", "actor": {"name": "rw", "temperature": 0.1}}, "iql"))
    assert (both.color, both.marker) == (style_of(alone[3]).color, style_of(alone[0]).marker)


def test_labels_say_axes_and_numbers(store: Store) -> None:
    add_runs(store, "hopper-expert-random-1", "Uniform", [0.1] * 5)
    add_runs(store, "hopper-expert-random-1", "RW", [0.9] * 5)
    results = collect(store)
    assert draw_sigma(results, INTERVALS, "BC").label == (
        "BC: normalised return against the share of good steps. expert: at 1% Uniform 0.10, RW 0.90."
    )
    assert draw_improvement(results, INTERVALS, "BC").label == (
        "BC: probability of improvement over Uniform. RW on mixed datasets 1.00, interval 1.00 to 1.00."
    )
    assert draw_profiles(results, INTERVALS, "BC").label.endswith(
        "Above 0.5: Uniform on mixed datasets 0%, RW on mixed datasets 100%."
    )


def test_what_uniform_makes_of_a_dataset_by_its_return(store: Store) -> None:
    """Mixes are filled, other sets are not; a handful of datasets says nothing."""
    for place, name in enumerate(["random", "expert-random-1", "expert-random-5", "expert-random-10", "expert"]):
        add_runs(store, f"hopper-{name}", "Uniform", [0.1 * place, 0.1 * place + 0.02])
        add_runs(store, f"hopper-{name}", "RW", [0.9, 0.9])  # does not matter
        add_dataset(store, f"hopper-{name}", mean=0.2 * place)
        if place == 3:
            missing = "fewer than 5 datasets with a description have normalised scores of Uniform"
            assert figures(store)["performance"].missing == missing
    drawing = draw_performance(collect(store), INTERVALS, "BC")
    mixes, others = drawing.figure.axes[0].collections
    assert np.allclose(mixes.get_offsets(), [[0.2, 0.11], [0.4, 0.21], [0.6, 0.31]])
    assert np.allclose(others.get_offsets(), [[0.0, 0.01], [0.8, 0.41]]) and not len(others.get_facecolors())
    assert "BC: rank correlation 1.00 [1.00, 1.00] (95% interval over the 5 datasets)." in drawing.notes


def test_a_correlation_of_equal_scores_is_called_undefined(store: Store) -> None:
    for place, data in enumerate(MIXES[:5]):
        add_runs(store, data, "Uniform", [0.0, 0.0])
        add_runs(store, data, "RW", [0.0, 0.0])
        add_dataset(store, data, mean=0.1 * place, rpsv=0.1 * place + 0.1)
    performance, gains = (draw(collect(store), INTERVALS, "BC") for draw in (draw_performance, draw_gains))
    undefined = "undefined: all scores or all datasets are equal."
    assert f"BC: rank correlation {undefined}" in performance.notes and performance.label.endswith(undefined)
    assert f"BC, RW: rank correlation of gain and RPSV {undefined}" in gains.notes


def test_profiles_reach_the_best_run(store: Store) -> None:
    add_runs(store, "ant-expert-random-50", "Uniform", [0.4, 0.5])
    add_runs(store, "ant-expert-random-50", "RW", [1.2, 1.4])
    (axis,) = draw_profiles(collect(store), INTERVALS, "BC").figure.axes
    shares = {line.get_color(): line.get_ydata() for line in axis.get_lines()}
    weighted = shares[style_of(WeightingName("RW", "rw")).color]
    assert (weighted[0], weighted[-1]) == (1.0, 0.0)


def test_titles_fit_their_panels(store: Store) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    long = {
        "learning_rate": 0.00025,
        "hidden_units": [512, 512, 512],
        "normalize_observations": True,
        "batch_size": 512,
    }
    for config, scores in (({}, [0.5, 0.6]), (long, [0.5])):  # the more frequent settings go without saying
        for seed in (0, 1):
            for sampler in ("Uniform", "RW", {"name": "uniform", "actor": {"name": "rw", "temperature": 0.1}}):
                data = data_spec("hopper-expert-random-10", steps=100_000, seed=seed)
                add_runs(store, data, sampler, scores, algorithm="other", config=config)
    results = collect(store)
    method = max(results.methods, key=len)
    assert len(method) > 60
    drawn = [draw(results, INTERVALS, method) for draw in (draw_sigma, draw_improvement, draw_profiles)]
    for figure in (each.figure for each in [*drawn, draw_overview(results, INTERVALS)]):
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        titles = [*filter(None, [figure._suptitle]), *(axis.title for axis in figure.axes)]
        boxes = [title.get_window_extent(canvas.get_renderer()) for title in titles]
        assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)
        assert not any(a.overlaps(b) for place, a in enumerate(boxes) for b in boxes[place + 1 :])


def test_wrapped_lines_have_no_more_letters_than_fit() -> None:
    lines = wrap("BC batch_size=512 hidden_units=[512, 512, 512] learning_rate=0.00025", WIDTH / 2, FONT_SIZE).split(
        "\n"
    )
    assert len(lines) > 1
    assert max(map(len, lines)) * 0.56 * FONT_SIZE <= WIDTH / 2 * 72


def test_the_gain_s_caption_gives_the_claim_as_the_paper_s(study: Results) -> None:
    drawing = draw_gains(study, INTERVALS, "BC")
    assert "The paper's claim is that at similar mean returns weighting gains more" in " ".join(drawing.notes)


def test_gains_are_colours_in_the_plane_of_mean_and_rpsv(store: Store) -> None:
    """A point per mix; regular sets, which the paper's figure leaves out, are not among them."""
    for place, data in enumerate(MIXES[:6]):
        add_runs(store, data, "Uniform", [0.1, 0.1])
        add_runs(store, data, "RW", [0.1 + 0.1 * place] * 2)
        add_dataset(store, data, mean=0.05, rpsv=10.0 ** (place - 6))
    add_runs(store, "hopper-expert", "Uniform", [0.1])
    add_runs(store, "hopper-expert", "RW", [0.2])
    add_dataset(store, "hopper-expert", mean=1.0, rpsv=0.1)
    drawing = draw_gains(collect(store), INTERVALS, "BC")
    panel, bar = drawing.figure.axes
    (points,) = panel.collections
    assert points.get_offsets().tolist() == [[0.05, 10.0 ** (place - 6)] for place in range(6)]
    assert points.get_array().tolist() == pytest.approx([0.1 * place for place in range(6)])
    assert (panel.get_xlabel(), panel.get_ylabel(), panel.get_yscale()) == ("mean normalised return", "RPSV", "log")
    assert points.get_clim() == pytest.approx((-0.5, 0.5))  # so that no gain is grey
    assert bar.get_ylabel() == "gain over Uniform"
    assert "BC, RW: rank correlation of gain and RPSV 1.00 [1.00, 1.00]" in " ".join(drawing.notes)
    assert "intervals over the 6 datasets" in " ".join(drawing.notes)


def test_returns_of_one_environment_are_drawn_as_such(store: Store) -> None:
    add_returns(store, "mine-expert-random-5", "Uniform", [0.1, 0.2])
    add_returns(store, "mine-expert-random-5", "RW", [0.8, 1.0])
    results = collect(store)
    drawn = {draw: draw(results, INTERVALS, "BC") for draw in (draw_sigma, draw_improvement, draw_profiles)}
    assert drawn[draw_sigma].label.endswith("expert: at 5% Uniform 450, RW 2700.")
    assert drawn[draw_sigma].figure.axes[0].get_ylabel() == "return (mean)"
    assert "RW on mixed datasets 1.00, interval 1.00 to 1.00" in drawn[draw_improvement].label
    assert drawn[draw_profiles].label.endswith("Above 1650: Uniform on mixed datasets 0%, RW on mixed datasets 100%.")
    assert "normalised" not in " ".join(note for drawing in drawn.values() for note in drawing.notes)
    overview = draw_overview(results, INTERVALS)
    assert overview.label.endswith("BC, mine-expert-random-5, return of Uniform: 450, RW: 2700.")


def test_the_overview_has_a_panel_for_each_scale_and_drops_samplers_that_meet_nobody(store: Store) -> None:
    for data in ("mine-medium", DataSpec("other-medium", 1000, 0, "Other-v0")):
        for sampler in ("Uniform", "RW"):
            add_returns(store, data, sampler, [0.5, 0.6])
    assert len(draw_overview(collect(store), INTERVALS).figure.axes) == 2
    for dataset in ("hopper-medium", "hopper-expert"):
        add_runs(store, dataset, "Uniform", [0.5, 0.6])
        add_runs(store, dataset, "RW", [0.7, 0.8])
    add_runs(store, "hopper-random", "AW", [0.1, 0.1])
    (axis,) = draw_overview(collect(store), INTERVALS).figure.axes
    assert axis.get_title() == "BC: 2 datasets"
    assert [label.get_text() for label in axis.get_yticklabels()] == ["Uniform: 0.55", "RW: 0.75"]


def test_nothing_to_draw_is_an_error_of_its_own(store: Store) -> None:
    add_runs(store, "hopper-medium", "RW", [0.5])
    with pytest.raises(NothingToDraw, match="no runs on mixed datasets"):
        draw_sigma(collect(store), INTERVALS, "BC")
