"""A record run again: equal, within its interval, apart; what is no longer as it was; what cannot be."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import visbench
from visbench import results
from visbench.record import run_key
from visbench.reproducing import Reproduction

FILE = "results/visbench.jsonl"


def last(path=FILE):
    return results.read(path)[-1]


def key(record=None):
    return run_key(record or last())[:8]


@pytest.mark.parametrize(
    "words",
    [
        ("run", "classification"),
        ("run", "classification", "--probe", "logistic", "--C", "2", "--no-standardize", "--no-refit"),
        ("run", "classification", "--probe", "knn", "--pooling", "mean", "--layer", "0", "--limit", "8"),
        ("run", "classification", "--probe", "ridge", "--select", "cv3", "--seed", "4", "--dtype", "float32"),
        ("run", "classification", "--probe", "linear", "--epochs", "3", "--lr", "0.1", "--seeds", "2"),
        ("run", "classification", "--split", "train", "--allow-same", "--probe", "logistic", "--C", "1"),
        ("run", "classification", "--protocol", "visbench", "--epochs", "3"),
        ("run", "retrieval", "--topk", "1,2", "--control", "shuffle"),
        (
            "sweep",
            "classification",
            "--grid",
            "C=0.1,1",
            "--grid",
            "layer=0,1",
            "--shots",
            "2",
            "--draws",
            "2",
        ),
    ],
)
def test_a_record_says_all_that_is_needed(command, photos, words):
    command(*words, photos, "--backbone", "tiny")
    before = results.read(FILE)
    for record in before:
        done = command("reproduce", key(record), "--data", photos)
        assert "equal to the digit" in done.stdout
        assert "the same versions, device, backbone and data" in done.stdout
    assert results.read(FILE) == before


def rooms(root, scale=1000):
    """Images whose brightness is their depth."""
    rng = np.random.default_rng(0)
    for split, count in (("train", 6), ("test", 3)):
        for kind in ("images", "depths"):
            (root / split / kind).mkdir(parents=True)
        for number in range(count):
            grey = np.repeat(np.repeat(rng.integers(60, 250, (4, 4)), 10, 0), 10, 1)
            Image.fromarray(grey.astype(np.uint8)).convert("RGB").save(
                root / split / "images" / f"{number}.png"
            )
            depth = (grey / 50 * scale).astype(np.uint16)
            Image.fromarray(depth).save(root / split / "depths" / f"{number}.png")
    return root


def test_a_record_of_maps(command, tmp_path):
    data = rooms(tmp_path / "rooms")
    asked = (
        "--target-scale",
        "1000",
        "--max-depth",
        "8",
        "--epochs",
        "2",
        "--lr",
        "1e-2",
        "--weight-decay",
        "0",
    )
    command("run", "depth", data, "--backbone", "tiny", "--layers", "0", *asked)
    told = json.loads(command("reproduce", key(), "--data", data, "--json").stdout)
    assert (told["equal"], told["agrees"], told["differences"]) == (True, True, {})
    assert told["record"]["hyperparameters"] == last().hyperparameters


def altered(**fields):
    """The last record, as if it had been written otherwise."""
    results.append("altered.jsonl", [record := replace(last(), **fields)])
    return key(record), "--results", "altered.jsonl"


def test_a_number_that_no_longer_holds(command, photos):
    command("run", "retrieval", photos, "--backbone", "tiny")
    value = last().metrics["map"]
    shifted = altered(
        metrics={**last().metrics, "map": value - 1e-6}, versions={**last().versions, "jax": "0.0"}
    )
    within = command("reproduce", *shifted, "--data", photos).stdout
    assert "agrees within the interval, not equal to the digit" in within
    assert within.index("versions.jax: 0.0 against") < within.index("map")
    apart = altered(metrics={"map": 0.1}, intervals={"map": [0.05, 0.15]})
    assert "now: differs" in command("reproduce", *apart, "--data", photos, code=1).stdout
    bare = altered(metrics={"map": 0.1}, intervals={})
    assert "no interval" in command("reproduce", *bare, "--data", photos, code=1).stdout


def test_other_data_are_named_first(command, photos):
    command("run", "retrieval", photos, "--backbone", "tiny")
    (photos / "test" / "cat" / "000.png").unlink()
    told = json.loads(command("reproduce", key(), "--data", photos, "--json", code=1).stdout)
    assert told["differences"]["images"] == [18, 17]
    assert "data" in told["differences"]


def test_what_cannot_be_run_again(command, photos, tmp_path, tiny_backbone):
    command("run", "retrieval", photos, "--backbone", "tiny")
    assert "say it with --data, as of photos" in command("reproduce", key(), code=2).stderr
    assert "there is no" in command("reproduce", key(), "--data", "nowhere", code=2).stderr
    assert "no key of a record" in command("reproduce", "tiny", "--data", photos, code=2).stderr
    absent = command("reproduce", "0" * 32, "--data", photos, code=2).stderr
    assert f"its last records are {key()} (tiny · photos · retrieval)" in absent
    assert "fine-tuned" in command("reproduce", *altered(finetune={"lr": 1}), "--data", photos, code=2).stderr
    asked = {**last().task_params, "rule": "of another kind"}
    other = command("reproduce", *altered(task_params=asked), "--data", photos, code=2).stderr
    assert "task_params.rule of another kind against standard" in other
    visbench.run(tiny_backbone(name="mine"), "retrieval", photos, results="own.jsonl")
    own = ("reproduce", key(last("own.jsonl")), "--results", "own.jsonl", "--data", photos)
    assert "a module of somebody's own" in command(*own, code=2).stderr


def test_what_a_record_does_not_keep_is_told(command, photos):
    (photos.parent / "names.tsv").write_text("cat\tfeline\n")
    command("run", "classification", photos, "--backbone", "tiny", "--C", "1")
    record = altered(hyperparameters={"C": 3.0})
    assert "equal" not in command("reproduce", *record, "--data", photos, "--", "--C", "2", code=2).stdout
    refused = command("reproduce", key(), "--data", photos, "--", "--Z", "2", code=2)
    assert "--Z" in refused.stderr
    command("reproduce", key(), "--data", photos, "--", "--batch-size", "3")


@pytest.mark.parametrize(
    ("then", "now", "interval", "agrees", "equal"),
    [
        (0.5, 0.5, None, True, True),
        (0.5, 0.6, None, False, False),
        (0.5, 0.6, (0.4, 0.6), True, False),
        (0.5, 0.61, (0.4, 0.6), False, False),
        (0.5, None, (0.4, 0.6), False, False),
        (None, None, None, True, True),
    ],
)
def test_agreement(then, now, interval, agrees, equal):
    record = visbench.Record(task="retrieval", dataset="photos", backbone="tiny")
    done = Reproduction("0", "tiny", "map", then, now, interval, record)
    assert (done.agrees, done.equal) == (agrees, equal)
    assert done.metric in done.text
