"""Two names become pairs of records that may be compared, and their difference is that of a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import visbench
from visbench import compare_text, results, samples
from visbench.cli.app import app
from visbench.comparing import compare
from visbench.errors import UsageError
from visbench.record import Record, run_key

N = 300


def made_ids(n=N, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, 16), np.uint8)


def hits(share, seed=0, n=N):
    """The same samples are hard for everybody."""
    rng = np.random.default_rng(5)
    return rng.random(n) + 0.15 * np.random.default_rng(seed).standard_normal(n) < share


@pytest.fixture
def add(tmp_path):
    """Append a record with its scores, as a run does."""

    def append(backbone, scores, *, ids=None, file="r.jsonl", metric="top1", values=None, **fields):
        path = tmp_path / file
        scores = np.asarray(scores)
        fields = {
            "timestamp": "2026-01-01T00:00:00Z",
            "task": "classification",
            "probe": "logistic",
            "dataset": "photos",
            "split": "test",
            "dataset_fingerprint": "f",
            "taps": ["default"],
            "image_size": 224,
            "headline": metric,
            "backbone_key": f"weights of {backbone}",
            "metrics": {metric: float(np.nanmean(scores))},
            **fields,
        }
        ids = made_ids(len(scores)) if ids is None else ids
        reference = samples.write(path, values if values is not None else {metric: scores}, ids)
        record = Record.from_dict({**fields, "backbone": backbone, "samples": reference})
        results.append(path, [record])
        return record

    return append


@pytest.fixture
def path(tmp_path):
    return tmp_path / "r.jsonl"


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


def test_the_better_one_is_named_whichever_way_is_better(add, path):
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
def test_a_record_does_not_differ_from_itself(tmp_path_factory, seed, n):
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


def test_every_board_that_both_stand_on_corrected_after_holm(add, path):
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


def test_the_newest_of_repeated_runs_counts(add, path):
    add("one", hits(0.1), timestamp="2026-01-03T00:00:00Z", seed=0)
    add("one", hits(0.9), timestamp="2026-01-02T00:00:00Z", seed=0)
    add("two", hits(0.5))
    (found,) = compare("one", "two", path)
    assert found.score_a == pytest.approx(hits(0.1).mean())


def test_samples_are_matched_by_content_not_by_place(add, path):
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


def test_other_samples_are_refused_unless_the_common_ones_are_asked_for(add, path):
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


def test_other_data_are_refused_with_the_way_out(add, path):
    ids = made_ids()
    add("one", hits(0.9), ids=ids)
    add("two", hits(0.6)[:200], ids=ids[:200], dataset_fingerprint="g", dataset_params={"limit": 20})
    with pytest.raises(
        UsageError,
        match=r"they differ in dataset_params.limit nothing against 20, data f against g; --common",
    ):
        compare("one", "two", path)
    (found,) = compare("one", "two", path, common=True)
    assert found.n == 200
    assert found.notes == ("they differ in dataset_params.limit nothing against 20, data f against g",)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"image_size": 518}, "image_size 224 against 518; run both in the same way"),
        ({"protocol": "visbench"}, "protocol standard against visbench"),
        ({"split": "val"}, "split test against val"),
        ({"taps": ["cls@3"]}, r"taps \['default'\] against \['cls@3'\]"),
        ({"finetune": {"blocks": 2}}, r"finetune nothing against \{'blocks': 2\}"),
        ({"task_params": {"refit": False}}, "task_params.refit nothing against False"),
    ],
)
def test_what_may_not_be_compared_is_refused_by_the_fields_that_differ(add, path, fields, said):
    add("one", hits(0.9))
    add("two", hits(0.8), **fields)
    for common in (False, True):
        with pytest.raises(UsageError, match=f"may not be compared, they differ in {said}"):
            compare("one", "two", path, common=common)


def test_two_read_outs_of_one_backbone_may_be_compared_and_it_says_in_what_they_differ(add, path):
    first = add("one", hits(0.9))
    second = add("one", hits(0.7), probe="knn", task_params={"temperature": 0.07}, hyperparameters={"k": 5})
    third = add("one", hits(0.7), taps=["default@5"], layer=5)
    other = add("two", hits(0.7), probe="knn")
    sized = add("one", hits(0.7), image_size=518)
    (found,) = compare(first, run_key(second)[:8], path)
    assert found.verdict == f"A ({run_key(first)[:8]}) is better"
    assert "task_params.temperature nothing against 0.07, probe logistic against knn" in found.notes[0]
    (layers,) = compare(first, third, path)
    assert "taps ['default'] against ['default@5'], layer nothing against 5" in layers.notes[0]
    for foreign in (other, sized):
        with pytest.raises(UsageError, match="may not be compared"):
            compare(first, foreign, path)


def test_keys_are_shown_and_name_records_that_are_not_the_newest(add, path):
    old = add("one", hits(0.2), seed=1, timestamp="2025-01-01T00:00:00Z")
    new = add("one", hits(0.9), seed=2)
    add("two", hits(0.5))
    (found,) = compare(run_key(old)[:6], "two", path)
    assert found.score_a == pytest.approx(hits(0.2).mean())
    assert run_key(old)[:8] in compare_text.text([found])
    (seeds,) = compare(old, new, path)
    assert seeds.notes == ("they differ in seed 1 against 2",)


def test_the_same_backbone_in_two_files(add, tmp_path):
    add("one", hits(0.9), file="before.jsonl", versions={"jax": "0.9"})
    add("two", hits(0.9), file="before.jsonl")
    add("one", hits(0.7), file="after.csv", versions={"jax": "0.10"})
    (found,) = compare(tmp_path / "before.jsonl", tmp_path / "after.csv")
    assert (found.a, found.b, found.winner) == ("one", "one", "a")
    assert found.notes == ("they differ in versions.jax 0.9 against 0.10",)
    with pytest.raises(UsageError, match="a results file against a name"):
        compare("one", tmp_path / "after.csv", tmp_path / "before.jsonl")
    with pytest.raises(UsageError, match="--results would not be used"):
        compare(tmp_path / "before.jsonl", tmp_path / "after.csv", tmp_path / "before.jsonl")
    add("three", hits(0.9), file="other.jsonl")
    with pytest.raises(UsageError, match="have no backbone in common"):
        compare(tmp_path / "before.jsonl", tmp_path / "other.jsonl")


def test_names_across_several_files(add, tmp_path):
    add("one", hits(0.9), file="a.jsonl")
    add("two", hits(0.7), file="b.jsonl")
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    (found,) = compare("one", "two", files)
    assert found.winner == "a"
    with pytest.raises(UsageError, match="no results are named"):
        compare("one", "two")


def test_unknown_and_ambiguous_names(add, path):
    add("resnet50", hits(0.9))
    add("resnet50", hits(0.8), feature_dtype="float32")
    add("two", hits(0.7))
    with pytest.raises(
        UsageError, match=r'no "resnet5" in .*Did you mean "resnet50"\? It has records of resnet50, two'
    ):
        compare("resnet5", "two", path)
    with pytest.raises(
        UsageError, match=r"resnet50 is 2 rows of .*; name one by its key: [0-9a-f]{8} resnet50 \["
    ):
        compare("resnet50", "two", path)
    (found,) = compare("resnet50 [feature_dtype=float32]", "two", path)
    assert found.score_a == pytest.approx(hits(0.8).mean())
    with pytest.raises(UsageError, match=r"no record of depth in .*; it has classification"):
        compare("resnet50", "two", path, task="depth")
    with pytest.raises(UsageError, match='no test "sign"'):
        compare("two", "two", path, test="sign")


def test_a_beginning_that_many_keys_share(add, path, monkeypatch):
    add("one", hits(0.9))
    add("two", hits(0.8))
    monkeypatch.setattr("visbench.opponents.run_key", lambda record: "abcd" + run_key(record))
    with pytest.raises(
        UsageError, match=r"several records have a key that begins with abcd: abcd\w{4}, abcd\w{4}"
    ):
        compare("abcd", "two", path)


def test_another_metric_and_what_is_not_kept(add, path):
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


def test_a_board_that_cannot_be_compared_is_left_out_and_said(add, path):
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


def test_the_text(add, path):
    for name, share in (("one", 0.90), ("two (x|y)", 0.60)):
        add(name, hits(share))
    found = compare("one", "two (x|y)", path)
    a, b = (f"{each.mean():.3f}" for each in (hits(0.9), hits(0.6)))
    key = {record.backbone: run_key(record)[:8] for record in results.read(path)}
    low, high = found[0].low, found[0].high
    assert compare_text.text(found).split("\n") == [
        "photos · classification · logistic",
        "        backbone     top1  95 % interval    p       record",
        f" A      one         {a}                           {key['one']}",
        f" B      two (x|y)   {b}                           {key['two (x|y)']}",
        f" A − B             +{found[0].difference:.3f}  +{low:.3f} … +{high:.3f}  <0.001",
        " one is better · 300 paired samples · paired bootstrap, 10,000 resamples",
    ]
    assert f"\x1b[1m {a}\x1b[0m" in compare_text.text(found, styled=True)
    assert max(map(len, compare_text.text(found, width=50).split("\n")[5:])) <= 50


def test_a_vanishing_difference_has_no_sign(add, path):
    scores = np.linspace(0, 1, N)
    add("one", scores)
    add("two", scores + 1e-6 * np.sign(np.random.default_rng(0).standard_normal(N)))
    said = compare_text.text(compare("one", "two", path))
    assert " 0.000  0.000 … 0.000" in said


def call(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done


def test_the_command(add, path, monkeypatch, tmp_path):
    import json

    add("one", hits(0.9), file="results/visbench.jsonl")
    add("two", hits(0.6), file="results/visbench.jsonl")
    monkeypatch.chdir(tmp_path)
    done = call("compare", "one", "two")
    assert "one is better · 300 paired samples" in done.stdout
    (found,) = json.loads(
        call("compare", "one", "two", "--json", "--test", "permutation", "--seed", "4").stdout
    )
    assert (found["verdict"], found["test"], found["seed"], found["separable"]) == (
        "one is better",
        "permutation",
        4,
        True,
    )
    (same,) = visbench.compare("one", "two", "results/visbench.jsonl", test="permutation", seed=4)
    assert json.loads(json.dumps(same.to_dict())) == found
    assert "not separable" in call("compare", "one", "one").stdout
    refused = call("compare", "one", "three", code=2)
    assert refused.stderr.startswith('error: there is no "three" in results/visbench.jsonl.')
    assert (
        "no results at nowhere.jsonl"
        in call("compare", "one", "two", "--results", "nowhere.jsonl", code=2).stderr
    )
    files = call("compare", "results/visbench.jsonl", "results/visbench.jsonl")
    assert files.stdout.count("not separable") == 2


def test_comparing_starts_neither_torch_nor_jax():
    import subprocess
    import sys

    ask = (
        "import visbench.compare_text, visbench.cli.compare, sys; print({'torch', 'jax'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_means_over_draws_are_said_to_be_such(add, path):
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


def test_digests_are_said_in_few_digits(add, path):
    for name, digit in (("one", "a"), ("two", "b")):
        add(name, hits(0.5), dataset_fingerprint=digit * 32)
    with pytest.raises(UsageError, match="data aaaaaaaa against bbbbbbbb; --common"):
        compare("one", "two", path)
