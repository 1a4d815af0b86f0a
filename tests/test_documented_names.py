"""Calls and options that users of the older VisBench know, as far as this version has their part."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image
from torch import nn

import visbench
from extract.transforms import Transform
from visbench.cli.app import app


@pytest.fixture
def photos(tmp_path, monkeypatch):
    monkeypatch.setenv("VISBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for split, count in (("train", 6), ("val", 3)):
        for name, colour in (("a", (200, 60, 60)), ("b", (60, 60, 200))):
            (tmp_path / "photos" / split / name).mkdir(parents=True)
            for number in range(count):
                pixels = np.clip(colour + rng.normal(0, 40, (32, 32, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(tmp_path / "photos" / split / name / f"{number}.png")
    return tmp_path / "photos"


@pytest.fixture
def mine():
    module = nn.Sequential(nn.Conv2d(3, 8, 8, 8), nn.ReLU())
    return visbench.CustomBackbone(module, preprocess=Transform(size=32), name="mine")


def test_run_metrics_record_probe(photos, mine, tmp_path):
    result = visbench.run(mine, "classification", photos, None, tmp_path / "out.jsonl")
    assert isinstance(result.metrics["top1"], float)
    assert result.probe.train_top1 <= 1
    assert result.probe.train_loss > 0
    (line,) = (tmp_path / "out.jsonl").read_text().splitlines()
    record = json.loads(line)
    for name in (
        *("schema_version", "timestamp", "backbone", "backbone_key", "task", "level", "dataset", "split"),
        *("dataset_size", "dataset_fingerprint", "pooling", "pooling_requested", "feature_mode", "layer"),
        *("layers", "metrics", "task_params", "dataset_params", "training", "finetune", "seed"),
        *("duration_seconds", "notes", "intervals"),
    ):
        assert name in record
    assert record["metrics"] == dict(result.metrics)


def test_train_dataset_for_a_zero_shot_task_is_refused(photos, mine):
    with pytest.raises(ValueError, match="learns nothing"):
        visbench.run(mine, "retrieval", photos, train_dataset=photos)


def test_get_backbone_and_its_features():
    backbone = visbench.get_backbone("efficientnet_lite0")
    assert not backbone.module.training
    assert not any(each.requires_grad for each in backbone.module.parameters())
    assert backbone.embed_dim == 1280
    found = backbone.extract_features(torch.zeros(2, 3, 224, 224), pooling="mean", feature_mode="dense_only")
    assert found["dense"].shape == (2, 1280, 7, 7)
    assert found["pooled"].shape == (2, 1280)
    assert found["grid_hw"] == (7, 7)


def test_get_probe_fit_evaluate_predict():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 90)
    features = rng.normal(size=(90, 6)).astype(np.float32) + 3 * labels[:, None]
    probe = visbench.get_probe("classification", pooling="mean", C=1.0)
    assert (probe.pooling, probe.layers) == ("mean", None)
    probe.fit(features, labels)
    assert probe.evaluate(features, labels)["top1"] > 0.9
    assert (probe.predict(features) == labels).mean() > 0.9
    assert visbench.get_probe("retrieval").fit(features, labels).evaluate(features, labels)["map"] > 0.5
    assert visbench.get_probe("classification", epochs=3).name == "linear"


def test_register_backbone_and_register_task(photos, mine):
    from extract.backbones.registry import REGISTERED
    from visbench.tasks import TASKS

    visbench.register_backbone("ours")(lambda **options: mine)
    try:
        assert visbench.run("ours", "retrieval", photos).record.backbone == "ours"
    finally:
        REGISTERED.pop("ours")
    assert issubclass(visbench.CustomBackbone, visbench.BaseBackbone)
    row = TASKS["retrieval"]
    assert visbench.register_task(row) is TASKS["retrieval"]


def test_cuda_free_result_writer(tmp_path):
    writer = visbench.ResultWriter(tmp_path / "r.jsonl")
    writer.append(visbench.Record(task="t", dataset="d", backbone="b"))
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 1


def test_options_of_the_command_line(photos, mine):
    from extract.backbones.registry import REGISTERED

    visbench.register_backbone("ours")(lambda **options: mine)
    words = (
        "--split val --train-split train --limit 4 --batch-size 4 --train-batch-size 4 --seed 1 --device cpu"
    )
    words += (
        " --cache store --results r.jsonl --notes n --json --quiet --pooling mean --standardize --epochs 2"
    )
    words += " --lr 0.1 --weight-decay 0 --image-size 32"
    try:
        done = CliRunner().invoke(
            app, ["run", "classification", "--data", str(photos), "--backbone", "ours", *words.split()]
        )
    finally:
        REGISTERED.pop("ours")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert record["probe"] == "linear"
    assert record["hyperparameters"] == {"learning_rate": 0.1, "weight_decay": 0.0}
    assert record["notes"] == "n"


def test_the_default_backbone_names_its_ways_out_where_weights_are_out_of_reach(photos, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(photos.parent / "hub"))
    done = CliRunner().invoke(app, ["run", "classification", str(photos)])
    assert done.exit_code == 2
    assert "--checkpoint" in done.stderr
    assert "efficientnet_lite0" in done.stderr


@pytest.mark.parametrize("words", [["list"], ["list", "backbones"], ["list", "probes"], ["cache", "stats"]])
def test_other_commands(photos, words):
    assert CliRunner().invoke(app, words).exit_code == 0
