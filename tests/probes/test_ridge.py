import jax
import numpy as np
import pytest
from sklearn.linear_model import Ridge

from probes import ridge


@pytest.mark.parametrize(("n", "d"), [(40, 6), (20, 30)])
def test_coefficients_are_those_of_scikit_learn(mixture, n, d):
    features, labels = mixture(n, d, 3)
    l2s = np.array([1e-3, 1e-1, 10], np.float32)
    found = ridge.path(features, labels, l2s, num_classes=3)
    for i, l2 in enumerate(l2s):
        reference = Ridge(alpha=n * l2).fit(np.float64(features), np.eye(3)[labels])
        np.testing.assert_allclose(found.weight[i], reference.coef_.T, atol=1e-4)
        np.testing.assert_allclose(found.bias[i], reference.intercept_, atol=1e-4)
    alone = ridge.fit(features, labels, ridge.Hparams(0.1), num_classes=3)
    np.testing.assert_allclose(alone.weight, found.weight[1], atol=1e-5)


def test_leaving_one_out_is_what_refits_without_it_say(mixture):
    features, labels = mixture(25, 4, 3)
    features, targets, alpha = np.float64(features), np.eye(3)[labels], 25 * 0.05
    refits = [
        Ridge(alpha=alpha).fit(features[keep], targets[keep]).predict(features[i : i + 1])[0]
        for i in range(25)
        for keep in [np.arange(25) != i]
    ]
    with jax.enable_x64(True):
        found = ridge.leave_one_out(np.float64(features), targets, ridge.Hparams(0.05))
        np.testing.assert_allclose(found, refits, atol=1e-10)
    path = ridge.path(features, labels, np.array([0.05], np.float32), num_classes=3)
    np.testing.assert_allclose(path.loo_error[0], ((np.array(refits) - targets) ** 2).mean(), rtol=1e-4)
    np.testing.assert_allclose(path.loo_top1[0], (np.argmax(refits, 1) == labels).mean(), rtol=1e-6)


def test_masked_rows_do_not_count(mixture):
    features, labels = mixture(40, 6, 3)
    mask = np.arange(40) % 2 > 0
    l2s = np.array([1e-2, 1.0], np.float32)
    cut = ridge.path(features[mask], labels[mask], l2s, num_classes=3)
    features[~mask] = np.inf
    masked = ridge.path(features, np.where(mask, labels, -1), l2s, num_classes=3, mask=mask)
    for ours, theirs in zip(masked, cut, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_without_penalty_nothing_is_not_a_number(mixture):
    features, labels = mixture(20, 30, 3)
    features[:, 3] = 7
    found = ridge.fit(features, labels, ridge.Hparams(0.0), num_classes=3)
    assert np.isfinite(found.weight).all()
    assert ridge.score(ridge.predict(found, features), labels)["top1"] == 1
