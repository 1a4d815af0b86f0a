import subprocess
import sys
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import distance
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score

from probes import similarity
from probes.errors import InputError


def draw(seed, n=40, d=17, t=300, dtype=np.float16):
    rng = np.random.default_rng(seed)
    features = (rng.standard_normal((n, d)) + 1).astype(dtype)
    return features, rng.integers(0, n, (t, 3)), rng.random(t) < 0.45


def apart(seed, t=300):
    """Triplets of three different images, so that nothing ties."""
    features, _, chosen = draw(seed, t=t)
    rng = np.random.default_rng(seed)
    return features, np.stack([rng.permutation(len(features))[:3] for _ in range(t)]), chosen


@pytest.mark.parametrize("block", [similarity.BLOCK_NUMBERS, 100, 1])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, np.int32])
def test_similarities_are_those_of_a_loop_over_triplets(monkeypatch, block, dtype):
    monkeypatch.setattr(similarity, "BLOCK_NUMBERS", block)
    features, members, _ = apart(0)
    features = (3 * features).astype(dtype)
    rows = features.astype(np.float64)
    measures = {
        "cosine": lambda one, other: 1 - distance.cosine(one, other),
        "euclidean": lambda one, other: -distance.euclidean(one, other),
    }
    for metric, measure in measures.items():
        left, right = similarity.compare(features, members, metric=metric)
        for place, (reference, one, other) in enumerate(rows[members]):
            expected = measure(reference, one), measure(reference, other)
            np.testing.assert_allclose((left[place], right[place]), expected, rtol=1e-12, atol=1e-13)


def test_every_metric_is_that_of_scikit_learn_where_nothing_ties():
    features, members, chosen = apart(1)
    for metric in ("cosine", "euclidean"):
        left, right = similarity.compare(features, members, metric=metric)
        said = right > left
        assert similarity.score(features, members, chosen, metric=metric) == pytest.approx(
            {
                "accuracy": accuracy_score(chosen, said),
                "precision": precision_score(chosen, said),
                "recall": recall_score(chosen, said),
                "f1": f1_score(chosen, said),
                "tie_rate": 0,
            },
            abs=1e-15,
        )


def test_without_an_answer_right_the_ratios_are_0_as_in_scikit_learn():
    left, right = np.array([2.0, 2.0]), np.array([1.0, 1.0])
    for chosen in (np.array([True, False]), np.array([False, False])):
        found = similarity.value(similarity.summed(similarity.tally(left, right, chosen)))
        assert found["precision"] == precision_score(chosen, right > left, zero_division=0) == 0
        assert found["recall"] == recall_score(chosen, right > left, zero_division=0) == 0
        assert found["f1"] == f1_score(chosen, right > left, zero_division=0) == 0


def test_ties_count_what_a_coin_would_score_on_average():
    left = np.array([1.0, 0.5, 0.5, 0.5, 0.2, 0.1])
    right = np.array([0.0, 0.5, 0.5, 0.5, 0.3, 0.4])
    chosen = np.array([True, True, False, True, True, False])
    found = similarity.value(similarity.summed(similarity.tally(left, right, chosen)))
    scores, hits, predicted = [], [], []
    for coins in range(8):  # every way that three coins can fall
        said = right > left
        said[1:4] = [coins >> place & 1 for place in range(3)]
        scores.append((accuracy_score(chosen, said), recall_score(chosen, said)))
        hits.append((said & chosen).sum())
        predicted.append(said.sum())
    assert [found["accuracy"], found["recall"]] == pytest.approx(np.mean(scores, axis=0))
    assert found["precision"] == pytest.approx(np.mean(hits) / np.mean(predicted))
    assert found["f1"] == pytest.approx(2 * np.mean(hits) / (np.mean(predicted) + chosen.sum()))
    assert found["tie_rate"] == 0.5


def test_the_classic_rule_calls_a_tie_left():
    features, members, chosen = draw(2, n=8)  # many a triplet has an image twice
    left, right = similarity.compare(features, members)
    found = similarity.score(features, members, chosen, ties="left")
    assert found["accuracy"] == pytest.approx(((right > left) == chosen).mean())
    assert found["recall"] == pytest.approx(recall_score(chosen, right > left))
    ours = similarity.score(features, members, chosen)
    assert ours["tie_rate"] == found["tie_rate"] == (members[:, 1] == members[:, 2]).mean() > 0.05


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("row", [np.zeros(9), np.full(9, 0.1), np.arange(9)])
def test_a_backbone_that_says_nothing_scores_half(metric, row):
    members, chosen = draw(3)[1:]
    features = np.tile(row, (40, 1)).astype(np.float16)
    found = similarity.score(features, members, chosen, metric=metric)
    assert (found["accuracy"], found["tie_rate"], found["recall"]) == (0.5, 1, 0.5)
    classic = similarity.score(features, members, chosen, metric=metric, ties="left")
    assert (classic["accuracy"], classic["tie_rate"]) == (pytest.approx(1 - chosen.mean()), 1)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@given(st.integers(0, 2**31), st.integers(1, 70))
def test_images_with_equal_features_are_equally_similar_to_the_last_bit(metric, seed, d):
    features, members, chosen = draw(seed, n=20, d=d, t=40, dtype=np.float32)
    twice = np.concatenate([features, features[::-1]])  # the copy of row i is row 39 - i
    members[:, 2] = 39 - members[:, 1]
    left, right = similarity.compare(twice, members, metric=metric)
    assert (left == right).all()
    assert similarity.score(twice, members, chosen, metric=metric)["accuracy"] == 0.5


@given(st.integers(0, 2**31))
def test_the_order_of_triplets_and_images_changes_no_bit(seed):
    features, members, chosen = draw(seed, t=50)
    rng = np.random.default_rng(seed)
    order, images = rng.permutation(50), rng.permutation(40)
    left, right = similarity.compare(features, members)
    again = similarity.compare(features[images], np.argsort(images)[members][order])
    assert (again[0] == left[order]).all()
    assert (again[1] == right[order]).all()
    one, other = similarity.tally(left, right, chosen), similarity.tally(*again, chosen[order])
    assert (one.agreed[order] == other.agreed).all()
    assert similarity.value(similarity.summed(one)) == similarity.value(similarity.summed(other))


@given(st.integers(0, 2**31), st.integers(3, 40))
def test_left_and_right_exchanged_ask_of_left_what_was_asked_of_right(seed, n):
    features, members, chosen = draw(seed, n=n, t=60)
    found = similarity.score(features, members, chosen)
    mirrored = similarity.score(features, members[:, [0, 2, 1]], ~chosen)
    assert mirrored["accuracy"] == pytest.approx(found["accuracy"])
    assert mirrored["tie_rate"] == found["tie_rate"]
    flipped = similarity.score(features, members[:, [0, 2, 1]], chosen)  # the same answers, images exchanged
    assert flipped["accuracy"] == pytest.approx(1 - found["accuracy"])
    assert flipped["recall"] == pytest.approx(1 - found["recall"] if chosen.any() else 0)


@given(st.integers(0, 2**31), st.integers(1, 49))
def test_the_tally_of_two_parts_is_their_sum(seed, cut):
    features, members, chosen = draw(seed, n=10, t=50)
    whole = similarity.tally(*similarity.compare(features, members), chosen)
    parts = [
        similarity.tally(*similarity.compare(features, members[part]), chosen[part])
        for part in (slice(cut), slice(cut, None))
    ]
    sums = [sum(pair) for pair in zip(*map(similarity.summed, parts), strict=True)]
    assert similarity.Tally(*sums) == similarity.summed(whole)


@pytest.mark.parametrize("factor", [3.0, 1e-3, 1e15, 1 / 7])
def test_a_copy_in_another_scale_ties_by_cosine_and_scaling_all_changes_no_answer(factor):
    features, members, chosen = draw(4, dtype=np.float32)
    scaled = np.concatenate([features, features * factor]).astype(np.float64)
    scaled[40:] = scaled[:40] * factor
    members[:, 2] = members[:, 1] + 40
    assert similarity.score(scaled, members, chosen)["tie_rate"] == 1
    features, members, chosen = apart(4)
    rows = features.astype(np.float64)
    for metric in ("cosine", "euclidean"):
        found = similarity.score(rows, members, chosen, metric=metric)
        assert similarity.score(rows * factor, members, chosen, metric=metric) == found


def test_images_that_float32_could_not_tell_apart_are_told_apart():
    features = np.ones((3, 1000), np.float32)
    features[1, 0], features[2, 0] = 1.0005, 1.001  # cosines of 1 - 1e-10 and 1 - 5e-10
    left, right = similarity.compare(features, np.array([[0, 1, 2]]))
    assert np.float32(left[0]) == np.float32(right[0])
    assert left[0] > right[0]
    assert similarity.score(features, np.array([[0, 1, 2]]), np.array([False]))["accuracy"] == 1


def test_a_row_of_zeros_is_similar_to_nothing():
    features = np.array([[0, 0], [1, 2], [-1, 0], [3, 1]], np.float16)
    left, right = similarity.compare(features, np.array([[0, 1, 2], [1, 0, 3], [1, 0, 0]]))
    assert (left == 0).all()
    assert right == pytest.approx([0, 1 / np.sqrt(2), 0])
    left, right = similarity.compare(features, np.array([[0, 1, 2]]), metric="euclidean")
    assert (left[0], right[0]) == pytest.approx((-np.sqrt(5), -1))


def test_memory_does_not_grow_with_the_triplets():
    features, members, _ = draw(5, d=512, t=8000)
    tracemalloc.start()
    similarity.compare(features, members)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12e6  # the features of all triplets in 64 bit are 98 MB


def test_neither_jax_nor_torch_is_needed():
    ask = "import probes.similarity, sys; print({'jax', 'torch', 'extract', 'visbench'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_what_cannot_be_compared_is_refused():
    features, members, chosen = draw(6)
    for wrong in (members + (members == 39), members - (members == 0)):
        with pytest.raises(InputError, match="there are 40 images"):
            similarity.compare(features, wrong)
    for wrong in (members[:, :2], members.astype(float), members[:0], members[:, 0]):
        with pytest.raises(InputError, match="reference, left and right"):
            similarity._checked_members(wrong, 40)
    with pytest.raises(InputError, match="triplets and answers"):
        similarity.score(features, members, np.append(chosen, True))
    features[3] = np.nan
    with pytest.raises(InputError, match="row 3"):
        similarity.compare(features, members)
    for metric in ("cosine", "euclidean"):
        with pytest.raises(InputError, match="too large"):
            similarity.compare(np.full((3, 2), 1e200) * [[1], [1e-200], [3]], members % 3, metric=metric)
