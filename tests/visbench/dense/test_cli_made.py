"""Corners and directions are made from the photos themselves: no maps lie beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from visbench.record import Record

FIT = ("--lr", "0.05", "--weight-decay", "1e-4", "--epochs", "30", "--seed", "2")
HEIGHT, WIDTH = 48, 64
Y, X = np.mgrid[:HEIGHT, :WIDTH]
TEXTURES = {  # of two pixels a step, so that the mean of a patch of four does not tell them
    "corner": np.where((X // 2 + Y // 2) % 2, 1.0, -1.0),
    "down": np.where(X // 2 % 2, 1.0, -1.0),
    "across": np.where(Y // 2 % 2, 1.0, -1.0),
}


def textured(picture: np.ndarray, task: str) -> np.ndarray:
    """A picture whose red tells the texture that lies over it: how strong it is, or which way it runs."""
    red = picture[:, :, :1].astype(float)
    if task == "corner":
        texture = 0.4 * (red - 20) * TEXTURES["corner"][:, :, None]
    else:
        texture = 30 * np.where(red > 127, TEXTURES["down"][:, :, None], TEXTURES["across"][:, :, None])
    base = np.concatenate([red, np.full_like(red, 128), np.full_like(red, 128)], axis=2)
    grey = texture.round()
    return np.clip(np.round(base * 0.6 + 50) + grey, 0, 255).astype(np.uint8)


@pytest.fixture(scope="module", params=["corner", "orientation"])
def task(request) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def photos(task, files, tmp_path_factory) -> Path:
    """photos/split/number.png."""
    root: Path = tmp_path_factory.mktemp(task) / "photos"
    for split, several in files.pictures({"train": 60, "test": 16}, seed=3).items():
        for number, picture in enumerate(several):
            files.save(root / split / f"{number:03}.png", textured(picture, task))
    return root


@pytest.fixture(scope="module")
def told(task, photos, line):
    """What a run said, and its records by control."""
    done = line("run", task, photos, *FIT, "--control", "shuffle", "--json")
    records = [Record.from_json(each) for each in done.stdout.splitlines()]
    return done, {record.control: record for record in records}


def test_texture_that_the_colours_tell_is_found(task, told, files):
    _, records = told
    record = records[None]
    score, beside = record.metrics[record.headline], files.context(record)
    if task == "corner":
        assert (record.headline, record.better) == ("corner_correlation", "higher")
        assert score > 0.8
        assert beside["constant"] is None  # the correlation with what does not vary
    else:
        assert (record.headline, record.better) == ("mean_error_deg", "lower")
        assert score < 15 < 30 < beside["constant"]
    assert record.dataset_size == 16


def test_targets_that_are_shuffled_teach_nothing(task, told):
    _, records = told
    shuffled, own = records["shuffled labels"], records[None]
    learnt = shuffled.context[f"train_{shuffled.headline}"]
    if task == "corner":  # a correlation knows no scale: of one colour, it is high for the least of slopes
        assert learnt < 0.25
        assert shuffled.metrics["mae"] > 2 * own.metrics["mae"]
    else:
        assert learnt > 35
        assert shuffled.metrics["mean_error_deg"] > own.metrics["mean_error_deg"] + 20
    assert shuffled.convergence["train_loss"] > own.convergence["train_loss"]


def test_a_second_run_makes_no_target_again(task, told, photos, line, monkeypatch):
    monkeypatch.setattr("visbench.dense.targets._read", lambda *a: pytest.fail("made a target"))
    again = line.record("run", task, photos, *FIT)
    assert again.metrics == told[1][None].metrics


def test_a_board_says_which_way_is_better(task, told, photos, line):
    board = line("run", task, photos, *FIT).stdout
    assert ("lower mean_error_deg is better" in board) == (task == "orientation")


def test_there_is_nothing_to_say_of_maps(task, photos, line):
    assert "no such option '--target-scale'" in line.refused("run", task, photos, "--target-scale", "1")
    assert "has no use for it" in line("check", photos, "--task", task, "--target-scale", "1", code=2).stderr


def test_check_finds_them_ready(task, photos, line):
    assert "ready to run" in line("check", photos, "--task", task).stdout


def test_photos_without_splits_are_divided(task, files, line, tmp_path):
    for number, picture in enumerate(files.pictures({"all": 5})["all"]):
        files.save(tmp_path / "photos" / f"{number}.png", picture)
    done = line("run", task, tmp_path / "photos", "--dry-run")
    assert "photos has no splits: a fifth, drawn by content, is scored (1 of 5 images)" in done.stderr
