"""Every fitted probe: one program whatever the grid, the same answers as a plain loop over its settings."""

from __future__ import annotations

import numpy as np
import pytest

from probes import linear, logistic, ridge
from visbench.settings import make_solver
from visbench.solvers import SOLVERS, Linear

PROGRAMS = {"logistic": logistic._solve_group, "ridge": ridge.path, "linear": linear._advance}
AXES = {
    "logistic": lambda count: {"C": np.logspace(-4, 2, count).tolist()},
    "ridge": lambda count: {"l2": np.logspace(2, -4, count).tolist()},
    "linear": lambda count: {
        "learning_rate": np.logspace(-4, -1, count).tolist(),
        "epochs": 5,
        "train_batch_size": 32,
    },
    "knn": lambda count: {"k": list(range(1, 2 * count, 2)), "temperature": [0.07, None]},
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 240)
    centres = rng.standard_normal((10, 12))
    return (centres[y] + rng.standard_normal((240, 12))).astype(np.float32), y


def everything(name, count, rows, classes=10):
    x, y = rows
    solver = make_solver(name, AXES[name](count))
    settings = solver.grid().settings()
    scores = np.full(len(settings), np.nan)
    for indices, fits in solver.groups(x[:160], y[:160], settings, classes):
        scores[indices] = fits.top1(x[160:], y[160:])
    return solver, settings, scores


@pytest.mark.parametrize("name", SOLVERS)
def test_every_setting_scores_as_it_does_alone(name, rows):
    x, y = rows
    solver, settings, scores = everything(name, 9, rows)
    assert np.isfinite(scores).all()
    alone = np.array(
        [solver.fit(x[:160], y[:160], [each], 10).top1(x[160:], y[160:])[0] for each in settings]
    )
    np.testing.assert_allclose(
        scores, alone, atol=0.0126
    )  # one row of 80: choosing is done to a looser tolerance
    assert alone[scores.argmax()] == pytest.approx(alone.max(), abs=0.0126)
    one_by_one = [
        (each.argmax(1) == y[160:]).mean()
        for each in solver.fit(x[:160], y[:160], settings[:1], 10).logits(x[160:])
    ]
    assert one_by_one[0] == pytest.approx(alone[0])


@pytest.mark.parametrize(
    ("name", "counts"), [("logistic", (9, 10, 15)), ("ridge", (9, 10, 15)), ("linear", (57, 60, 61))]
)
def test_a_longer_grid_is_no_other_program(name, counts, rows):
    everything(name, counts[0], rows)
    before = PROGRAMS[name]._cache_size()
    for count in counts[1:]:
        everything(name, count, rows)
    assert PROGRAMS[name]._cache_size() == before


def test_a_diverging_rate_scores_nan_and_spoils_no_neighbour(rows):
    x, y = rows
    solver = Linear(learning_rate=(1e-2, 1e30), epochs=3)
    ((_, fits),) = solver.groups(x, y, solver.grid().settings(), 10)
    good, bad = fits.top1(x, y)
    alone = Linear(learning_rate=(1e-2,), epochs=3)
    assert good == alone.fit(x, y, alone.grid().settings(), 10).top1(x, y)[0]
    assert np.isnan(bad)


@pytest.mark.parametrize(
    ("name", "axis", "values"),
    [
        ("logistic", "C", [1e-2, 1e-4, 1e-3]),
        ("logistic", "l2", [1e-2, 1e-4, 1e-3]),
        ("ridge", "l2", [1e-2, 1e-4, 1e-3]),
        ("linear", "learning_rate", [1e-2, 1e-4, 1e-3]),
        ("linear", "weight_decay", [1e-2, 0.0, 1e-3]),
        ("knn", "k", [5, 20, 1]),
        ("knn", "temperature", [1.0, None, 0.07]),
    ],
)
def test_a_grid_is_the_same_in_whatever_order_its_values_are_given(name, axis, values):
    grids = [make_solver(name, {axis: each}).grid() for each in (values, values[::-1])]
    assert grids[0] == grids[1]
    order = [float("inf") if value is None else value for value in grids[0].axes[axis]]
    assert order in (sorted(order), sorted(order, reverse=True))
