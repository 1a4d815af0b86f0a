"""`visbench check --task`: what the maps hold, whether a run would take them, and a picture to look at."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


def strongest(shown: np.ndarray) -> np.ndarray:
    labels: np.ndarray = shown.argmax(axis=-1).astype(np.uint8)
    labels[:2] = 255
    return labels


@pytest.fixture
def streets(files, tmp_path) -> Path:
    pictures = files.pictures({"train": 3, "val": 2, "test": 2})
    return files.folders(tmp_path / "streets", pictures, files.planted(strongest, pictures), "labels")


def test_classes_are_counted_before_they_are_told(streets, line):
    said = line("check", streets, "--task", "semantic_segmentation").stdout
    assert "train 3 · val 2 · test 2 images with maps of classes" in said
    assert "3 classes shown" in said
    assert "4.17 % of the pixels not valid" in said
    assert "ready to run" in said


def test_too_few_classes(streets, line):
    said = line("check", streets, "--task", "semantic_segmentation", "--num-classes", "2", code=1).stdout
    assert "2 classes end at 1" in said
    assert "a run would refuse this" in said


def test_json(streets, line):
    found = json.loads(line("check", streets, "--task", "semantic_segmentation", "--json").stdout)
    assert found["kind"] == "labels"
    assert found["refused"] is None
    assert set(found["splits"]["train"]["classes"]) == {"0", "1", "2"}


def test_a_picture_of_a_map_on_its_image(streets, line, tmp_path):
    words = ("check", streets, "--task", "semantic_segmentation", "--num-classes", "3", "--overlay")
    line(*words, tmp_path / "look.png")
    assert Image.open(tmp_path / "look.png").width >= 64
    assert "lies in the dataset" in line.refused(*words, streets / "look.png")
    assert "is no .png" in line.refused(*words, tmp_path / "look.jpg")


def test_a_unit_that_is_not_told(files, line, tmp_path):
    pictures = files.pictures({"train": 2, "test": 2})
    maps = files.planted(lambda shown: np.round(9000 * shown[:, :, 0]).astype(np.uint16), pictures)
    root = files.folders(tmp_path / "rooms", pictures, maps, "depth")
    assert "--target-scale 1000" in line("check", root, "--task", "depth", code=1).stdout
    said = line("check", root, "--task", "depth", "--target-scale", "1000").stdout
    assert "images with maps of depth" in said
    assert "median" in said


def test_maps_are_for_a_task(streets, line):
    said = line("check", streets, "--num-classes", "3", code=2).stderr
    assert "say what they are for with --task" in said
    assert "look like images with maps" in line("check", streets).stdout


@pytest.mark.parametrize("domain", ["edge_texture", "keypoints2d", "edge_occlusion"])
def test_taskonomy(domain, files, line, tmp_path):
    task = {"edge_texture": "edge", "edge_occlusion": "occlusion_edge"}.get(domain, domain)
    pictures = files.pictures({"train": 2, "val": 2, "test": 2})
    maps = files.planted(lambda shown: np.round(500 * shown[:, :, 1]).astype(np.uint16), pictures)
    half = np.zeros((48, 64), np.uint8)
    half[:24] = 255
    masks = (lambda number: half) if domain == "edge_occlusion" else None
    root = files.taskonomy(tmp_path / "taskonomy", pictures, maps, domain, masks)
    said = line("check", root, "--task", task).stdout
    assert "train 2 · val 2 · test 2 images with maps of responses" in said
    assert f"{50 if masks else 0} % of the pixels not valid" in said
    assert "ready to run" in said
    other = line("check", root, "--task", task, "--domain", "reshading", code=2).stderr
    assert "is not offered" in other
