"""Boxes and outlines of a VOC devkit made by hand, and of images with XML files beside them."""

import numpy as np
import pytest

from extract.datasets.boxes import open_boxes
from extract.datasets.objects import IGNORED, PLAIN
from extract.datasets.vocboxes import CLASSES
from extract.errors import InputError


def one(name, box, difficult=0, more=""):
    corners = "".join(
        f"<{key}>{value}</{key}>" for key, value in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)
    )
    said = f"<difficult>{difficult}</difficult>" if difficult is not None else ""
    return f"<object><name>{name}</name>{said}{more}<bndbox>{corners}</bndbox></object>"


def write(path, *objects, size=(8, 6), head=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    sized = f"<size><width>{size[0]}</width><height>{size[1]}</height><depth>3</depth></size>" if size else ""
    path.write_text(f"{head}<annotation>{sized}{''.join(objects)}</annotation>")
    return path


@pytest.fixture
def devkit(tmp_path, save, photo):
    year = tmp_path / "VOCdevkit" / "VOC2007"
    for i in range(5):
        save(year / f"JPEGImages/{i:06}.jpg", photo(i))
    write(year / "Annotations/000000.xml", one("dog", (1, 1, 8, 6)), one("cat", (3, 2, 5, 4), 1))
    write(year / "Annotations/000001.xml", one("person", (1, 2, 1, 2), None))
    write(year / "Annotations/000002.xml")
    write(year / "Annotations/000003.xml", one("cat", (1.5, 1, "4.25", 3)), size=(0, 0))
    lists = year / "ImageSets/Main"
    lists.mkdir(parents=True)
    for split, rows in (("train", (0, 2)), ("val", (3, 1)), ("trainval", (0, 2, 3, 1)), ("test", (4,))):
        (lists / f"{split}.txt").write_text("".join(f"{i:06}\n" for i in rows))
    return year


def test_pixels_from_one_become_edges(devkit):
    splits = open_boxes(devkit)
    assert {split: each.names for split, each in splits.items()} == {
        "train": ("JPEGImages/000000.jpg", "JPEGImages/000002.jpg"),
        "val": ("JPEGImages/000003.jpg", "JPEGImages/000001.jpg"),
    }
    train, val = splits["train"].objects, splits["val"].objects
    assert train.marks[0].boxes.tolist() == [[0, 0, 8, 6], [2, 1, 5, 4]]  # the first is the whole image
    assert train.marks[0].flags.tolist() == [PLAIN, IGNORED]
    assert train.marks[0].size == (6, 8)
    assert len(train.marks[1]) == 0
    assert val.marks[0].boxes.tolist() == [[0.5, 0, 4.25, 3]]
    assert val.marks[0].size is None  # 0 × 0 is no size
    assert val.marks[1].boxes.tolist() == [[0, 1, 1, 2]]  # one pixel
    assert train.names[0] == "Annotations/000000.xml"
    assert (splits.name, splits["train"].labels, splits["train"].classes) == ("VOC2007", None, ())
    assert splits.ignored == {}


def test_classes_are_those_of_voc_or_by_name(devkit):
    assert open_boxes(devkit)["train"].objects.classes == CLASSES
    assert len(CLASSES) == 20
    found = open_boxes(devkit)["val"].objects
    assert [CLASSES[each.labels[0]] for each in found.marks] == ["cat", "person"]
    write(devkit / "Annotations/000003.xml", one("zebra", (1, 1, 4, 3)))
    splits = open_boxes(devkit)
    assert (
        splits["train"].objects.classes == splits["val"].objects.classes == ("cat", "dog", "person", "zebra")
    )
    assert splits["train"].objects.marks[0].labels.tolist() == [1, 0]


def test_what_is_scored_can_be_chosen(devkit):
    train = open_boxes(devkit, include_difficult=True)["train"].objects
    assert train.marks[0].flags.tolist() == [PLAIN, PLAIN]
    assert train.reader.describe() == {"kind": "boxes", "min_box_size": 0.0, "include_difficult": True}
    small = open_boxes(devkit, min_box_size=3.5, include_difficult=True)["train"].objects
    assert small.marks[0].flags.tolist() == [PLAIN, IGNORED]
    with pytest.raises(InputError, match="min_box_size is -1"):
        open_boxes(devkit, min_box_size=-1)


def test_the_devkit_is_found_from_above_and_years_are_told_apart(devkit):
    assert open_boxes(devkit.parent.parent)["train"].names == open_boxes(devkit)["train"].names
    (devkit.parent / "VOC2012/ImageSets/Main").mkdir(parents=True)
    with pytest.raises(InputError, match="several years of VOC: VOC2007, VOC2012"):
        open_boxes(devkit.parent)


def test_what_is_missing_from_a_devkit_is_named(devkit):
    listing = devkit / "ImageSets/Main/val.txt"
    listing.write_text("000001\n000009\n")
    with pytest.raises(InputError, match=r"JPEGImages has no image for 1 stem of the lists .* 000009"):
        open_boxes(devkit)
    listing.write_text("000001\n000000\n")
    with pytest.raises(InputError, match="train and val share 1 stem"):
        open_boxes(devkit)
    listing.write_text("000004\n")
    (devkit / "ImageSets/Main/test.txt").unlink()
    with pytest.raises(InputError, match=r"Annotations has no XML file for 1 stem .* 000004"):
        open_boxes(devkit)
    (devkit / "Annotations").rename(devkit / "Labels")
    with pytest.raises(InputError, match="VOC2007 has no Annotations"):
        open_boxes(devkit)
    listing.write_text("000001\n")
    assert len(open_boxes(devkit, annotations="Labels")["val"]) == 1


def test_a_test_list_counts_where_it_has_objects(devkit):
    write(devkit / "Annotations/000004.xml", one("dog", (1, 1, 2, 2)))
    assert open_boxes(devkit)["test"].names == ("JPEGImages/000004.jpg",)


@pytest.mark.parametrize("layout", ["JPEGImages", "images", ""])
def test_images_and_xml_files_side_by_side(tmp_path, save, photo, layout):
    root = tmp_path / "cells"
    for i in range(3):
        save(root / layout / f"{i}.png", photo(i))
        write(root / ("Annotations" if layout else "") / f"{i}.xml", one("RBC", (1, 1, 4, 4)))
    splits = open_boxes(root)
    assert list(splits) == ["all"]
    assert splits.name == "cells"
    found = splits["all"]
    assert found.names == tuple(f"{layout}/{i}.png".lstrip("/") for i in range(3))
    assert found.split is None
    assert found.objects.classes == ("RBC",)
    save(root / layout / "left.png", photo(4))
    with pytest.raises(InputError, match=r"has 1 image without an XML file \(left\)"):
        open_boxes(root)
    write(root / ("Annotations" if layout else "") / "right.xml")
    with pytest.raises(InputError, match=r"and 1 XML file without an image \(right\)"):
        open_boxes(root)


def test_split_folders_with_xml_files(tmp_path, save, photo):
    for split, name in (("train", "a"), ("valid", "b"), ("test", "c")):
        save(tmp_path / split / f"{name}.jpg", photo(0))
        write(tmp_path / split / f"{name}.xml", one(f"class {name}", (1, 1, 4, 4)))
    splits = open_boxes(tmp_path, name="mine")
    assert {split: each.names for split, each in splits.items()} == {
        "train": ("train/a.jpg",),
        "val": ("valid/b.jpg",),
        "test": ("test/c.jpg",),
    }
    assert splits["test"].objects.classes == ("class a", "class b", "class c")
    assert splits["val"].objects.marks[0].labels.tolist() == [1]


def test_parts_of_an_object_are_no_objects(devkit):
    part = "<part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></part>"
    write(devkit / "Annotations/000000.xml", one("person", (1, 1, 8, 6), 0, part))
    marks = open_boxes(devkit)["train"].objects.marks[0]
    assert marks.boxes.tolist() == [[0, 0, 8, 6]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<annotation><object>", "is no XML"),
        ("", "is no XML"),
        ("<root/>", "it holds <root>"),
        ("<annotation><object><bndbox/></object></annotation>", "object 1 has no <name>"),
        ("<annotation><object><name>cat</name></object></annotation>", r"object 1 \(cat\) has no <bndbox>"),
        (f"<annotation>{one('cat', (1, 1, 'x', 2))}</annotation>", "xmax is 'x', not a number"),
        (
            f"<annotation>{one('cat', (5, 1, 3, 2))}</annotation>",
            r"object 1: a box from \(4, 0\) to \(3, 2\)",
        ),
        (f"<annotation>{one('cat', (1, 1, 'nan', 2))}</annotation>", "object 1: a box from"),
        (f"<annotation>{one('cat', (1, 1, 3, 2), 'perhaps')}</annotation>", "difficult is 'perhaps'"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><annotation>&b;</annotation>", "begins with a document type"),
    ],
)
def test_a_faulty_file_is_named(devkit, text, said):
    (devkit / "Annotations/000000.xml").write_text(text)
    with pytest.raises(InputError, match=rf"000000\.xml.*{said}"):
        open_boxes(devkit)


def test_a_document_type_is_refused_in_any_encoding(devkit):
    bomb = "<?xml version='1.0' encoding='UTF-16'?><!DOCTYPE a [<!ENTITY b 'c'>]><annotation>&b;</annotation>"
    (devkit / "Annotations/000000.xml").write_bytes(bomb.encode("utf-16"))
    with pytest.raises(InputError, match="begins with a document type"):
        open_boxes(devkit)


@pytest.fixture
def outlined(devkit, save):
    """Two objects of the first image: a dog that is outlined, and a difficult cat; of the second there is none."""
    numbers, kinds = np.zeros((6, 8), np.uint8), np.zeros((6, 8), np.uint8)
    numbers[0:4, 0:3], kinds[0:4, 0:3] = 1, 1 + CLASSES.index("dog")
    kinds[0, 0] = 1 + CLASSES.index("cat")
    numbers[2:6, 5:8], kinds[2:6, 5:8] = 2, 1 + CLASSES.index("cat")
    numbers[:, 4] = kinds[:, 4] = 255
    for i in range(2):
        save(devkit / f"SegmentationObject/00000{i}.png", numbers if i == 0 else 0 * numbers, palette=True)
        save(devkit / f"SegmentationClass/00000{i}.png", kinds if i == 0 else 0 * kinds, palette=True)
    lists = devkit / "ImageSets/Segmentation"
    lists.mkdir()
    (lists / "train.txt").write_text("000000\n")
    (lists / "val.txt").write_text("000001\n")
    write(devkit / "Annotations/000000.xml", one("cat", (6, 3, 8, 6), 1), one("dog", (1, 1, 3, 5)))
    write(devkit / "Annotations/000001.xml", one("cow", (2, 1, 4, 3)))
    return devkit


def test_outlines_are_numbered_in_the_picture(outlined):
    splits = open_boxes(outlined, instances=True)
    found = splits["train"].objects
    marks = found.marks[0]
    assert [CLASSES[each] for each in marks.labels] == ["dog", "cat"]
    assert marks.boxes.tolist() == [[0, 0, 3, 4], [5, 2, 8, 6]]
    assert marks.flags.tolist() == [PLAIN, IGNORED]  # the XML file lists them the other way round
    masks = marks.masks()
    assert masks.shape == (2, 6, 8)
    assert masks.sum(axis=(1, 2)).tolist() == [12, 12]
    assert masks[0, 0, 0]
    assert found.reader.describe()["kind"] == "instances"
    assert found.names == ("SegmentationObject/000000.png",)
    bare = splits["val"].objects.marks[0]  # in the XML file only
    assert bare.flags.tolist() == [IGNORED]
    assert np.argwhere(bare.masks()[0]).tolist() == [[y, x] for y in range(3) for x in range(1, 4)]


def test_another_outline_is_another_digest(outlined, save):
    before = open_boxes(outlined, instances=True)["train"].objects.marks[0]
    numbers = np.zeros((6, 8), np.uint8)
    numbers[0:4, 0:3], numbers[2:6, 5:8] = 1, 2
    numbers[1, 1] = 0
    save(outlined / "SegmentationObject/000000.png", numbers, palette=True)
    after = open_boxes(outlined, instances=True)["train"].objects.marks[0]
    assert (before.boxes == after.boxes).all()
    assert before.digest != after.digest


def test_outlines_that_do_not_fit_are_refused(outlined, save, tmp_path):
    save(outlined / "SegmentationClass/000000.png", np.zeros((6, 8)), palette=True)
    with pytest.raises(InputError, match="object 1 lies where SegmentationClass has no class"):
        open_boxes(outlined, instances=True)
    save(outlined / "SegmentationClass/000000.png", np.zeros((5, 8)), palette=True)
    with pytest.raises(InputError, match="they have to be of one size"):
        open_boxes(outlined, instances=True)
    for path in ("ImageSets/Main", "Annotations", "SegmentationClass"):
        (outlined / path).rename(tmp_path / path.rpartition("/")[2])
    with pytest.raises(InputError, match="has boxes but no outlines"):
        open_boxes(outlined, instances=True)
