"""The difference of two is that of a plain loop, over the samples that both scored."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from visbench import compare_text, results, samples
from visbench.comparing import compare
from visbench.errors import UsageError
from visbench.record import Record

N = 300


def test_the_difference_is_that_of_a_plain_loop(add, path):
    a, b = np.random.default_rng(1).random((2, N))
    add("one", a)
    add("two", b)
    (found,) = compare("one", "two", path, seed=3)
    rng, a, b = np.random.default_rng(0), np.float32(a), np.float32(b)
    drawn = [(a[rows] - b[rows]).mean() for rows in rng.integers(0, N, (10_000, N))]
    assert found.difference == pytest.approx((a - b).mean(), abs=1e-7)
    assert (found.low, found.high) == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=2e-3)
    share = np.mean(np.array(drawn) > 0)
    assert found.p == pytest.approx(2 * min(share, 1 - share), abs=0.02)
    assert (found.n, found.n_a, found.n_b) == (N, N, N)
    assert (found.a, found.b, found.metric, found.better) == ("one", "two", "top1", "higher")
    assert found.score_a - found.score_b == pytest.approx(found.difference)
    (permuted,) = compare("one", "two", path, test="permutation")
    assert permuted.p == pytest.approx(found.p, abs=0.03)


def test_the_better_one_is_named_whichever_way_is_better(add, path, hits):
    add("one", hits(0.9))
    add("two", hits(0.6, 1))
    (found,) = compare("one", "two", path)
    assert (found.winner, found.verdict) == ("a", "one is better")
    (turned,) = compare("two", "one", path)
    assert (turned.winner, turned.verdict) == ("b", "one is better")
    assert (turned.difference, turned.low, turned.high, turned.p) == (
        -found.difference,
        -found.high,
        -found.low,
        found.p,
    )
    errors = np.where(hits(0.9), 1.0, 9.0), np.where(hits(0.6), 1.0, 9.0)
    for name, each in zip(("one", "two"), errors, strict=True):
        add(name, each, metric="rmse", better="lower", task="depth")
    (lower,) = compare("one", "two", path, task="depth")
    assert lower.difference < 0
    assert lower.verdict == "one is better"
    assert "lower rmse is better" in compare_text.text([lower])


@given(st.integers(0, 2**31), st.integers(1, 30))
@settings(max_examples=15, deadline=None)
def test_a_record_does_not_differ_from_itself(tmp_path_factory, made_ids, seed, n):
    path = tmp_path_factory.mktemp("same") / "r.jsonl"
    values = np.random.default_rng(seed).random(n)
    reference = samples.write(path, {"top1": values}, made_ids(n))
    record = Record.from_dict(
        {
            "task": "t",
            "dataset": "d",
            "backbone": "one",
            "headline": "top1",
            "metrics": {"top1": float(values.mean())},
            "samples": reference,
        }
    )
    results.append(path, [record])
    with pytest.warns(UserWarning, match="compared with itself; two of its probes or layers are compared by"):
        (found,) = compare("one", record, path)
    assert (found.difference, found.p, found.verdict) == (0, 1, "not separable")


def test_every_board_that_both_stand_on_corrected_after_holm(add, path, hits):
    for probe in ("logistic", "knn", "ridge"):
        add("one", hits(0.80), probe=probe)
        add("two", hits(0.76, 1), probe=probe)
    add("one", hits(0.7), probe="linear")
    found = compare("one", "two", path)
    assert [each.title.split(" · ")[2] for each in found] == ["logistic", "knn", "ridge"]
    assert [each.p_holm for each in found] == pytest.approx([min(1, 3 * found[0].p)] * 3)
    add("one", hits(0.9), task="retrieval")
    add("two", hits(0.5), task="retrieval")
    (only,) = compare("one", "two", path, task="retrieval")
    assert only.p_holm == only.p


def test_the_newest_of_repeated_runs_counts(add, path, hits):
    add("one", hits(0.1), timestamp="2026-01-03T00:00:00Z", seed=0)
    add("one", hits(0.9), timestamp="2026-01-02T00:00:00Z", seed=0)
    add("two", hits(0.5))
    (found,) = compare("one", "two", path)
    assert found.score_a == pytest.approx(hits(0.1).mean())


def test_samples_are_matched_by_content_not_by_place(add, path, made_ids):
    ids = made_ids()
    ids[7] = ids[8] = ids[200]  # one picture three times
    a, b = np.random.default_rng(1).random((2, N))
    order = np.random.default_rng(2).permutation(N)
    add("one", a, ids=ids, file="straight.jsonl")
    add("two", b, ids=ids, file="straight.jsonl")
    (straight,) = compare("one", "two", path.with_name("straight.jsonl"))
    place = {7: 0, 8: 1, 200: 2}
    copies = sorted(place, key=lambda row: np.flatnonzero(order == row)[0])
    for first, row in zip(sorted(place), copies, strict=True):  # occurrences keep their order
        order[np.flatnonzero(order == row)[0]] = -first - 1
    order = np.where(order < 0, -order - 1, order)
    add("one", a, ids=ids)
    add("two", b[order], ids=ids[order])
    (found,) = compare("one", "two", path)
    assert (found.difference, found.low, found.high, found.p) == pytest.approx(
        (straight.difference, straight.low, straight.high, straight.p), abs=1e-9
    )


def test_other_samples_are_refused_unless_the_common_ones_are_asked_for(add, path, hits, made_ids):
    ids = made_ids()
    add("one", hits(0.9), ids=ids)
    add("two", hits(0.6)[40:], ids=ids[40:])
    with pytest.raises(
        UsageError, match="one was scored on 300 samples and two on 260, of which 260 are the same"
    ):
        compare("one", "two", path)
    (found,) = compare("one", "two", path, common=True)
    assert (found.n, found.n_a, found.n_b) == (260, 300, 260)
    assert found.score_a == pytest.approx(hits(0.9)[40:].mean())
    assert "260 paired samples of 300 and 260" in compare_text.text([found])
    add("three", hits(0.6), ids=made_ids(seed=9))
    with pytest.raises(UsageError, match="share no sample"):
        compare("one", "three", path, common=True)


def test_another_metric_and_what_is_not_kept(add, path, hits):
    for name, share in (("one", 0.9), ("two", 0.6)):
        both = {"top1": hits(share), "top5": hits(share + 0.05)}
        metrics = {metric: float(each.mean()) for metric, each in both.items()} | {"macro_f1": 0.5}
        add(name, both["top1"], values=both, metrics=metrics)
    (found,) = compare("one", "two", path, metric="top5")
    assert (found.metric, found.better, found.score_a) == ("top5", "higher", pytest.approx(hits(0.95).mean()))
    with pytest.raises(
        UsageError, match=r"no scores of every sample are kept for macro_f1 of one.*Kept are top1, top5"
    ):
        compare("one", "two", path, metric="macro_f1")
    for name, share in (("one", 0.9), ("two", 0.6)):
        add(name, hits(share), metric="miou", metrics={"miou": 0.5}, task="segmentation")
    with pytest.raises(
        UsageError, match=r"miou of one \(\w+\) is 0.5 in its record and no mean of its samples"
    ):
        compare("one", "two", path, task="segmentation")


def test_a_board_that_cannot_be_compared_is_left_out_and_said(add, path, hits):
    for name, share in (("one", 0.9), ("two", 0.6)):
        add(name, hits(share))
        results.append(
            path,
            [
                Record.from_dict(
                    {"task": "old", "dataset": "d", "backbone": name, "headline": "x", "metrics": {"x": 1}}
                )
            ],
        )
    with pytest.warns(UserWarning, match=r"left out: the record of one .* keeps no scores of its samples"):
        (found,) = compare("one", "two", path)
    assert found.p_holm == found.p
    with pytest.raises(UsageError, match="keeps no scores"):
        compare("one", "two", path, task="old")


def test_samples_without_a_score_under_either_are_left_out_and_counted(add, path):
    a, b = np.random.default_rng(1).random((2, N))
    a[:10], b[5:20] = np.nan, np.nan
    add("one", a)
    add("two", b)
    (found,) = compare("one", "two", path)
    assert found.n == N - 20
    assert found.difference == pytest.approx((a - b)[20:].mean(), abs=1e-7)
    assert found.notes == (
        "10 of 300 samples have no top1 under one",
        "15 of 300 samples have no top1 under two",
    )


def test_means_over_draws_are_said_to_be_such(add, path, hits):
    for name, share in (("one", 0.6), ("two", 0.5)):
        add(name, hits(share).astype(np.float32), task_params={"shots": 2, "draws": 5})
        add(name, hits(share).astype(np.float32), seeds=[0, 1])
        add(name, hits(share).astype(np.float32), probe="knn")
    notes = [each.notes for each in compare("one", "two", path)]
    assert notes == [
        ("scores are means of 5 fits, which are not resampled",),
        ("scores are means of 2 fits, which are not resampled",),
        (),
    ]
