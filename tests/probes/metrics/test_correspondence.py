import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes import matching
from probes.errors import InputError
from probes.matching import Matches
from probes.metrics import correspondence as metrics

seeds = st.integers(0, 2**32 - 1)
SIZE = 224


def matches_of(target, kept):
    blank = np.zeros(target.shape, np.float32)
    return Matches(target.astype(np.int32), blank, blank, kept)


def draw(seed, p=4, h=5, w=7, n=12):
    rng = np.random.default_rng(seed)
    centres = metrics.centres(h, w, 70)
    target = rng.integers(0, h * w, (p, n))
    truth = centres[target] + rng.normal(size=(p, n, 2)) * 10.0 ** rng.integers(-1, 2, (p, n, 1))
    return centres, matches_of(target, rng.random((p, n)) < 0.6), truth, rng.random((p, n)) < 0.7


def literal(matches, centres, truth, scored, patch, pixels, patches):
    """Pair after pair and match after match."""
    rows = []
    for pair in range(len(truth)):
        places = [i for i in range(truth.shape[1]) if scored[pair, i]]
        kept = [i for i in places if matches.kept[pair, i]]
        error = [np.linalg.norm(centres[matches.target[pair, i]] - truth[pair, i]) for i in kept]
        best = [min(np.linalg.norm(centres - truth[pair, i], axis=1)) for i in kept or places]
        row = {}
        limits = {f"{t:g}px": t for t in pixels} | {f"{t:g}p": t * patch for t in patches}
        for name, limit in limits.items():
            for prefix, values in (("", error), ("ceiling_", best)):
                grid = (np.arange(4000) + 0.5) / 4000 * limit
                share = np.searchsorted(np.sort(values), grid, side="right") / max(len(values), 1)
                row[f"{prefix}recall@{name}"] = sum(each <= limit for each in values) / max(len(values), 1)
                row[f"{prefix}auc@{name}"] = share.mean()
        row["num_matches"] = len(kept)
        row["mean_error_px"] = np.mean(error) if kept else np.nan
        row["median_error_px"] = np.median(error) if kept else np.nan
        rows.append(row if places else dict.fromkeys(row, np.nan))
    return {name: np.array([row[name] for row in rows], float) for name in rows[0]}


@settings(max_examples=20)
@given(seeds)
def test_it_is_what_a_literal_loop_counts(seed):
    centres, matches, truth, scored = draw(seed)
    scored[1] = False
    matches.kept[2] = False
    found = metrics.evaluate(matches, centres, truth, scored, patch=10.0)
    expected = literal(matches, centres, truth, scored, 10.0, metrics.PIXELS, metrics.PATCHES)
    assert set(found) == set(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, atol=1e-3 if "auc" in name else 1e-12, err_msg=name)
    for name in expected:
        if name.startswith("ceiling_"):
            assert (found[name] >= found[name.removeprefix("ceiling_")])[scored.any(axis=1)].all()


def test_the_names_are_those_of_the_thresholds():
    centres, matches, truth, scored = draw(0)
    found = metrics.evaluate(matches, centres, truth, scored, patch=10.0, pixels=(2.0, 2.5), patches=(0.5,))
    of = ["recall@2px", "auc@2px", "recall@2.5px", "auc@2.5px", "recall@0.5p", "auc@0.5p"]
    others = ["num_matches", "mean_error_px", "median_error_px"]
    assert list(found) == [*of, *(f"ceiling_{each}" for each in of), *others]
    assert all(values.shape == (4,) and values.dtype == np.float64 for values in found.values())


@pytest.mark.parametrize("patch", [14, 32])
def test_an_identity_pair_is_right_within_half_a_patch(patch):
    side = SIZE // patch
    tokens = np.random.default_rng(patch).standard_normal((2, side**2, 24)).astype(np.float16)
    matches = matching.match(tokens, tokens)
    centres = metrics.centres(side, side, SIZE)
    truth, scored = np.tile(centres, (2, 1, 1)), np.ones((2, side**2), bool)
    found = metrics.evaluate(matches, centres, truth, scored, patch=float(patch))
    assert (matches.similarity == 1).all()
    assert all((values == 1).all() for name, values in found.items() if "@" in name)
    assert (found["num_matches"] == side**2).all()
    assert (found["mean_error_px"] == 0).all()


@pytest.mark.parametrize("patch", [14, 32])
def test_a_mirrored_pair_is_right_where_it_is_mirrored(patch):
    side = SIZE // patch
    grid = np.random.default_rng(patch).standard_normal((1, side, side, 24)).astype(np.float16)
    matches = matching.match(grid.reshape(1, -1, 24), grid[:, :, ::-1].reshape(1, -1, 24))
    centres = metrics.centres(side, side, SIZE)
    mirrored = np.column_stack([SIZE - centres[:, 0], centres[:, 1]])[None]
    scored = np.ones((1, side**2), bool)
    found = metrics.evaluate(matches, centres, mirrored, scored, patch=float(patch))
    assert found["recall@0.5p"] == found["recall@1px"] == 1
    straight = metrics.evaluate(matches, centres, centres[None], scored, patch=float(patch))
    assert straight["recall@0.5p"] == (side % 2) / side  # the middle column, where there is one


@pytest.mark.parametrize("patch", [14, 32])
def test_the_unit_is_pixels_and_the_ceiling_tells_what_a_grid_can_do(patch):
    """Of truths anywhere, those within 1 px of a centre are a circle's share of a patch: 0.016 of one of 14 px."""
    side, n = SIZE // patch, 200_000
    truth = np.random.default_rng(0).uniform(0, SIZE, (1, n, 2))
    centres = metrics.centres(side, side, SIZE)
    matches = matches_of(np.zeros((1, n)), np.ones((1, n), bool))
    found = metrics.evaluate(matches, centres, truth, np.ones((1, n), bool), patch=float(patch))
    assert found["ceiling_recall@1px"][0] == pytest.approx(np.pi / patch**2, rel=0.05)
    assert found["ceiling_recall@5px"][0] == pytest.approx(25 * np.pi / patch**2, rel=0.02)
    assert found["ceiling_recall@0.5p"][0] == pytest.approx(np.pi / 4, rel=0.01)
    assert found["ceiling_recall@1p"][0] == 1
    assert found["recall@10px"][0] < 0.02  # all are matched to the upper left patch


def test_centres_are_those_of_patches():
    assert metrics.centres(2, 3, 60).tolist() == [[10, 15], [30, 15], [50, 15], [10, 45], [30, 45], [50, 45]]


def test_what_leaves_the_view_is_a_miss_only_where_it_is_scored():
    centres = metrics.centres(2, 2, 20)
    truth = np.array([[[5.0, 5], [15, 5], [5, 30], [np.nan, np.nan]]])
    matches = matches_of(np.array([[0, 1, 2, 3]]), np.ones((1, 4), bool))
    inside = np.array([[True, True, False, False]])
    ours = metrics.evaluate(matches, centres, truth, inside, patch=10.0)
    classic = metrics.evaluate(matches, centres, truth, np.ones((1, 4), bool), patch=10.0)
    assert ours["recall@1px"] == 1
    assert classic["recall@1px"] == classic["auc@1px"] == classic["ceiling_recall@1px"] == 0.5
    assert (ours["num_matches"], classic["num_matches"]) == (2, 4)
    assert (ours["mean_error_px"], classic["mean_error_px"], classic["median_error_px"]) == (0, 5, 0)


def test_a_pair_without_matches_has_found_nothing_and_one_without_truth_is_left_out():
    centres, matches, truth, scored = draw(1)
    matches.kept[0], scored[1], scored[0] = False, False, True
    found = metrics.evaluate(matches, centres, truth, scored, patch=10.0)
    assert found["recall@10px"][0] == found["auc@4p"][0] == found["num_matches"][0] == 0
    assert np.isnan(found["mean_error_px"][0])
    assert found["ceiling_recall@2p"][0] == 1 or found["ceiling_recall@4p"][0] > 0
    assert all(np.isnan(values[1]) for values in found.values())
    assert not any(np.isnan(values[2:]).any() for values in found.values())
    nothing = metrics.evaluate(matches, centres, truth, np.zeros_like(scored), patch=10.0)
    assert all(np.isnan(values).all() for values in nothing.values())


@given(seeds)
def test_pairs_and_patches_may_come_in_any_order(seed):
    centres, matches, truth, scored = draw(seed)
    rng = np.random.default_rng(seed)
    widths = rng.uniform(5, 20, 4)
    whole = metrics.evaluate(matches, centres, truth, scored, patch=widths)
    pairs, patches, places = rng.permutation(4), rng.permutation(12), rng.permutation(len(centres))
    turned = matches_of(
        np.argsort(places)[matches.target][pairs][:, patches], matches.kept[pairs][:, patches]
    )
    again = metrics.evaluate(
        turned, centres[places], truth[pairs][:, patches], scored[pairs][:, patches], patch=widths[pairs]
    )
    for pair in range(4):
        one = metrics.evaluate(
            Matches(*(each[pair : pair + 1] for each in matches)),
            centres,
            truth[pair : pair + 1],
            scored[pair : pair + 1],
            patch=float(widths[pair]),
        )
        for name, values in whole.items():
            np.testing.assert_array_equal(one[name], values[pair : pair + 1])
    for name, values in whole.items():
        np.testing.assert_allclose(again[name], values[pairs], atol=1e-12)


@given(seeds, st.floats(0.1, 10))
def test_in_patch_widths_the_size_of_the_frame_is_of_no_account(seed, factor):
    centres, matches, truth, scored = draw(seed)
    found = metrics.evaluate(matches, centres, truth, scored, patch=10.0)
    larger = metrics.evaluate(matches, centres * factor, truth * factor, scored, patch=10.0 * factor)
    for name, values in found.items():
        if name.startswith("auc") and name.endswith("p"):
            np.testing.assert_allclose(larger[name], values, atol=1e-9)
        if name.endswith("error_px"):
            np.testing.assert_allclose(larger[name], values * factor, rtol=1e-9)


def test_lengths_that_are_none_are_refused():
    centres, matches, truth, scored = draw(2)
    for wrong in (
        {"patch": 0.0},
        {"patch": float("nan")},
        {"patch": 1.0, "pixels": (0.0,)},
        {"patch": 1.0, "patches": (-1.0,)},
    ):
        with pytest.raises(InputError, match="wanted lengths above 0"):
            metrics.evaluate(matches, centres, truth, scored, **wrong)


def test_pck_is_measured_from_the_longer_side_in_original_pixels():
    truth, visible = np.array([[[250.0, 125.0]]]), np.ones((1, 1), bool)
    off = truth + np.array([60.0, 0.0])
    box = np.array([[400.0, 100.0]])  # threshold 40
    for extent in (box, np.array([400.0]), box[:, ::-1]):
        assert metrics.value(metrics.pck(off, truth, visible, extent)) == {"pck@0.1": 0, "pck@0.1_pooled": 0}
        assert (
            metrics.value(metrics.pck(truth + np.array([0.0, 40.0]), truth, visible, extent))["pck@0.1"] == 1
        )
        assert (
            metrics.value(metrics.pck(truth + np.array([0.0, 40.01]), truth, visible, extent))["pck@0.1"] == 0
        )
    assert metrics.value(metrics.pck(off, truth, visible, box, alpha=0.15), alpha=0.15)["pck@0.15"] == 1
    stretched = np.array([840 / 500, 840 / 250])  # what a square frame makes of it: 100.8 under 134.4
    wrong = metrics.pck(off * stretched, truth * stretched, visible, box * stretched, alpha=0.4)
    assert wrong.found.tolist() == [1]


def test_pck_an_image_and_a_point():
    truth, visible = np.zeros((11, 20, 2)), np.zeros((11, 20), bool)
    visible[:10, 0], visible[10] = True, True
    predicted = np.full((11, 20, 2), 99.0)
    predicted[:5] = predicted[10, :2] = 0.0
    truth[~visible] = np.nan
    points = metrics.pck(predicted, truth, visible, np.full(11, 50.0))
    assert points.found.tolist() == [1] * 5 + [0] * 5 + [2]
    assert points.visible.tolist() == [1] * 10 + [20]
    found = metrics.value(points)
    assert found["pck@0.1"] == pytest.approx((5 + 0.1) / 11)
    assert found["pck@0.1_pooled"] == pytest.approx(7 / 30)
    halves = [metrics.Points(*(each[part] for each in points)) for part in (slice(4), slice(4, None))]
    pooled = sum(half.found.sum() for half in halves) / sum(half.visible.sum() for half in halves)
    assert found["pck@0.1_pooled"] == pytest.approx(pooled)


def test_a_pair_without_visible_points_is_left_out_and_no_prediction_is_a_miss():
    truth, visible = np.zeros((3, 2, 2)), np.array([[True, True], [False, False], [True, False]])
    predicted = np.zeros((3, 2, 2))
    predicted[0, 0] = np.nan
    points = metrics.pck(predicted, truth, visible, np.full(3, 1.0))
    np.testing.assert_array_equal(metrics.shares(points), [0.5, np.nan, 1])
    assert metrics.value(points) == {"pck@0.1": 0.75, "pck@0.1_pooled": pytest.approx(2 / 3)}
    none = metrics.pck(predicted, truth, np.zeros((3, 2), bool), np.full(3, 1.0))
    assert all(np.isnan(each) for each in metrics.value(none).values())


def test_points_that_cannot_be_measured_are_refused():
    truth, visible = np.zeros((2, 2, 2)), np.ones((2, 2), bool)
    for extent in (np.array([0.0, 1]), np.array([np.nan, 1]), np.array([[1.0, 2], [-1, -2]])):
        with pytest.raises(InputError, match="wanted numbers above 0"):
            metrics.pck(truth, truth, visible, extent)
    with pytest.raises(InputError, match="alpha is 0"):
        metrics.pck(truth, truth, visible, np.ones(2), alpha=0.0)
    unknown = truth.copy()
    unknown[1, 1, 0] = np.nan
    with pytest.raises(InputError, match="mark it as not visible"):
        metrics.pck(truth, unknown, visible, np.ones(2))
