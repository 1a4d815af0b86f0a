"""Foreground as a task: PyTorch's loss, finite differences, void pixels, baselines, ceiling, shifts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import jaccard_score

from probes import resizing
from probes.maps.cells import Evidence
from probes.maps.foreground import Foreground

TASK = Foreground()
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
    return raw, rng.choice([0, 1, 255], (count, side, side), p=[0.5, 0.3, 0.2]).astype(np.uint8)


def smooth(seed: int, side: int = 64) -> np.ndarray:
    """A random target of a few blobs."""
    waves = np.random.default_rng(seed).standard_normal((1, 6, 6, 1)).astype(np.float32)
    return (np.asarray(resizing.upsample(jnp.asarray(waves), (side, side)))[:, 0] > 0).astype(np.uint8)


def slow(raw: np.ndarray, target: np.ndarray, stride: int) -> float:
    """In 64 bit, pixel by pixel."""
    table = resizing.weights(target.shape[1], raw.shape[1]).astype(np.float64)
    logits = np.einsum("Hi,Wj,bij->bHW", table, table, raw[..., 0].astype(np.float64))
    losses = []
    for row in range(len(raw)):
        for i in range((stride - 1) // 2, target.shape[1], stride):
            for j in range((stride - 1) // 2, target.shape[2], stride):
                if target[row, i, j] != 255:
                    share = 1 / (1 + np.exp(-logits[row, i, j]))
                    losses.append(-np.log(share if target[row, i, j] else 1 - share))
    return float(np.mean(losses))


@pytest.mark.parametrize("stride", [1, 4])
def test_loss_and_gradient_are_those_of_a_slow_reference(stride):
    raw, target = drawn(side=17)
    assert float(value(raw, target, stride)) == pytest.approx(slow(raw, target, stride), rel=1e-5)
    gradient = np.asarray(slope(raw, target, stride)[1])
    for place in [(0, 0, 0, 0), (1, 2, 3, 0), (2, 3, 3, 0)]:
        up, down = raw.astype(np.float64), raw.astype(np.float64)
        up[place] += 1e-4
        down[place] -= 1e-4
        expected = (slow(up, target, stride) - slow(down, target, stride)) / 2e-4
        assert gradient[place] == pytest.approx(expected, abs=1e-5)


def test_pytorch_agrees():
    raw, target = drawn(1)
    leaf = torch.tensor(raw.transpose(0, 3, 1, 2), requires_grad=True)
    wide = torch.nn.functional.interpolate(leaf, size=(16, 16), mode="bilinear", align_corners=False)[:, 0]
    known = torch.tensor(target != 255)
    truth = torch.tensor(target == 1).float()[known]
    loss = torch.nn.functional.binary_cross_entropy_with_logits(wide[known], truth)
    loss.backward()
    assert float(value(raw, target)) == pytest.approx(loss.item(), rel=1e-5)
    expected = leaf.grad.numpy().transpose(0, 2, 3, 1)
    assert np.asarray(slope(raw, target)[1]) == pytest.approx(expected, abs=1e-6)
    said = np.asarray(predict(jnp.asarray(raw), (16, 16)))
    assert said == pytest.approx(torch.sigmoid(wide).detach().numpy(), abs=1e-6)


def test_large_logits_and_nothing_valid_stay_finite():
    raw, target = drawn(2)
    loss, gradient = slope(np.float32(1e4) * raw, target)
    assert np.isfinite(loss)
    assert np.isfinite(gradient).all()
    loss, gradient = slope(raw, np.full_like(target, 255))
    assert loss == 0
    assert (gradient == 0).all()
    assert float(value(raw[:0], target[:0])) == 0
    one = np.full_like(target, 255)
    one[1, 5, 7] = 1
    assert float(value(raw, one)) == pytest.approx(slow(raw, one, 1), rel=1e-5)


@given(st.integers(0, 10**6), st.sampled_from([1, 4]))
@settings(max_examples=10, deadline=None)
def test_batches_add_up_and_void_pixels_do_not_count(seed, stride):
    raw, target = drawn(seed)
    whole = sums(raw, target, stride=stride)
    parts = [sums(raw[part], target[part], stride=stride) for part in (slice(1), slice(1, 3))]
    for total, *each in zip(whole, *parts, strict=True):
        assert float(total) == pytest.approx(float(sum(each)), rel=1e-5)
    sampled = target[:, (stride - 1) // 2 :: stride, (stride - 1) // 2 :: stride]
    assert whole.pixels == (sampled != 255).sum()


def test_settings_side_by_side():
    raws = jnp.asarray(np.stack([drawn(seed)[0] for seed in range(4)]))
    target = jnp.asarray(drawn()[1])
    together, gradients = jax.vmap(lambda raw: slope(raw, target))(raws)
    for raw, loss, gradient in zip(raws, together, gradients, strict=True):
        assert float(loss) == pytest.approx(float(value(raw, target)), rel=1e-5)
        assert np.asarray(gradient) == pytest.approx(np.asarray(slope(raw, target)[1]), abs=1e-7)


def test_one_trace_serves_equal_tasks():
    traced = []

    def program(task, raw, target):
        traced.append(task)
        return task.loss(task.sums(raw, target))

    jitted = jax.jit(program, static_argnums=0)
    raw, target = drawn()
    for _ in range(2):
        jitted(Foreground(), jnp.asarray(raw), jnp.asarray(target))
    assert len(traced) == 1


def test_scores_by_image_and_together():
    raw, target = drawn(3)
    target[2] = 255
    said = predict(jnp.asarray(raw), (16, 16))
    tally = TASK.tally(said, target)
    scores = TASK.scores(tally)
    known, answer = target != 255, np.asarray(said) > 0.5
    assert scores["iou"][0] == pytest.approx(jaccard_score(target[0][known[0]], answer[0][known[0]]))
    assert np.isnan([scores[name][2] for name in scores]).all()
    pooled = TASK.pooled(jax.tree.map(lambda leaf: np.asarray(leaf).sum(0), tally))
    assert pooled["iou_pooled"] == pytest.approx(jaccard_score(target[known], answer[known]))
    assert set(pooled) == {f"{name}_pooled" for name in scores}
    assert np.asarray(TASK.valid(target)).tolist() == known.tolist()


def test_baselines():
    _, target = drawn(4, count=6)
    target[:, :2] = np.where(target[:, :2] == 255, 255, 1)  # the upper rows are foreground
    target[:, 9, 9] = 255
    found = jax.tree.map(np.asarray, evidence(target))
    parts = [evidence(target[part]) for part in (slice(2), slice(2, 6))]
    assert all((a + b == c).all() for a, b, c in zip(*parts, found, strict=True))
    known = target != 255
    share = (target == 1).sum() / known.sum()
    place = np.asarray(guess(found))
    assert place[9, 9] == pytest.approx(share)  # nobody said: as likely as elsewhere
    assert place[0, 0] in (1, pytest.approx(share))
    constant = guess(Evidence(*(leaf.sum((0, 1), keepdims=True) for leaf in found)))
    assert constant.shape == (1, 1)
    assert float(constant[0, 0]) == pytest.approx(share)
    rows = guess(Evidence(*(leaf.sum(1, keepdims=True) for leaf in found)))
    scores = {
        name: TASK.scores(TASK.tally(each[None], target)) for name, each in (("row", rows), ("one", constant))
    }
    assert scores["row"]["iou"].mean() > scores["one"]["iou"].mean()
    nothing = TASK.scores(TASK.tally(TASK.background((16, 16)), target))
    assert nothing["pixel_acc"] == pytest.approx(1 - nothing["foreground_share"])
    assert (nothing["iou"] == 0).all()


def test_ceiling():
    target = smooth(0)
    fine = ceiling(target, (64, 64))
    assert TASK.scores(TASK.tally(fine, target))["iou"] == pytest.approx(1)
    coarse = np.asarray(ceiling(target, (8, 8)))
    means = target.reshape(1, 8, 8, 8, 8).mean((2, 4))[..., None]
    assert coarse == pytest.approx(
        np.asarray(resizing.upsample(jnp.asarray(means), (64, 64)))[:, 0], abs=1e-5
    )
    ious = [
        TASK.scores(TASK.tally(ceiling(target, (grid, grid)), target))["iou"][0] for grid in (2, 7, 16, 64)
    ]
    assert ious == sorted(ious)
    assert ious[1] > 0.8
    void = np.full_like(target, 255)
    assert (np.asarray(ceiling(void, (8, 8))) == 0).all()
    void[:, 20:30, 20:30] = 1  # all that is known is foreground, whatever the cells around hold
    said = np.asarray(ceiling(void, (8, 8)))
    assert said[void == 1] == pytest.approx(np.ones(100))


@pytest.mark.parametrize("seed", range(3))
def test_a_shifted_target_and_a_transposed_grid_score_less(seed):
    target = smooth(seed)
    raw = jnp.asarray(target.reshape(1, 16, 4, 16, 4).mean((2, 4))[..., None] - 0.5)

    def iou(raw, target):
        return TASK.scores(TASK.tally(predict(raw, (64, 64)), target))["iou"][0]

    best = iou(raw, target)
    assert best > 0.9
    for other in (np.roll(target, 8, 1), np.roll(target, -8, 2)):
        assert iou(raw, other) < best - 0.1
        assert value(20 * raw, other) > value(20 * raw, target)
    assert iou(raw.transpose(0, 2, 1, 3), target) < best - 0.1
