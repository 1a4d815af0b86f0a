"""Grids: how axes are written, where the best setting lies, what lies beyond an edge."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from visbench.errors import UsageError
from visbench.grid import Grid, geometric, make_axis, parse_axis


def test_axes_are_read_as_people_write_them():
    name, values = parse_axis("lr=1e-4:1e-1:log8")
    assert name == "learning_rate"
    np.testing.assert_allclose(values, np.geomspace(1e-4, 1e-1, 8), rtol=1e-9)
    assert values[0] == 1e-4
    assert values[-1] == 0.1
    assert parse_axis("k=1:9:lin5") == ("k", (1.0, 3.0, 5.0, 7.0, 9.0))
    assert parse_axis("weight_decay=0,1e-5") == ("weight_decay", (0, 1e-5))
    assert parse_axis("standardize=on,off") == ("standardize", (True, False))
    assert parse_axis(" layers = 2, 5,-1 ") == ("layer", (2, 5, -1))
    assert parse_axis("pooling=cls,mean,cls") == ("tap", ("cls", "mean"))


@pytest.mark.parametrize(
    "text",
    [
        "lr",
        "lr=",
        "=1",
        "lr=1:2",
        "lr=0:1:log3",
        "lr=1:1:log3",
        "lr=1:2:log1",
        "lr=a:2:log3",
        "lr=1:inf:lin3",
    ],
)
def test_what_is_no_axis_is_refused(text):
    with pytest.raises(UsageError, match="--grid"):
        parse_axis(text)


def test_axes_in_python_are_arrays_tuples_or_numbers():
    assert make_axis("C", np.array([1.0, 10.0])) == (1.0, 10.0)
    assert make_axis("C", 3.0) == (3.0,)
    assert make_axis("standardize", [True, False]) == (True, False)
    assert make_axis("layer", np.arange(3)) == (0, 1, 2)
    assert make_axis("tap", "cls") == ("cls",)
    with pytest.raises(UsageError, match="empty"):
        make_axis("C", [])


def test_settings_are_the_product_with_the_last_axis_fastest():
    grid = Grid({"a": (1, 2), "b": (3, 4, 5)})
    assert len(grid) == 6
    assert grid.settings()[1] == {"a": 1, "b": 4}
    assert Grid({}).settings() == [{}]


@pytest.mark.parametrize(
    ("scores", "best"),
    [([1, 1, 0], 0), ([0, 1, 0, 1, 1], 3), ([0, 2, 1], 1), ([np.nan, 1, np.nan], 1), ([np.inf, 1, 0], 1)],
)
def test_of_tied_settings_the_one_amid_them_is_best(scores, best):
    assert Grid({"C": tuple(range(len(scores)))}).best(scores) == best


def test_a_tied_block_of_two_axes_gives_its_middle():
    table = np.zeros((5, 5))
    table[1:4, 1:4] = 1
    assert Grid({"a": tuple(range(5)), "b": tuple(range(5))}).best(table.ravel().tolist()) == 12


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_the_best_setting_has_the_highest_score(scores):
    assert scores[Grid({"C": tuple(range(len(scores)))}).best(scores)] == max(scores)


def test_only_an_end_that_is_strictly_better_is_an_edge():
    grid = Grid({"learning_rate": (0.01, 0.1, 1.0), "weight_decay": (0, 1e-4)})
    table = np.array([[0, 0.1], [0, 0.2], [0, 0.3]])
    assert grid.edges(5, table.ravel().tolist()) == [
        "learning_rate"
    ]  # weight_decay's neighbour is 0: no next value
    table[1, 1] = 0.3
    assert grid.edges(5, table.ravel().tolist()) == []
    assert Grid({"layer": (0, 1)}).edges(1, [0, 1]) == []


@pytest.mark.parametrize("values", [(0.1, 1.0), (1.0, 0.1)])
@pytest.mark.parametrize("best", [0, 1])
def test_a_grid_grows_past_the_edge_in_its_own_order(values, best):
    grid, scores = Grid({"C": values, "k": (5, 20)}), [0.0] * 4
    scores[2 * best] = 1.0
    more = grid.beyond(2 * best, scores)
    assert len(more) == 8
    joined = grid.joined(more).axes["C"]
    steps = np.array(joined[1:]) / np.array(joined[:-1])
    np.testing.assert_allclose(steps, values[1] / values[0])
    assert set(values) <= set(joined)
    assert len(joined) == 6


def test_inside_there_is_nothing_beyond():
    assert Grid({"C": (1.0, 10.0, 100.0)}).beyond(1, [0, 1, 0]) is None


def test_beyond_an_edge_values_are_as_round_as_those_of_a_range():
    more = Grid({"C": geometric(1e-5, 1e-4, 3)}).beyond(2, [0, 1, 2])
    assert more is not None
    assert more.axes["C"] == (0.000316227766, 0.001, 0.00316227766, 0.01)


def test_where_nothing_has_a_score_there_is_no_edge():
    grid = Grid({"learning_rate": (0.1, 1.0)})
    assert grid.edges(0, [np.nan, np.nan]) == []
    assert grid.beyond(0, [np.nan, np.nan]) is None
