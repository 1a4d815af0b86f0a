from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from visbench.figures.grid import compared, few_shot, grids

AXES = {"learning_rate": [1e-3, 1e-2], "layer": [2, 5, 11], "tap": ["cls", "mean"]}
SCORES = st.lists(st.sampled_from([0.1, 0.2, 0.3, None, float("nan")]), min_size=24, max_size=24)


def trials_with(scores):
    places = product(["vit", "cnn"], *AXES.values())
    return [
        {"backbone": b, "learning_rate": lr, "layer": layer, "tap": tap, "score": score, "chosen": False}
        for (b, lr, layer, tap), score in zip(places, scores, strict=True)
    ]


@given(SCORES, st.permutations(range(24)), st.sampled_from(["higher", "lower"]))
def test_the_best_over_axes_is_the_best_of_the_trials(scores, order, better):
    trials = trials_with(scores)
    (grid,) = grids([trials[i] for i in order], AXES, better)
    best = grid.keeping("tap", "learning_rate")
    assert [axis.name for axis in best.axes] == ["tap", "learning_rate"]
    pick = max if better == "higher" else min
    for i, tap in enumerate(best.axes[0].values):
        for j, rate in enumerate(best.axes[1].values):
            known = [
                trial["score"]
                for trial in trials
                if (trial["tap"], trial["learning_rate"]) == (tap, rate) and trial["score"] in (0.1, 0.2, 0.3)
            ]
            assert best.score[i, j] == pick(known) if known else np.isnan(best.score[i, j])


def test_an_axis_with_one_value_is_left_out(sweep_of):
    axes = {"C": [1.0], "layer": [2, 5], "tap": ["cls"]}
    (grid,) = grids(sweep_of(axes), axes)
    assert [axis.name for axis in grid.axes] == ["backbone", "layer"]


def test_the_std_is_that_of_the_best_and_the_choice_survives(sweep_of):
    trials = sweep_of(AXES, ["vit"])
    for number, trial in enumerate(trials):
        trial["std"] = number
    (grid,) = grids(trials, AXES)
    best = grid.keeping("backbone", "layer")
    assert best.std.tolist() == [[7, 9, 11]]
    assert best.chosen.tolist() == [[False, False, True]]
    assert grid.winner() == {"backbone": 0, "learning_rate": 1, "layer": 2, "tap": 1}


def test_of_backbones_put_together_the_best_choice_alone_remains(sweep_of):
    (grid,) = grids(sweep_of(AXES, ["vit", "cnn"]), AXES)
    assert grid.chosen.sum() == 2
    assert grid.keeping("backbone", "tap").chosen.tolist() == [[False, True], [False, True]]
    assert grid.keeping("layer").chosen.sum() == 1


def test_what_was_not_chosen_is_never_marked(sweep_of):
    trials = sweep_of(AXES)
    for trial in trials:
        trial["chosen"] = trial["score"] == 0.5
    trials[0]["score"] = None
    (grid,) = grids(trials, AXES)
    assert not grid.keeping("layer").chosen.any()


def test_diverged_and_untried_are_two_things(sweep_of):
    axes = {"C": [0.1, 1.0], "tap": ["cls", "mean"]}
    trials = sweep_of(
        axes,
        ["vit", "cnn"],
        diverged=lambda trial: trial["C"] == 1.0,
        skipped=lambda trial: trial["backbone"] == "cnn" and trial["tap"] == "cls",
    )
    (grid,) = grids(trials, axes)
    assert grid.tried[1].tolist() == [[False, True], [False, True]]
    assert grid.diverged[1].tolist() == [[False, False], [False, True]]
    assert compared(trials, "top1") == "held-out top1, 6 settings, 3 diverged"


def test_each_probe_has_its_own_axes(sweep_of):
    axes = {"C": [0.1, 1.0], "k": [5, 20]}
    linear, knn = sweep_of({"C": axes["C"]}, probe="logistic"), sweep_of({"k": axes["k"]}, probe="knn")
    first, second = grids([*linear, *knn], axes)
    assert (first.probe, [axis.name for axis in first.inner]) == ("logistic", ["C"])
    assert (second.probe, [axis.name for axis in second.inner]) == ("knn", ["k"])


def test_two_trials_at_one_place_are_refused(sweep_of):
    trials = sweep_of({"C": [0.1, 1.0], "seed": [0, 1]})
    with pytest.raises(ValueError, match=r"two trials stand at backbone vit, C 0\.1; axes must name"):
        grids(trials, {"C": [0.1, 1.0]})


@pytest.mark.parametrize(("trials", "better"), [([], "higher"), ([{"backbone": "vit", "score": 1.0}], "up")])
def test_nothing_to_show_is_refused(trials, better):
    with pytest.raises(ValueError, match=r"no trials|must be"):
        grids(trials, {}, better)


def test_a_few_shot_curve_shows_what_was_chosen_for_each_number(sweep_of):
    axes = {"shots": [1, 4], "C": [0.1, 1.0]}
    trials = [trial for shots in axes["shots"] for trial in sweep_of({"shots": [shots], "C": axes["C"]})]
    for trial in trials:
        trial["chosen"] = trial["C"] == 0.1  # not the best: the choice was made elsewhere
    (grid,) = grids(trials, axes)
    curve, by_choice = few_shot(grid)
    assert by_choice
    assert curve.score.tolist() == [[0.5, 0.5]]
    assert not curve.chosen.any()
    for trial in trials[:2]:
        trial["chosen"] = False
    curve, by_choice = few_shot(grids(trials, axes)[0])
    assert not by_choice
    assert curve.score.tolist() == [[0.501, 0.501]]
