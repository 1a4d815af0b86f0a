import sys

import click
import numpy as np
import pytest

from visbench import layout
from visbench.figures.terminal import text

MAP = {"learning_rate": [1e-3, 1e-2, 1e-1], "weight_decay": [0, 1e-4]}


def shown(trials, axes, **options):
    return text(trials, axes, **{"width": 50, "unicode": True, **options}).split("\n")


def test_one_axis_is_a_table_with_bars(sweep_of):
    axes = {"learning_rate": [1e-3, 3.16e-3, 1e-1]}
    trials = sweep_of(
        axes,
        ["vit", "cnn"],
        std=0.01,
        diverged=lambda t: t["backbone"] == "cnn" and t["learning_rate"] == 0.1,
    )
    assert shown(trials, axes) == [
        " vit",
        " learning_rate    top1    std",
        " 1e-3           0.500   0.010  ▏",
        " 3.2e-3         0.501   0.010  ████▌",
        " 0.1            0.502*  0.010  █████████",
        " cnn",
        " learning_rate    top1    std",
        " 1e-3           0.503   0.010  █████████████▌",
        " 3.2e-3         0.504*  0.010  ██████████████████",
        " 0.1                –",
        " held-out top1, 6 settings, 1 diverged ·",
        " bars: 0.500 … 0.504 · * chosen",
    ]


def test_two_axes_are_a_shaded_grid(sweep_of):
    trials = sweep_of(MAP, diverged=lambda t: t["learning_rate"] == 0.1 and t["weight_decay"] == 1e-4)
    assert shown(trials, MAP, width=60) == [
        " vit",
        " weight_decay \\ learning_rate",
        "         1e-3    0.01     0.1",
        " 1e-4  ▒0.501  █0.503       –",
        "    0  ░0.500  ▓0.502  █0.504*",
        " held-out top1, 6 settings, 1 diverged · ░ 0.500 … █ 0.504 ·",
        " * chosen",
    ]


def test_without_blocks_there_is_ascii_alone(sweep_of, monkeypatch):
    trials = sweep_of(MAP, diverged=lambda t: t["learning_rate"] == 0.1 and t["weight_decay"] == 1e-4)
    plain = [
        " vit",
        " weight_decay \\ learning_rate",
        "         1e-3    0.01     0.1",
        " 1e-4  :0.501  #0.503       -",
        "    0  .0.500  +0.502  #0.504*",
        " held-out top1, 6 settings, 1 diverged | . 0.500 ~ # 0.504 |",
        " * chosen",
    ]
    assert shown(trials, MAP, width=60, unicode=False) == plain

    class Latin:
        encoding = "latin-1"

    monkeypatch.setattr(sys, "stdout", Latin())
    assert shown(trials, MAP, width=60, unicode=None) == plain


def test_more_axes_are_the_winners_map_and_the_best_at_each_other_value(sweep_of):
    axes = {"layer": [2, 11], "tap": ["cls", "mean"], **MAP}
    lines = shown(sweep_of(axes, ["vit", "cnn"]), axes, width=70)
    assert lines == [
        " cnn · layer 11 · mean",
        " weight_decay \\ learning_rate",
        "         1e-3    0.01     0.1",
        " 1e-4  █0.543  █0.545  █0.547*",
        "    0  █0.542  █0.544  █0.546",
        " maximum over all other axes:",
        " backbone  vit 0.523  cnn 0.547*",
        " layer     2 0.535  11 0.547*",
        " tap       cls 0.541  mean 0.547*",
        " held-out top1, 48 settings · ░ 0.500 … █ 0.547 · * chosen",
    ]


def test_numbers_give_way_to_shades_where_they_do_not_fit(sweep_of):
    axes = {"C": list(np.logspace(-6, 4, 21)), "layer": [2, 5]}
    lines = shown(sweep_of(axes), axes, width=60)
    assert lines[1:5] == [
        " layer \\ C",
        "   1e-6  3.2e-5  3.2e-3  0.32  10  100 1000",
        " 5 ░░░░░░░░░░▒▒▒▒▒▒▒▒▒▒▓▓▓▓▓▓▓▓▓▓███████████*",
        " 2 ░░░░░░░░░░░░▒▒▒▒▒▒▒▒▒▒▓▓▓▓▓▓▓▓▓▓██████████",
    ]


def test_columns_that_do_not_fit_are_those_far_from_the_winner(sweep_of):
    axes = {"C": list(np.logspace(-6, 4, 101)), "layer": [2, 5]}
    lines = shown(sweep_of(axes), axes, width=60)
    assert lines[3].endswith("*")
    assert lines[5] == " C: 57 of 101 values fit"


def test_many_backbones_are_rows(sweep_of):
    axes = {"C": [0.1, 1.0]}
    lines = shown(sweep_of(axes, [f"vit{i}" for i in range(5)]), axes)
    assert lines[:3] == [" C", "          0.1       1", " vit0  ░0.500  ░0.501*"]


def test_lower_is_better(sweep_of):
    trials = sweep_of(MAP)
    for trial in trials:
        trial["chosen"] = trial["score"] == 0.5
    lines = shown(trials, MAP, metric="error", better="lower", width=60)
    assert lines[4].startswith("    0  █0.500*")
    assert lines[5:] == [" held-out error, 6 settings · lower is better ·", " ░ 0.505 … █ 0.500 · * chosen"]


def test_shots_say_what_their_scores_are(sweep_of):
    axes = {"shots": [1, 2], "C": [0.1, 1.0]}
    assert " each score: maximum over C" in shown(sweep_of(axes), axes)


def test_styles_colour_the_cells_and_add_no_width(sweep_of):
    trials = sweep_of(MAP)
    lines = shown(trials, MAP, styled=True)
    assert "\x1b[38;5;231m\x1b[48;5;53m 0.500 \x1b[0m" in lines[4]
    assert "\x1b[38;5;16m\x1b[48;5;226m\x1b[1m 0.505*\x1b[0m" in lines[3]
    assert click.unstyle(lines[3]) == " 1e-4  0.501  0.503  0.505*"
    assert "\x1b" not in "\n".join(shown(trials, MAP))


def test_no_score_and_one_score_have_no_scale(sweep_of):
    assert shown(sweep_of(MAP, diverged=lambda t: True), MAP)[-1] == " held-out top1, 6 settings, 6 diverged"
    assert shown(sweep_of({"C": [1.0]}), {"C": [1.0]})[-1] == " held-out top1, 1 setting · * chosen"
    axes = {"layer": [2, 11], **MAP}
    assert "no setting has a score" in shown(sweep_of(axes, diverged=lambda t: True), axes)[0]


LONG = ["timm:vit_base_patch14_reg4_dinov2.lvd142m", "open_clip:ViT-B-16-SigLIP2-256/webli", "x" * 70]


@pytest.mark.parametrize("styled", [False, True])
@pytest.mark.parametrize("width", [40, 57, 80, 132])
@pytest.mark.parametrize(
    "axes",
    [
        {"C": [1.0]},
        {"C": list(np.logspace(-6, 4, 33))},
        MAP,
        {
            "layer": list(range(24)),
            "tap": ["cls", "mean"],
            "C": list(np.logspace(-6, 4, 33)),
            "standardize": [True, False],
        },
    ],
)
@pytest.mark.parametrize("backbones", [LONG, [f"{name}_{i}" for i in range(2) for name in LONG]])
def test_no_line_is_wider_than_asked(sweep_of, axes, backbones, width, styled):
    said = text(sweep_of(axes, backbones, std=0.1), axes, width=width, styled=styled, unicode=True)
    assert layout.text_width(click.unstyle(said)) <= width


@pytest.mark.parametrize(
    ("axes", "glyph"), [({"C": [1, 2, 3, 4, 5]}, "bars: "), ({"C": [1, 2, 3, 4, 5], "layer": [0, 1]}, "░ ")]
)
@pytest.mark.parametrize("better", ["higher", "lower"])
def test_the_scale_says_that_it_ends_before_an_outlier(sweep_of, axes, glyph, better):
    trials = sweep_of(axes)
    sign = 1 if better == "higher" else -1
    trials[0]["score"] -= sign * 0.4
    for trial in trials[1:]:
        trial["score"] = 0.5 + sign * (trial["score"] - 0.5)
    said = " ".join(shown(trials, axes, better=better, width=120)[-1].split())
    assert f"{glyph}{'≤' if better == 'higher' else '≥'} 0." in said


def test_bars_alone_are_explained_as_bars(sweep_of):
    axes = {"C": [1, 2, 3]}
    for styled in (False, True):
        assert "bars: 0.500 … 0.502" in "\n".join(shown(sweep_of(axes), axes, styled=styled))


@pytest.mark.parametrize("axes", [{"C": range(1, 1001)}, {"C": [1, 2], "layer": range(1000)}])
def test_of_many_values_some_are_shown_and_it_says_so(sweep_of, axes):
    trials = sweep_of(axes)
    for trial in trials:
        trial["chosen"] = trial["score"] == 0.5 + 777 / 1000
    lines = shown(trials, axes)
    assert len(lines) < 50
    assert any("1.28*" in line for line in lines)
    assert any("of 1,000 values" in line for line in lines)
