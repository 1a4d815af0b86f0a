"""A target that the colours of a picture tell is found again; one that they do not tell is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from visbench.record import Record

FIT = ("--lr", "0.05", "--weight-decay", "1e-4", "--epochs", "40", "--seed", "1")


@dataclass(frozen=True)
class Case:
    """A task, the target that is planted, how it is saved and what is said of it."""

    task: str
    target: Callable[[np.ndarray], np.ndarray]  # as it is saved, of colours in 0 … 1
    write: Callable[..., Path]  # files, root, pictures, maps
    words: tuple[str, ...] = ()
    found: float = 0.0  # what the headline must reach
    metrics: tuple[str, ...] = ()  # some that must be there
    params: dict[str, Any] = field(default_factory=dict)  # of the record's dataset_params
    reading: dict[str, Any] = field(default_factory=dict)  # of its target_transform


def sixteen(values: np.ndarray) -> np.ndarray:
    return np.clip(np.round(values), 0, 65535).astype(np.uint16)


def classes(shown: np.ndarray) -> np.ndarray:
    """Which of three colours is the strongest; a frame of two pixels is void, and so is nothing else."""
    labels = shown.argmax(axis=-1).astype(np.uint8)
    labels[:2] = 255
    return labels


def foreground(shown: np.ndarray) -> np.ndarray:
    return np.where(shown[:, :, 0] > 0.5, 255, 0).astype(np.uint8)


def millimetres(shown: np.ndarray) -> np.ndarray:
    depth = sixteen(1000 * (1 + 6 * shown[:, :, 0]))
    depth[:3, :9] = 0  # a hole
    return depth


def nearness(shown: np.ndarray) -> np.ndarray:
    return (0.1 + shown[:, :, 1]).astype(np.float32)


def normals(shown: np.ndarray) -> np.ndarray:
    x, y = 1.6 * shown[:, :, 0] - 0.8, 1.6 * shown[:, :, 1] - 0.8
    vectors = np.stack([x, y, np.ones_like(x)], axis=-1)
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    drawn = np.round((vectors + 1) / 2 * 255).astype(np.uint8)
    drawn[:4, :4] = 128  # grey is not known
    return drawn


def folders(
    folder: str, *, ending: str = "png", palette: bool = False, below: bool = False
) -> Callable[..., Path]:
    def write(files, root, pictures, maps):
        saver = files.save_palette if palette else files.save
        return files.folders(root, pictures, maps, folder, ending=ending, saver=saver, below=below)

    return write


def taskonomy(domain: str, *, masked: bool = False) -> Callable[..., Path]:
    def mask(number: int) -> np.ndarray:
        valid = np.full((48, 64), 255, np.uint8)
        valid[: number % 3] = 0
        return valid

    return lambda files, root, pictures, maps: files.taskonomy(
        root, pictures, maps, domain, mask if masked else None
    )


CASES = {
    case.task: case
    for case in (
        Case(
            "semantic_segmentation",
            classes,
            folders("labels", palette=True),
            ("--num-classes", "3"),
            0.8,
            ("miou", "miou_per_image", "pixel_acc", "mean_acc", "fw_iou", "precision", "recall", "f1"),
            params={"target_dir": "labels"},
            reading={"kind": "labels", "num_classes": 3, "ignore_index": 255, "offset": 0},
        ),
        Case(
            "generic_segmentation",
            foreground,
            folders("masks", below=True),
            (),
            0.8,
            ("iou", "f1", "pixel_acc", "iou_pooled"),
            params={"target_dir": "masks"},
            reading={"kind": "foreground", "foreground": None},
        ),
        Case(
            "depth",
            millimetres,
            folders("depth"),
            ("--target-scale", "1000", "--n-bins", "64"),
            0.9,
            ("d1", "d2", "d3", "rmse", "abs_rel", "d1_aligned", "rmse_pooled"),
            params={"target_dir": "depth"},
            reading={"kind": "depth", "scale": 1000, "max_depth": 10},
        ),
        Case("relative_depth", nearness, folders("depths", ending="npy"), (), 0.9, ("ordinal_accuracy",)),
        Case(
            "surface_normal",
            normals,
            folders("normals"),
            ("--normal-source", "planted"),
            0.7,
            ("mean", "median", "rmse", "d1", "d2", "d3"),
            params={"target_dir": "normals"},
            reading={"kind": "normals", "order": "xyz", "flip": ""},
        ),
        Case(
            "edge",
            lambda shown: sixteen(1000 * shown[:, :, 1]),
            taskonomy("edge_texture"),
            (),
            0.85,
            ("edge_correlation", "rmse", "mae"),
            params={"domain": "edge_texture"},
            reading={"scale": 1000, "log1p": False},
        ),
        Case(
            "keypoints2d",
            lambda shown: sixteen(30 * 4 * shown[:, :, 2]),
            folders("keypoints", ending="tiff"),
            ("--target-scale", "30"),
            0.85,
            ("keypoint_correlation", "rmse", "mae"),
            params={"target_dir": "keypoints"},
            reading={"scale": 30, "log1p": False},
        ),
        Case(
            "occlusion_edge",
            lambda shown: sixteen(50 * np.expm1(3 * shown[:, :, 0])),
            taskonomy("edge_occlusion", masked=True),
            (),
            0.85,
            ("occlusion_edge_correlation", "rmse", "mae"),
            params={"domain": "edge_occlusion", "mask": "mask_valid"},
            reading={"scale": 50, "log1p": True, "mask": True},
        ),
    )
}


@dataclass(frozen=True)
class Ran:
    """One task over its own maps, over those of other pictures, and over maps in the wrong place."""

    case: Case
    root: Path
    records: dict[str, Record]

    def score(self, how: str) -> float:
        record = self.records[how]
        return float(record.metrics[str(record.headline)])

    @property
    def words(self) -> tuple[Any, ...]:
        return ("run", self.case.task, self.root, *self.case.words, *FIT)


@pytest.fixture(scope="module", params=CASES)
def ran(request, line, files, tmp_path_factory) -> Ran:
    case, pictures = CASES[request.param], files.pictures()
    folder, records = tmp_path_factory.mktemp(case.task), {}
    for how in ("shifted", "permuted", "planted"):
        root = case.write(files, folder / how, pictures, files.planted(case.target, pictures, how))
        records[how] = line.record("run", case.task, root, *case.words, *FIT)
    return Ran(case, root, records)


def test_what_the_colours_say_is_found(ran):
    assert ran.score("planted") >= ran.case.found


def test_what_they_do_not_say_is_not(ran, files):
    """The maps of other pictures teach no more than what says the same of every picture."""
    beside = files.context(ran.records["permuted"])
    known = [beside[name] for name in ("constant", "row") if beside[name] is not None]
    assert abs(ran.score("permuted") - max(0, *known)) < 0.2


def test_maps_eight_pixels_off_score_clearly_less(ran):
    assert ran.score("shifted") < ran.score("planted") - 0.25


def test_the_record(ran, files):
    case, record = ran.case, ran.records["planted"]
    assert (record.task, record.protocol, record.probe) == (case.task, "standard", "linear")
    assert (record.split, record.train_split, record.val_split) == ("test", "train", "val")
    assert (record.dataset_size, record.counts["train"], record.counts["val"]) == (16, 12, 4)
    assert (record.taps, record.taps_resolved, record.feature_mode) == (["patches"], ["patches@1"], "dense")
    assert record.training == {"optimizer": "adamw", "epochs": 40, "batch_size": 8}
    assert record.task_params["head"] == "linear"
    assert record.task_params["loss_stride"] == 4
    assert record.hyperparameters["learning_rate"] == 0.05
    assert record.seed == 1
    assert set(case.metrics) <= set(record.metrics)
    for name, value in record.metrics.items():
        low, high = record.intervals[name]
        assert low <= value <= high or value == pytest.approx(low) or value == pytest.approx(high)
        assert record.n[name] == 16
    beside = files.context(record)
    assert {"train", "constant", "row", "ceiling"} <= set(beside)
    assert beside["ceiling"] > case.found
    assert record.convergence["train_loss"] < ran.records["permuted"].convergence["train_loss"] - 0.1


def test_a_second_run_reads_the_store_alone(ran, line, monkeypatch):
    monkeypatch.setattr("visbench.dense.targets._read", lambda *a: pytest.fail("decoded a map"))
    done = line(*ran.words, "--json")
    assert "all 32 images cached" in done.stderr
    assert "reading maps" not in done.stderr
    again, first = Record.from_json(done.stdout), ran.records["planted"]
    for name in ("metrics", "intervals", "context", "convergence", "samples", "dataset_fingerprint"):
        assert getattr(again, name) == getattr(first, name)


def test_resume_answers_from_the_records(ran, line):
    done = line(*ran.words, "--resume")
    assert "answers this, nothing is computed" in done.stderr
    assert "0 records appended" in done.stderr


def test_the_record_says_how_maps_were_read(ran):
    params = ran.records["planted"].dataset_params
    assert ran.case.params.items() <= params.items()
    assert ran.case.reading.items() <= params["target_transform"].items()
