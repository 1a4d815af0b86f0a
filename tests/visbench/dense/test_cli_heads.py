"""Heads, layers, sweeps, controls and protocols of a dense task, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from visbench import results

FIT = ("--lr", "0.02", "--weight-decay", "1e-4", "--epochs", "20")
ONCE = ("--lr", "0.02", "--weight-decay", "1e-4", "--epochs", "1")


def strongest(shown: np.ndarray) -> np.ndarray:
    labels: np.ndarray = shown.argmax(axis=-1).astype(np.uint8)
    return labels


@pytest.fixture(scope="module")
def streets(files, tmp_path_factory) -> Path:
    root: Path = tmp_path_factory.mktemp("data") / "streets"
    pictures = files.pictures()
    return files.folders(root, pictures, files.planted(strongest, pictures), "labels")


@pytest.fixture(scope="module")
def words(streets) -> tuple:
    return ("semantic_segmentation", streets, "--num-classes", "3")


@pytest.fixture(scope="module")
def linear(words, line):
    return line.record("run", *words, *FIT)


def test_a_head_with_a_hidden_layer(words, line, linear):
    record = line.record("run", *words, *FIT, "--head", "conv_block", "--hidden-dim", "16")
    assert record.probe == record.task_params["head"] == "conv_block"
    assert record.task_params["hidden_dim"] == 16
    assert record.metrics["miou"] > 0.7
    assert record.metrics != linear.metrics


def test_a_head_of_two_layers(words, line, linear):
    record = line.record("run", *words, *FIT, "--head", "fpn", "--layers", "0,1", "--hidden-dim", "8")
    assert (record.probe, record.taps) == ("fpn", ["patches@0", "patches@1"])
    assert record.metrics["miou"] > 0.7
    refused = line.refused("run", *words, *ONCE, "--head", "fpn", "--layers", "1,0")
    assert "layers 1, 0 have to increase" in refused


def test_the_record_names_every_layer_that_was_read(words, line):
    record = line.record("run", *words, *ONCE, "--head", "fpn", "--layers", "0,1", "--hidden-dim", "8")
    assert record.taps_resolved == ["patches@0", "patches@1"]


@pytest.mark.parametrize("layers", ["-1,-2", "1,-1"])
def test_layers_have_to_increase_once_they_are_resolved(layers, words, line):
    line.refused("run", *words, *ONCE, "--head", "fpn", "--layers", layers, "--hidden-dim", "8")


def test_layers_are_read_with_blanks_too(words, line):
    line("run", *words[:1], "--layers", "0", "1", *words[1:], *ONCE, "--head", "fpn", "--hidden-dim", "8")


def test_each_of_several_heads_takes_the_settings_it_has(words, line):
    line("run", *words, *ONCE, "--head", "linear", "--head", "conv_block", "--hidden-dim", "8")


def test_several_heads_are_several_records(words, line):
    done = line("run", *words, *ONCE, "--head", "linear", "--head", "conv_block", "--dry-run")
    assert "linear, conv_block on 12 train, 4 val, 16 test; 2 records" in done.stdout


def test_json_is_all_there_is_on_stdout(words, line):
    (said,) = line("run", *words, *ONCE, "--json", "--no-results").stdout.splitlines()
    assert json.loads(said)["task"] == "semantic_segmentation"


def test_a_dry_run_says_what_it_would_do(words, line):
    before = line.written()
    done = line("run", *words, "--dry-run")
    assert "32 images" in done.stdout
    assert "on 12 train, 4 val, 16 test; 8 fits to choose, 1 record" in done.stdout
    assert line.written() == before


def test_a_search_chooses_on_val_and_is_answered_by_its_record(words, line):
    settings = ("--epochs", "2", "--weight-decay", "0")
    record = line.record("run", *words, *settings)
    assert record.selection["how"] == "learning_rate chosen on the val split"
    outcome = record.selection["outcome"]
    assert (outcome["trials"], outcome["val_size"]) == (4, 4)
    assert record.hyperparameters["learning_rate"] in record.selection["grid"]["learning_rate"]
    done = line("run", *words, *settings, "--resume")
    assert "answers this, nothing is computed" in done.stderr
    other = line("run", *words, *settings, "--resume", "--loss-stride", "2")
    assert "1 record appended" in other.stderr


def test_a_sweep_over_numbers_and_heads(words, line, tmp_path):
    axes = ("--grid", "lr=0.005,0.02", "--grid", "weight_decay=0,1e-4", "--grid", "head=linear,conv_block")
    said = ("sweep", *words, *axes, "--epochs", "4")
    done = line(*said, "--plot", tmp_path / "sweep.png")
    assert "of 8 settings, chosen on the val split" in done.stderr
    assert "head  linear" in done.stdout
    assert (tmp_path / "sweep.png").stat().st_size
    record = results.read(line.results)[-1]
    assert record.selection["how"] == "head, learning_rate and weight_decay chosen on the val split"
    assert record.selection["grid"]["head"] == ["linear", "conv_block"]
    assert record.hyperparameters == record.selection["outcome"]["chosen"]
    again = line(*said, "--resume")
    assert "0 records appended" in again.stderr
    assert again.stdout == done.stdout


def test_a_sweep_over_heads_is_not_called_linear(words, line):
    axes = ("--grid", "head=linear,conv_block", "--lr", "0.005", "--weight-decay", "0", "--epochs", "4")
    record = line.record("sweep", *words, *axes)
    assert record.probe == "linear or conv_block"
    assert record.hyperparameters["head"] in ("linear", "conv_block")


def test_a_sweep_over_layers(words, line):
    record = line.record("sweep", *words, "--grid", "layer=0,1", *ONCE)
    assert record.taps == ["patches@0", "patches@1"]
    assert len(record.taps_resolved) == 1
    alike = line.record("sweep", *words, "--grid", "layer=1,-1", *ONCE)
    assert alike.taps_resolved == ["patches@1"]


def test_seeds_are_averaged(words, line):
    record = line.record("run", *words, *ONCE, "--seeds", "2")
    first = line.record("run", *words, *ONCE)
    assert record.seeds == [0, 1]
    assert record.metrics["miou"] != first.metrics["miou"]


def test_shuffled_targets_teach_nothing(words, line, linear):
    done = line("run", *words, *FIT, "--control", "shuffle", "--json")
    plain, control = map(json.loads, done.stdout.splitlines())
    assert plain["metrics"] == linear.metrics
    assert control["control"] == "shuffled labels"
    assert control["metrics"]["miou"] < 0.45 < plain["metrics"]["miou"] - 0.3


def test_random_weights_are_a_row_of_their_own(words, line):
    done = line("run", *words, *ONCE, "--control", "random-weights")
    assert "2 records appended" in done.stderr


def test_pixels_have_no_grid(words, line):
    assert "no grid of patches" in line.refused("run", *words, *ONCE, "--control", "pixels")


def test_the_older_protocol(words, line, linear):
    record = line.record("run", *words, "--epochs", "2", "--protocol", "visbench")
    assert record.protocol == "visbench"
    assert record.task_params["protocol"] == "visbench_semantic_seg"
    assert (record.task_params["loss_stride"], record.task_params["refit"]) == (1, False)
    assert record.hyperparameters["learning_rate"] == 5e-4
    assert record.hyperparameters["weight_decay"] == 1e-4
    assert not record.task_params["standardize"]
    assert record.selection == {}
    assert record.counts["val"] == 4  # there, and not trained on


def test_names_of_older_protocols(files, line, tmp_path):
    from visbench.dense import answers

    pictures = files.pictures({"train": 2, "test": 2})
    maps = files.planted(lambda shown: shown[:, :, 0], pictures)
    root = files.folders(tmp_path / "rooms", pictures, maps, "edges", ending="tiff")
    record = line.record("run", "edge", root, "--epochs", "1", "--protocol", "visbench")
    assert record.task_params["protocol"] == answers.edge.classic == "visbench_edge_regression"
    assert answers.keypoints2d.classic == "visbench_keypoint2d_regression"
    assert answers.occlusion_edge.classic == "visbench_occlusion_edge_regression"


def test_the_older_protocol_takes_the_left_of_a_pixel(files, line, tmp_path):
    """Where a picture is made smaller, its targets are the upper left ones, not those of the centres."""
    from extract.maps.frame import Frame
    from visbench.dense import targets

    assert Frame(48, "left").describe() != Frame(48, "centre").describe()
    taken = []
    with pytest.MonkeyPatch.context() as patch:
        read = targets._read
        patch.setattr(targets, "_read", lambda *a: taken.append((read(*a), a[2])) or taken[-1][0])
        picture = np.random.default_rng(0).integers(0, 255, (96, 96, 3)).astype(np.uint8)
        several = {"train": [picture, picture[::-1]], "test": [picture.transpose(1, 0, 2)]}
        labels = {
            split: [np.arange(96 * 96).reshape(96, 96).astype(np.uint16) % 50 for _ in each]
            for split, each in several.items()
        }
        root = files.folders(tmp_path / "streets", several, labels, "labels")
        for protocol in ("standard", "visbench"):
            said = (
                "run",
                "semantic_segmentation",
                root,
                "--num-classes",
                "50",
                "--epochs",
                "1",
                "--lr",
                "1e-3",
            )
            line(*said, "--weight-decay", "0", "--protocol", protocol)
    found = {frame.sampling: row for row, frame in taken}
    assert (found["left"] == labels["test"][0][::2, ::2]).all()
    assert (found["centre"] == labels["test"][0][1::2, 1::2]).all()


def test_cli_and_python_write_the_same_record(streets, words, line):
    import visbench

    ours = line.record("run", *words, *ONCE)
    record = visbench.run(
        "fine",
        "semantic_segmentation",
        streets,
        num_classes=3,
        lr=0.02,
        weight_decay=1e-4,
        epochs=1,
        store=line.folder / "store",
    ).record
    differing = {name for name, value in record.to_dict().items() if value != ours.to_dict()[name]}
    assert differing <= {"timestamp", "duration_seconds", "caller", "samples"}


def test_probing_never_extracts(files, words, line, tmp_path):
    refused = line.refused("probe", *words, *ONCE, "--store", tmp_path / "empty")
    assert "no stored features of fine" in refused
