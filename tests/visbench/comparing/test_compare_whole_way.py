"""From images to a comparison: what a run keeps is what a comparison reads."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

import visbench
from visbench import results, samples
from visbench.cli.app import app


@pytest.fixture
def call(tiny, tiny_backbone, photos, tmp_path, monkeypatch):
    from extract.backbones.registry import REGISTERED, register_backbone

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(REGISTERED, "coarse", None)
    register_backbone("coarse")(lambda **options: tiny_backbone(patch=32, name="coarse"))

    def invoke(*words, code=0):
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == code, done.output
        return done

    return invoke


def test_a_run_keeps_what_a_comparison_reads(call, photos):
    given = ("--backbone", "tiny", "--backbone", "coarse")
    call("run", "classification", photos, *given, "--probe", "logistic", "--probe", "knn", "--k", "3")
    call("run", "retrieval", photos, *given)
    assert call("compare", "tiny", "coarse").stdout.count("18 paired samples") == 3
    assert (
        call("compare", "tiny", "coarse", "--metric", "recall@1", "--task", "retrieval").stdout.count("A − B")
        == 1
    )
    path = "results/visbench.jsonl"
    for record in results.read(path):
        kept = samples.read(path, record)
        for metric, scores in kept.scores.items():
            assert np.nanmean(scores) == pytest.approx(record.metrics[metric], abs=1e-6)


def test_a_query_without_a_match_has_no_score(call, photos):
    (photos / "test" / "lone").mkdir()
    (photos / "test" / "cat" / "000.png").rename(photos / "test" / "lone" / "0.png")
    result = visbench.run("tiny", "retrieval", photos, results="r.jsonl")
    scores = samples.read("r.jsonl", result.record).scores
    assert len(scores["map"]) == 18
    assert np.isnan(scores["map"]).sum() == np.isnan(scores["recall@1"]).sum() == 1


def test_a_csv_of_results_and_a_resumed_board(call, photos):
    given = ("run", "classification", photos, "--C", "1", "--results", "out/r.csv")
    call(*given, "--backbone", "tiny")
    done = call(*given, "--backbone", "tiny", "--backbone", "coarse", "--resume")
    assert "paired bootstrap" in done.stdout
    assert "of their 95 % intervals" not in done.stdout
    assert "18 paired samples" in call("compare", "tiny", "coarse", "--results", "out/r.csv").stdout


def test_scores_that_cannot_be_kept_cost_no_record(call, photos, tmp_path):
    (tmp_path / "r.samples").mkdir()
    (tmp_path / "r.samples" / "ids").write_text("")
    done = call("run", "retrieval", photos, "--backbone", "tiny", "--results", "r.jsonl")
    assert "the record is kept without them" in done.stderr
    (record,) = results.read("r.jsonl")
    assert record.samples is None


def test_limits_are_compared_on_common_samples(call, photos):
    call("run", "retrieval", photos, "--backbone", "tiny")
    call("run", "retrieval", photos, "--backbone", "coarse", "--limit", "4")
    refused = call("compare", "tiny", "coarse", code=2)
    assert "dataset_params.limit nothing against 4" in refused.stderr
    assert "12 paired samples of 18 and 12" in call("compare", "tiny", "coarse", "--common").stdout
