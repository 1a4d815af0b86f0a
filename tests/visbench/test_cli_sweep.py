"""`visbench sweep` as a person types it."""

from __future__ import annotations

import json

import pytest

from visbench import results


@pytest.fixture
def visbench(command):
    return command


def test_a_sweep_says_what_it_chose_draws_it_and_appends_a_record(visbench, photos, tmp_path):
    words = (
        "sweep",
        "classification",
        photos,
        "--backbone",
        "tiny",
        "--grid",
        "C=1e-4:1e2:log4",
        "--grid",
        "layer=0,1",
    )
    done = visbench(*words, "--plot", "sweep.png", "--control", "shuffle")
    assert "of 8 settings, chosen on held-out training data: layer" in done.stderr
    assert "→ test top1" in done.stderr
    assert "layer \\ C" in done.stdout
    assert "photos · classification · logistic" in done.stdout
    assert "2 records appended" in done.stderr
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")
    real, shuffled = results.read(tmp_path / "results" / "visbench.jsonl")
    assert (real.control, shuffled.control) == (None, "shuffled labels")
    again = visbench(*words, "--resume", "--control", "shuffle")
    assert "nothing is computed" in again.stderr
    assert len(results.read(tmp_path / "results" / "visbench.jsonl")) == 2


def test_json_is_all_there_is_on_stdout(visbench, photos):
    done = visbench(
        "sweep", "classification", photos, "--backbone", "tiny", "--grid", "C=0.1,1", "--json", "--no-results"
    )
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["selection"]["grid"]["C"] == [0.1, 1]


def test_a_dry_run_counts_fits_and_writes_nothing(visbench, photos, tmp_path):
    done = visbench(
        "sweep",
        "classification",
        photos,
        "--backbone",
        "tiny",
        "--grid",
        "layer=0,1",
        "--shots",
        "1,2",
        "--dry-run",
    )
    assert "420 fits" in done.stdout  # 2 layers × 21 C × 2 numbers of shots × 5 draws
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--grid", "lr"), "is no axis of a grid"),
        (("--grid", "C=1", "--grid", "C=2"), "given twice"),
        (("--plot", "sweep.gif"), ".png"),
        (("--draws", "3"), "--shots"),
        (("--grid", "colour=1"), "no axis of logistic"),
    ],
)
def test_what_makes_no_sweep_is_refused_before_anything_is_read(
    visbench, photos, options, words, monkeypatch
):
    monkeypatch.setattr("visbench.data.gather", lambda *a, **k: pytest.fail("images were read"))
    done = visbench("sweep", "classification", photos, "--backbone", "tiny", *options, code=2)
    assert words in done.stderr
    assert done.stdout == ""


def test_a_run_takes_controls_seeds_and_a_way_to_choose(visbench, photos):
    done = visbench(
        "run",
        "classification",
        photos,
        "--backbone",
        "tiny",
        "--control",
        "pixels",
        "--select",
        "cv3",
        "--no-results",
    )
    assert "pixels (control)" in done.stdout
    assert "3 folds of the training data" in done.stdout
    done = visbench("run", "retrieval", photos, "--backbone", "tiny", "--control", "shuffle", "--no-results")
    assert "(shuffled labels)" in done.stdout


def test_a_picture_that_cannot_be_is_said_and_a_resumed_one_is_drawn(visbench, photos, tmp_path):
    words = ("sweep", "classification", photos, "--backbone", "tiny", "--plot", "a.svg", "--grid")
    done = visbench(*words, "C=1")
    assert "nothing was chosen among, so a.svg is not drawn" in done.stderr
    assert not (tmp_path / "a.svg").exists()
    done = visbench(*words, "C=0.1,1")
    picture, table = (tmp_path / "a.svg").read_bytes(), done.stdout
    (tmp_path / "a.svg").unlink()
    again = visbench(*words, "C=0.1,1", "--resume")
    assert "nothing is computed" in again.stderr
    assert (tmp_path / "a.svg").read_bytes() == picture
    assert again.stdout == table
