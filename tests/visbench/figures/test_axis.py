import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from visbench.figures.axis import Axis, axis_of
from visbench.figures.numbers import decimals, scale, short


@pytest.mark.parametrize(
    ("value", "said"),
    [
        *((0.0032, "3.2e-3"), (0.01, "0.01"), (0.05, "0.05"), (1e-4, "1e-4"), (1e4, "1e4"), (12345, "1.2e4")),
        *((0, "0"), (0.0, "0"), (1.0, "1"), (316.2, "316"), (11, "11"), (1000, "1000"), (-3, "-3")),
        *((True, "on"), (False, "off"), (None, "none"), ("cls", "cls"), ("a\nb", "a\\nb"), (math.inf, "inf")),
    ],
)
def test_a_value_is_said_in_few_characters(value, said):
    assert short(value) == said


@given(st.floats(1e-12, 1e12), st.integers(2, 6))
def test_a_short_number_is_the_number(value, digits):
    assert float(short(value, digits)) == pytest.approx(value, rel=0.51 * 10 ** (1 - digits))


@given(st.lists(st.floats(1e-8, 1e8).map(lambda v: float(f"{v:.6g}")), min_size=1, max_size=20, unique=True))
def test_no_two_labels_are_alike(values):
    assert len(set(Axis("C", tuple(values)).labels)) == len(values)


def test_labels_take_the_figures_they_need():
    assert Axis("C", (1.0, 1.01, 2.0)).labels == ("1", "1.01", "2")


def test_values_are_those_that_occur_and_numbers_ascend():
    trials = [{"lr": value} for value in (np.float32(0.001), 0.1, 0.01)]
    assert axis_of("lr", [0.1, 0.01, 0.001, 9.0], trials).values == (0.001, 0.01, 0.1)
    assert axis_of("tap", ["cls", "mean"], [{"tap": "mean"}, {"tap": "cls"}]).values == ("cls", "mean")
    assert axis_of("tap", ["cls"], [{"tap": "mean"}, {"tap": "cls"}]).values == ("cls", "mean")
    assert axis_of("temperature", [None, 0.07], [{"temperature": None}, {"temperature": 0.07}]).values == (
        0.07,
        None,
    )
    assert axis_of("layer", [], [{"layer": 3}, {}]).values == (3, None)


@pytest.mark.parametrize(
    ("name", "values", "log"),
    [
        *(("learning_rate", (1e-3, 2e-3), True), ("weight_decay", (0, 1e-4), True), ("shots", (1, 2), True)),
        *(("layer", (2, 200), False), ("k", (1, 200), False), ("momentum", (0.8, 0.9), False)),
        *(("width", (1, 64), True), ("width", (-1, 64), False), ("tap", ("cls", "mean"), False)),
        *(
            ("C", ("strong", "weak"), False),
            ("standardize", (False, True), False),
            ("weight_decay", (0,), False),
        ),
    ],
)
def test_which_axes_are_logarithmic(name, values, log):
    assert Axis(name, values).log is log


def test_nought_and_none_stand_beside_a_logarithmic_axis():
    axis = Axis("temperature", (0, 0.01, 0.1, 1.0, None))
    assert axis.places == pytest.approx([-3.3, -2, -1, 0, 1.3])
    assert axis.apart.tolist() == [True, False, False, False, True]
    assert Axis("weight_decay", (0, 1e-4)).places == pytest.approx([-5, -4])
    assert Axis("layer", (2, 5, None)).places.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("scores", "places"),
    [([0.871], 3), ([1.0, 0.1], 3), ([12.3], 1), ([1234.0], 0), ([0.0123], 4), ([], 3), ([0.0], 3)],
)
def test_scores_keep_three_figures(scores, places):
    assert decimals([*scores, math.nan]) == places


def test_far_outliers_at_the_bad_end_share_its_colour():
    scores = np.array([0.1, 0.80, 0.82, 0.84, 0.85, np.nan])
    assert scale(scores, "higher") == (pytest.approx(0.85 - 4 * 0.03), 0.85, "min")
    assert scale(1 - scores, "lower") == (pytest.approx(0.15), pytest.approx(0.15 + 4 * 0.03), "max")
    assert scale(np.array([0.7, 0.75, 0.8]), "higher") == (0.7, 0.8, "neither")
    assert scale(np.array([0.5]), "higher") == (0.0, 1.0, "neither")
    assert scale(np.array([np.nan]), "higher") == (0.0, 1.0, "neither")
