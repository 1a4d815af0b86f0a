"""Boundaries as a map task: the balanced loss, scores in the frame, the grid's ceiling, what a fixed map knows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from probes import resizing
from probes.maps.boundaries import BINS, Boundaries, Sums, Tally
from probes.metrics import boundaries

TASK = Boundaries()
SUMS = jax.jit(TASK.sums)
SLOPE = jax.jit(jax.value_and_grad(lambda raw, target: TASK.loss(TASK.sums(raw, target))))


def shares(rng, b=3, side=24, people=4):
    target = rng.binomial(people, 0.1, (b, side, side)).astype(np.float32) / people
    target[0, :3] = -1
    return target


def grids(rng, b=3, h=5, w=5):
    return rng.standard_normal((b, h, w, 1)).astype(np.float32) * 2


def numpy_loss(raw, target, stride=1):
    """Every annotator's map a label of its own, boundary and none each divided by their weight."""
    size = target.shape[1:]
    logits = np.asarray(resizing.upsample(jnp.asarray(raw), size), np.float64)[:, 0]
    rows = resizing.lattice(size[0], stride)
    logits, target = (each[:, rows][:, :, rows].astype(np.float64) for each in (logits, target))
    known = target >= 0
    p = 1 / (1 + np.exp(-logits[known]))
    share = target[known]
    positive = -(share * np.log(p)).sum() / max(share.sum(), 1e-9)
    negative = -((1 - share) * np.log1p(-p)).sum() / max((1 - share).sum(), 1e-9)
    return (positive + negative) / 2


@pytest.mark.parametrize("stride", [1, 4])
def test_the_loss_is_that_of_the_formula(stride):
    rng = np.random.default_rng(0)
    raw, target = grids(rng), shares(rng)
    found = TASK.loss(TASK.sums(raw, jnp.asarray(target), stride))
    assert float(found) == pytest.approx(numpy_loss(raw, target, stride), rel=1e-5)


def test_sums_add_and_the_gradient_is_that_of_finite_differences():
    rng = np.random.default_rng(1)
    raw, target = jnp.asarray(grids(rng)), jnp.asarray(shares(rng))
    whole = SUMS(raw, target)
    parts = [SUMS(raw[i : i + 1], target[i : i + 1]) for i in range(3)]
    np.testing.assert_allclose(whole, np.sum(parts, axis=0), rtol=1e-5)

    gradient = SLOPE(raw, target)[1]
    for place in [(0, 0, 0, 0), (1, 2, 3, 0), (2, 4, 4, 0)]:
        up, down = np.array(raw), np.array(raw)
        up[place] += 1e-2
        down[place] -= 1e-2
        slope = (numpy_loss(up, np.asarray(target)) - numpy_loss(down, np.asarray(target))) / 2e-2
        assert float(gradient[place]) == pytest.approx(slope, rel=1e-2, abs=1e-6)


def test_settings_side_by_side_are_each_alone():
    rng = np.random.default_rng(2)
    raw, target = jnp.asarray(np.stack([grids(rng), grids(rng)])), jnp.asarray(shares(rng))
    together = jax.vmap(SLOPE, in_axes=(0, None))(raw, target)
    alone = [SLOPE(each, target) for each in raw]
    for mine, theirs in zip(together, zip(*alone, strict=True), strict=True):
        np.testing.assert_allclose(mine, np.stack(theirs), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("value", [-1.0, 0.0, 1.0])
def test_a_side_that_lacks_adds_nothing(value):
    raw = jnp.asarray(grids(np.random.default_rng(3)))
    target = jnp.full((3, 24, 24), value)
    loss, gradient = SLOPE(raw, target)
    assert jnp.isfinite(loss)
    assert jnp.isfinite(gradient).all()
    if value < 0:
        assert loss == 0
        assert not gradient.any()
    assert TASK.loss(Sums(*jnp.zeros(4))) == 0


def test_scores_in_the_frame_are_those_of_scikit_learn():
    rng = np.random.default_rng(4)
    target = shares(rng)
    prediction = (rng.integers(0, BINS, target.shape) / BINS).astype(np.float32)  # each in a bin of its own
    tally = TASK.tally(prediction, target)
    values = TASK.scores(tally)
    for row in range(3):
        known = target[row] >= 0
        said, share = prediction[row][known], target[row][known].astype(np.float64)
        votes = np.repeat([1, 0], len(said))  # each pixel stands on both sides, weighed by who is there
        expected = average_precision_score(
            votes, np.tile(said, 2), sample_weight=np.concatenate([share, 1 - share])
        )
        assert values["pixel_ap"][row] == pytest.approx(expected, rel=1e-5)
        best = max(
            2 * share[said >= cut].sum() / ((said >= cut).sum() + share.sum()) for cut in np.unique(said)
        )
        assert values["pixel_f"][row] == pytest.approx(best, rel=1e-5)
    whole = TASK.pooled(Tally(*(np.asarray(leaf).sum(0) for leaf in tally)))
    rows = TASK.pooled(Tally(*(np.stack([np.asarray(leaf).sum(0)] * 2) for leaf in tally)))
    assert rows["pixel_ap_pooled"].tolist() == [whole["pixel_ap_pooled"]] * 2


def test_nothing_marked_has_no_score_and_one_map_serves_all():
    target = np.zeros((2, 8, 8), np.float32)
    target[1, 3] = 1
    values = TASK.scores(TASK.tally(np.full((1, 1, 1), 0.3, np.float32), target))
    assert np.isnan(values["pixel_ap"][0])
    assert values["pixel_ap"][1] == pytest.approx(1 / 8)  # the share of boundary: chance
    sure = TASK.scores(TASK.tally(target, target))
    assert sure["pixel_ap"][1] == sure["pixel_f"][1] == 1


def drawn(side=64):
    """Two people's lines: one that both drew straight through cells, one that only one of them drew."""
    truth = np.zeros((side, side, 2), bool)
    truth[19] = True
    truth[:, 42, 0] = True
    return truth


def test_the_ceiling_is_the_nearest_map_of_a_grid():
    target = np.maximum(shares(np.random.default_rng(6), b=1), 0)
    found = np.asarray(TASK.ceiling(target, (8, 6)))[0]
    weights = np.kron(resizing.weights(24, 8), resizing.weights(24, 6)).astype(np.float64)
    fitted = weights @ np.linalg.lstsq(weights, target.ravel(), rcond=None)[0]
    np.testing.assert_allclose(found.ravel(), np.clip(4 * fitted, 0, 1), atol=1e-4)  # cells of 3 × 4 pixels
    np.testing.assert_allclose(TASK.ceiling(target, (24, 24)), target, atol=1e-5)
    assert not TASK.ceiling(-np.ones_like(target), (8, 6)).any()


def test_a_finer_grid_has_a_higher_ceiling():
    truth = drawn()
    target = jnp.asarray(truth.mean(-1)[None].astype(np.float32))

    def ods(grid):
        said = np.asarray(TASK.ceiling(target, grid))[0]
        return float(boundaries.pooled(boundaries.evaluate(said, truth, max_distance=1.5))["ods"])

    coarse, fine, whole = ods((4, 4)), ods((16, 16)), ods((64, 64))
    assert coarse < 0.5
    assert min(fine, whole) > 0.98  # but for what thinning does to a crossing


def test_a_fixed_map_says_how_often_a_place_is_marked():
    rng = np.random.default_rng(5)
    target = shares(rng, b=5)
    evidence = TASK.evidence(jnp.asarray(target))
    guess = np.asarray(TASK.guess(evidence))
    known = np.where(target >= 0, target, np.nan)
    np.testing.assert_allclose(guess, np.nanmean(known, axis=0), rtol=1e-5)
    constant = TASK.guess(jax.tree.map(lambda leaf: leaf.sum((0, 1), keepdims=True), evidence))
    assert float(constant[0, 0]) == pytest.approx(np.nanmean(known), rel=1e-5)
    assert TASK.valid(target).mean() == (target >= 0).mean()


def test_a_grid_learns_lines_that_are_found_again_and_shifted_ones_score_less():
    truth = drawn()
    target = jnp.asarray(truth.mean(-1)[None].astype(np.float32))
    raw = jnp.zeros((1, 16, 16, 1))
    for _ in range(200):
        raw = raw - 50 * SLOPE(raw, target)[1]

    def ods(said):
        return float(boundaries.pooled(boundaries.evaluate(said, truth, max_distance=1.5))["ods"])

    said = np.asarray(TASK.predict(raw, (64, 64)))[0]
    assert (said.min() >= 0, said.max() <= 1) == (True, True)
    assert ods(said) > 0.85
    assert ods(np.roll(said, 8, (0, 1))) < 0.3
    assert hash(TASK) == hash(Boundaries())
    assert TASK.channels == 1
