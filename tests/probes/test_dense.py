"""Training heads on maps in memory: against PyTorch's AdamW, and what a sweep, a batch and a void image may change."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from probes import dense, scaling
from probes.dense import Hparams, Maps, Program
from probes.errors import InputError
from probes.heads import make_head
from probes.maps.boundaries import Boundaries
from probes.maps.depth import Depth
from probes.maps.foreground import Foreground
from probes.maps.normals import Normals
from probes.maps.ordinal import Ordinal
from probes.maps.orientation import Orientation
from probes.maps.response import Response
from probes.maps.segmentation import Segmentation

N, GRID, DIMS, CLASSES, SIDE = 13, 4, 6, 3, 8
TASK = Segmentation(CLASSES)
LINEAR = make_head("linear", channels=CLASSES)
KEY = jax.random.key(0)
fit = partial(dense.fit, head=LINEAR, task=TASK, key=KEY)


def planted(n=N, seed=0, grid=GRID):
    """Cells that tell their class, noisily, and labels at twice their resolution or more."""
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, CLASSES, (n, grid, grid)).astype(np.uint8)
    features = np.random.default_rng(9).standard_normal((CLASSES, DIMS))[cells] * 3
    features += rng.standard_normal(features.shape) / 2
    labels = np.repeat(np.repeat(cells, SIDE // grid, 1), SIDE // grid, 2)
    return Maps((features.astype(np.float32),)), labels


def said(found, maps, head=LINEAR, task=TASK, scaled=None):
    return np.asarray(
        dense.predict(found.params, maps, scaled, program=Program(head, task), size=(SIDE, SIDE))
    )


def close(ours, theirs, **tolerance):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, **{"rtol": 1e-4, "atol": 1e-5, **tolerance})


def test_a_planted_target_is_learnt():
    maps, labels = planted(40)
    found = fit(maps, labels, Hparams(0.05, 1e-4))
    assert found.train_loss.shape == (1,)
    assert found.train_loss[0] < 0.5
    others, truth = planted(20, seed=1)
    assert (said(found, others)[0] == truth).mean() > 0.9
    permuted = fit(maps, labels[::-1], Hparams(0.05, 1e-4))
    assert permuted.train_loss[0] > 0.9


def by_torch(maps, labels, *, rate, decay, epochs, batch):
    """The same head, order and schedule in a plain loop: (d, c) weight, bias and the last epoch's mean loss."""
    start, second = jax.random.split(KEY)
    params = LINEAR.init(start, tuple(jnp.asarray(grid[:1]) for grid in maps.grids), None)["params"]["out"]
    weight = torch.tensor(np.array(params["kernel"]), requires_grad=True)
    bias = torch.tensor(np.array(params["bias"]), requires_grad=True)
    optimiser = torch.optim.AdamW([weight, bias], weight_decay=decay)
    grids, truth = torch.from_numpy(maps.grids[0]), torch.from_numpy(labels.astype(np.int64))
    an_epoch = -(-len(labels) // batch)
    steps, warm, taken = an_epoch * epochs, min(1.5 * an_epoch, an_epoch * epochs / 2), 0
    for epoch in range(epochs):
        order = np.array(jax.random.permutation(jax.random.fold_in(second, epoch), len(labels)))
        losses = []
        for begin in range(0, len(order), batch):
            rows = order[begin : begin + batch]
            logits = (grids[rows] @ weight + bias).permute(0, 3, 1, 2)
            logits = torch.nn.functional.interpolate(
                logits, (SIDE, SIDE), mode="bilinear", align_corners=False
            )
            loss = torch.nn.functional.cross_entropy(logits, truth[rows], ignore_index=255)
            share = (
                taken / warm
                if taken < warm
                else (1 + np.cos(np.pi * (taken - warm) / max(steps - warm, 1))) / 2
            )
            for group in optimiser.param_groups:
                group["lr"] = rate * share
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
            taken += 1
    return weight.detach().numpy(), bias.detach().numpy(), np.mean(losses)


@pytest.mark.parametrize(("batch", "decay"), [(4, 1e-2), (16, 0.0)])
def test_the_loop_is_that_of_pytorch(batch, decay):
    maps, labels = planted()
    labels[3], labels[5, :3] = 255, 255
    weight, bias, loss = by_torch(maps, labels, rate=0.03, decay=decay, epochs=4, batch=batch)
    found = fit(maps, labels, Hparams(0.03, decay), epochs=4, batch_size=batch)
    np.testing.assert_allclose(found.params["out"]["kernel"][0], weight, atol=1e-4)
    np.testing.assert_allclose(found.params["out"]["bias"][0], bias, atol=1e-4)
    np.testing.assert_allclose(found.train_loss[0], loss, rtol=1e-4)


@pytest.mark.parametrize(("name", "layers"), [("linear", 1), ("fpn", 2)])
def test_a_sweep_is_its_single_fits(name, layers):
    """The layers of the pyramid lie on grids of their own."""
    parts = [planted(grid=side) for side in (4, 2)[:layers]]
    maps, labels = Maps(tuple(each.grids[0] for each, _ in parts)), parts[0][1]
    hidden = None if name == "linear" else 8
    head = make_head(name, channels=CLASSES, layers=layers, hidden_dim=hidden)
    rates, decays = np.array([0.02, 0.001]), np.array([0.0, 1e-2])
    options = {"head": head, "epochs": 3, "side_by_side": name == "linear"}
    swept = fit(maps, labels, Hparams(rates, decays), **options)
    for place, (rate, decay) in enumerate(zip(rates, decays, strict=True)):
        alone = fit(maps, labels, Hparams(float(rate), float(decay)), **options)
        close(jax.tree.map(lambda leaf, place=place: leaf[place], swept.params), one(alone.params), atol=1e-4)
        np.testing.assert_allclose(swept.train_loss[place], alone.train_loss[0], rtol=1e-4)
    assert said(swept, maps, head).shape == (2, N, SIDE, SIDE)


def one(params):
    return jax.tree.map(lambda leaf: leaf[0], params)


@dataclass(frozen=True)
class Counting(Segmentation):
    """Counts how often its loss is traced."""

    traced = []  # noqa: RUF012 - shared on purpose

    def sums(self, raw, target, stride=1):
        self.traced.append(1)
        return super().sums(raw, target, stride)


def test_a_sweep_is_traced_once():
    maps, labels = planted()
    for rates in ([0.1, 0.2, 0.3, 0.4], [1e-3, 1e-2, 0.5, 1.0]):
        fit(maps, labels, Hparams(np.array(rates), 0.0), task=Counting(CLASSES), epochs=len(rates))
    assert len(Counting.traced) == 1


def test_numbers_and_arrays_of_settings_mix():
    maps, labels = planted()
    mixed = fit(maps, labels, Hparams(np.array([0.01, 0.02]), 1e-2), epochs=2)
    listed = fit(maps, labels, Hparams(np.array([0.01, 0.02]), np.full(2, 1e-2)), epochs=2)
    close(mixed, listed)


def test_images_that_say_nothing_do_not_exist():
    """In whatever place of a batch; a batch of them alone is still a step of the optimiser, without a gradient."""
    maps, labels = planted(4)
    without = fit(maps, labels, Hparams(0.05, 0.0), batch_size=8, epochs=5)
    padded = Maps((np.concatenate([maps.grids[0], np.full((4, GRID, GRID, DIMS), 99, np.float32)]),))
    void = np.concatenate([labels, np.full((4, SIDE, SIDE), 255, np.uint8)])
    close(fit(padded, void, Hparams(0.05, 0.0), batch_size=8, epochs=5), without, atol=1e-4)


def test_the_order_is_of_the_key_and_one_batch_has_none():
    maps, labels = planted()
    again, other = fit(maps, labels, epochs=2), fit(maps, labels, key=jax.random.key(1), epochs=2)
    close(fit(maps, labels, epochs=2), again, rtol=0, atol=0)
    assert np.abs(other.params["out"]["kernel"] - again.params["out"]["kernel"]).max() > 1e-3
    turned = Maps((maps.grids[0][::-1],))
    close(
        fit(turned, labels[::-1], batch_size=N, epochs=3),
        fit(maps, labels, batch_size=N, epochs=3),
        atol=1e-4,
    )


def test_a_key_of_the_old_kind_is_a_key():
    maps, labels = planted()
    assert fit(maps, labels, key=jax.random.PRNGKey(0), epochs=1).train_loss.shape == (1,)


def test_an_image_is_predicted_by_itself():
    maps, labels = planted()
    found = fit(maps, labels, Hparams(0.05, 0.0), epochs=2)
    whole = said(found, maps)
    for rows in (slice(0, 1), slice(5, 9)):
        np.testing.assert_array_equal(said(found, Maps((maps.grids[0][rows],))), whole[:, rows])


def test_the_schedule_rises_for_one_and_a_half_epochs_and_ends_at_nothing():
    shares = np.array([dense.schedule(step, 10, 100) for step in range(101)])
    expected = [step / 15 if step < 15 else (1 + np.cos(np.pi * (step - 15) / 85)) / 2 for step in range(101)]
    np.testing.assert_allclose(shares, expected, atol=1e-6)
    assert shares.argmax() == 15
    short = np.array([dense.schedule(step, 8, 8) for step in range(8)])  # of one epoch half is a rise
    assert short.argmax() == 4


def test_features_as_they_are_stored_train_in_float32():
    maps, labels = planted()
    half = Maps((maps.grids[0].astype(np.float16),))
    raised = Maps((np.asarray(half.grids[0]).astype(np.float32),))
    ours, theirs = (fit(each, labels, Hparams(0.05, 1e-4), epochs=3) for each in (half, raised))
    assert ours.params["out"]["kernel"].dtype == np.float32
    close(ours, theirs)


def test_scaling_frees_the_fit_of_the_unit_of_features():
    maps, labels = planted()
    found = []
    for unit in (1.0, 1000.0):
        grid = maps.grids[0] * np.float32(unit) + np.float32(unit)
        scaled = (scaling.fit(grid.reshape(-1, DIMS)),)
        one = fit(Maps((grid,)), labels, Hparams(0.05, 1e-4), epochs=3, scaling=scaled)
        found.append((one, said(one, Maps((grid,)), scaled=scaled)))
    close(found[0][0], found[1][0], rtol=1e-2, atol=1e-3)
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_a_setting_that_diverges_says_so_and_spoils_no_other():
    maps, labels = planted()
    found = fit(maps, labels, Hparams(np.array([0.01, 1e38]), np.array([0.0, 1e38])), epochs=3)
    assert np.isfinite(found.train_loss[0])
    assert not np.isfinite(found.train_loss[1])
    close(one(found.params), one(fit(maps, labels, Hparams(0.01, 0.0), epochs=3).params))


def targets(task, rng, n):
    """Any valid target of a task, in the frame."""
    if isinstance(task, Foreground | Segmentation):
        return rng.integers(0, 2, (n, SIDE, SIDE)).astype(np.uint8)
    values = rng.uniform(0.1, 1, (n, SIDE, SIDE)).astype(np.float32)
    if isinstance(task, Normals | Orientation):
        vectors = rng.standard_normal((n, SIDE, SIDE, 3)).astype(np.float32)
        spread = vectors if isinstance(task, Normals) else vectors[..., :2]
        unit = spread / np.linalg.norm(spread, axis=-1, keepdims=True)
        return unit if isinstance(task, Normals) else np.concatenate([unit, values[..., None]], -1)
    return values


@pytest.mark.parametrize("task", [Normals(), Response("r")], ids=lambda task: type(task).__name__)
def test_a_short_batch_stays_short(task):
    rng, head = np.random.default_rng(0), make_head("linear", channels=task.channels)
    maps, target = planted(5)[0], targets(task, rng, 5)
    short = fit(maps, target, Hparams(0.01, 0.0), task=task, head=head, batch_size=8, epochs=2)
    exact = fit(maps, target, Hparams(0.01, 0.0), task=task, head=head, batch_size=5, epochs=2)
    assert np.isfinite(short.train_loss).all()
    close(short, exact, atol=1e-4)


@pytest.mark.parametrize(
    "task",
    [TASK, Foreground(), Depth(), Ordinal(), Normals(), Response("r"), Orientation(), Boundaries()],
    ids=lambda task: type(task).__name__,
)
def test_every_task_has_a_value_that_says_nothing(task):
    target = jnp.asarray(targets(task, np.random.default_rng(0), 2))
    assert np.asarray(task.valid(target)).any()
    assert not np.asarray(task.valid(jnp.full_like(target, dense._void(task, target)))).any()


def test_what_does_not_go_together_is_refused():
    maps, labels = planted()
    with pytest.raises(InputError, match="maps of 13 images came for 12 targets"):
        fit(maps, labels[:12])
    with pytest.raises(InputError, match="batch_size is 0"):
        fit(maps, labels, batch_size=0)
    with pytest.raises(InputError, match="one for one"):
        fit(Maps((maps.grids[0][:0],)), labels[:0])
