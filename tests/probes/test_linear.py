from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

from probes import linear
from probes.affine import cross_entropy

N, D, CLASSES, EPOCHS, BATCH = 70, 5, 3, 4, 32  # two whole batches and one of 6
fit = partial(linear.fit, num_classes=CLASSES, epochs=EPOCHS, batch_size=BATCH)


@pytest.fixture
def data(mixture):
    features, labels = mixture(N, D, CLASSES)
    return features, labels.astype(np.int32)


def batches(key, n):
    for epoch in range(EPOCHS):
        order = np.asarray(linear.epoch_order(key, epoch, jnp.ones(n, bool)))
        assert sorted(order) == list(range(n))
        yield [order[i : i + BATCH] for i in range(0, n, BATCH)]


def test_it_is_the_loop_one_would_write_with_optax(data):
    features, labels = data
    key = jax.random.key(3)
    optimiser = optax.adamw(1e-2, weight_decay=1e-2)
    params = jnp.zeros((D, CLASSES)), jnp.zeros(CLASSES)
    state = optimiser.init(params)

    def loss(params, rows):
        return cross_entropy(
            jnp.asarray(features)[rows] @ params[0] + params[1], jnp.asarray(labels)[rows]
        ).mean()

    step = jax.jit(jax.value_and_grad(loss))
    for epoch in batches(key, N):
        losses = []
        for rows in epoch:
            value, gradient = step(params, rows)
            updates, state = optimiser.update(gradient, state, params)
            params = optax.apply_updates(params, updates)
            losses.append(value * len(rows))
    found = fit(features, labels, linear.Hparams(1e-2, 1e-2), key=key)
    np.testing.assert_allclose(found.weight, params[0], atol=1e-5)
    np.testing.assert_allclose(found.bias, params[1], atol=1e-5)
    np.testing.assert_allclose(found.train_loss, sum(losses) / N, rtol=1e-5)


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_it_is_the_optimiser_of_torch(data, optimizer, schedule):
    features, labels = data
    key = jax.random.key(3)
    layer = torch.nn.Linear(D, CLASSES)
    torch.nn.init.zeros_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    if optimizer == "adamw":
        optimiser = torch.optim.AdamW(layer.parameters(), lr=1e-2, weight_decay=1e-1)
    else:
        optimiser = torch.optim.SGD(layer.parameters(), lr=1e-2, weight_decay=1e-1, momentum=0.9)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=EPOCHS * -(-N // BATCH))
    for epoch in batches(key, N):
        for rows in epoch:
            optimiser.zero_grad()
            logits = layer(torch.from_numpy(features[rows]))
            torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels[rows]).long()).backward()
            optimiser.step()
            if schedule == "cosine":
                fall.step()
    found = fit(features, labels, linear.Hparams(1e-2, 1e-1), key=key, optimizer=optimizer, schedule=schedule)
    np.testing.assert_allclose(found.weight, layer.weight.detach().numpy().T, atol=1e-5)
    np.testing.assert_allclose(found.bias, layer.bias.detach().numpy(), atol=1e-5)


def test_a_sweep_is_a_vmap_traced_once(data):
    features, labels = data
    key = jax.random.key(0)
    grid = linear.Hparams(jnp.array([1e-3, 1e-2, 1e-1]), jnp.array([0.0, 1e-2, 1e-1]))
    sweep = jax.jit(jax.vmap(partial(fit, key=key), in_axes=(None, None, 0)))
    fits = sweep(features, labels, grid)
    sweep(features, labels, jax.tree.map(lambda leaf: leaf / 2, grid))
    assert sweep._cache_size() == 1
    for i in range(3):
        one = fit(features, labels, linear.Hparams(grid.learning_rate[i], grid.weight_decay[i]), key=key)
        np.testing.assert_allclose(fits.weight[i], one.weight, atol=1e-4)


def test_masked_rows_might_as_well_not_be_there(data):
    features, labels = data
    mask = np.arange(N) % 3 > 0
    spoilt, other = np.where(mask[:, None], features, np.nan), np.where(mask, labels, -1)
    masked = fit(spoilt, other, key=jax.random.key(0), mask=mask)
    whole = fit(features, labels, key=jax.random.key(0), mask=np.ones(N, bool))
    assert np.isfinite(masked.weight).all()
    assert np.abs(masked.weight - whole.weight).max() > 1e-3
    # As many steps as the valid rows fill: 46 rows are two batches, so after one epoch Adam moved twice.
    order = np.asarray(linear.epoch_order(jax.random.key(0), 0, jnp.asarray(mask)))
    assert mask[order[: mask.sum()]].all()
    optimiser, params = optax.adamw(1e-2, weight_decay=1e-4), (jnp.zeros((D, CLASSES)), jnp.zeros(CLASSES))

    def loss(params, rows):
        return cross_entropy(
            jnp.asarray(features)[rows] @ params[0] + params[1], jnp.asarray(labels)[rows]
        ).mean()

    step, state = jax.jit(jax.grad(loss)), optimiser.init(params)
    for rows in (order[:32], order[32:46]):
        updates, state = optimiser.update(step(params, rows), state, params)
        params = optax.apply_updates(params, updates)
    once = fit(spoilt, other, key=jax.random.key(0), mask=mask, epochs=1)
    np.testing.assert_allclose(once.weight, params[0], atol=1e-5)


def test_folds_of_unequal_size_are_a_vmap(data):
    masks = np.stack([np.arange(N) < 35, np.arange(N) % 7 > 0, np.ones(N, bool)])  # 2, 2 and 3 batches
    folds = jax.vmap(lambda mask: fit(*data, key=jax.random.key(0), mask=mask))(masks)
    for i, mask in enumerate(masks):
        one = fit(*data, key=jax.random.key(0), mask=mask)
        for here, there in zip(folds, one, strict=True):
            np.testing.assert_allclose(here[i], there, atol=1e-5)


def test_seeds_are_a_vmap(data):
    keys = jax.random.split(jax.random.key(0), 3)
    seeds = jax.vmap(lambda key: fit(*data, key=key))(keys)
    for i, key in enumerate(keys):
        np.testing.assert_allclose(seeds.weight[i], fit(*data, key=key).weight, atol=1e-5)


def test_the_same_key_gives_the_same_bits_and_another_does_not(data):
    weights = [np.asarray(fit(*data, key=jax.random.key(seed)).weight) for seed in (1, 1, 2)]
    assert (weights[0] == weights[1]).all()
    assert (weights[0] != weights[2]).any()
