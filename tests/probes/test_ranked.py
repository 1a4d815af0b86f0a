"""Intervals of average precision against a loop of scikit-learn over the same resamples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from probes import ranked, resampling
from probes.errors import InputError
from probes.metrics import ranking


def made(n, classes, *, levels=None, seed=0):
    """Scores and targets; `levels` makes ties."""
    rng = np.random.default_rng(seed)
    targets = rng.random((n, classes)) < np.linspace(0.05, 0.5, classes)
    scores = rng.normal(size=(n, classes)) + targets
    return (np.round(scores * levels) / levels if levels else scores), targets


def looped(scores, targets, resamples, seed):
    """(B, 2 + c) micro, macro and each class, by scikit-learn with weights."""
    rows = np.hstack([scores, targets])
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    classes = scores.shape[1]
    scores, targets = distinct[:, :classes], distinct[:, classes:].astype(int)
    values = []
    for times in np.concatenate(list(resampling.resampled(counts, resamples, seed))):
        micro = average_precision_score(
            targets.ravel(), scores.ravel(), sample_weight=np.repeat(times, classes)
        )
        each = [
            average_precision_score(targets[:, j], scores[:, j], sample_weight=times)
            if times @ targets[:, j]
            else np.nan
            for j in range(classes)
        ]
        values.append([micro, np.nanmean(each), *each])
    return np.array(values)


@pytest.mark.parametrize(("levels", "n"), [(None, 80), (2, 80), (1, 300)])
def test_every_resample_agrees_with_scikit_learn(levels, n):
    scores, targets = made(n, 4, levels=levels)
    found = ranked.bootstrap_average_precision(scores, targets, resamples=60, seed=3)
    expected = np.nanquantile(looped(scores, targets, 60, 3), [0.025, 0.975], axis=0).T
    ends = [found["micro_map"], found["macro_map"], *found["per_class"]]
    np.testing.assert_allclose(ends, expected, rtol=1e-12)


def test_resampling_rows_for_real_gives_the_same_interval():
    scores, targets = made(150, 3, seed=1)
    rng = np.random.default_rng(0)
    values = []
    for _ in range(1500):
        rows = rng.integers(0, 150, 150)
        values.append(ranking.multilabel(scores[rows], targets[rows])["macro_map"])
    low, high = np.quantile(values, [0.025, 0.975])
    found = ranked.bootstrap_average_precision(scores, targets, resamples=1500)["macro_map"]
    assert found == pytest.approx((low, high), abs=0.06 * (high - low))


def test_a_class_without_positives_has_no_interval():
    scores, targets = made(60, 3)
    targets[:, 1] = False
    found = ranked.bootstrap_average_precision(scores, targets)
    kept = ranked.bootstrap_average_precision(scores[:, [0, 2]], targets[:, [0, 2]])
    assert found["per_class"][1] is None
    assert found["macro_map"] == pytest.approx(kept["macro_map"], abs=0.05)
    low, high = found["micro_map"]
    assert low < ranking.multilabel(scores, targets)["micro_map"] < high


def test_a_lone_positive_is_missing_from_some_resamples():
    scores = np.arange(12.0)[:, None]
    targets = (np.arange(12) == 11)[:, None]
    assert ranked.bootstrap_average_precision(scores, targets)["macro_map"] == (1, 1)


@given(st.integers(0, 10**6), st.sampled_from([None, 1]))
@settings(max_examples=20, deadline=None)
def test_the_order_of_rows_and_the_scale_of_scores_change_nothing(seed, levels):
    scores, targets = made(40, 3, levels=levels, seed=seed)
    order = np.random.default_rng(seed).permutation(40)
    whole = ranked.bootstrap_average_precision(scores, targets, resamples=50)
    assert ranked.bootstrap_average_precision(scores[order], targets[order], resamples=50) == whole
    assert ranked.bootstrap_average_precision(4 * scores, targets, resamples=50) == whole


def test_chunks_change_nothing(monkeypatch):
    scores, targets = made(90, 3)
    whole = ranked.bootstrap_average_precision(scores, targets, resamples=40)
    monkeypatch.setattr(resampling, "CHUNK", 1000)
    assert ranked.bootstrap_average_precision(scores, targets, resamples=40) == whole


def test_what_cannot_be_ranked_is_refused():
    scores, targets = made(20, 2)
    with pytest.raises(InputError, match=r"scores have shape \(20, 1\)"):
        ranked.bootstrap_average_precision(scores[:, :1], targets)
    with pytest.raises(InputError, match="NaN, which has no rank"):
        ranked.bootstrap_average_precision(np.where(targets, np.nan, scores), targets)
    for wrong in (targets * 2, targets * 0):
        with pytest.raises(InputError, match="not all 0 and 1 with a 1 among them"):
            ranked.bootstrap_average_precision(scores, wrong)
