"""A VOC devkit made by hand: palette maps read raw, split lists, and what is missing from one."""

import numpy as np
import pytest

from extract.datasets.voc import CLASSES, find_devkit, open_voc
from extract.errors import InputError
from extract.maps.readers import LabelReader

READER = LabelReader(num_classes=21)


@pytest.fixture
def devkit(tmp_path, save, photo):
    """Five images, of which the last is in no list and has no map."""
    year = tmp_path / "VOCdevkit" / "VOC2012"
    for i in range(5):
        save(year / f"JPEGImages/2007_{i:06}.jpg", photo(i))
    for i in range(4):
        save(year / f"SegmentationClass/2007_{i:06}.png", np.full((6, 8), i + 1), palette=True)
    for split, rows in (("train", (2, 0)), ("val", (3, 1)), ("trainval", (2, 0, 3, 1)), ("test", (4,))):
        listing = year / f"ImageSets/Segmentation/{split}.txt"
        listing.parent.mkdir(parents=True, exist_ok=True)
        listing.write_text("".join(f"2007_{i:06}\n" for i in rows))
    return year


def test_the_lists_choose_and_palettes_are_read_raw(devkit, save):
    raw = np.zeros((6, 8), int)
    raw[0, :4] = 0, 1, 15, 255
    save(devkit / "SegmentationClass/2007_000002.png", raw, palette=True)
    splits = open_voc(devkit, reader=READER)
    assert {split: each.names for split, each in splits.items()} == {
        "train": ("JPEGImages/2007_000002.jpg", "JPEGImages/2007_000000.jpg"),
        "val": ("JPEGImages/2007_000003.jpg", "JPEGImages/2007_000001.jpg"),
    }  # fmt: skip
    assert splits.name == "VOC2012"
    assert splits["train"].targets.classes == CLASSES
    assert len(CLASSES) == 21
    assert (splits["train"].targets.read(0) == raw).all()
    assert (splits["val"].targets.read(0) == 4).all()
    assert splits["val"].targets.params == {"layout": "voc", "target_dir": "SegmentationClass"}


def test_the_devkit_is_found_from_above(devkit):
    names = open_voc(devkit, reader=READER)["train"].names
    for root in (devkit.parent, devkit.parent.parent):
        assert find_devkit(root) == devkit
        assert open_voc(root, reader=READER)["train"].names == names
    (devkit.parent / "VOC2007/ImageSets/Segmentation").mkdir(parents=True)
    with pytest.raises(InputError, match="several years of VOC: VOC2007, VOC2012"):
        open_voc(devkit.parent, reader=READER)


def test_a_test_list_counts_where_its_maps_are_there(devkit, save):
    save(devkit / "SegmentationClass/2007_000004.png", np.zeros((6, 8)), palette=True)
    assert open_voc(devkit, reader=READER)["test"].names == ("JPEGImages/2007_000004.jpg",)


def test_trainval_where_nothing_else_is_listed(devkit):
    lists = devkit / "ImageSets/Segmentation"
    (lists / "train.txt").unlink()
    with pytest.raises(InputError, match="lists trainval and val but not train"):
        open_voc(devkit, reader=READER)
    (lists / "val.txt").unlink()
    assert len(open_voc(devkit, reader=READER)["train"]) == 4
    (lists / "trainval.txt").unlink()
    (lists / "test.txt").unlink()
    with pytest.raises(InputError, match=r"neither train\.txt nor val\.txt"):
        open_voc(devkit, reader=READER)


def test_what_is_missing_is_named(devkit, tmp_path):
    (devkit / "SegmentationClass/2007_000003.png").unlink()
    with pytest.raises(InputError, match="SegmentationClass has no map for 1 stem of the list: 2007_000003"):
        open_voc(devkit, reader=READER)
    with pytest.raises(InputError, match="no SegmentationClassAug, where a VOC devkit keeps the maps"):
        open_voc(devkit, reader=READER, target_dir="SegmentationClassAug")
    with pytest.raises(InputError, match="is no VOC devkit"):
        open_voc(tmp_path / "nothing", reader=READER)
    with pytest.raises(InputError, match=r"21 class.* 20 were asked for"):
        open_voc(devkit, reader=LabelReader(num_classes=20))


def test_an_image_in_two_lists_is_refused(devkit):
    listing = devkit / "ImageSets/Segmentation/val.txt"
    listing.write_text(listing.read_text() + "2007_000000\n")
    with pytest.raises(InputError, match="train and val share 1 stem: 2007_000000"):
        open_voc(devkit, reader=READER)
