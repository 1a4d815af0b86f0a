"""Responses as a task: PyTorch's loss, finite differences, unknown pixels, baselines, ceiling, shifts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from probes import resizing
from probes.maps.cells import Evidence
from probes.maps.response import Response

TASK = Response("edge_correlation")
sums = jax.jit(TASK.sums, static_argnames="stride")
predict = jax.jit(TASK.predict, static_argnums=1)
ceiling = jax.jit(TASK.ceiling, static_argnums=1)
evidence = jax.jit(TASK.evidence)
guess = jax.jit(TASK.guess)


def _value(raw, target, stride: int = 1):
    return TASK.loss(TASK.sums(raw, target, stride))


value = jax.jit(_value, static_argnums=2)
slope = jax.jit(jax.value_and_grad(_value), static_argnums=2)


def drawn(seed: int = 0, count: int = 3, grid: int = 4, side: int = 16) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    raw = rng.standard_normal((count, grid, grid, 1)).astype(np.float32)
    target = rng.exponential(1, (count, side, side)).astype(np.float32)
    return raw, np.where(rng.random(target.shape) < 0.8, target, np.float32(-1))


def smooth(seed: int, side: int = 64) -> np.ndarray:
    waves = np.random.default_rng(seed).exponential(1, (1, 8, 8, 1)).astype(np.float32)
    return np.asarray(resizing.upsample(jnp.asarray(waves), (side, side)))[:, 0]


def slow(raw: np.ndarray, target: np.ndarray, stride: int) -> float:
    """In 64 bit, pixel by pixel."""
    table = resizing.weights(target.shape[1], raw.shape[1]).astype(np.float64)
    said = np.einsum("Hi,Wj,bij->bHW", table, table, raw[..., 0].astype(np.float64))
    first = (stride - 1) // 2
    return float(
        np.mean(
            [
                abs(said[row, i, j] - target[row, i, j])
                for row in range(len(raw))
                for i in range(first, target.shape[1], stride)
                for j in range(first, target.shape[2], stride)
                if target[row, i, j] >= 0
            ]
        )
    )


@pytest.mark.parametrize("stride", [1, 4])
def test_loss_and_gradient_are_those_of_a_slow_reference(stride):
    raw, target = drawn(side=17)
    assert float(value(raw, target, stride)) == pytest.approx(slow(raw, target, stride), rel=1e-5)
    gradient = np.asarray(slope(raw, target, stride)[1])
    for place in [(0, 0, 0, 0), (1, 2, 3, 0), (2, 3, 3, 0)]:
        up, down = raw.astype(np.float64), raw.astype(np.float64)
        up[place] += 1e-6
        down[place] -= 1e-6
        expected = (slow(up, target, stride) - slow(down, target, stride)) / 2e-6
        assert gradient[place] == pytest.approx(expected, abs=1e-5)


def test_pytorch_agrees():
    raw, target = drawn(1)
    leaf = torch.tensor(raw.transpose(0, 3, 1, 2), requires_grad=True)
    wide = torch.nn.functional.interpolate(leaf, size=(16, 16), mode="bilinear", align_corners=False)[:, 0]
    known = torch.tensor(target >= 0)
    loss = torch.nn.functional.l1_loss(wide[known], torch.tensor(target)[known])
    loss.backward()
    assert float(value(raw, target)) == pytest.approx(loss.item(), rel=1e-5)
    expected = leaf.grad.numpy().transpose(0, 2, 3, 1)
    assert np.asarray(slope(raw, target)[1]) == pytest.approx(expected, abs=1e-6)
    said = np.asarray(predict(jnp.asarray(raw), (16, 16)))
    assert said == pytest.approx(wide.detach().numpy(), abs=1e-6)


@pytest.mark.parametrize("unknown", [-1.0, np.nan, np.inf])
def test_nothing_known_and_one_pixel(unknown):
    raw, target = drawn(2)
    target[:] = unknown
    loss, gradient = slope(raw, target)
    assert loss == 0
    assert (gradient == 0).all()
    assert float(value(raw[:0], target[:0])) == 0
    target[1, 5, 7] = 0
    loss, gradient = slope(raw, target)
    said = np.asarray(predict(jnp.asarray(raw), (16, 16)))
    assert float(loss) == pytest.approx(abs(said[1, 5, 7]), rel=1e-5)
    assert np.isfinite(gradient).all()
    assert np.abs(gradient).sum() == pytest.approx(1)
    assert float(value(np.zeros_like(raw), np.zeros_like(target))) == 0


@given(st.integers(0, 10**6), st.sampled_from([1, 4]))
@settings(max_examples=10, deadline=None)
def test_batches_add_up_and_unknown_pixels_do_not_count(seed, stride):
    raw, target = drawn(seed)
    whole = sums(raw, target, stride=stride)
    parts = [sums(raw[part], target[part], stride=stride) for part in (slice(1), slice(1, 3))]
    for total, *each in zip(whole, *parts, strict=True):
        assert float(total) == pytest.approx(float(sum(each)), rel=1e-5)
    changed = sums(raw, np.where(target < 0, np.float32(-9e9), target), stride=stride)
    assert changed == whole
    first = (stride - 1) // 2
    assert whole.pixels == (target[:, first::stride, first::stride] >= 0).sum()


def test_settings_side_by_side():
    raws = jnp.asarray(np.stack([drawn(seed)[0] for seed in range(4)]))
    target = jnp.asarray(drawn()[1])
    together, gradients = jax.vmap(lambda raw: slope(raw, target, 4))(raws)
    for raw, loss, gradient in zip(raws, together, gradients, strict=True):
        assert float(loss) == pytest.approx(float(value(raw, target, 4)), rel=1e-5)
        assert np.asarray(gradient) == pytest.approx(np.asarray(slope(raw, target, 4)[1]), abs=1e-7)


def test_scores_bear_the_name_of_the_task():
    raw, target = drawn(3)
    target[2] = -1
    said = predict(jnp.asarray(raw), (16, 16))
    tally = TASK.tally(said, target)
    scores = TASK.scores(tally)
    assert list(scores) == ["edge_correlation", "rmse", "mae"]
    known = target[0] >= 0
    expected = np.corrcoef(np.asarray(said)[0][known], target[0][known])[0, 1]
    assert scores["edge_correlation"][0] == pytest.approx(expected, abs=1e-5)
    assert np.isnan([scores[name][2] for name in scores]).all()
    pooled = TASK.pooled(jax.tree.map(lambda leaf: np.asarray(leaf).sum(0), tally))
    error = (np.asarray(said, float) - target)[target >= 0]
    assert pooled["rmse_pooled"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-5)
    assert pooled["mae_pooled"] == pytest.approx(np.abs(error).mean(), rel=1e-5)
    assert set(pooled) == {"rmse_pooled", "mae_pooled"}
    assert Response("edge_correlation") == TASK != Response("corner_correlation")
    assert hash(Response("edge_correlation")) == hash(TASK)


def test_a_collapsed_head_has_no_correlation():
    """Upsampling a constant leaves rounding behind, which must not be correlated with anything."""
    _, target = drawn(4, side=224)
    for constant in (0.1, 1 / 3, 77.7):
        said = predict(jnp.full((3, 7, 7, 1), constant, jnp.float32), (224, 224))
        scores = TASK.scores(TASK.tally(said, target))
        assert np.isnan(scores["edge_correlation"]).all()
        assert np.isfinite(scores["mae"]).all()


def test_baselines():
    _, target = drawn(5, count=6)
    target[:, :4] = np.where(target[:, :4] < 0, target[:, :4], target[:, :4] + 2)  # strong in the upper rows
    target[:, 9, 9] = -1
    found = jax.tree.map(np.asarray, evidence(target))
    mean = target[target >= 0].mean()
    place = np.asarray(guess(found))
    assert place[9, 9] == pytest.approx(mean, rel=1e-5)
    assert place[3, 3] == pytest.approx(target[:, 3, 3][target[:, 3, 3] >= 0].mean(), rel=1e-5)
    constant = guess(Evidence(*(leaf.sum((0, 1), keepdims=True) for leaf in found)))
    assert np.asarray(constant) == pytest.approx(np.full((1, 1), mean), rel=1e-5)
    assert np.isnan(TASK.scores(TASK.tally(constant[None], target))["edge_correlation"]).all()
    rows = guess(Evidence(*(leaf.sum(1, keepdims=True) for leaf in found)))
    assert rows.shape == (16, 1)
    assert TASK.scores(TASK.tally(rows[None], target))["edge_correlation"].min() > 0.3


def test_ceiling():
    target = smooth(0)
    assert np.asarray(ceiling(target, (64, 64))) == pytest.approx(target, abs=1e-5)
    coarse = np.asarray(ceiling(target, (8, 8)))
    means = jnp.asarray(target.reshape(1, 8, 8, 8, 8).mean((2, 4))[..., None])
    assert coarse == pytest.approx(np.asarray(resizing.upsample(means, (64, 64)))[:, 0], abs=1e-5)
    reached = [
        TASK.scores(TASK.tally(ceiling(target, (grid, grid)), target))["edge_correlation"][0]
        for grid in (2, 5, 16, 64)
    ]
    assert reached == sorted(reached)
    assert reached[-1] == pytest.approx(1)


def test_unknown_pixels_do_not_reach_the_ceiling():
    target = np.full((1, 32, 32), -1, np.float32)
    target[:, 5:9, 5:9] = 3
    said = np.asarray(ceiling(target, (4, 4)))
    assert said[target >= 0] == pytest.approx(np.full(16, 3), rel=1e-5)
    assert np.isfinite(said).all()
    target[0, 20, 20] = np.nan
    assert np.isfinite(ceiling(target, (4, 4))).all()


@pytest.mark.parametrize("seed", range(3))
def test_a_shifted_target_and_a_transposed_grid_score_less(seed):
    target = smooth(seed)
    raw = jnp.asarray(target.reshape(1, 16, 4, 16, 4).mean((2, 4))[..., None])

    def r(raw, target):
        return TASK.scores(TASK.tally(predict(raw, (64, 64)), target))["edge_correlation"][0]

    best = r(raw, target)
    assert best > 0.98
    for other in (np.roll(target, 8, 1), np.roll(target, -8, 2)):
        assert r(raw, other) < best - 0.2
        assert value(raw, other) > 2 * value(raw, target)
    assert r(raw.transpose(0, 2, 1, 3), target) < best - 0.2
