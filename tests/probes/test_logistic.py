import os
import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from probes import logistic, scaling
from probes.errors import InputError


def objective(features, labels, weight, bias, l2):
    logits = np.float64(features) @ np.float64(weight) + np.float64(bias)
    top = logits.max(1, keepdims=True)
    losses = (top + np.log(np.exp(logits - top).sum(1, keepdims=True)))[:, 0] - logits[
        np.arange(len(labels)), labels
    ]
    return losses.mean() + l2 / 2 * (np.float64(weight) ** 2).sum()


def test_coefficients_are_those_of_scikit_learn(mixture):
    features, labels = mixture(60, 5, 3)
    with jax.enable_x64(True):
        features = np.float64(features)
        cs = np.array([1e-3, 1e-1, 1.0])
        found = logistic.path(features, labels, 1 / (60 * cs), num_classes=3, tol=1e-9)
        assert found.converged.all()
        for i, c in enumerate(cs):
            reference = LogisticRegression(C=c, tol=1e-10, max_iter=10_000).fit(features, labels)
            np.testing.assert_allclose(found.weight[i], reference.coef_.T, atol=1e-4)
            centred = found.bias[i] - found.bias[i].mean()
            np.testing.assert_allclose(centred, reference.intercept_ - reference.intercept_.mean(), atol=1e-4)
        alone = logistic.fit(features, labels, logistic.Hparams(l2=1 / 60), num_classes=3, tol=1e-9)
        np.testing.assert_allclose(alone.weight, found.weight[2], atol=1e-6)


def test_stacking_the_data_twice_and_halving_c_changes_nothing(mixture):
    features, labels = mixture(60, 5, 3)
    with jax.enable_x64(True):
        once = logistic.fit(
            np.float64(features),
            labels,
            logistic.Hparams(logistic.l2_from_C(0.7, 60)),
            num_classes=3,
            tol=1e-10,
        )
        twice = logistic.fit(
            np.float64(np.tile(features, (2, 1))),
            np.tile(labels, 2),
            logistic.Hparams(logistic.l2_from_C(0.35, 120)),
            num_classes=3,
            tol=1e-10,
        )
        np.testing.assert_allclose(once.weight, twice.weight, atol=1e-6)
    assert logistic.C_from_l2(logistic.l2_from_C(0.7, 60), 60) == pytest.approx(0.7)


@pytest.mark.parametrize(("n", "d", "classes"), [(1500, 16, 10), (600, 24, 100), (400, 64, 10)])
def test_objective_is_no_worse_than_scikit_learns_for_any_c(mixture, n, d, classes):
    """The last is separable: its objective at a large C is near 0, and the gap is measured against that."""
    features, labels = mixture(n, d, classes, apart=0.7)
    features = np.asarray(scaling.standardise(features)[0])
    cs = np.logspace(-6, 4, 6)
    found = logistic.path(features, labels, logistic.l2_from_C(cs, n), num_classes=classes)
    assert found.converged.all()
    for i, c in enumerate(cs):
        reference = LogisticRegression(C=c, tol=1e-6, max_iter=5000).fit(np.float64(features), labels)
        ours = objective(features, labels, found.weight[i], found.bias[i], 1 / (n * c))
        theirs = objective(features, labels, reference.coef_.T, reference.intercept_, 1 / (n * c))
        assert ours <= theirs * (1 + 1e-6)


def test_path_equals_fit_in_any_order_and_with_repeats(mixture):
    features, labels = mixture(128, 6, 3)
    l2s = np.array([1e-1, 1e-4, 1e-2, 1e-2, 1.0])
    found = logistic.path(features, labels, l2s, num_classes=3)
    each = jax.vmap(partial(logistic.fit, num_classes=3), in_axes=(None, None, 0))(
        features, labels, logistic.Hparams(jnp.asarray(l2s, jnp.float32))
    )
    assert found.converged.all()
    assert each.converged.all()
    np.testing.assert_allclose(found.weight, each.weight, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found.weight[2], found.weight[3], rtol=1e-3, atol=1e-3)
    for i, l2 in enumerate(l2s):
        np.testing.assert_allclose(
            objective(features, labels, found.weight[i], found.bias[i], l2),
            objective(features, labels, each.weight[i], each.bias[i], l2),
            rtol=1e-6,
        )


def test_masked_rows_do_not_count_whatever_they_hold(mixture):
    features, labels = mixture(120, 6, 3)
    mask = np.arange(120) % 2 > 0
    spoilt, other = features.copy(), labels.copy()
    spoilt[~mask], other[~mask] = np.nan, -1
    fit = partial(logistic.fit, num_classes=3)
    masked = fit(spoilt, other, mask=mask)
    cut = fit(features[mask], labels[mask])
    np.testing.assert_allclose(masked.weight, cut.weight, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(masked.bias, cut.bias, rtol=1e-3, atol=1e-3)
    assert masked.converged

    draws = jax.vmap(lambda mask: fit(features, labels, mask=mask))(np.stack([mask, ~mask]))
    np.testing.assert_allclose(draws.weight[0], cut.weight, rtol=1e-3, atol=1e-3)

    features[~mask] = 1e6
    along = logistic.path(features, other, [1e-3, 1e-2], num_classes=3, mask=mask)
    np.testing.assert_allclose(along.weight[0], cut.weight, rtol=1e-3, atol=1e-3)


def test_one_program_serves_every_sweep_and_near_every_size(mixture):
    features, labels = mixture(128, 6, 3)
    logistic.path(features, labels, np.logspace(-3, 0, 16), num_classes=3)
    prepared, solved = logistic._prepare._cache_size(), logistic._solve_group._cache_size()
    for n, l2s in (
        (128, np.logspace(-5, 2, 45)),
        (125, np.logspace(-2, 0, 11)),
        (113, np.logspace(-4, 0, 100)),
    ):
        features, labels = mixture(n, 6, 3)
        logistic.path(features, labels, l2s, num_classes=3)
    assert (logistic._prepare._cache_size(), logistic._solve_group._cache_size()) == (prepared, solved)


def test_separable_rows_stop_and_say_how_it_went():
    features = np.array([[-2.0], [-1.0], [1.0], [2.0]], np.float32)
    labels = np.array([0, 0, 1, 1])
    found = logistic.path(features, labels, [1e-2, 1e-9, 1e-12], num_classes=2)
    assert np.isfinite(found.weight).all()
    assert np.isfinite(found.grad_norm).all()
    assert (found.grad_norm[found.converged] <= 3e-6).all()
    assert (
        np.asarray(logistic.predict(jax.tree.map(lambda leaf: leaf[1], found), features)).argmax(1) == labels
    ).all()


def test_a_cap_on_the_steps_is_told(mixture):
    features, labels = mixture(60, 6, 3)
    found = logistic.fit(features, labels, logistic.Hparams(1e-6), num_classes=3, max_steps=3)
    assert not found.converged
    assert found.steps == 3
    assert 3e-6 < found.grad_norm < 1


@pytest.mark.parametrize(
    "shape", ["more dims than rows", "a constant column", "one row a class", "an absent class"]
)
def test_odd_inputs_give_finite_answers(mixture, shape):
    n, d, classes = {"more dims than rows": (30, 50, 3), "one row a class": (7, 4, 7)}.get(shape, (60, 6, 3))
    features, labels = mixture(n, d, classes)
    if shape == "a constant column":
        features[:, 2] = 1000
    if shape == "an absent class":
        classes = 5
    found = logistic.fit(features.astype(np.float16), labels, logistic.Hparams(1e-2), num_classes=classes)
    assert found.converged
    logits = np.asarray(logistic.predict(found, features))
    assert np.isfinite(logits).all()
    assert logistic.score(logits, labels)["top1"] > 0.6
    if shape == "a constant column":
        assert np.abs(found.weight[2]).max() < 1e-3


def test_more_dims_than_rows_matches_scikit_learn(mixture):
    features, labels = mixture(30, 50, 3)
    found = logistic.fit(features, labels, logistic.Hparams(1 / 30), num_classes=3)
    reference = LogisticRegression(C=1, tol=1e-8, max_iter=5000).fit(np.float64(features), labels)
    np.testing.assert_allclose(found.weight, reference.coef_.T, atol=1e-3)


def test_the_unit_of_standardised_features_does_not_matter(mixture):
    features, labels = mixture(60, 6, 3)
    logits = []
    for unit in (0.01, 1, 100):
        (rows,) = scaling.standardise(unit * features)
        logits.append(logistic.predict(logistic.fit(rows, labels, num_classes=3), rows))
    np.testing.assert_allclose(logits[0], logits[1], atol=2e-3)
    np.testing.assert_allclose(logits[2], logits[1], atol=2e-3)


def test_a_saturated_path_ends_early_and_an_unsaturated_one_does_not(mixture):
    features, labels = mixture(60, 40, 3, apart=3.0)  # separable: the loss goes to zero with l2
    l2s = np.logspace(-1, -8, 32)
    whole = logistic.path(features, labels, l2s, num_classes=3)
    ended = logistic.path(features, labels, l2s, num_classes=3, saturated=1e-3)
    solved = np.asarray(ended.steps) > 0
    assert (np.asarray(whole.steps) > 0).all()
    assert solved[:16].all()
    assert not solved[16:].any()
    np.testing.assert_array_equal(ended.weight[:16], whole.weight[:16])
    np.testing.assert_array_equal(ended.weight[16:], np.broadcast_to(ended.weight[15], (16, 40, 3)))
    noisy = logistic.path(features[:, :2], np.arange(60) % 3, l2s, num_classes=3, saturated=1e-3)
    assert (np.asarray(noisy.steps) > 0).all()


def test_bad_input_is_refused(mixture):
    features, labels = mixture(20, 3, 2)
    with pytest.raises(InputError, match="num_classes is 1"):
        logistic.path(features, labels, [1.0], num_classes=1)
    with pytest.raises(InputError, match="l2s"):
        logistic.path(features, labels, [1.0, 0.0], num_classes=2)
    with pytest.raises(InputError, match="two classes"):
        logistic.path(features, np.zeros(20, int), [1.0], num_classes=2)
    with pytest.raises(InputError, match="20 and 19"):
        logistic.path(features, labels[:-1], [1.0], num_classes=2)


DEVICES = """
import numpy as np
import jax
from probes import logistic

rng = np.random.default_rng(0)
x, y = rng.standard_normal((400, 20)).astype("f"), rng.integers(0, 5, 400)
found = logistic.path(x, y, np.logspace(-5, 1, 21), num_classes=5, tol=1e-5)
assert logistic._solve_group._cache_size() == 1
print(len(jax.devices()), *np.asarray(found.weight).ravel())
"""


def test_several_devices_share_the_settings_and_change_nothing():
    flags = "--xla_force_host_platform_device_count="
    found = {}
    for devices in (1, 4):
        environment = {**os.environ, "XLA_FLAGS": f"{flags}{devices}"}
        done = subprocess.run(
            [sys.executable, "-c", DEVICES], env=environment, capture_output=True, text=True, check=True
        )
        seen, *weights = done.stdout.split()
        assert int(seen) == devices
        found[devices] = np.array(weights, float)
    np.testing.assert_allclose(found[4], found[1], atol=1e-4)


def test_one_program_serves_every_grid():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((100, 6)).astype("f"), rng.integers(0, 10, 100)
    before = logistic._solve_group._cache_size()
    for values in (9, 21, 60, 61):
        logistic.path(x, y, np.logspace(-5, 1, values), num_classes=10)
    assert logistic._solve_group._cache_size() == before + 1
