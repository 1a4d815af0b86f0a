"""Under --json nothing but JSON is on stdout."""

from __future__ import annotations

import json

import pytest

from extract.store import Store


def lines(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_forecast_of_a_run(command, photos):
    words = ("run", "classification", photos, "--backbone", "tiny", "--backbone", "pixels", "--probe", "knn")
    (told,) = lines(command(*words, "--k", "3", "--dry-run", "--json"))
    tiny, pixels = told["backbones"]
    assert (tiny["backbone"], tiny["images"], tiny["passes"], tiny["cached"]) == ("tiny", 54, 54, 0)
    assert tiny["missing"] == {"cls@1": 54}
    assert tiny["bytes"] == 54 * (5 * 2 + 16)
    assert tiny["seconds"] > 0
    assert pixels["missing"] == {"mean@0": 54}
    assert told["bytes"] == tiny["bytes"] + pixels["bytes"] < told["free_bytes"]
    assert (told["task"], told["probes"], told["records"]) == ("classification", ["knn"], 2)
    assert told["images"] == {"train": 36, "test": 18}
    command("extract", photos, "--backbone", "tiny")
    (told,) = lines(command(*words, "--k", "3", "--dry-run", "--json"))
    tiny = told["backbones"][0]
    assert (tiny["passes"], tiny["cached"], tiny["missing"]) == (0, 54, {"cls@1": 0})
    assert (tiny["bytes"], tiny["seconds"], tiny["device"]) == (0, 0, None)


def test_a_forecast_of_an_extraction(command, photos):
    words = ("extract", photos, "--backbone", "tiny", "--taps", "cls,patches", "--shard", "0/2")
    (told,) = lines(command(*words, "--dry-run", "--json"))
    (cost,) = told["backbones"]
    assert (cost["images"], cost["missing"]) == (27, {"cls@1": 27, "patches@1": 27})
    assert (told["task"], told["probes"], told["records"]) == (None, [], 0)


def test_an_extraction(command, photos, tmp_path):
    (photos / "train" / "owl" / "zzz.png").write_bytes(b"?")
    words = ("extract", photos, "--backbone", "tiny", "--backbone", "pixels", "--on-bad", "skip")
    words = (*words, "--store", tmp_path / "features", "--json")
    first, second = lines(command(*words)), lines(command(*words))
    for done, (computed, cached) in ((first, (54, 0)), (second, (0, 54))):
        assert [each["backbone"] for each in done] == ["tiny", "pixels"]
        for each in done:
            assert (each["rows"], each["computed"], each["cached"]) == (54, computed, cached)
            assert list(each["unreadable"]) == ["train/owl/zzz.png"]
            assert (each["seconds"] > 0) == (computed > 0)
    stored = {each.digest for each in Store(tmp_path / "features").identities()}
    assert {digest for each in first for digest in each["identities"].values()} == stored
    assert list(first[0]["identities"]) == ["cls@1"]


@pytest.mark.parametrize("words", [("check",), ("extract", "--backbone", "tiny"), ("run", "retrieval")])
def test_a_refusal_leaves_stdout_empty(command, words):
    done = command(*words, "nowhere", "--json", code=2)
    assert done.stdout == ""
    assert "there is no nowhere" in done.stderr
