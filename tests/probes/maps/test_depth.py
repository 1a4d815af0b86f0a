from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probes import resizing
from probes.errors import InputError
from probes.maps.depth import Depth
from probes.maps.expectation import expectation

TASK = Depth(bins=7, low=0.5, high=8.0)


def drawn(seed=0, n=3, grid=(3, 4), size=(20, 26), holes=0.3):
    rng = np.random.default_rng(seed)
    target = rng.uniform(0.5, 9, (n, *size)) * (rng.random((n, *size)) > holes)
    return rng.standard_normal((n, *grid, TASK.bins)).astype(np.float32), target.astype(np.float32)


def metres(raw, size, stride=1):
    """The direct form, 64 bit."""
    weights = [
        resizing.weights(*pair, stride).astype(float) for pair in zip(size, raw.shape[1:3], strict=True)
    ]
    scores = np.maximum(np.einsum("bijk,Hi,Wj->bHWk", raw.astype(float), *weights), 0) + 0.1
    return scores @ np.linspace(TASK.low, TASK.high, TASK.bins) / scores.sum(-1)


def reference(raw, target, stride=1):
    """The loss pixel by pixel."""
    predicted = metres(raw, target.shape[1:], stride)
    rows, columns = (resizing.lattice(side, stride) for side in target.shape[1:])
    truth = target[:, rows][:, :, columns].astype(float)
    known = truth > 0
    e = np.log(predicted + 1e-3) - np.log(np.where(known, truth, 1) + 1e-3)
    if not known.any():
        return 0.0
    loss = 10 * np.sqrt((e[known] ** 2).mean() - 0.85 * e[known].mean() ** 2)
    for each in (1, 2, 4, 6):
        total = pixels = 0
        for b, i, j in np.ndindex(*e.shape):
            if i % each or j % each or not known[b, i, j]:
                continue
            pixels += 1
            for k, m in ((i + 2 * each, j), (i, j + 2 * each)):
                if k < e.shape[1] and m < e.shape[2] and known[b, k, m]:
                    total += abs(e[b, k, m] - e[b, i, j])
        loss += 0.5 * total / max(pixels, 1)
    return loss


@partial(jax.jit, static_argnums=2)
def loss(raw, target, stride=1):
    return TASK.loss(TASK.sums(raw, target, stride))


SUMS = jax.jit(TASK.sums)
SLOPE = jax.jit(jax.value_and_grad(loss), static_argnums=2)


@pytest.mark.parametrize(
    ("grid", "size", "stride"),
    [((3, 4), (20, 26), 1), ((3, 4), (20, 26), 4), ((1, 1), (5, 5), 1), ((7, 5), (7, 3), 1)],
)
def test_the_expectation_is_the_direct_form(grid, size, stride):
    raw, _ = drawn(grid=grid)
    found = jax.jit(expectation, static_argnums=(1, 2, 3))(raw, size, stride, (TASK.low, TASK.high))
    np.testing.assert_allclose(found, metres(raw, size, stride), rtol=1e-5)


def test_scores_that_are_all_negative_give_the_middle_of_the_range():
    found = TASK.predict(-jnp.ones((1, 2, 2, TASK.bins)), (6, 6))
    np.testing.assert_allclose(found, (TASK.low + TASK.high) / 2, rtol=1e-6)


@pytest.mark.parametrize("stride", [1, 4])
def test_the_loss_is_that_of_the_formula(stride):
    raw, target = drawn(1)
    assert float(loss(raw, target, stride)) == pytest.approx(reference(raw, target, stride), rel=1e-5)


@pytest.mark.parametrize("stride", [1, 4])
def test_the_gradient_is_that_of_differences(stride):
    raw, target = drawn(2, n=2)
    with jax.enable_x64(True):
        found = np.asarray(SLOPE(raw.astype(float), target.astype(float), stride)[1])
    rng = np.random.default_rng(0)
    for _ in range(4):
        step = 1e-6 * rng.standard_normal(raw.shape)
        there, back = (reference(raw.astype(float) + sign * step, target, stride) for sign in (1, -1))
        assert (found * step).sum() == pytest.approx((there - back) / 2, rel=1e-4, abs=1e-9)


def test_the_gradient_is_that_of_the_chain_held_whole():
    raw, target = drawn(3)

    def direct(raw):
        scores = jax.nn.relu(resizing.upsample(raw, (20, 26))) + 0.1
        values = jnp.linspace(TASK.low, TASK.high, TASK.bins)
        return (jnp.einsum("bkHW,k->bHW", scores, values) / scores.sum(1) * target).sum()

    def ours(raw):
        return (TASK.predict(raw, (20, 26)) * target).sum()

    found, expected = (jax.jit(jax.grad(each))(raw) for each in (ours, direct))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_batches_add_up():
    raw, target = drawn(4, n=4)
    whole, *parts = (SUMS(raw[s], target[s]) for s in np.s_[:, :1, 1:])
    for both, one, other in zip(whole, *parts, strict=True):
        np.testing.assert_allclose(both, one + other, rtol=1e-5, atol=1e-4)


def test_settings_side_by_side_are_settings_one_by_one():
    raws, target = np.stack([drawn(seed)[0] for seed in range(3)]), drawn(0)[1]
    values, slopes = jax.vmap(SLOPE, (0, None))(raws, target)
    for raw, value, slope in zip(raws, values, slopes, strict=True):
        alone = SLOPE(raw, target)
        np.testing.assert_allclose(value, alone[0], rtol=1e-6)
        np.testing.assert_allclose(slope, alone[1], rtol=1e-4, atol=1e-7)


def test_where_nothing_is_left_to_learn_the_gradient_is_finite():
    raw, target = drawn(5)
    perfect = np.asarray(TASK.predict(jnp.asarray(raw), (20, 26)))
    one = np.zeros_like(target)
    one[0, 5, 5] = 3
    empty, tiny = np.zeros_like(target), np.full((3, 2, 2), 3, np.float32)
    for truth in (perfect, one, empty, tiny, np.full_like(target, np.nan), np.full_like(target, 2)):
        value, slope = SLOPE(raw, truth)
        assert np.isfinite(value)
        assert np.isfinite(slope).all()
    assert loss(raw, empty) == 0
    assert loss(raw, perfect) < 1e-5
    assert float(loss(raw, one)) == pytest.approx(reference(raw, one), rel=1e-4)


def test_unknown_pixels_change_nothing():
    raw, target = drawn(6)
    other = np.where(target > 0, target, np.nan).astype(np.float32)
    assert loss(raw, other) == loss(raw, target)


def test_bins_are_never_held_at_full_resolution():
    task, size, n = Depth(bins=64), 64, 4
    raw, target = jnp.zeros((n, 4, 4, 64)), jnp.ones((n, size, size))
    slope = jax.jit(jax.grad(lambda raw: task.loss(task.sums(raw, target))))
    assert slope.lower(raw).compile().memory_analysis().temp_size_in_bytes < 4 * 64 * size * size


def test_the_ceiling_leaves_holes_out():
    target = np.full((1, 8, 8), 3, np.float32)
    target[0, :4, :4] = target[0, 6:, 1] = 0
    found = np.asarray(TASK.ceiling(jnp.asarray(target), (2, 2)))
    np.testing.assert_allclose(found[target > 0], 3, rtol=1e-6)
    assert (TASK.ceiling(jnp.zeros((1, 8, 8)), (2, 2)) == 0).all()
    _, target = drawn(7, holes=0)
    np.testing.assert_allclose(TASK.ceiling(jnp.asarray(target), (20, 26)), target, rtol=1e-5)
    cells = target.reshape(3, 4, 5, 2, 13).mean((2, 4))
    expected = resizing.upsample(jnp.asarray(cells)[..., None], (20, 26))[:, 0]
    np.testing.assert_allclose(TASK.ceiling(jnp.asarray(target), (4, 2)), expected, rtol=1e-5)


def test_the_best_fixed_maps():
    _, target = drawn(8, n=5)
    first, second = (TASK.evidence(jnp.asarray(part)) for part in (target[:2], target[2:]))
    total = jax.tree.map(lambda a, b: np.asarray(a, np.float64) + np.asarray(b), first, second)
    means = np.where(target > 0, target, 0).sum(0) / np.maximum((target > 0).sum(0), 1)
    seen = (target > 0).any(0)
    np.testing.assert_allclose(np.asarray(TASK.guess(total))[seen], means[seen], rtol=1e-5)
    np.testing.assert_allclose(np.asarray(TASK.guess(total))[~seen], target[target > 0].mean(), rtol=1e-5)
    row = TASK.guess(jax.tree.map(lambda leaf: leaf.sum(1, keepdims=True), total))
    known = target[:, 3][target[:, 3] > 0]
    assert row.shape == (20, 1)
    assert float(row[3, 0]) == pytest.approx(known.mean(), rel=1e-5)
    constant = TASK.guess(jax.tree.map(lambda leaf: leaf.sum((0, 1), keepdims=True), total))
    assert float(constant[0, 0]) == pytest.approx(target[target > 0].mean(), rel=1e-5)


def test_scores_of_images_and_of_all_pixels_have_names_of_their_own():
    raw, target = drawn(9)
    tally = TASK.tally(np.asarray(TASK.predict(jnp.asarray(raw), (20, 26))), target)
    names = {"d1", "d2", "d3", "rmse", "abs_rel"}
    names |= {f"{name}_aligned" for name in names}
    assert set(TASK.scores(tally)) == names
    assert set(TASK.pooled(tally)) == {f"{name}_pooled" for name in names}
    assert Depth() == Depth(256, 0.001, 10.0)
    assert hash(Depth()) == hash(Depth(256, 0.001, 10.0))
    assert Depth().channels == 256


@pytest.mark.parametrize("settings", [{"bins": 1}, {"low": 0.0}, {"low": 3.0, "high": 2.0}])
def test_a_range_that_is_none_is_refused(settings):
    with pytest.raises(InputError, match="wanted 2 or more"):
        Depth(**settings)
