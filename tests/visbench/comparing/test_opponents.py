"""Two names become pairs of records that may be compared; what may not is refused by what differs."""

from __future__ import annotations

import pytest

from visbench import compare_text
from visbench.comparing import compare
from visbench.errors import UsageError
from visbench.record import run_key


def test_other_data_are_refused_with_the_way_out(add, path, hits, made_ids):
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
def test_what_may_not_be_compared_is_refused_by_the_fields_that_differ(add, path, fields, said, hits):
    add("one", hits(0.9))
    add("two", hits(0.8), **fields)
    for common in (False, True):
        with pytest.raises(UsageError, match=f"may not be compared, they differ in {said}"):
            compare("one", "two", path, common=common)


def test_two_read_outs_of_one_backbone_may_be_compared_and_it_says_in_what_they_differ(add, path, hits):
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


def test_keys_are_shown_and_name_records_that_are_not_the_newest(add, path, hits):
    old = add("one", hits(0.2), seed=1, timestamp="2025-01-01T00:00:00Z")
    new = add("one", hits(0.9), seed=2)
    add("two", hits(0.5))
    (found,) = compare(run_key(old)[:6], "two", path)
    assert found.score_a == pytest.approx(hits(0.2).mean())
    assert run_key(old)[:8] in compare_text.text([found])
    (seeds,) = compare(old, new, path)
    assert seeds.notes == ("they differ in seed 1 against 2",)


def test_the_same_backbone_in_two_files(add, tmp_path, hits):
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


def test_names_across_several_files(add, tmp_path, hits):
    add("one", hits(0.9), file="a.jsonl")
    add("two", hits(0.7), file="b.jsonl")
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    (found,) = compare("one", "two", files)
    assert found.winner == "a"
    with pytest.raises(UsageError, match="no results are named"):
        compare("one", "two")


def test_unknown_and_ambiguous_names(add, path, hits):
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


def test_a_beginning_that_many_keys_share(add, path, monkeypatch, hits):
    add("one", hits(0.9))
    add("two", hits(0.8))
    monkeypatch.setattr("visbench.opponents.run_key", lambda record: "abcd" + run_key(record))
    with pytest.raises(
        UsageError, match=r"several records have a key that begins with abcd: abcd\w{4}, abcd\w{4}"
    ):
        compare("abcd", "two", path)


def test_digests_are_said_in_few_digits(add, path, hits):
    for name, digit in (("one", "a"), ("two", "b")):
        add(name, hits(0.5), dataset_fingerprint=digit * 32)
    with pytest.raises(UsageError, match="data aaaaaaaa against bbbbbbbb; --common"):
        compare("one", "two", path)
