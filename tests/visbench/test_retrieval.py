"""The retrieval measurement on arrays."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from visbench.retrieval import RetrievalProbe


def test_every_query_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(60, 8)), rng.integers(0, 7, 60)
    rows = features / np.linalg.norm(features, axis=1, keepdims=True)
    expected = []
    for query in range(60):
        others = np.arange(60) != query
        expected.append(average_precision_score(labels[others] == labels[query], rows[others] @ rows[query]))
    outcome = RetrievalProbe().score(features, labels)
    np.testing.assert_allclose(outcome.per_sample["map"], expected, atol=1e-5)
    assert outcome.metrics["map"] == pytest.approx(np.mean(expected), abs=1e-6)


@pytest.mark.parametrize("rule", ["standard", "classic"])
def test_chance_is_what_random_features_score(rule):
    labels = np.array([0, 0, 1, 1, 1, 2, 2, 2, 2, 3])
    rng = np.random.default_rng(0)
    outcomes = [RetrievalProbe(rule=rule).score(rng.normal(size=(10, 30)), labels) for _ in range(300)]
    mean = np.mean([outcome.metrics["map"] for outcome in outcomes])
    assert outcomes[0].context["chance"] == pytest.approx(mean, abs=0.01)
