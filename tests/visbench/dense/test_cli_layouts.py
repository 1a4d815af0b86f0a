"""Maps as people have them: devkits, challenges, frames in one file, lists of stems, folders by any name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

FIT = ("--lr", "0.05", "--weight-decay", "1e-4", "--epochs", "40")
ONCE = ("--lr", "0.05", "--weight-decay", "1e-4", "--epochs", "1")
SPLITS = {"train": 8, "val": 8}


def strongest(shown: np.ndarray) -> np.ndarray:
    """The class of a pixel: the strongest of red, green and blue; the first two rows are void."""
    labels = shown.argmax(axis=-1).astype(np.uint8)
    labels[:2] = 255
    return labels


def metres(shown: np.ndarray) -> np.ndarray:
    return (1 + 6 * shown[:, :, 0]).astype(np.float32)


@pytest.fixture
def segmented(files):
    """Pictures, and their label maps."""
    pictures = files.pictures(SPLITS)
    return pictures, files.planted(strongest, pictures)


@pytest.fixture
def devkit(files, segmented, tmp_path) -> Path:
    """VOCdevkit/VOC2012 with its lists, whose order is not that of the names, and an image that none names."""
    pictures, maps = segmented
    year: Path = tmp_path / "VOCdevkit" / "VOC2012"
    for split in pictures:
        stems = [f"2007_{len(split)}{number:05}" for number in range(len(pictures[split]))]
        for stem, picture, labels in zip(stems, pictures[split], maps[split], strict=True):
            files.save(year / "JPEGImages" / f"{stem}.jpg", picture, quality=95)
            files.save_palette(year / "SegmentationClass" / f"{stem}.png", labels)
        listed = year / "ImageSets" / "Segmentation" / f"{split}.txt"
        listed.parent.mkdir(parents=True, exist_ok=True)
        listed.write_text("\n".join(reversed(stems)) + "\n")
    files.save(year / "JPEGImages" / "2099_000001.jpg", pictures["val"][0])
    return year


def test_a_voc_devkit(devkit, line, files):
    record = line.record("run", "semantic_segmentation", devkit.parent, *FIT)
    assert record.dataset == "VOC2012"
    assert (record.split, record.train_split, record.val_split) == ("val", "train", None)
    assert record.counts == {"train": 8, "test": 8, "classes": 21, "unreadable": 0, "converted": {}}
    assert record.task_params["answer"] == {"name": "segmentation", "num_classes": 21, "scene_parsing": False}
    assert record.metrics["miou"] > 0.8  # over the three classes that are there or were named
    said = line("check", devkit, "--task", "semantic_segmentation", "--voc").stdout
    assert "21 classes" in said
    assert "aeroplane" in said
    assert "ready to run" in said


def test_ade_counts_classes_from_one(files, segmented, line, tmp_path):
    pictures, maps = segmented
    root = tmp_path / "ADEChallengeData2016"
    for split, called in (("train", "training"), ("val", "validation")):
        for number, (picture, labels) in enumerate(zip(pictures[split], maps[split], strict=True)):
            files.save(root / "images" / called / f"ADE_{split}_{number:08}.jpg", picture, quality=95)
            stored = np.where(labels == 255, 0, labels + 1).astype(np.uint8)
            files.save(root / "annotations" / called / f"ADE_{split}_{number:08}.png", stored)
    record = line.record("run", "semantic_segmentation", root, *FIT)
    assert (record.split, record.task_params["answer"]["num_classes"]) == ("val", 150)
    assert record.task_params["protocol"] == "scene_parsing"
    both = record.metrics["pixel_acc"] + record.metrics["miou"]
    assert record.metrics["scene_parsing"] == pytest.approx(both / 2)
    assert record.metrics["miou"] > 0.7
    said = line("check", root, "--task", "semantic_segmentation").stdout
    assert "150 classes" in said
    assert "4.17 % of the pixels not valid" in said  # of what stands as 0
    refused = line.refused("run", "semantic_segmentation", root, "--label-offset", "0", *ONCE)
    assert "number classes from 1" in refused


def test_an_offset_gives_zero_its_meaning(files, segmented, line, tmp_path):
    """Of folders one says oneself that 0 is not labelled and classes count from 1."""
    pictures, maps = segmented
    stored = {
        split: [np.where(each == 255, 0, each + 1).astype(np.uint8) for each in several]
        for split, several in maps.items()
    }
    root = files.folders(tmp_path / "streets", pictures, stored, "annotations")
    record = line.record(
        "run", "semantic_segmentation", root, "--num-classes", "3", "--label-offset", "1", *FIT
    )
    assert record.metrics["miou"] > 0.7


@pytest.fixture(scope="module")
def geonet(files, tmp_path_factory) -> Path:
    """nyu_geonet/*.mat: image less twice its mean colour, depth in metres, normals; the spare row is kept small."""
    from scipy.io import savemat

    folder: Path = tmp_path_factory.mktemp("nyu") / "nyu_geonet"
    folder.mkdir()
    mean = 2 * np.array([122.175, 116.169, 103.508])
    for number, picture in enumerate(files.pictures({"all": 22})["all"]):
        shown = files.shown(picture)
        x, y = 1.6 * shown[:, :, 0] - 0.8, 1.6 * shown[:, :, 1] - 0.8
        normals = np.stack([x, y, np.ones_like(x)], axis=-1)
        normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
        content = {"img": picture - mean, "depth": metres(shown), "norm": normals}
        savemat(folder / f"{number:05}.mat", content)
    return folder


def test_nyu_as_geonet_packs_it(geonet, line, monkeypatch):
    words = ("run", "depth", geonet.parent, "--n-bins", "64", "--no-nyu-crop", *FIT)
    record = line.record(*words)
    assert (record.dataset, record.split, record.dataset_size, record.counts["train"]) == (
        "nyuv2",
        "val",
        2,
        20,
    )
    assert record.metrics["d1"] > 0.9
    monkeypatch.setattr("visbench.dense.targets._read", lambda *a: pytest.fail("decoded a map"))
    assert line.record(*words).metrics == record.metrics
    assert "no scale is needed" in line.refused(*words, "--target-scale", "1000")


def test_what_lies_outside_the_window_of_nyu_is_not_scored(geonet, line, tmp_path):
    """Rows 45 … 470 of 480 count: depths above them may be anything."""
    from scipy.io import savemat

    shown = np.linspace(0, 1, 640, dtype=np.float32)[None, :] + np.zeros((480, 1), np.float32)
    scores = []
    for beyond in (1, 9):
        folder = tmp_path / str(beyond) / "nyu_geonet"
        folder.mkdir(parents=True)
        for number in range(3):
            depth = 2 + 3 * np.roll(shown, 90 * number, axis=1)
            image = np.repeat((255 * np.roll(shown, 90 * number, axis=1))[:, :, None], 3, axis=2)
            depth[:40] = beyond
            savemat(folder / f"{number}.mat", {"img": image - 230, "depth": depth})
        scores.append(line.record("run", "depth", folder, "--n-bins", "64", *ONCE).metrics)
    assert scores[0] == scores[1]
    assert "the window of NYUv2 is defined on 480 × 640" in line.refused("run", "depth", geonet, *ONCE)


@pytest.fixture(scope="module")
def normals(geonet, line):
    return line.record("run", "surface_normal", geonet, "--normal-source", "the paper", *FIT)


def test_where_normals_come_from_is_kept(normals):
    assert "the paper" in normals.to_json()


def test_the_normals_of_the_same_frames(geonet, normals, line):
    assert normals.metrics["d1"] > 0.7
    said = line("check", geonet, "--task", "surface_normal").stdout
    assert "train 20 · val 2 images with maps of normals" in said
    assert "z positive in 100 % of them" in said


@pytest.fixture(scope="module")
def flat(files, tmp_path_factory) -> Path:
    """rooms/rgb and rooms/z, not split, a folder below; and lists of stems beside them."""
    root: Path = tmp_path_factory.mktemp("flat") / "rooms"
    for number, picture in enumerate(files.pictures({"all": 9})["all"]):
        stem = f"kitchen/{number}" if number % 2 else str(number)
        files.save(root / "rgb" / f"{stem}.png", picture)
        files.save(root / "z" / f"{stem}.npz", metres(files.shown(picture)))
    for name, numbers in (("score", range(3)), ("learn", range(3, 8))):
        stems = [f"kitchen/{number}" if number % 2 else str(number) for number in numbers]
        (root.parent / f"{name}.txt").write_text("\n".join(stems))
    (root.parent / "wrong.txt").write_text("8\n77\n")
    return root


WHERE = ("--image-dir", "rgb", "--target-dir", "z", "--n-bins", "64")


def test_lists_of_stems(flat, line):
    lists = ("--stems", flat.parent / "score.txt", "--train-stems", flat.parent / "learn.txt")
    record = line.record("run", "depth", flat, *WHERE, *lists, *ONCE)
    assert (record.counts["train"], record.dataset_size) == (5, 3)
    assert "train 5 · test 3 images" in line("check", flat, "--task", "depth", *WHERE[:4], *lists).stdout


def test_folders_that_are_not_split(flat, line):
    done = line("run", "depth", flat, *WHERE, *ONCE, "--dry-run")
    assert "a fifth, drawn by content, is scored (2 of 9 images)" in done.stderr


def test_lists_that_cannot_be(flat, line):
    words, score = ("run", "depth", flat, *WHERE, *ONCE, "--stems"), flat.parent / "score.txt"
    assert "share 3 stems" in line.refused(*words, score, "--train-stems", score)
    assert "cannot be read: No such file" in line.refused(*words, flat / "none.txt")
    wrong = line.refused(*words, score, "--train-stems", flat.parent / "wrong.txt")
    assert "no image for 1 stem of the list: 77" in wrong
    assert "nothing to score" in line.refused("run", "depth", flat, *WHERE, *ONCE, "--train-stems", score)


def test_stems_alone_are_all_there_is(flat, line):
    """With nothing said of what trains, a fifth of them is drawn and scored, and that is said."""
    done = line("run", "depth", flat, *WHERE, *ONCE, "--stems", flat.parent / "score.txt")
    assert "has no splits: a fifth, drawn by content, is scored (1 of 3 images)" in done.stderr


def test_a_limit_takes_so_many_of_every_split(files, line, tmp_path):
    pictures = files.pictures({"train": 6, "val": 5, "test": 4})
    root = files.folders(tmp_path / "streets", pictures, files.planted(strongest, pictures), "labels")
    words = ("run", "semantic_segmentation", root, "--num-classes", "3", *ONCE)
    record = line.record(*words, "--limit", "3")
    assert {role: record.counts[role] for role in ("train", "val", "test")} == dict.fromkeys(
        ("train", "val", "test"), 3
    )
    assert record.dataset_params["limit"] == 3
    assert "on 6 train, 5 val, 4 test" in line(*words, "--dry-run").stdout


def test_one_map_in_any_format_is_one_target(files, line, tmp_path):
    """Millimetres of 16 bits in a picture, metres in an array: the same depths, the same scores."""
    pictures = files.pictures({"train": 4, "test": 4})

    def millimetres(shown: np.ndarray) -> np.ndarray:
        stored = np.round(1000 * metres(shown)).astype(np.uint16)
        stored[:5, :5] = 0
        return stored

    maps = {"png": millimetres, "npy": lambda shown: (millimetres(shown) / 1000).astype(np.float32)}
    maps |= {"tiff": maps["png"], "npz": maps["npy"]}
    scores = {}
    for ending, target in maps.items():
        made = files.planted(target, pictures)
        root = files.folders(tmp_path / ending, pictures, made, "depth", ending=ending)
        scale = ("--target-scale", "1000") if target is millimetres else ()
        scores[ending] = line.record("run", "depth", root, *scale, "--n-bins", "64", *ONCE).metrics
    assert scores["tiff"] == scores["png"]
    assert scores["npz"] == scores["npy"] == pytest.approx(scores["png"], rel=1e-5)


def test_a_hole_is_neither_learnt_nor_scored(files, line, tmp_path):
    """What a hole hides changes nothing: 0 of depths, what --target-hole names of responses."""
    pictures = files.pictures({"train": 4, "test": 4})
    scores = []
    for hidden in (65535, 9):

        def target(shown: np.ndarray, hidden: int = hidden) -> np.ndarray:
            edges = np.round(1000 * shown[:, :, 1]).astype(np.uint16)
            edges[10:30, 20:40] = hidden
            return edges

        root = files.folders(tmp_path / str(hidden), pictures, files.planted(target, pictures), "edges")
        words = ("run", "edge", root, "--target-scale", "1000", "--target-hole", f"{hidden}")
        scores.append(line.record(*words, *ONCE).metrics)
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)


def test_masks_of_every_kind(files, line, tmp_path):
    """{0, 255}, {0, 1}, booleans, soft floats and grey saved as RGB are one mask; 255 is foreground, not void."""
    pictures = files.pictures({"train": 4, "test": 4})
    kinds = {
        "255": lambda shown: np.where(shown[:, :, 0] > 0.5, 255, 0).astype(np.uint8),
        "1": lambda shown: (shown[:, :, 0] > 0.5).astype(np.uint8),
        "bool": lambda shown: shown[:, :, 0] > 0.5,
        "soft": lambda shown: shown[:, :, 0],
        "rgb": lambda shown: np.where(shown[:, :, :1] > 0.5, 255, 0).repeat(3, axis=2).astype(np.uint8),
        "told": lambda shown: np.where(shown[:, :, 0] > 0.5, 7, 3).astype(np.uint8),
        "above": lambda shown: np.where(shown[:, :, 0] > 0.5, 128, 127).astype(np.uint8),
    }
    words = {"told": ("--foreground", "7"), "above": ("--foreground-above", "127")}
    scores = {}
    for kind, target in kinds.items():
        ending = "npy" if kind == "soft" else "png"
        maps = files.planted(target, pictures)
        root = files.folders(tmp_path / kind, pictures, maps, "masks", ending=ending)
        scores[kind] = line.record("run", "generic_segmentation", root, *words.get(kind, ()), *ONCE).metrics
    assert all(each == scores["255"] for each in scores.values())


def test_three_values_are_asked_about(files, line, tmp_path):
    pictures = files.pictures({"train": 3, "test": 2})

    def target(shown: np.ndarray) -> np.ndarray:
        return np.where(shown[:, :, 1] > 0.7, 255, shown[:, :, 0] > 0.5).astype(np.uint8)

    root = files.folders(tmp_path / "things", pictures, files.planted(target, pictures), "masks")
    words = ("run", "generic_segmentation", root, *ONCE)
    assert "the values 0, 1, 255, and which are foreground is not said" in line.refused(*words)
    line(*words, "--foreground", "1", "--ignore-index", "255")
    line(*words, "--foreground", "1,255")
    line("check", root, "--task", "generic_segmentation", code=1)


def test_the_way_out_of_a_refusal_works_as_written(files, line, tmp_path):
    pictures = files.pictures({"train": 3, "test": 2})

    def target(shown: np.ndarray) -> np.ndarray:
        return np.where(shown[:, :, 1] > 0.7, 2, shown[:, :, 0] > 0.5).astype(np.uint8)

    root = files.folders(tmp_path / "things", pictures, files.planted(target, pictures), "masks")
    said = line.refused("run", "generic_segmentation", root, *ONCE)
    assert "--foreground 1 2" not in said or line(
        "run", "generic_segmentation", root, "--foreground", "1", "2", *ONCE
    )


def test_swapped_channels_are_noticed(files, line, tmp_path):
    """Normals saved as BGR: the check says so, and --normal-order mends it."""
    pictures = files.pictures({"train": 4, "test": 4})

    def target(shown: np.ndarray) -> np.ndarray:
        colours = np.stack(
            [128 + 40 * shown[:, :, 0], 128 - 40 * shown[:, :, 1], np.full((48, 64), 250.0)], -1
        )
        return colours.astype(np.uint8)[:, :, ::-1]

    root = files.folders(tmp_path / "rooms", pictures, files.planted(target, pictures), "normals")
    said = line("check", root, "--task", "surface_normal").stdout
    assert "the channels seem to be swapped" in said
    assert "--normal-order zyx" in said
    mended = line("check", root, "--task", "surface_normal", "--normal-order", "zyx").stdout
    assert "swapped" not in mended


def test_jpeg_labels_and_colours_are_refused(files, segmented, line, tmp_path):
    pictures, maps = segmented
    root = files.folders(tmp_path / "streets", pictures, maps, "labels", saver=files.save_palette)
    words = ("run", "semantic_segmentation", root, "--num-classes", "3", *ONCE)
    first = root / "train" / "labels" / "000.png"
    coloured = Image.open(first).convert("RGB")
    coloured.save(first)
    assert "of 3 channels" in line.refused(*words)
    first.unlink()
    coloured.save(first.with_suffix(".jpg"))
    assert "1 map saved with loss (000.jpg)" in line.refused(*words)
