import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from probes import retrieval
from probes.errors import InputError


def unit(features):
    return np.float64(features) / np.linalg.norm(np.float64(features), axis=1, keepdims=True)


def brute(features, labels):
    precision, first = [], []
    for i, row in enumerate(unit(features)):
        others = np.arange(len(features)) != i
        similarity, relevant = unit(features)[others] @ row, labels[others] == labels[i]
        precision.append(average_precision_score(relevant, similarity) if relevant.any() else 0)
        first.append(relevant[np.argsort(-similarity)].argmax() + 1 if relevant.any() else 0)
    return np.array(precision), np.array(first)


@pytest.mark.parametrize("block", [retrieval.BLOCK_NUMBERS, 1000])
def test_every_query_agrees_with_brute_force(monkeypatch, mixture, block):
    monkeypatch.setattr(retrieval, "BLOCK_NUMBERS", block)
    features, labels = mixture(230, 8, 6)
    labels[labels == 5] = np.arange((labels == 5).sum()) + 5  # classes of one
    found = retrieval.rank(features, labels)
    precision, first = brute(features, labels)
    np.testing.assert_allclose(found.average_precision, precision, atol=1e-5)
    assert (found.first == first).all()
    scores, some = retrieval.value(found), found.relevant > 0
    assert scores["queries"] == some.sum() < 230
    assert scores["map"] == pytest.approx(precision[some].mean(), abs=1e-5)
    assert scores["recall@5"] == pytest.approx((first[some] <= 5).mean())
    classic = retrieval.value(found, rule="classic")
    assert classic["map"] == pytest.approx(precision.mean(), abs=1e-5)
    assert classic["queries"] == 230


def test_queries_without_a_positive_are_left_out():
    features = np.array([[1, 0], [0.9, 0.1], [0, 1], [-1, 0]], np.float32)
    scores = retrieval.score(features, np.array([0, 0, 1, 2]))
    assert scores == {"map": 1.0, "recall@1": 1.0, "queries": 2}  # there are no 5 or 10 to return


def test_an_exact_copy_of_the_query_is_found_and_the_query_is_not():
    features = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)
    features[6:] = features[:6]
    found = retrieval.rank(features, np.tile(np.arange(6), 2))
    assert (found.relevant == 1).all()
    assert (found.first == 1).all()
    stranger = retrieval.rank(features, np.repeat([0, 1], 6))  # now the copy is a negative
    assert (stranger.first > 1).all()


def test_a_backbone_that_says_nothing_gains_nothing():
    found = retrieval.rank(np.ones((40, 7), np.float32) / 3, np.repeat([0, 1], 20))
    np.testing.assert_allclose(found.average_precision, 19 / 39, rtol=1e-6)
    assert (found.first == 21).all()


def test_the_order_of_rows_does_not_matter(mixture):
    features, labels = mixture(60, 4, 3)
    features = np.round(features)  # many ties
    order = np.random.default_rng(1).permutation(60)
    one, other = retrieval.rank(features, labels), retrieval.rank(features[order], labels[order])
    np.testing.assert_allclose(one.average_precision[order], other.average_precision, atol=1e-6)
    assert (one.first[order] == other.first).all()


def test_queries_against_a_gallery(mixture):
    features, labels = mixture(50, 6, 4)
    gallery = {"gallery": features[10:], "gallery_labels": labels[10:]}
    found = retrieval.rank(features[:10], labels[:10], **gallery)
    for i in range(10):
        expected = average_precision_score(labels[10:] == labels[i], unit(features)[10:] @ unit(features)[i])
        assert found.average_precision[i] == pytest.approx(expected, abs=1e-5)
    scores = retrieval.score(features[:10], labels[:10], (1, 40, 41), **gallery)
    assert set(scores) == {"map", "recall@1", "recall@40", "queries"}
    assert scores["recall@40"] == 1


def test_what_cannot_be_scored_is_refused():
    rows = np.eye(4, dtype=np.float32)
    with pytest.raises(InputError, match="one class"):
        retrieval.score(rows, np.zeros(4, int))
    with pytest.raises(InputError, match="nothing to score"):
        retrieval.score(rows, np.arange(4))
    with pytest.raises(InputError, match="both or neither"):
        retrieval.score(rows, np.arange(4), gallery=rows)
