"""Ranks from stored scores: the same as from a run's own, and only where they may be had."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from probes import statistics
from visbench import results, samples
from visbench.board import boards
from visbench.pipeline import Result
from visbench.record import Record
from visbench.separable import Paired

N = 400


def made(backbone, scores, path=None, *, ids=None, **fields):
    scores = np.asarray(scores)
    ids = np.random.default_rng(0).integers(0, 256, (len(scores), 16), np.uint8) if ids is None else ids
    values = {
        "task": "t",
        "dataset": "d",
        "headline": "top1",
        "metrics": {"top1": float(scores[~np.isnan(scores)].sum() / max(1, (~np.isnan(scores)).sum()))},
        **fields,
        "backbone": backbone,
        "samples": samples.write(path, {"top1": scores}, ids) if path else None,
    }
    record = Record.from_dict(values)
    if path:
        results.append(path, [record])
    return Result(record.metrics, {}, record, per_sample={"top1": scores})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "r.jsonl"


def some(path=None):
    rng = np.random.default_rng(0)
    hard = rng.random(N)
    return [
        made(f"b{i}", hard + 0.1 * rng.standard_normal(N) < share, path)
        for i, share in enumerate((0.5, 0.52, 0.56, 0.9))
    ]


def test_stored_scores_rank_as_those_at_hand(path):
    live = Paired(some(path))
    records = results.read(path)
    stored = Paired.from_results(records, path)
    pairs = list(combinations(range(4), 2))
    ours = [each.record for each in some()]
    again = Paired(
        [
            Result({}, {}, record, per_sample=each.per_sample)
            for record, each in zip(ours, some(), strict=True)
        ]
    )
    verdicts = [stored(records[i], records[j]) for i, j in pairs]
    assert verdicts == [again(ours[i], ours[j]) for i, j in pairs]
    assert True in verdicts
    assert False in verdicts
    assert live(records[0], records[1]) is None  # other objects than those it was made of
    (board,) = boards(records, separable=stored)
    assert board.entries[0].rank == "1"
    assert "paired bootstrap, Holm" in board.rule


def test_verdicts_are_those_of_every_pair_alone_after_holm(path):
    found = some(path)
    records = results.read(path)
    paired, pairs = Paired.from_results(records, path), list(combinations(range(4), 2))
    alone = [
        statistics.paired_bootstrap(
            found[i].per_sample["top1"], found[j].per_sample["top1"], resamples=20_000
        ).p
        for i, j in pairs
    ]
    expected = [bool(p < 0.05) for p in statistics.holm(alone)]
    assert [paired(records[i], records[j]) for i, j in pairs] == expected


def test_a_resumed_record_is_ranked_beside_a_new_run(path):
    results_of_call = some(path)
    old = replace(results_of_call[3], per_sample={}, resumed=True)
    paired = Paired([*results_of_call[:3], old], stored=path)
    assert paired(old.record, results_of_call[0].record) is True
    assert Paired([*results_of_call[:3], old])(old.record, results_of_call[0].record) is None


def test_what_is_not_known_is_left_to_the_intervals(path, tmp_path):
    first, *_ = some(path)
    unkept = made("old", first.per_sample["top1"])
    results.append(path, [unkept.record])
    made("elsewhere", ~first.per_sample["top1"], path, ids=np.zeros((N, 16), np.uint8))
    made("no mean", ~first.per_sample["top1"], path, metrics={"top1": 0.123})
    made("other board", ~first.per_sample["top1"], path, split="val")
    records = {record.backbone: record for record in results.read(path)}
    paired = Paired.from_results(records.values(), path)
    assert paired(records["b0"], records["b3"]) is True
    for name in ("old", "elsewhere", "no mean", "other board"):
        assert paired(records["b0"], records[name]) is None
    (tmp_path / "r.samples").rename(tmp_path / "gone")
    assert Paired.from_results(records.values(), path)(records["b0"], records["b3"]) is None


def test_only_the_newest_of_a_backbone_is_looked_at(path):
    some(path)
    made("b0", np.ones(N, bool), path, timestamp="2100-01-01T00:00:00Z")
    records = results.read(path)
    paired = Paired.from_results(records, path)
    assert paired(records[0], records[3]) is None
    assert paired(records[4], records[3]) is True


def test_samples_without_a_score_are_left_out(path):
    rng = np.random.default_rng(0)
    base = rng.random(N)
    with_gaps = np.where(rng.random(N) < 0.2, np.nan, base + 0.05)
    a, b, c = (
        made("a", base, path),
        made("b", with_gaps, path),
        made("c", np.full(N, np.nan), path, metrics={}),
    )
    records = results.read(path)
    paired = Paired.from_results(records, path)
    assert paired(records[0], records[1]) is True
    assert paired(records[0], records[2]) is None
    assert Paired([a, b, c])(a.record, b.record) is True


def test_boards_are_looked_at_one_at_a_time_and_once(path, monkeypatch):
    for split in ("test", "val"):
        for name, scores in (("a", np.zeros(50)), ("b", np.ones(50))):
            made(name, scores, path, split=split)
    records, read, asked = results.read(path), samples.read, []
    monkeypatch.setattr(samples, "read", lambda *given: asked.append(given) or read(*given))
    paired = Paired.from_results(records, path)
    assert asked == []
    assert [paired(records[0], records[1]) for _ in range(3)] == [True] * 3
    assert len(asked) == 2
    assert paired(records[2], records[3]) is True
    assert len(asked) == 4
