"""Intervals over fits and samples together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes import crossed, statistics
from probes.metrics import classification as metric

AVERAGES = {"balanced_accuracy": metric.balanced_accuracy, "macro_f1": metric.macro_f1}


def loop(scores, resamples, seed):
    """The pigeonhole bootstrap as its definition reads."""
    rng = np.random.default_rng(seed)
    r, n = scores.shape
    means = [scores[np.ix_(rng.integers(0, r, r), rng.integers(0, n, n))].mean() for _ in range(resamples)]
    return np.quantile(means, [0.025, 0.975])


def test_the_interval_of_a_mean_is_that_of_a_plain_loop():
    rng = np.random.default_rng(0)
    scores = (rng.random((5, 300)) < rng.random(300)) + 0.1 * rng.standard_normal((5, 1))
    found = crossed.bootstrap_mean(scores, resamples=20_000)
    np.testing.assert_allclose(found, loop(scores, 20_000, 1), atol=0.004)


def test_one_fit_gives_the_usual_interval():
    rng = np.random.default_rng(0)
    hits = rng.random((1, 500)) < 0.7
    found = crossed.bootstrap_mean(hits, resamples=20_000)
    np.testing.assert_allclose(found, statistics.wilson(int(hits.sum()), 500), atol=0.004)


def test_copies_of_a_fit_add_no_certainty():
    hits = np.random.default_rng(0).random(400) < 0.6
    once = crossed.bootstrap_mean(hits[None], resamples=20_000)
    often = crossed.bootstrap_mean(np.tile(hits, (8, 1)), resamples=20_000)
    np.testing.assert_allclose(once, often, atol=0.003)


def test_class_averages_of_one_fit_are_those_of_its_confusion():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 600)
    predicted = np.where(rng.random(600) < 0.7, labels, rng.integers(0, 5, 600))
    confusion = np.zeros((5, 5), int)
    np.add.at(confusion, (labels, predicted), 1)
    found = crossed.bootstrap_classes(labels, predicted[None], AVERAGES, num_classes=5, resamples=20_000)
    for name, average in AVERAGES.items():
        usual = statistics.bootstrap_confusion(confusion, average, resamples=20_000)
        np.testing.assert_allclose(found[name], usual, atol=0.004)


@given(st.integers(0, 2**31))
def test_the_order_of_rows_changes_nothing(seed):
    rng = np.random.default_rng(seed)
    labels, predicted = rng.integers(0, 3, 40), rng.integers(0, 3, (3, 40))
    order = rng.permutation(40)
    first = crossed.bootstrap_classes(labels, predicted, AVERAGES, num_classes=3, resamples=50)
    moved = crossed.bootstrap_classes(
        labels[order], predicted[:, order], AVERAGES, num_classes=3, resamples=50
    )
    assert all(first[name] == pytest.approx(moved[name]) for name in AVERAGES)
    hits = predicted == labels
    assert crossed.bootstrap_mean(hits, resamples=50) == pytest.approx(
        crossed.bootstrap_mean(hits[:, order], resamples=50)
    )


@pytest.mark.parametrize("hit", [True, False])
def test_all_or_no_hits_are_not_certain(hit):
    hits = np.full((5, 30), hit)
    assert crossed.bootstrap_mean(hits) == pytest.approx(statistics.wilson(30 * hit, 30))
