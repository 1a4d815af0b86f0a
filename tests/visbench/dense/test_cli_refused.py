"""What cannot be measured is refused in one line that says the way out; nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

FIT = ("--lr", "0.05", "--weight-decay", "1e-4", "--epochs", "1")
SPLITS = {"train": 3, "val": 1, "test": 4}


def strongest(shown: np.ndarray) -> np.ndarray:
    labels: np.ndarray = shown.argmax(axis=-1).astype(np.uint8)
    return labels


def millimetres(shown: np.ndarray) -> np.ndarray:
    return np.round(1000 * (1 + 6 * shown[:, :, 0])).astype(np.uint16)


@pytest.fixture
def streets(files, tmp_path) -> Path:
    """Label maps of three classes, new in every test so that it may be spoilt."""
    pictures = files.pictures(SPLITS)
    return files.folders(tmp_path / "streets", pictures, files.planted(strongest, pictures), "labels")


@pytest.fixture
def rooms(files, tmp_path) -> Path:
    """Depths in millimetres."""
    pictures = files.pictures(SPLITS)
    return files.folders(tmp_path / "rooms", pictures, files.planted(millimetres, pictures), "depth")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "how many classes the label maps have is to be told"),
        (("--num-classes", "2"), "holds the labels 0, 1, 2, but 2 classes end at 1"),
        (("--num-classes", "3", "--head", "linaer"), 'Did you mean "linear"?'),
        (("--num-classes", "3", "--layers", "2,5"), "linear reads at most 1 layer and got 2"),
        (("--num-classes", "3", "--layers", "9"), "fine has no layer 9; its 2 layers are 0 … 1"),
        (("--num-classes", "3", "--head", "dpt"), "dpt reads at least 2 layers and got 1"),
        (("--num-classes", "3", "--pooling", "cls"), "no such option '--pooling'"),
        (("--num-classes", "3", "--shots", "2"), "no such option '--shots'"),
        (("--num-classes", "3", "--target-scale", "2"), "no such option '--target-scale'"),
        (("--num-classes", "3", "--hidden-dim", "8"), "linear has no setting hidden_dim"),
        (("--num-classes", "3", "--lr", "-1"), "learning_rate is -1.0"),
        (("--num-classes", "3", "--voc"), "is no VOC devkit"),
        (("--num-classes", "3", "--split", "train"), "trained and scored on the same 3 images"),
        (("--num-classes", "3", "--target-dir", "maps"), "has no folder maps (its folders: images, labels)"),
    ],
)
def test_what_is_asked(words, said, streets, line):
    assert said in line.refused("run", "semantic_segmentation", streets, *FIT, *words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--shots", "2"), "no such option '--shots'"),
        (("--grid", "tap=cls,mean"), '"tap" is no axis of a dense probe'),
        (("--grid", "layer=8,9"), "fine has no layer 8"),
        (("--grid", "head=linear,nope"), 'there is no head "nope"'),
        (("--grid", "lr=0.1,0.2"), "learning_rate is given twice"),
    ],
)
def test_what_a_sweep_is_asked(words, said, streets, line):
    assert said in line.refused("sweep", "semantic_segmentation", streets, "--num-classes", "3", *FIT, *words)


@pytest.mark.parametrize("command", ["run", "sweep", "probe", "check"])
def test_a_task_that_is_not_there(command, rooms, line):
    words = ("check", rooms, "--task", "depht") if command == "check" else (command, "depht", rooms)
    assert 'there is no task "depht". Did you mean "depth"?' in line.refused(*words)


def test_a_unit_that_is_not_told(rooms, line):
    said = line.refused("run", "depth", rooms, *FIT)
    assert "holds 16-bit integers (min 1" in said
    assert "median" in said
    assert "max" in said
    assert "--target-scale 1000 if they are millimetres" in said
    assert "there is no" in line.refused("run", "depth", rooms / "none", *FIT)


def test_half_a_pair(rooms, line):
    words, check = (
        ("run", "depth", rooms, "--target-scale", "1000", *FIT),
        ("check", rooms, "--task", "depth"),
    )
    (rooms / "test" / "depth" / "001.png").unlink()
    assert "1 image without a map (001)" in line.refused(*words)
    assert "1 image without a map (001)" in line.refused(*check)
    (rooms / "test" / "images" / "001.png").unlink()
    (rooms / "train" / "images" / "000.png").unlink()
    assert "1 map without an image (000)" in line.refused(*words)
    assert "1 map without an image (000)" in line.refused(*check)


def test_two_images_of_one_stem(streets, line):
    Image.open(streets / "train" / "images" / "001.png").save(streets / "train" / "images" / "001.jpg")
    said = line.refused("run", "semantic_segmentation", streets, "--num-classes", "3", *FIT)
    assert "001.jpg and 001.png, two files of one stem" in said


@pytest.mark.parametrize("shape", [(48, 48), (24, 32)])
def test_a_map_of_another_size(shape, streets, files, line):
    files.save(streets / "test" / "labels" / "001.png", np.zeros(shape, np.uint8))
    words = ("semantic_segmentation", streets, "--num-classes", "3")
    said = f"test/labels/001.png is {shape[1]}×{shape[0]} and test/images/001.png 64×48"
    assert said in line.refused("run", *words, *FIT)
    assert said in line("check", streets, "--task", words[0], *words[2:], code=1).stdout


def turn(path: Path, orientation: int) -> None:
    """State an EXIF orientation, the pixels left as they are."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.open(path).copy().save(path, exif=exif)


@pytest.mark.parametrize(
    ("orientation", "said"),
    [
        (
            6,
            "streets/labels/001.png is 64×48 and train/images/001.png 48×64, turned by its EXIF orientation 6",
        ),
        (3, "turned by its EXIF orientation 3: whether the map was turned with it cannot be told"),
    ],
)
def test_an_image_that_is_turned_alone(orientation, said, streets, line, tmp_path):
    turn(streets / "train" / "images" / "001.png", orientation)
    words = ("semantic_segmentation", streets, "--num-classes", "3")
    said = said.replace("streets/", "train/")
    assert said in line.refused("run", *words, *FIT, "--store", tmp_path / "store")
    assert said in line("check", streets, "--task", words[0], *words[2:], code=1).stdout


@pytest.mark.parametrize("spoil", ["turned", "resized"])
def test_an_image_that_is_turned_or_resized_after_its_map_was_stored(spoil, streets, line):
    words = ("run", "semantic_segmentation", streets, "--num-classes", "3", *FIT)
    line(*words)
    path = streets / "train" / "images" / "001.png"
    if spoil == "turned":
        turn(path, 6)
    else:
        Image.open(path).resize((48, 64)).save(path)
    line.refused(*words)


def test_image_and_map_that_are_turned_alike(streets, line):
    for folder in ("images", "labels"):
        turn(streets / "train" / folder / "001.png", 6)
    line("run", "semantic_segmentation", streets, "--num-classes", "3", *FIT)


def blank(folder: Path, void: Callable[[], np.ndarray]) -> None:
    for path in folder.iterdir():
        Image.fromarray(void()).save(path)


VOID = {
    "semantic_segmentation": (("--num-classes", "3"), "labels", lambda: np.full((48, 64), 255, np.uint8)),
    "depth": (("--target-scale", "1000", "--n-bins", "64"), "depth", lambda: np.zeros((48, 64), np.uint16)),
}


@pytest.fixture(params=VOID)
def spoilt(request, streets, rooms):
    words, folder, void = VOID[request.param]
    root = streets if folder == "labels" else rooms
    return root, lambda split: blank(root / split / folder, void), (request.param, root, *words)


def test_maps_that_are_all_void_in_the_scored_split(spoilt, line):
    root, blanked, words = spoilt
    blanked("test")
    assert "has a pixel that says something, so there is nothing to score" in line.refused(
        "run", *words, *FIT
    )
    said = line("check", root, "--task", words[0], *words[2:], code=1).stdout
    assert "no map of test has a valid pixel" in said


def test_maps_that_are_all_void_in_training(spoilt, line):
    root, blanked, words = spoilt
    blanked("train")
    blanked("val")
    said = line("check", root, "--task", words[0], *words[2:], code=1).stdout
    assert "no map of train has a valid pixel" in said
    line.refused("run", *words, *FIT)


def test_a_map_that_cannot_be_read(streets, line):
    (streets / "train" / "labels" / "001.png").write_bytes(b"nothing")
    words = ("run", "semantic_segmentation", streets, "--num-classes", "3", *FIT)
    assert "train/labels/001.png cannot be read" in line.refused(*words)
    assert "train/labels/001.png cannot be read" in line.refused(*words, "--on-bad", "skip")


def test_an_image_that_cannot_be_read_may_be_left_out(streets, line):
    """With its map: the others keep theirs."""
    (streets / "train" / "images" / "001.png").write_bytes(b"nothing")
    words = ("run", "semantic_segmentation", streets, "--num-classes", "3", *FIT)
    assert "leave such images out with --on-bad skip" in line.refused(*words)
    record = line.record(*words, "--on-bad", "skip")
    assert record.counts["train"] == 2
    assert list(record.unreadable) == ["train/images/001.png"]


def test_maps_that_could_be_either(streets, line):
    (streets / "train" / "labels").rename(streets / "train" / "masks")
    assert "one name for all splits" in line.refused(
        "run", "semantic_segmentation", streets, "--num-classes", "3", *FIT
    )


def test_a_head_that_diverges(rooms, line):
    words = ("run", "depth", rooms, "--target-scale", "1000", "--n-bins", "64", "--weight-decay", "0")
    done = line(*words, "--lr", "1e6", "--epochs", "20")
    assert "--lr" in done.stderr


def test_options_of_tables_are_not_taken(streets, line):
    line.refused("run", "semantic_segmentation", streets, "--num-classes", "3", *FIT, "--label-column", "x")


def test_depths_beyond_the_default_are_not_scored(files, line, tmp_path):
    """As --max-depth says of itself: metres; beyond is not scored; 10 by default."""
    pictures = files.pictures({"train": 3, "test": 2})
    maps = files.planted(lambda shown: 3 + 14 * shown[:, :, 0], pictures)
    root = files.folders(tmp_path / "halls", pictures, maps, "depth", ending="tiff")
    words = ("run", "depth", root, "--n-bins", "64", *FIT)
    assert line.record(*words).metrics == line.record(*words, "--max-depth", "10").metrics


def test_a_picture_that_also_trains_is_counted_and_left_out_of_a_second_score(streets, line):
    for folder in ("images", "labels"):
        (source,) = (streets / "train" / folder).glob("001.*")
        (aim,) = (streets / "test" / folder).glob("000.*")
        aim.write_bytes(source.read_bytes())
    record = line.record("run", "semantic_segmentation", streets, "--num-classes", "3", *FIT)
    assert record.context["duplicates"] == 1
    assert record.context["miou_without_duplicates"] != record.metrics["miou"]
