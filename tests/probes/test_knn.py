import numpy as np
import pytest

from probes import knn
from probes.errors import InputError


def brute(queries, bank, k, exclude_self=False):
    unit = [np.float64(x) / np.linalg.norm(np.float64(x), axis=1, keepdims=True) for x in (queries, bank)]
    similarity = unit[0] @ unit[1].T
    if exclude_self:
        np.fill_diagonal(similarity, -np.inf)
    index = np.argsort(-similarity, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(similarity, index, 1), index


@pytest.mark.parametrize("tile", [knn.TILE, 64])
def test_neighbours_are_those_of_float64_brute_force(monkeypatch, tile):
    monkeypatch.setattr(knn, "TILE", tile)
    rng = np.random.default_rng(0)
    queries, bank = (rng.normal(size=(n, 16)).astype(np.float32) for n in (150, 300))
    similarity, index = knn.search(queries, bank, k=7)
    expected = brute(queries, bank, 7)
    assert (index == expected[1]).all()
    np.testing.assert_allclose(similarity, expected[0], atol=1e-6)
    alone = brute(bank, bank, 7, exclude_self=True)[1]
    assert (knn.search(bank, bank, k=7, exclude_self=True)[1] == alone).all()
    assert (knn.search(bank.copy(), bank, k=7, exclude_self=True)[1] == alone).all()
    assert (knn.search(bank, bank, k=250)[1] == brute(bank, bank, 250)[1]).mean() > 0.99


def test_large_float16_rows_have_the_same_neighbours():
    rows = (300 * np.random.default_rng(0).normal(size=(200, 768))).astype(np.float16)
    expected = brute(rows, rows, 5)[1]
    assert (knn.search(rows, rows, k=5)[1] == expected).all()
    assert (knn.search(np.float32(rows) * 1e30, rows, k=5)[1] == expected).all()


def test_a_row_of_zeros_is_like_nothing():
    bank = np.eye(4, dtype=np.float32)
    bank[2] = 0
    similarity, index = knn.search(bank[1:3], bank, k=4)
    assert index[0, 0] == 1
    assert (similarity[1] == 0).all()
    assert index[1].tolist() == [0, 1, 2, 3]  # of equals the lower index comes first


def test_a_row_never_finds_itself_but_finds_its_copy():
    rows = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    rows[7] = rows[3]
    _, index = knn.search(rows, rows, k=19, exclude_self=True)
    assert (index != np.arange(20)[:, None]).all()
    assert (index[3, 0], index[7, 0]) == (7, 3)


def test_products_can_stand_as_they_are():
    rows = np.array([[1, 0], [3, 0], [0, 2]], np.float32)
    similarity, index = knn.search(rows[:1], rows, k=2, metric="dot")
    assert similarity.tolist() == [[3, 1]]
    assert index.tolist() == [[1, 0]]


def test_what_cannot_be_found_is_refused():
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    with pytest.raises(InputError, match="k is 20 but there are 5"):
        knn.search(rows, rows, k=20)
    with pytest.raises(InputError, match="k is 5 but there are 4"):
        knn.search(rows, rows, k=5, exclude_self=True)
    with pytest.raises(InputError, match="3 and 2 dims"):
        knn.search(rows, rows[:, :2], k=1)
    with pytest.raises(InputError, match="not finite in row 4"):
        knn.search(rows, np.where(np.arange(5)[:, None] == 4, np.nan, rows), k=1)
    with pytest.raises(InputError, match="but 2 were found"):
        knn.predict(rows[:, :2], np.zeros((5, 2), int), ks=(1, 3), num_classes=2)


def test_votes_are_weighted_and_sum_to_one():
    similarity, labels = np.array([[0.9, 0.8, 0.7, 0.1]], np.float32), np.array([[1, 0, 0, 2]])
    votes = knn.predict(similarity, labels, ks=(1, 3, 4), num_classes=4)
    np.testing.assert_allclose(votes.share.sum(-1), 1, rtol=1e-6)
    weights = np.exp(similarity[0, :3] / 0.07)
    expected = np.array([weights[1] + weights[2], weights[0], 0, 0]) / weights.sum()
    np.testing.assert_allclose(votes.share[1, 0], expected, rtol=1e-4)
    assert votes.label[:, 0].tolist() == [1, 1, 1]
    counted = knn.predict(similarity, labels, ks=(1, 3, 4), num_classes=4, temperature=None)
    np.testing.assert_allclose(counted.share[2, 0], [0.5, 0.25, 0.25, 0])
    assert counted.label[:, 0].tolist() == [1, 0, 0]


def test_equal_counts_go_to_the_nearer_class_then_to_the_lower():
    similarity = np.array([[0.9, 0.8, 0.8, 0.6], [0.5, 0.5, 0.5, 0.5]], np.float32)
    labels = np.array([[2, 1, 1, 2], [3, 1, 1, 3]])  # 1 wins by its sum, 1.6 to 1.5; then by being lower
    assert knn.predict(similarity, labels, ks=(4,), num_classes=4, temperature=None).label.tolist() == [
        [1, 1]
    ]


def test_votes_do_not_depend_on_the_order_of_the_bank():
    rng = np.random.default_rng(0)
    bank = rng.normal(size=(6, 4)).astype(np.float32)[rng.integers(0, 6, 60)]  # ten copies of everything
    labels = rng.integers(0, 3, 60)
    votes = []
    for order in (np.arange(60), rng.permutation(60)):
        similarity, index = knn.search(bank[:8] + 0.1, bank[order], k=40)
        votes.append(knn.predict(similarity, labels[order][index], ks=(5, 12), num_classes=3))
    np.testing.assert_allclose(votes[0].share, votes[1].share, atol=1e-5)
    assert (votes[0].label == votes[1].label).all()


def test_one_program_serves_queries_and_banks_of_about_a_size():
    bank = np.random.default_rng(0).normal(size=(96, 8)).astype(np.float32)
    knn.search(bank[:33], bank[:95], k=3)
    before = knn._merge._cache_size()
    knn.search(bank[:40], bank[:85], k=3)
    assert knn._merge._cache_size() == before
