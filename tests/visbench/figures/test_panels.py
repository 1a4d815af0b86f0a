import numpy as np
import pytest

from visbench.figures.grid import grids
from visbench.figures.panels import MOST_PANELS, arrange

RATES, DECAYS = [1e-3, 1e-2, 1e-1], [0, 1e-4]


def arranged(trials, axes, **options):
    (grid,) = grids(trials, axes, **options)
    return arrange(grid)


def names(panel):
    return [axis.name for axis in panel.grid.axes]


def test_one_axis_is_a_curve_for_each_backbone(sweep_of):
    axes = {"learning_rate": RATES, "tap": ["cls"]}
    (block,), notes = arranged(sweep_of(axes, ["vit", "cnn"]), axes)
    assert (block.kind, block.columns, notes) == ("curves", 1, [])
    assert names(block.panels[0]) == ["backbone", "learning_rate"]


def test_no_axis_is_a_point_for_each_backbone(sweep_of):
    (block,), _ = arranged(sweep_of({"C": [1.0]}, ["vit", "cnn"]), {"C": [1.0]})
    assert names(block.panels[0]) == ["backbone"]


def test_backbones_beyond_telling_apart_are_rows_of_a_map(sweep_of):
    axes = {"C": [0.1, 1.0]}
    (block,), _ = arranged(sweep_of(axes, [f"vit{i}" for i in range(11)]), axes)
    assert (block.kind, names(block.panels[0])) == ("map", ["backbone", "C"])


def test_two_axes_are_a_map_for_each_backbone(sweep_of):
    axes = {"weight_decay": DECAYS, "learning_rate": RATES}
    (block,), _ = arranged(sweep_of(axes, ["vit", "cnn"]), axes)
    assert [panel.title for panel in block.panels] == ["vit", "cnn"]
    assert names(block.panels[0]) == ["weight_decay", "learning_rate"]


def test_further_axes_are_panels_and_what_was_not_tried_has_none(sweep_of):
    axes = {"tap": ["cls", "mean"], "layer": [2, 5, 8, 11], "weight_decay": DECAYS, "learning_rate": RATES}
    trials = sweep_of(axes, ["vit", "cnn"], skipped=lambda t: t["backbone"] == "cnn" and t["tap"] == "cls")
    (block,), notes = arranged(trials, axes)
    assert [row.heading for row in block.rows] == ["vit · cls", "vit · mean", "cnn · mean"]
    assert [panel.title for panel in block.rows[0].panels] == ["layer 2", "layer 5", "layer 8", "layer 11"]
    assert all(names(panel) == ["weight_decay", "learning_rate"] for panel in block.panels)
    assert (len(block.panels), notes) == (12, [])


def test_a_single_backbone_is_named_above(sweep_of):
    axes = {"layer": list(range(12)), "weight_decay": DECAYS, "learning_rate": RATES}
    (block,), _ = arranged(sweep_of(axes), axes)
    assert block.rows[0].heading == "vit"
    assert [len(row.panels) for row in block.rows] == [4, 4, 4]


@pytest.mark.parametrize(("better", "word"), [("higher", "maximum"), ("lower", "minimum")])
def test_too_many_panels_are_reduced_to_their_best(sweep_of, better, word):
    axes = {"layer": list(range(12)), "tap": ["cls", "mean"], "weight_decay": DECAYS, "learning_rate": RATES}
    trials = sweep_of(axes, ["vit", "cnn"])
    assert MOST_PANELS < 2 * 12 * 2
    (maps, curves), notes = arranged(trials, axes, better=better)
    assert notes == [f"maps: {word} over layer, tap", f"curves: {word} over all other axes"]
    assert [panel.title for panel in maps.panels] == ["vit", "cnn"]
    assert [names(panel) for panel in curves.panels] == [["backbone", "layer"], ["backbone", "tap"]]
    pick = max if better == "higher" else min
    layer = [t["score"] for t in trials if t["backbone"] == "cnn" and t["layer"] == 3]
    assert curves.panels[0].grid.score[1, 3] == pick(layer)
    cell = [
        t["score"]
        for t in trials
        if (t["backbone"], t["weight_decay"], t["learning_rate"]) == ("vit", 0, 0.1)
    ]
    assert maps.panels[0].grid.score[0, 2] == pick(cell)


def test_too_many_backbones_are_the_rows_of_a_further_map(sweep_of):
    axes = {"layer": [2, 5, 8], "weight_decay": DECAYS, "learning_rate": RATES}
    blocks, notes = arranged(sweep_of(axes, [f"vit{i}" for i in range(11)]), axes)
    shown = [[names(panel) for panel in block.panels] for block in blocks]
    assert shown == [[["weight_decay", "learning_rate"]], [["backbone", "learning_rate"]], [["layer"]]]
    assert notes == ["maximum over all other axes"]
    assert blocks[0].panels[0].grid.chosen.sum() == 1
    assert blocks[1].panels[0].grid.chosen.sum() == 11


def test_shots_are_a_curve_whatever_else_varies(sweep_of):
    axes = {"shots": [1, 2, 4], "weight_decay": DECAYS, "learning_rate": RATES}
    (block,), notes = arranged(sweep_of(axes), axes)
    assert names(block.panels[0]) == ["backbone", "shots"]
    assert notes == ["each point: maximum over learning_rate, weight_decay"]


def test_no_score_is_no_obstacle(sweep_of):
    axes = {"layer": list(range(30)), "weight_decay": DECAYS, "learning_rate": RATES}
    (maps, _), _ = arranged(sweep_of(axes, diverged=lambda trial: True), axes)
    assert np.isnan(maps.panels[0].grid.score).all()
