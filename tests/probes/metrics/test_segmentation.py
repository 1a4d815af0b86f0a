"""Segmentation metrics against scikit-learn, and on inputs with a known answer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as reference

from probes.metrics import segmentation as metric
from probes.metrics.segmentation import VOID


def tallied(prediction, target, num_classes):
    return metric.tally(
        np.asarray(prediction, np.uint8), np.asarray(target, np.uint8), num_classes=num_classes
    )


def summed(tally):
    return metric.Tally(*(leaf.sum(0) for leaf in tally))


def test_a_class_that_never_occurs_does_not_count():
    """F102."""
    tally = tallied([[0, 1, 0, 1]], [[0, 1, 0, 0]], 3)
    np.testing.assert_allclose(metric.iou(tally)[0], [2 / 3, 1 / 2, np.nan])
    assert metric.value(tally)["miou"][0] == pytest.approx(0.5833, abs=1e-4)


def test_void_pixels_enter_nothing():
    """F103: where 0 is ignored."""
    target = np.array([[2, 1, VOID, VOID]])
    assert metric.value(tallied([[2, 1, 0, 1]], target, 3))["miou"][0] == 1


def test_nothing_valid_has_no_value():
    values = metric.value(tallied([[0, 1]], [[VOID, VOID]], 2))
    assert all(np.isnan(each[0]) for each in values.values())


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 6), st.integers(1, 5), st.integers(0, 2**31))
def test_it_agrees_with_scikit_learn(classes, images, seed):
    rng = np.random.default_rng(seed)
    target = rng.integers(0, classes, (images, 30)).astype(np.uint8)
    prediction = np.where(rng.random(target.shape) < 0.6, target, rng.integers(0, classes, target.shape))
    target[rng.random(target.shape) < 0.2] = VOID
    values = metric.value(summed(tallied(prediction, target, classes)))
    counted = target != VOID
    true, said = target[counted], prediction[counted]
    present = np.union1d(true, said)
    named = {"labels": present, "average": "macro", "zero_division": 0}
    assert values["miou"] == pytest.approx(reference.jaccard_score(true, said, **named))
    assert values["f1"] == pytest.approx(reference.f1_score(true, said, **named))
    assert values["precision"] == pytest.approx(reference.precision_score(true, said, **named))
    assert values["recall"] == pytest.approx(reference.recall_score(true, said, **named))
    assert values["pixel_acc"] == pytest.approx(reference.accuracy_score(true, said))
    of_target = {**named, "labels": np.unique(true)}
    assert values["mean_acc"] == pytest.approx(reference.recall_score(true, said, **of_target))
    weighted = {**named, "average": "weighted"}
    assert values["fw_iou"] == pytest.approx(reference.jaccard_score(true, said, **weighted))


def test_tallies_of_parts_add_up_and_leading_axes_stay():
    rng = np.random.default_rng(0)
    target, prediction = rng.integers(0, 4, (2, 6, 50)).astype(np.uint8)
    whole = tallied(prediction, target, 4)
    parts = [tallied(prediction[rows], target[rows], 4) for rows in (slice(0, 2), slice(2, 6))]
    for leaf, *of_parts in zip(whole, *parts, strict=True):
        np.testing.assert_array_equal(leaf, np.concatenate(of_parts))
    each = metric.value(whole)["miou"]
    alone = [metric.value(tallied(prediction[[row]], target[[row]], 4))["miou"][0] for row in range(6)]
    np.testing.assert_allclose(each, alone)
