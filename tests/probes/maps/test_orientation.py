"""Orientation as a task: angles in 64 bit, finite differences, the awkward directions, baselines, ceiling, shifts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes import resizing
from probes.maps.orientation import SHORT, Orientation

TASK = Orientation()
sums = jax.jit(TASK.sums, static_argnames="stride")
predict = jax.jit(TASK.predict, static_argnums=1)
ceiling = jax.jit(TASK.ceiling, static_argnums=1)
evidence = jax.jit(TASK.evidence)
guess = jax.jit(TASK.guess)


def _value(raw, target, stride: int = 1):
    return TASK.loss(TASK.sums(raw, target, stride))


value = jax.jit(_value, static_argnums=2)
slope = jax.jit(jax.value_and_grad(_value), static_argnums=2)


def vectors(double: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(double), np.sin(double)], -1).astype(np.float32)


def drawn(seed: int = 0, count: int = 3, grid: int = 4, side: int = 16) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    raw = rng.standard_normal((count, grid, grid, 2)).astype(np.float32)
    weight = rng.random((count, side, side, 1)) * (rng.random((count, side, side, 1)) < 0.8)
    true = vectors(rng.uniform(-np.pi, np.pi, (count, side, side)))
    return raw, np.concatenate([true, weight.astype(np.float32)], -1)


def smooth(seed: int, side: int = 64) -> np.ndarray:
    """Directions that turn slowly."""
    waves = np.random.default_rng(seed).standard_normal((1, 6, 6, 2)).astype(np.float32)
    wide = np.moveaxis(np.asarray(resizing.upsample(jnp.asarray(waves), (side, side))), 1, -1)
    length = np.linalg.norm(wide, axis=-1, keepdims=True)
    return np.concatenate([wide / length, length.clip(0, 1)], -1)


def wide(raw: np.ndarray, side: int) -> np.ndarray:
    table = resizing.weights(side, raw.shape[1]).astype(np.float64)
    return np.einsum("Hi,Wj,bijk->bHWk", table, table, raw.astype(np.float64))


def slow(raw: np.ndarray, target: np.ndarray, stride: int, short: float = SHORT) -> float:
    """In 64 bit, the angle by its cosine in space."""
    said = wide(raw, target.shape[1])
    first = (stride - 1) // 2
    said, true = (each[:, first::stride, first::stride].astype(np.float64) for each in (said, target))
    cosine = (said * true[..., :2]).sum(-1) / np.sqrt((said**2).sum(-1) + short**2)
    cosine /= np.hypot(*np.moveaxis(true[..., :2], -1, 0))  # unit vectors of float32 are not quite
    return float(np.average(np.arccos(np.clip(cosine, -1, 1)), weights=true[..., 2]))


@pytest.mark.parametrize("stride", [1, 4])
def test_loss_and_gradient_are_those_of_a_slow_reference(stride):
    raw, target = drawn(side=17)
    assert float(value(raw, target, stride)) == pytest.approx(slow(raw, target, stride), rel=1e-5)
    gradient = np.asarray(slope(raw, target, stride)[1])
    for place in [(0, 0, 0, 0), (1, 2, 3, 1), (2, 3, 3, 0)]:
        up, down = raw.astype(np.float64), raw.astype(np.float64)
        up[place] += 1e-5
        down[place] -= 1e-5
        expected = (slow(up, target, stride) - slow(down, target, stride)) / 2e-5
        assert gradient[place] == pytest.approx(expected, abs=1e-4)


def test_the_loss_of_long_vectors_is_the_plain_angle():
    raw, target = drawn(1)
    assert float(value(1000 * raw, target)) == pytest.approx(slow(raw, target, 1, short=0), rel=1e-3)
    assert abs(float(value(raw, target)) - slow(raw, target, 1, short=0)) < 0.02


@pytest.mark.parametrize("turn", [0.0, np.pi, np.pi / 2, 1e-4, np.pi - 1e-4])
@pytest.mark.parametrize("length", [1e-20, 1e-3, 1.0, 1e3])
def test_the_gradient_is_finite_in_every_direction(turn, length):
    target = np.concatenate([vectors(np.full((1, 8, 8), 0.7)), np.ones((1, 8, 8, 1), np.float32)], -1)
    raw = length * vectors(np.full((1, 2, 2), 0.7 + turn))
    loss, gradient = slope(raw, target)
    assert np.isfinite(gradient).all()
    assert np.abs(gradient).max() < 1.5 / SHORT
    assert -1e-6 < float(loss) < np.pi + 1e-6
    if length >= 1:
        assert float(loss) == pytest.approx(turn, abs=1.1 * SHORT / length)


def test_no_direction_is_chance_and_can_be_left():
    _, target = drawn(2)
    loss, gradient = slope(jnp.zeros((3, 4, 4, 2)), target)
    assert float(loss) == pytest.approx(np.pi / 2, rel=1e-5)
    assert np.isfinite(gradient).all()
    assert np.abs(gradient).max() > 0
    said = predict(jnp.zeros((3, 4, 4, 2)), (16, 16))
    assert (np.asarray(said) == 0).all()
    assert TASK.scores(TASK.tally(said, target))["mean_error_deg"] == pytest.approx([45] * 3, abs=1e-3)


def test_a_head_that_starts_at_zero_learns():
    """The first gradient is the largest by far; AdamW must not remember it for ever."""
    target = jnp.asarray(smooth(0))
    optimiser = optax.adamw(0.05)

    @jax.jit
    def step(raw, state):
        loss, gradient = slope(raw, target)
        updates, state = optimiser.update(gradient, state, raw)
        return optax.apply_updates(raw, updates), state, loss

    raw = jnp.zeros((1, 8, 8, 2))
    state = optimiser.init(raw)
    for _ in range(60):
        raw, state, loss = step(raw, state)
    assert float(loss) < 0.25
    scores = TASK.scores(TASK.tally(predict(raw, (64, 64)), target))
    assert scores["mean_error_deg"][0] < 6


def test_no_orientation_anywhere():
    raw, target = drawn(3)
    target[..., 2] = 0
    loss, gradient = slope(raw, target)
    assert loss == 0
    assert (gradient == 0).all()
    assert float(value(raw[:0], target[:0])) == 0
    assert np.isnan(
        TASK.scores(TASK.tally(predict(jnp.asarray(raw), (16, 16)), target))["mean_error_deg"]
    ).all()
    assert not np.asarray(TASK.valid(target)).any()
    target[1, 5, 7, 2] = 1e-6  # faint, alone, and all there is
    expected = slow(raw, target, 1)
    assert float(value(raw, target)) == pytest.approx(expected, rel=1e-4)


@given(st.integers(0, 10**6), st.sampled_from([1, 4]))
@settings(max_examples=10, deadline=None)
def test_batches_add_up_and_pixels_without_coherence_do_not_count(seed, stride):
    raw, target = drawn(seed)
    whole = sums(raw, target, stride=stride)
    parts = [sums(raw[part], target[part], stride=stride) for part in (slice(1), slice(1, 3))]
    for total, *each in zip(whole, *parts, strict=True):
        assert float(total) == pytest.approx(float(sum(each)), rel=1e-5)
    turned = np.where(target[..., 2:] > 0, target, target * np.float32(-1))
    assert sums(raw, turned, stride=stride) == whole


def test_settings_side_by_side():
    raws = jnp.asarray(np.stack([drawn(seed)[0] for seed in range(4)]))
    target = jnp.asarray(drawn()[1])
    together, gradients = jax.vmap(lambda raw: slope(raw, target))(raws)
    for raw, loss, gradient in zip(raws, together, gradients, strict=True):
        assert float(loss) == pytest.approx(float(value(raw, target)), rel=1e-5)
        assert np.asarray(gradient) == pytest.approx(np.asarray(slope(raw, target)[1]), abs=1e-5)


@pytest.mark.parametrize("length", [1e-30, 1.0, 1e30])
def test_predictions_are_unit_vectors_however_long_the_head_s(length):
    raw, _ = drawn(4)
    said = np.asarray(predict(jnp.asarray(raw * np.float32(length)), (16, 16)))
    expected = wide(raw, 16)
    expected /= np.linalg.norm(expected, axis=-1, keepdims=True)
    assert said == pytest.approx(expected, abs=1e-4)


def test_scores_by_image_and_together():
    raw, target = drawn(5)
    said = predict(jnp.asarray(raw), (16, 16))
    tally = TASK.tally(said, target)
    cosine = (np.asarray(said, float) * target[..., :2]).sum(-1)
    error = np.rad2deg(np.arccos(cosine.clip(-1, 1))) / 2
    scores = TASK.scores(tally)
    expected = [np.average(each, weights=weight) for each, weight in zip(error, target[..., 2], strict=True)]
    assert scores["mean_error_deg"] == pytest.approx(expected, abs=1e-3)
    pooled = TASK.pooled(jax.tree.map(lambda leaf: np.asarray(leaf).sum(0), tally))
    assert pooled["mean_error_deg_pooled"] == pytest.approx(
        np.average(error, weights=target[..., 2]), abs=1e-3
    )
    assert set(pooled) == {f"{name}_pooled" for name in scores}


def test_baselines():
    rng = np.random.default_rng(6)
    double = np.where(np.arange(16)[:, None] < 8, 0, 2) + rng.normal(0, 0.3, (6, 16, 16))
    target = np.concatenate([vectors(double), np.ones((6, 16, 16, 1), np.float32)], -1)
    target[:, 9, 9, 2] = 0
    found = np.asarray(evidence(target))
    place = np.asarray(guess(found))
    assert (place[9, 9] == 0).all()
    assert np.delete(np.linalg.norm(place, axis=-1).ravel(), 9 * 16 + 9) == pytest.approx(np.ones(255))
    rows = guess(found.sum(1, keepdims=True))
    constant = guess(found.sum((0, 1), keepdims=True))
    assert rows.shape == (16, 1, 2)
    assert np.asarray(constant)[0, 0] == pytest.approx(vectors(np.array(1.0)), abs=0.1)
    error = [
        TASK.scores(TASK.tally(each[None], target))["mean_error_deg"].mean() for each in (rows, constant)
    ]
    assert error[0] == pytest.approx(np.rad2deg(0.3 * np.sqrt(2 / np.pi)) / 2, rel=0.1)
    assert error[1] > 25


def test_ceiling():
    target = smooth(1)
    fine = np.asarray(ceiling(target, (64, 64)))
    assert fine == pytest.approx(target[..., :2], abs=1e-4)
    error = [
        TASK.scores(TASK.tally(ceiling(target, (grid, grid)), target))["mean_error_deg"][0]
        for grid in (2, 5, 16, 64)
    ]
    assert error == sorted(error, reverse=True)
    assert error[2] < 3
    assert error[3] < 0.01
    void = target * np.array([1, 1, 0], np.float32)
    assert (np.asarray(ceiling(void, (8, 8))) == 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_a_shifted_target_and_a_transposed_grid_score_less(seed):
    target = smooth(seed)
    raw = jnp.asarray((target[..., :2] * target[..., 2:]).reshape(1, 16, 4, 16, 4, 2).mean((2, 4)))

    def error(raw, target):
        return TASK.scores(TASK.tally(predict(raw, (64, 64)), target))["mean_error_deg"][0]

    best = error(raw, target)
    assert best < 4
    for other in (np.roll(target, 8, 1), np.roll(target, -8, 2)):
        assert error(raw, other) > best + 5
        assert value(raw, other) > 2 * value(raw, target)
    assert error(raw.transpose(0, 2, 1, 3), target) > best + 5
