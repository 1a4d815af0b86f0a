"""Scores of dense tasks: intervals, parts of images, baselines."""

import numpy as np
import pytest

from probes.maps.segmentation import Segmentation
from probes.metrics.segmentation import Tally
from visbench.dense import scoring

TASK = Segmentation(4)


def drawn(n=40, seed=0):
    rng = np.random.default_rng(seed)
    target = rng.integers(0, 4, (n, 30)).astype(np.uint8)
    share = rng.uniform(0.2, 0.9, (n, 1))
    prediction = np.where(rng.random(target.shape) < share, target, rng.integers(0, 4, target.shape)).astype(
        np.uint8
    )
    return TASK.tally(prediction.reshape(n, 5, 6), target.reshape(n, 5, 6))


def test_parts_of_images_have_the_metric_as_their_mean():
    tally = drawn()
    values = scoring.values(TASK, tally)
    for name, parts in scoring.influence(TASK, tally).items():
        assert parts.mean() == pytest.approx(values[name], abs=1e-9)


def test_a_part_is_what_leaving_an_image_out_changes():
    tally = drawn(200)
    parts, whole = scoring.influence(TASK, tally)["miou"], scoring.values(TASK, tally)["miou"]
    for row in (0, 50, 199):
        without = Tally(*(np.delete(leaf, row, axis=0) for leaf in tally))
        change = whole - scoring.values(TASK, without)["miou"]
        assert (parts[row] - whole) / 199 == pytest.approx(change, rel=0.05, abs=1e-6)


def test_an_interval_is_that_of_a_loop_of_resamples():
    tally = drawn()
    outcome = scoring.score(TASK, [tally])
    rng = np.random.default_rng(1)
    looped = []
    for _ in range(1000):
        rows = rng.integers(0, 40, 40)
        looped.append(scoring.values(TASK, Tally(*(leaf[rows] for leaf in tally)))["miou"])
    low, high = np.quantile(looped, (0.025, 0.975))
    assert outcome.intervals["miou"] == pytest.approx([low, high], abs=0.006)
    low, high = outcome.intervals["miou_per_image"]
    assert low < outcome.metrics["miou_per_image"] < high


def test_several_fits_are_averaged_and_widen_the_interval():
    better, worse = drawn(seed=0), drawn(seed=0)
    worse = Tally(worse.hits // 2, worse.target, worse.prediction)
    one, two = scoring.score(TASK, [better]), scoring.score(TASK, [better, worse])
    mean = (scoring.values(TASK, better)["miou"] + scoring.values(TASK, worse)["miou"]) / 2
    assert two.metrics["miou"] == pytest.approx(mean)
    assert np.ptp(two.intervals["miou"]) > np.ptp(one.intervals["miou"])


def test_an_image_without_a_value_is_left_out_and_counted():
    tally = drawn()
    void = Tally(*(leaf.copy() for leaf in tally))
    for leaf in void:
        leaf[3] = 0
    outcome = scoring.score(TASK, [void])
    assert outcome.n["miou_per_image"] == 39
    assert outcome.context["miou_per_image_undefined"] == 1
    assert np.isnan(outcome.per_sample["miou_per_image"][3])


def test_one_image_has_no_interval():
    outcome = scoring.score(TASK, [drawn(1)])
    assert outcome.metrics["miou"] > 0
    assert outcome.intervals == {}
