import os
import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes import linear
from probes.errors import InputError

N, D, CLASSES = 70, 5, 3
KEY = jax.random.key(0)
OPTIONS = {"num_classes": CLASSES, "key": KEY, "epochs": 4, "batch_size": 32}
path = partial(linear.path, **OPTIONS)
# Four devices must be asked for before JAX starts, so this runs by itself; it prints how far apart the answers are.
DEVICES = """
import jax, numpy as np
from probes import linear
rng = np.random.default_rng(0)
features, labels = rng.standard_normal((70, 5)).astype(np.float32), rng.integers(0, 3, 70)
options = dict(num_classes=3, key=jax.random.key(0), epochs=4, batch_size=32)
assert len(jax.local_devices()) == 4
for settings in (1, 3, 4, 11):
    grid = linear.Hparams(np.logspace(-4, 0, settings), 1e-2)
    found = linear.path(features, labels, grid, **options)
    for i in range(settings):
        one = linear.fit(features, labels, linear.Hparams(grid.learning_rate[i], 1e-2), **options)
        for here, there in zip(found, one):
            np.testing.assert_allclose(here[i], there, atol=1e-5)
print(linear._advance._cache_size())
"""


@pytest.fixture
def data(mixture):
    return mixture(N, D, CLASSES)


def grid(settings):
    rng = np.random.default_rng(settings)
    return linear.Hparams(10 ** rng.uniform(-4, 0, settings), 10 ** rng.uniform(-5, 0, settings))


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_a_grid_is_its_settings_one_by_one(data, optimizer, schedule):
    hparams = grid(11)
    found = path(*data, hparams, optimizer=optimizer, schedule=schedule)
    one = partial(linear.fit, *data, **OPTIONS, optimizer=optimizer, schedule=schedule)
    alone = [one(linear.Hparams(*setting)) for setting in zip(*hparams, strict=True)]
    for here, there in zip(found, zip(*alone, strict=True), strict=True):
        np.testing.assert_allclose(here, np.stack(there), rtol=1e-4, atol=1e-5)
    losses = [float(linear.score(linear.predict(fit, data[0]), data[1])["loss"]) for fit in alone]
    logits = jax.vmap(linear.predict, in_axes=(0, None))(found, data[0])
    swept = jax.vmap(linear.score, in_axes=(0, None))(logits, data[1])["loss"]
    assert int(swept.argmin()) == int(np.argmin(losses))


def test_how_a_grid_is_cut_changes_nothing(data, monkeypatch):
    whole = path(*data, grid(11))
    for columns in (1, 2 * CLASSES, 5 * CLASSES):
        for here, there in zip(path(*data, grid(11), columns=columns), whole, strict=True):
            np.testing.assert_allclose(here, there, rtol=1e-4, atol=1e-5)
    monkeypatch.setattr(linear, "OVERHEAD", 0.2)  # 4 or 5 steps a call, 3 an epoch
    shares = []
    for here, there in zip(path(*data, grid(11), progress=shares.append), whole, strict=True):
        np.testing.assert_array_equal(here, there)
    assert len(shares) > 4
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_groups_come_as_they_are_done(data):
    shares = []
    running = linear.groups(*data, grid(11), **OPTIONS, columns=4 * CLASSES, progress=shares.append)
    assert shares == []
    places, found = next(running)
    assert shares == [4 / 12]
    np.testing.assert_array_equal(places, range(4))
    assert found.weight.shape == (4, D, CLASSES)
    np.testing.assert_array_equal(np.concatenate([places for places, _ in running]), range(4, 11))


def test_a_program_a_size_of_group_serves_every_grid_and_near_sizes(data):
    before = linear._advance._cache_size()
    for size in (3, 60, 61):
        path(*data, grid(size))
    after = linear._advance._cache_size()
    assert after <= before + 2  # groups of 4 and of 64
    path(*data, grid(61), epochs=7)
    path(data[0][:66], data[1][:66], grid(60), mask=np.arange(66) > 3)
    assert linear._advance._cache_size() == after
    path(*data, grid(500), columns=64 * CLASSES)  # 7 × 64, 32, 16 and 4
    assert linear._advance._cache_size() <= after + 2


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 99), st.lists(st.booleans(), min_size=40, max_size=40))
def test_an_epoch_is_the_valid_rows_by_their_noise_then_the_others(epoch, valid):
    valid = np.array(valid)
    noise = np.asarray(jax.random.bits(jax.random.fold_in(KEY, epoch), valid.shape))
    for x64 in (False, True):
        with jax.enable_x64(x64):
            order = linear.epoch_order(KEY, epoch, jnp.asarray(valid))
        np.testing.assert_array_equal(order, np.lexsort((noise, ~valid)))


@pytest.mark.parametrize("batch_size", [1, 32, 512])
def test_rows_added_to_fill_a_shape_do_not_exist(data, batch_size):
    """70 rows are padded to 80; more batches would show, since AdamW moves in every step."""
    order = linear.epoch_order(KEY, 3, jnp.ones(N, bool))
    padded = linear.epoch_order(KEY, 3, jnp.arange(80) < N)
    np.testing.assert_array_equal(order, padded[:N])
    options = {**OPTIONS, "batch_size": batch_size}
    found = linear.path(*data, linear.Hparams(), **options)
    plain = linear.fit(*data, linear.Hparams(), **options)
    for here, there in zip(found, plain, strict=True):
        np.testing.assert_allclose(here[0], there, atol=1e-5)


def test_masked_rows_do_not_count_whatever_they_hold(data):
    features, labels = data
    mask = np.arange(N) % 3 > 0
    other = np.where(mask, labels, -1)
    found = path(np.where(mask[:, None], features, 1e6), other, grid(3), mask=mask)
    for i in range(3):
        setting = linear.Hparams(*(leaf[i] for leaf in grid(3)))
        one = linear.fit(features, labels, setting, **OPTIONS, mask=mask)
        np.testing.assert_allclose(found.weight[i], one.weight, atol=1e-5)


def test_a_setting_that_diverges_says_so_and_leaves_its_neighbours_alone(data):
    features, labels = data
    rates = np.array([1e-3, 1e6, 1e-2])
    found = path(100 * features, labels, linear.Hparams(rates, 10.0), optimizer="sgd", epochs=30)
    np.testing.assert_array_equal(np.isfinite(found.train_loss), [True, False, True])
    for i in (0, 2):
        quiet = path(100 * features, labels, linear.Hparams(rates[i], 10.0), optimizer="sgd", epochs=30)
        np.testing.assert_allclose(found.weight[i], quiet.weight[0], rtol=1e-3, atol=1e-5)


def test_a_weight_that_overflows_in_the_last_step_is_told(data):
    """Its loss was taken before that step, at zero."""
    features, labels = data
    once = {**OPTIONS, "epochs": 1, "batch_size": 128}
    found = linear.path(1e30 * features, labels, linear.Hparams(3e38), **once, optimizer="sgd")
    assert not np.isfinite(found.weight).all()
    assert np.isnan(found.train_loss).all()


def test_settings_are_spread_over_devices():
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    ran = subprocess.run(
        [sys.executable, "-c", DEVICES],
        capture_output=True,
        text=True,
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) <= 4


def test_bad_input_is_refused(data):
    features, labels = data
    for options, message in (
        ({"optimizer": "adam"}, "optimizer is 'adam'; wanted 'adamw' or 'sgd'"),
        ({"schedule": "step"}, "schedule is 'step'"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"num_classes": 2}, "num_classes is 2"),
    ):
        with pytest.raises(InputError, match=message):
            linear.groups(features, labels, linear.Hparams(), **{**OPTIONS, **options})
    with pytest.raises(InputError, match="not finite in row 4"):
        path(np.where(np.arange(N)[:, None] == 4, np.nan, features), labels, linear.Hparams())
    with pytest.raises(InputError, match="70 and 69"):
        path(features, labels[1:], linear.Hparams())
