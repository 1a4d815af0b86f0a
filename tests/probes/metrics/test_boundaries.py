"""Boundaries: thinning, matching, and ODS, OIS and AP, each against something slower."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from skimage.morphology import thin as scikit_image

from probes.errors import InputError
from probes.metrics import boundaries
from probes.metrics.boundaries import Tally
from probes.metrics.matching import Marks, Plane, match
from probes.metrics.ridges import crests
from probes.metrics.thinning import thin, thin_levels

SEEDS = st.integers(0, 2**32 - 1)


def blobs(rng, height, width, smooth=1.5):
    field = gaussian_filter(rng.standard_normal((height, width)), smooth)
    low, high = field.min(), field.max()
    return (field - low) / (high - low) if high > low else np.zeros_like(field)


def contours(rng, height=60, width=70, people=3):
    """Outlines of a few shapes as several people draw them: displaced by a pixel, and not all of them."""
    y, x = np.mgrid[:height, :width]
    layers = np.zeros((height, width, people), bool)
    for _ in range(4):
        cy, cx, r = rng.uniform(0, height), rng.uniform(0, width), rng.uniform(6, 25)
        for each in range(people):
            if rng.random() < 0.7:
                dy, dx = rng.integers(-1, 2, 2)
                ring = np.hypot(y - cy - dy, x - cx - dx) < r
                layers[..., each] |= thin(ring & ~(np.hypot(y - cy - dy, x - cx - dx) < r - 2))
    return layers


def summed(tallies):
    return Tally(*(np.sum(leaf, axis=0) for leaf in zip(*tallies, strict=True)))


@given(SEEDS, st.integers(1, 30), st.integers(1, 30), st.floats(0, 1), st.floats(0, 3))
@settings(max_examples=60, deadline=None)
def test_thinning_is_that_of_scikit_image(seed, height, width, cut, smooth):
    mask = blobs(np.random.default_rng(seed), height, width, smooth) >= cut
    found = thin(mask)
    np.testing.assert_array_equal(found, scikit_image(mask))
    np.testing.assert_array_equal(thin(found), found)


@pytest.mark.parametrize("count", [1, 33, 64, 99, 130])
def test_all_thresholds_at_once_are_each_alone(count):
    prediction = blobs(np.random.default_rng(count), 40, 55, 4)
    prediction[3:9, 4:9] = 0.5  # at a threshold, which it reaches
    thresholds = boundaries.thresholds(count)
    levels = thin_levels(prediction, thresholds)
    assert len(levels) == count
    for threshold, found in zip(thresholds, levels, strict=True):
        np.testing.assert_array_equal(found, np.flatnonzero(scikit_image(prediction >= threshold)))


@given(SEEDS, st.floats(0, 5), st.floats(0.02, 0.5), st.floats(0.02, 0.5))
@settings(max_examples=80, deadline=None)
def test_as_many_pairs_as_an_assignment_finds(seed, reach, some, others):
    rng = np.random.default_rng(seed)
    size = tuple(int(each) for each in rng.integers(1, 13, 2))
    first, second = (rng.random(size) < share for share in (some, others))
    plane = Plane(size, reach)
    partner = match(*(Marks(plane, np.flatnonzero(each)) for each in (first, second)))
    distance = (
        cdist(np.argwhere(first), np.argwhere(second)) if first.any() and second.any() else np.zeros((0, 0))
    )
    assigned = linear_sum_assignment(distance > reach)
    most = int((distance[assigned] <= reach).sum()) if distance.size else 0
    paired = np.flatnonzero(partner >= 0)
    assert len(paired) == most
    assert len(set(partner[paired])) == most  # one to one
    assert all(distance[i, partner[i]] <= reach for i in paired)


def test_pairs_are_nearest_first_where_there_is_a_choice():
    first, second = np.zeros((2, 9, 9), bool)
    first[4, [2, 4]] = second[4, 5] = True
    plane = Plane((9, 9), 4.0)
    assert match(*(Marks(plane, np.flatnonzero(each)) for each in (first, second))).tolist() == [-1, 0]


def test_the_distance_of_a_landscape_format():
    assert boundaries.max_distance((321, 481)) == pytest.approx(4.34, abs=0.005)
    assert boundaries.max_distance((481, 321)) == boundaries.max_distance((321, 481))


def test_truth_as_prediction_scores_one():
    truth = contours(np.random.default_rng(0))
    for each in range(truth.shape[2]):
        alone = truth[..., each : each + 1]
        tally = boundaries.evaluate(alone[..., 0].astype(float), alone, max_distance=1.0)
        values = boundaries.pooled(tally)
        assert [values[name] for name in ("ods", "ois", "ap")] == [1, 1, 1]
        assert boundaries.scores(tally)["best_f"] == 1


@pytest.mark.parametrize(("shift", "expected"), [(0, 1), (4, 1), (5, 0)])
def test_a_shift_is_forgiven_up_to_the_distance(shift, expected):
    truth = np.zeros((40, 50, 1), bool)
    truth[5:35, 20] = True
    prediction = np.roll(truth[..., 0], shift, axis=1) * 0.8
    values = boundaries.pooled(boundaries.evaluate(prediction, truth, max_distance=4.34))
    assert values["ods"] == values["ois"] == expected


def test_counts_are_those_of_the_benchmark_step_by_step():
    rng = np.random.default_rng(1)
    truth = contours(rng)
    prediction = blobs(rng, 60, 70, 2)
    levels = boundaries.thresholds(7)
    tally = boundaries.evaluate(prediction, truth, max_distance=2.5, levels=levels, suppress=False)
    for level, threshold in enumerate(levels):
        said = np.argwhere(scikit_image(prediction >= threshold))
        found = 0
        for each in range(3):
            distance = cdist(said, np.argwhere(truth[..., each]))
            found += int((distance[linear_sum_assignment(distance > 2.5)] <= 2.5).sum())
        near = np.min([cdist(said, np.argwhere(truth[..., each])).min(1) for each in range(3)], axis=0)
        assert tally.found[level] == found
        assert tally.predicted[level] == len(said)
        assert tally.marked[level] == truth.sum()
        assert found / 3 <= tally.right[level] <= (near <= 2.5).sum()


def test_crests_are_the_lines_that_a_blur_hides():
    y, x = np.mgrid[:60, :80]
    for angle in np.linspace(0, np.pi, 7):
        away = (x - 40) * np.cos(angle) + (y - 30) * np.sin(angle)
        blurred = np.exp(-(away**2) / 50)
        found = crests(blurred)
        inner = np.zeros_like(found, bool)
        inner[5:-5, 5:-5] = True
        assert np.abs(away[(found > 0.1) & inner]).max() < 1.1
        assert (found[inner & (np.abs(away) < 0.4)] > 0.9).all()
    drawing = contours(np.random.default_rng(5))[..., 0].astype(float)
    np.testing.assert_array_equal(crests(drawing), drawing)
    np.testing.assert_array_equal(crests(np.full((5, 6), 0.3)), np.full((5, 6), 0.3))
    assert crests(np.full((1, 6), 0.3)).shape == (1, 6)


def test_broad_ridges_that_run_together_are_told_apart_by_their_crests():
    truth = np.zeros((60, 80, 1), bool)
    truth[5:55, [20, 34, 48]] = True
    prediction = np.clip(5 * gaussian_filter(truth[..., 0].astype(float), 4), 0.02, 1)
    ods = {
        suppress: boundaries.pooled(
            boundaries.evaluate(prediction, truth, max_distance=2.0, suppress=suppress)
        )["ods"]
        for suppress in (True, False)
    }
    assert ods[True] >= ods[False]
    assert ods[True] > 0.9


def test_a_pixel_is_right_where_any_annotator_agrees_and_recall_counts_them_all():
    truth = np.zeros((20, 20, 2), bool)
    truth[5, 2:12, 0] = truth[14, 2:12, 1] = True
    tally = boundaries.evaluate(truth.any(-1).astype(float), truth, max_distance=2.0)
    values = boundaries.pooled(tally)
    assert (values["ods_precision"], values["ods_recall"]) == (1, 1)
    values = boundaries.pooled(boundaries.evaluate(truth[..., 0].astype(float), truth, max_distance=2.0))
    assert (values["ods_precision"], values["ods_recall"]) == (1, 0.5)
    assert values["ods"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("nothing", ["prediction", "truth", "both"])
def test_where_there_is_nothing(nothing):
    truth = contours(np.random.default_rng(2)) & (nothing == "prediction")
    prediction = np.zeros((60, 70)) if nothing != "truth" else np.full((60, 70), 0.4)
    tally = boundaries.evaluate(prediction, truth, max_distance=2.0)
    values = boundaries.pooled(tally)
    if nothing == "prediction":
        assert [values[name] for name in ("ods", "ois", "ap")] == [0, 0, 0]
        assert boundaries.scores(tally)["best_f"] == 0
    else:
        assert all(np.isnan(value) for value in values.values())
        assert np.isnan(boundaries.scores(tally)["best_f"])
        assert tally.best[1] == 0  # its best threshold says nothing
    other = boundaries.evaluate(np.zeros((60, 70)), contours(np.random.default_rng(2)), max_distance=2.0)
    assert np.isfinite(boundaries.pooled(summed([tally, other]))["ods"])


@given(SEEDS)
@settings(max_examples=15, deadline=None)
def test_every_picture_at_its_best_is_not_worse_than_one_threshold_for_all(seed):
    rng = np.random.default_rng(seed)
    tallies = []
    for _ in range(3):
        truth = contours(rng, 30, 40)
        prediction = gaussian_filter(truth.mean(-1), 1.5) * rng.uniform(0.5, 3) + 0.2 * blobs(rng, 30, 40)
        tallies.append(
            boundaries.evaluate(prediction, truth, max_distance=1.5, levels=boundaries.thresholds(9))
        )
    values = boundaries.pooled(summed(tallies))
    assert values["ois"] >= values["ods"]
    for tally in tallies:
        alone = boundaries.pooled(tally)
        assert alone["ois"] == alone["ods"]
        if tally.marked[0]:
            assert boundaries.scores(tally)["best_f"] == alone["ods"]


def test_ap_is_the_benchmarks_interpolation():
    """Transcribed from its `collect_eval_bdry`."""
    recall, precision = np.array([0.8, 0.5, 0.5, 0.0]), np.array([0.25, 0.8, 0.9, 0.0])
    marked = np.full(4, 1000)
    predicted = np.full(4, 1000)
    tally = Tally(precision * predicted, predicted, recall * marked, marked, np.zeros(4))
    expected = 0.0
    for wanted in np.arange(101) / 100:
        if wanted <= 0.5:
            expected += 0.01 * 0.8 * wanted / 0.5
        elif wanted <= 0.8:
            expected += 0.01 * (0.8 + (0.25 - 0.8) * (wanted - 0.5) / 0.3)
    assert boundaries.pooled(tally)["ap"] == pytest.approx(expected)


def test_sums_of_resamples_are_scored_in_one_call():
    rng = np.random.default_rng(3)
    truths = [contours(rng, 30, 40) for _ in range(4)]
    tallies = [
        boundaries.evaluate(gaussian_filter(each.mean(-1), 2) * 3, each, max_distance=1.5) for each in truths
    ]
    stacked = Tally(*(np.stack(leaf) for leaf in zip(*tallies, strict=True)))
    times = rng.integers(0, 3, (5, 4)).astype(float)
    together = boundaries.pooled(Tally(*(times @ leaf for leaf in stacked)))
    for row in range(5):
        alone = boundaries.pooled(Tally(*(times[row] @ leaf for leaf in stacked)))
        for name, value in alone.items():
            assert together[name][row] == value
    assert boundaries.scores(stacked)["best_f"].shape == (4,)


def test_people_who_agree_and_people_who_do_not():
    line = np.zeros((30, 30, 1), bool)
    line[15, 5:25] = True
    same = boundaries.agreement(np.concatenate([line, np.roll(line, 1, 0), line], -1), max_distance=2.0)
    assert boundaries.pooled(same)["ods"] == 1
    apart = boundaries.agreement(np.concatenate([line, np.roll(line, 5, 0)], -1), max_distance=2.0)
    assert boundaries.pooled(apart)["ods"] == 0
    with pytest.raises(InputError, match="two annotators"):
        boundaries.agreement(line, max_distance=2.0)


def test_a_misplaced_prediction_scores_lower():
    rng = np.random.default_rng(4)
    truth = contours(rng)
    prediction = np.clip(gaussian_filter(truth.mean(-1), 1) * 3, 0, 1)

    def ods(said):
        return boundaries.pooled(boundaries.evaluate(said, truth, max_distance=2.0))["ods"]

    assert ods(prediction) > 0.8
    assert ods(np.roll(prediction, 8, axis=1)) < ods(prediction) - 0.3
    assert ods(prediction[::-1]) < ods(prediction) - 0.3


def test_what_does_not_fit_is_refused():
    truth = np.zeros((5, 6, 2), bool)
    with pytest.raises(InputError, match="same pixels"):
        boundaries.evaluate(np.zeros((6, 5)), truth, max_distance=1.0)
    with pytest.raises(InputError, match="same pixels"):
        boundaries.evaluate(np.zeros((5, 6)), truth[..., :0], max_distance=1.0)
    with pytest.raises(InputError, match="not finite"):
        boundaries.evaluate(np.full((5, 6), np.nan), truth, max_distance=1.0)
