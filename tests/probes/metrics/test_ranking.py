"""Average precision: ties, classes without positives, scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from probes.errors import InputError
from probes.metrics import ranking


@pytest.mark.parametrize(
    ("scores", "targets", "expected"),
    [
        ([0.5, 0.5], [1, 0], 0.5),
        ([0.5, 0.5], [0, 1], 0.5),
        ([0.9, 0.5, 0.5, 0.1], [1, 0, 1, 0], 5 / 6),
        ([3.0, 2.0, 1.0], [0, 0, 1], 1 / 3),
        ([3.0, 2.0, 1.0], [1, 1, 1], 1.0),
        ([3.0, 2.0, 1.0], [0, 0, 0], None),
    ],
)
def test_known_values(scores, targets, expected):
    assert ranking.average_precision(np.array(scores), np.array(targets)) == pytest.approx(expected)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=40), st.randoms())
@settings(max_examples=60, deadline=None)
def test_scikit_learn_agrees_and_order_does_not_matter(pairs, random):
    scores, targets = map(np.array, zip(*pairs, strict=True))
    found = ranking.average_precision(scores, targets)
    if not targets.any():
        assert found is None
        return
    assert found == pytest.approx(average_precision_score(targets, scores))
    order = np.array(random.sample(range(len(pairs)), len(pairs)))
    assert ranking.average_precision(scores[order], targets[order]) == pytest.approx(found, rel=1e-12)


def test_micro_and_macro():
    rng = np.random.default_rng(0)
    scores, targets = rng.random((50, 4)).astype(np.float32), rng.random((50, 4)) < 0.3
    targets[:, 2] = False
    targets[:10], targets[20, 0] = False, True  # the ten rows stay as negatives
    found = ranking.multilabel(scores, targets)
    present = [0, 1, 3]
    per_class = [average_precision_score(targets[:, each], scores[:, each]) for each in present]
    assert found["micro_map"] == pytest.approx(average_precision_score(targets.ravel(), scores.ravel()))
    assert found["macro_map"] == pytest.approx(np.mean(per_class))
    assert found["per_class"][2] is None
    assert [found["per_class"][each] for each in present] == pytest.approx(per_class)
    assert (found["classes_scored"], found["classes_without_positives"], found["n"]) == (3, 1, 50)
    rows = ranking.per_sample(scores, targets)
    assert np.isnan(rows[:10]).all()
    assert rows[20] == pytest.approx(average_precision_score(targets[20], scores[20]))


def test_what_has_no_ranking_is_refused():
    with pytest.raises(InputError, match="no positive at all"):
        ranking.multilabel(np.ones((2, 2)), np.zeros((2, 2), int))
    with pytest.raises(InputError, match="other values than 0 and 1"):
        ranking.average_precision(np.ones(2), np.array([2, 0]))
    with pytest.raises(InputError, match="wanted the same"):
        ranking.average_precision(np.ones(2), np.ones(3, int))
    with pytest.raises(InputError, match="NaN"):
        ranking.average_precision(np.array([np.nan, 1]), np.array([1, 0]))
