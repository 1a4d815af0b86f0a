from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probes import resizing
from probes.maps.normals import Normals

SURE, PLAIN = Normals(), Normals(uncertainty=False)
BOTH = pytest.mark.parametrize("task", [SURE, PLAIN], ids=["uncertainty", "plain"])


def directions(rng, *shape):
    found = rng.standard_normal((*shape, 3))
    return found / np.linalg.norm(found, axis=-1, keepdims=True)


def drawn(task, seed=0, n=3, grid=(3, 4), size=(12, 17)):
    rng = np.random.default_rng(seed)
    target = directions(rng, n, *size) * (rng.random((n, *size, 1)) > 0.3)
    return rng.standard_normal((n, *grid, task.channels)).astype(np.float32), target.astype(np.float32)


def reference(task, raw, target, stride=1):
    """64 bit, by the arc cosine."""
    weights = [
        resizing.weights(*pair, stride).astype(float)
        for pair in zip(target.shape[1:3], raw.shape[1:3], strict=True)
    ]
    vectors = np.einsum("bijc,Hi,Wj->bHWc", raw.astype(float), *weights)
    rows, columns = (resizing.lattice(side, stride) for side in target.shape[1:3])
    truth = target[:, rows][:, :, columns].astype(float)
    known = (truth != 0).any(-1)
    vectors, truth = vectors[known], truth[known]
    if not known.any():
        return 0.0
    lengths = np.linalg.norm(vectors[:, :3], axis=-1) * np.linalg.norm(truth, axis=-1)
    angle = np.arccos(np.clip((vectors[:, :3] * truth).sum(-1) / lengths, -1, 1))
    if not task.uncertainty:
        return angle.mean()
    kappa = np.where(vectors[:, 3] > 0, vectors[:, 3], np.expm1(vectors[:, 3])) + 1.01
    return (np.log(1 + np.exp(-np.pi * kappa)) - np.log(kappa**2 + 1) + kappa * angle).mean()


@partial(jax.jit, static_argnums=0)
def sums(task, raw, target):
    return task.sums(raw, target)


@partial(jax.jit, static_argnums=(0, 3))
def loss(task, raw, target, stride=1):
    return task.loss(task.sums(raw, target, stride))


@partial(jax.jit, static_argnums=(0, 3))
def slope(task, raw, target, stride=1):
    return jax.value_and_grad(lambda raw: loss(task, raw, target, stride))(raw)


@BOTH
@pytest.mark.parametrize("stride", [1, 4])
def test_the_loss_is_that_of_the_formula(task, stride):
    raw, target = drawn(task)
    assert float(loss(task, raw, target, stride)) == pytest.approx(
        reference(task, raw, target, stride), rel=1e-5
    )


@BOTH
@pytest.mark.parametrize("stride", [1, 4])
def test_the_gradient_is_that_of_differences(task, stride):
    raw, target = drawn(task, 1)
    found = np.asarray(slope(task, raw, target, stride)[1], np.float64)
    rng = np.random.default_rng(0)
    for _ in range(4):
        along = rng.standard_normal(raw.shape) * 1e-5
        there, back = (reference(task, raw + sign * along, target, stride) for sign in (1, -1))
        assert (found * along).sum() == pytest.approx((there - back) / 2, rel=1e-3, abs=1e-9)


@BOTH
def test_at_the_ends_the_gradient_is_finite(task):
    target = np.zeros((1, 4, 4, 3), np.float32)
    target[..., 2] = 1
    for vector in ([0, 0, 1], [0, 0, -1], [0, 0, 0], [0, 0, 1e-12], [1e-3, 0, 1], [0, 0, 1e6]):
        raw = np.ones((1, 2, 2, task.channels), np.float32)
        raw[..., :3] = vector
        for truth in (target, np.zeros_like(target), np.full_like(target, np.nan)):
            assert all(np.isfinite(found).all() for found in slope(task, raw, truth))
    assert float(loss(PLAIN, np.zeros((1, 2, 2, 3), np.float32), target)) == pytest.approx(np.pi / 2)


def test_a_vector_of_zero_still_learns_where_to_point():
    target = np.zeros((1, 2, 2, 3), np.float32)
    target[..., 1] = 1
    assert slope(PLAIN, np.zeros((1, 1, 1, 3), np.float32), target)[1][0, 0, 0, 1] < 0


def test_small_angles_are_told_apart_by_value_and_slope():
    target = np.zeros((1, 2, 2, 3), np.float32)
    target[..., 2] = 1
    for angle in (1e-4, 1e-3, 1e-2):
        raw = np.broadcast_to(np.float32([np.sin(angle), 0, np.cos(angle)]), (1, 1, 1, 3))
        value, steepness = slope(PLAIN, raw, target)
        assert float(value) == pytest.approx(angle, rel=1e-3)
        assert float(steepness[0, 0, 0, 0]) == pytest.approx(1, rel=1e-3)


@BOTH
def test_an_empty_batch_costs_nothing(task):
    raw, target = drawn(task)
    assert all((found == 0).all() for found in slope(task, raw, np.zeros_like(target)))


@BOTH
def test_batches_add_up_and_settings_run_side_by_side(task):
    raw, target = drawn(task, 2)
    whole, *parts = (sums(task, raw[s], target[s]) for s in np.s_[:, :1, 1:])
    for both, one, other in zip(whole, *parts, strict=True):
        assert float(both) == pytest.approx(float(one + other), rel=1e-5)
    raws = np.stack([raw, raw + 1])
    values, slopes = jax.vmap(lambda raw: slope(task, raw, target))(raws)
    for each, value, found in zip(raws, values, slopes, strict=True):
        alone = slope(task, each, target)
        np.testing.assert_allclose(value, alone[0], rtol=1e-6)
        np.testing.assert_allclose(found, alone[1], rtol=1e-4, atol=1e-7)


def test_the_loss_counts_where_kappa_has_collapsed():
    raw, target = drawn(SURE)
    raw[..., 3] = -20
    raw[0, ..., 3] = 1
    sums = SURE.sums(jnp.asarray(raw), jnp.asarray(target))
    known = (target != 0).any(-1)
    assert SURE.kappa_share(sums) == pytest.approx(known[1:].sum() / known.sum())
    assert PLAIN.kappa_share(PLAIN.sums(jnp.asarray(raw[..., :3]), jnp.asarray(target))) == 0


@BOTH
def test_predictions_are_unit_vectors(task):
    raw, _ = drawn(task)
    found = np.asarray(task.predict(jnp.asarray(raw), (12, 17)))
    assert found.shape == (3, 12, 17, 3)
    np.testing.assert_allclose(np.linalg.norm(found, axis=-1), 1, rtol=1e-5)
    expected = np.moveaxis(np.asarray(resizing.upsample(jnp.asarray(raw[..., :3]), (12, 17))), 1, -1)
    np.testing.assert_allclose((found * expected).sum(-1), np.linalg.norm(expected, axis=-1), rtol=1e-4)
    assert (task.predict(jnp.zeros((1, 2, 2, task.channels)), (4, 4)) == 0).all()


def test_ceiling_and_fixed_maps():
    rng = np.random.default_rng(3)
    target = np.repeat(np.repeat(directions(rng, 2, 2, 3), 4, 1), 4, 2).astype(np.float32)
    ceiling = SURE.ceiling(jnp.asarray(target), (2, 3))
    np.testing.assert_allclose(np.asarray(ceiling)[:, 0, 0], target[:, 0, 0], atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(ceiling, axis=-1), 1, rtol=1e-5)
    evidence = SURE.evidence(jnp.asarray(target))
    mean = target.sum(0) / np.linalg.norm(target.sum(0), axis=-1, keepdims=True)
    np.testing.assert_allclose(SURE.guess(evidence), mean, atol=1e-5)
    constant = SURE.guess(jax.tree.map(lambda leaf: leaf.sum((0, 1), keepdims=True), evidence))
    assert constant.shape == (1, 1, 3)
    assert (SURE.guess(SURE.evidence(jnp.zeros((1, 4, 4, 3)))) == 0).all()


def test_names_and_values():
    raw, target = drawn(SURE)
    tally = SURE.tally(np.asarray(SURE.predict(jnp.asarray(raw), (12, 17))), target)
    assert set(SURE.scores(tally)) == {"mean", "median", "rmse", "d1", "d2", "d3"}
    assert set(SURE.pooled(tally)) == {f"{name}_pooled" for name in SURE.scores(tally)}
    assert (SURE.channels, PLAIN.channels) == (4, 3)
    assert hash(SURE) == hash(Normals())
    assert SURE.valid(jnp.asarray(target)).shape == target.shape[:3]
