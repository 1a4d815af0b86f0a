from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probes import resizing
from probes.errors import InputError
from probes.maps.ordinal import Ordinal
from probes.metrics import ordinal as metric

TASK = Ordinal(pairs=300, ratio=1.1, seed=4)
SIZE = (16, 20)


def drawn(seed=0, n=3):
    rng = np.random.default_rng(seed)
    target = rng.uniform(1, 5, (n, *SIZE)) * (rng.random((n, *SIZE)) > 0.3)
    return rng.standard_normal((n, 3, 4, 1)).astype(np.float32), target.astype(np.float32)


def reference(raw, target, stride=1):
    """Pair by pair, 64 bit."""
    weights = [
        resizing.weights(*pair, stride).astype(float) for pair in zip(SIZE, raw.shape[1:3], strict=True)
    ]
    scores = np.einsum("bijc,Hi,Wj->bHW", raw.astype(float), *weights)
    rows, columns = (resizing.lattice(side, stride) for side in SIZE)
    losses = []
    for z, t in zip(scores, target[:, rows][:, :, columns], strict=True):
        for a, b in metric.places(t.shape, TASK.pairs, TASK.seed).T:
            near, far = sorted((a, b), key=lambda place: t.ravel()[place])
            if t.ravel()[near] > 0 and t.ravel()[far] > np.float32(TASK.ratio) * t.ravel()[near]:
                losses.append(np.log1p(np.exp(z.ravel()[near] - z.ravel()[far])))
    return np.mean(losses) if losses else 0.0


@partial(jax.jit, static_argnums=2)
def loss(raw, target, stride=1):
    return TASK.loss(TASK.sums(raw, target, stride))


SUMS = jax.jit(TASK.sums)
SLOPE = jax.jit(jax.value_and_grad(loss), static_argnums=2)


@pytest.mark.parametrize("stride", [1, 4])
def test_the_loss_is_that_of_the_formula(stride):
    raw, target = drawn()
    assert float(loss(raw, target, stride)) == pytest.approx(reference(raw, target, stride), rel=1e-5)


@pytest.mark.parametrize("stride", [1, 4])
def test_the_gradient_is_that_of_differences(stride):
    raw, target = drawn(1)
    found = np.asarray(SLOPE(raw, target, stride)[1], np.float64)
    along = np.random.default_rng(0).standard_normal(raw.shape) * 1e-4
    there, back = (reference(raw + sign * along, target, stride) for sign in (1, -1))
    assert (found * along).sum() == pytest.approx((there - back) / 2, rel=1e-3)


def test_batches_add_up_and_settings_run_side_by_side():
    raw, target = drawn(2)
    whole, *parts = (SUMS(raw[s], target[s]) for s in np.s_[:, :1, 1:])
    for both, one, other in zip(whole, *parts, strict=True):
        assert float(both) == pytest.approx(float(one + other), rel=1e-5)
    raws = np.stack([raw, 2 * raw])
    values = jax.vmap(loss, (0, None))(raws, target)
    np.testing.assert_allclose(values, [loss(each, target) for each in raws], rtol=1e-6)


def test_without_pairs_there_is_nothing_to_lose():
    raw, target = drawn(3)
    one = np.zeros_like(target)
    one[0, 3, 3] = 2
    for truth in (np.zeros_like(target), one, np.full_like(target, 4), np.full_like(target, np.nan)):
        value, slope = SLOPE(raw, truth)
        assert value == 0
        assert (slope == 0).all()
    assert np.isfinite(loss(1e4 * raw, target))
    assert float(loss(0 * raw, target)) == pytest.approx(np.log(2))


def test_the_unit_of_depth_does_not_matter():
    raw, target = drawn(4)
    assert loss(raw, target) == loss(raw, 1024 * target)


def test_the_rows_tell_the_vertical_position():
    floor = np.repeat(np.linspace(9, 1, 16, dtype=np.float32)[:, None], 20, 1)
    target = jnp.asarray(np.stack([floor, 7 * floor]))
    evidence = TASK.evidence(target)
    rows = TASK.guess(jax.tree.map(lambda leaf: leaf.sum(1, keepdims=True), evidence))
    said = jnp.broadcast_to(rows, target.shape)
    assert (TASK.scores(TASK.tally(said, target))["ordinal_accuracy"] == 1).all()
    assert (TASK.scores(TASK.tally(TASK.ceiling(target, (4, 5)), target))["ordinal_accuracy"] > 0.9).all()
    constant = TASK.guess(jax.tree.map(lambda leaf: leaf.sum((0, 1), keepdims=True), evidence))
    said = jnp.broadcast_to(constant, target.shape)
    assert (TASK.scores(TASK.tally(said, target))["ordinal_accuracy"] == 0.5).all()


def test_names_and_values():
    raw, target = drawn()
    tally = TASK.tally(np.asarray(TASK.predict(jnp.asarray(raw), SIZE)), target)
    assert set(TASK.scores(tally)) == {"ordinal_accuracy", "tie_rate"}
    assert set(TASK.pooled(tally)) == {"ordinal_accuracy_pooled", "tie_rate_pooled"}
    assert TASK.channels == 1
    assert hash(TASK) == hash(Ordinal(300, 1.1, 4))
    assert TASK.valid(jnp.asarray(target)).shape == target.shape


@pytest.mark.parametrize("settings", [{"pairs": 0}, {"ratio": 0.9}, {"ratio": float("nan")}])
def test_settings_without_pairs_are_refused(settings):
    with pytest.raises(InputError, match="wanted at least one pair"):
        Ordinal(**settings)
