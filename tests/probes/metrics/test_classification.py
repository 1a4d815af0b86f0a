"""Counts against scikit-learn, and what is said of classes that do not occur."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from probes.errors import InputError
from probes.metrics import classification as metric


def draw(n, classes, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, classes)).astype(np.float32), rng.integers(0, classes, n)


def test_values_are_those_of_scikit_learn():
    logits, labels = draw(700, 7)
    labels[labels == 3] = 2  # class 3 is predicted, never true
    found, guess = metric.value(metric.tally(logits, labels, num_classes=7)), logits.argmax(1)
    present = np.unique(labels)
    assert found["top1"] == (guess == labels).mean()
    assert found["top5"] == sk.top_k_accuracy_score(labels, logits, k=5, labels=range(7))
    recall = sk.recall_score(labels, guess, labels=present, average=None)
    assert found["balanced_accuracy"] == pytest.approx(recall.mean())
    assert found["macro_f1"] == pytest.approx(sk.f1_score(labels, guess, labels=present, average="macro"))
    assert found["per_class_recall"][3] is None
    assert found["per_class_recall"][4] == pytest.approx(recall[3])
    chances = np.exp(logits.astype(np.float64))
    chances /= chances.sum(1, keepdims=True)
    assert found["loss"] == pytest.approx(sk.log_loss(labels, chances, labels=range(7)), abs=1e-6)
    assert (found["classes_scored"], found["n"]) == (6, 700)


def test_equal_logits_go_to_the_lower_class():
    rows = metric.per_sample(np.zeros((2, 7)), np.array([0, 5]), num_classes=7)
    assert rows["prediction"].tolist() == [0, 0]
    assert rows["top1"].tolist() == [True, False]
    assert rows["top5"].tolist() == [True, False]


@pytest.mark.parametrize(("classes", "there"), [(3, False), (5, False), (6, True)])
def test_top5_needs_more_than_five_classes(classes, there):
    logits, labels = draw(20, classes)
    assert ("top5" in metric.value(metric.tally(logits, labels, num_classes=classes))) is there
    assert ("top5" in metric.per_sample(logits, labels, num_classes=classes)) is there


@given(st.integers(1, 59), st.sampled_from([3, 7]))
@settings(max_examples=20, deadline=None)
def test_parts_add_up(cut, classes):
    logits, labels = draw(60, classes)
    whole = metric.tally(logits, labels, num_classes=classes)
    one, two = (
        metric.tally(logits[s], labels[s], num_classes=classes) for s in (slice(cut), slice(cut, None))
    )
    total = metric.add(one, two)
    assert (total.confusion == whole.confusion).all()
    assert (total.top1, total.top5, total.n) == (whole.top1, whole.top5, whole.n)
    assert total.loss == pytest.approx(whole.loss)


def test_masked_rows_do_not_count():
    logits, labels = draw(30, 4)
    mask = np.arange(30) % 3 > 0
    labels[~mask] = -1
    masked = metric.tally(logits, labels, num_classes=4, mask=mask)
    kept = metric.tally(logits[mask], labels[mask], num_classes=4)
    assert (masked.confusion == kept.confusion).all()
    assert masked.n == 20


def test_half_precision_logits_do_not_overflow_the_loss():
    logits = np.full((4, 3), 60_000, np.float16)
    logits[:, 0] = -60_000
    found = metric.value(metric.tally(logits, np.zeros(4, int), num_classes=3))
    assert found["loss"] == pytest.approx(2 * float(np.float16(60_000)) + np.log(2), rel=1e-6)


def test_more_rows_than_a_block_are_one_program(monkeypatch):
    monkeypatch.setattr(metric, "BLOCK", 64)
    logits, labels = draw(1000, 11)
    before = metric._look._cache_size()
    for n in (65, 200, 1000):
        total = metric.tally(logits[:n], labels[:n], num_classes=11)
        assert total.top1 == (logits[:n].argmax(1) == labels[:n]).sum()
    assert metric._look._cache_size() == before + 1


def test_what_cannot_be_scored_is_refused():
    logits, labels = draw(5, 3)
    with pytest.raises(InputError, match="3 columns but num_classes is 4"):
        metric.tally(logits, labels, num_classes=4)
    with pytest.raises(InputError, match="not finite"):
        metric.tally(logits * np.nan, labels, num_classes=3)
    nothing = metric.Tally(np.zeros((3, 3), int), 0, 0, 0.0, 0)
    with pytest.raises(InputError, match="no rows"):
        metric.value(nothing)
