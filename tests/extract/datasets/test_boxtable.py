"""Tables with a row a box: deepforest's columns and others, images without objects, splits."""

import numpy as np
import pytest

from extract.datasets.boxes import open_boxes
from extract.datasets.boxtable import has_boxes
from extract.datasets.objects import IGNORED, PLAIN
from extract.errors import InputError

HEADER = "image_path,xmin,ymin,xmax,ymax,label\n"


@pytest.fixture
def table(tmp_path, save, photo):
    """`table(text)`: a CSV file beside four images."""
    for i in range(4):
        save(tmp_path / f"plots/{i}.png", photo(i))

    def write(text, name="trees.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_rows_of_one_image_belong_together(table):
    path = table(
        HEADER
        + "plots/2.png,1,2,4,5.5,Tree\nplots/0.png,0,0,8,6,Dead\nplots/2.png,3,3,4,4,Dead\nplots/1.png,,,,,\n"
        "plots/3.png,0,0,0,0,Tree\n"
    )
    splits = open_boxes(path)
    assert splits.name == "trees"
    found = splits["all"]
    assert found.names == ("plots/2.png", "plots/0.png", "plots/1.png", "plots/3.png")
    assert found.objects.classes == ("Dead", "Tree")
    assert found.objects.marks[0].boxes.tolist() == [[1, 2, 4, 5.5], [3, 3, 4, 4]]
    assert found.objects.marks[0].labels.tolist() == [1, 0]
    assert [len(each) for each in found.objects.marks] == [2, 1, 0, 0]
    assert found.objects.names[0] == "plots/2.png in trees.csv"
    assert found.sources[0] == path.parent / "plots/2.png"


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        ("label,ymax,xmax,ymin,xmin,image", "a,5,4,2,1,plots/0.png"),
        ("filename,width,height,class,xmin,ymin,xmax,ymax", "plots/0.png,8,6,a,1,2,4,5"),
        ("path,x0,y0,x1,y1,label", "plots/0.png,1,2,4,5,a"),
        ("path,x1,y1,x2,y2,label", "plots/0.png,1,2,4,5,a"),
        ("path,xmin,ymin,width,height,label", "plots/0.png,1,2,3,3,a"),
        ("path\tLeft\tTop\tWidth\tHeight\tlabel", "plots/0.png\t1\t2\t3\t3\ta"),
    ],
)
def test_columns_by_other_names(table, header, cells):
    marks = open_boxes(table(f"{header}\n{cells}\n"))["all"].objects.marks[0]
    assert marks.boxes.tolist() == [[1, 2, 4, 5]]
    assert marks.size == ((6, 8) if "filename" in header else None)


def test_splits_share_their_classes(table):
    header = HEADER.replace("label", "label,split")
    rows = "plots/0.png,1,1,2,2,a,train\nplots/1.png,1,1,2,2,b,test\nplots/0.png,2,1,4,4,b,train\n"
    rows += "plots/2.png,,,,,,valid\n"
    splits = open_boxes(table(header + rows))
    assert {split: each.names for split, each in splits.items()} == {
        "train": ("plots/0.png",),
        "val": ("plots/2.png",),
        "test": ("plots/1.png",),
    }
    assert {each.objects.classes for each in splits.values()} == {("a", "b")}
    assert splits["test"].objects.marks[0].labels.tolist() == [1]
    with pytest.raises(InputError, match=r"has plots/0\.png in train and in test"):
        open_boxes(table(header + rows + "plots/0.png,1,1,2,2,a,test\n"))


def test_difficult_objects_and_one_class(table):
    path = table("image,xmin,ymin,xmax,ymax,difficult\nplots/0.png,1,1,2,2,1\nplots/0.png,1,1,3,3,0\n")
    found = open_boxes(path)["all"].objects
    assert found.classes == ("object",)
    assert found.marks[0].flags.tolist() == [IGNORED, PLAIN]
    assert open_boxes(path, include_difficult=True)["all"].objects.marks[0].flags.tolist() == [PLAIN, PLAIN]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (HEADER, "has no rows"),
        (HEADER + "plots/0.png,,,,,\n", "has no box"),
        (HEADER + "plots/0.png,1,1,2,,a\n", "row 1 has a box of which a side is missing"),
        (HEADER + "plots/0.png,1,1,2,x,a\n", "row 1, column ymax holds 'x'"),
        (HEADER + "plots/0.png,1,1,2,2,\n", "row 1 has a box without a class"),
        (HEADER + "plots/0.png,5,1,2,2,a\n", r"plots/0\.png, object 1: a box from \(5, 1\) to \(2, 2\)"),
        (HEADER + "plots/9.png,1,1,2,2,a\n", r"row 1, column image_path names 'plots/9\.png'"),
        ("image,x,y,width,height\nplots/0.png,1,1,2,2\n", "x and y may be a corner or the middle"),
        ("xmin,ymin,xmax,ymax\n1,1,2,2\n", "none is called image_path"),
        (
            "image,xmin,ymin,xmax,ymax,width,height\nplots/0.png,1,1,2,2,8,6\nplots/0.png,1,1,2,2,9,6\n",
            "has several sizes: 8×6 and 9×6",
        ),
        ("image,xmin,ymin,xmax,ymax,difficult\nplots/0.png,1,1,2,2,so\n", "'so' in its column difficult"),
        ("image,x0,y0,x1,y1,x2,y2\nplots/0.png,1,1,2,2,2,2\n", "has boxes twice"),
        (
            HEADER.replace("label", "lable") + "plots/0.png,1,1,2,2,a\n",
            "column 'lable' and none called label",
        ),
        (
            HEADER.replace("label", "class_id") + "plots/0.png,1,1,2,2,4\n",
            "column 'class_id' and none called la",
        ),
        (HEADER.strip() + ",splt\nplots/0.png,1,1,2,2,a,train\n", "column 'splt' and none called split"),
        (HEADER + "plots/0.png,0.1,0.1,0.5,0.5,a\n", "seem to be in shares of the image"),
    ],
)
def test_what_cannot_be_meant_is_refused(table, text, complaint):
    with pytest.raises(InputError, match=complaint):
        open_boxes(table(text))


def test_parquet(table, tmp_path):
    pandas = pytest.importorskip("pandas")
    path = table(HEADER + "plots/0.png,1,2,4,5,a\nplots/1.png,,,,,\nplots/0.png,1,2,3,3,b\n")
    pandas.read_csv(path).to_parquet(tmp_path / "trees.parquet")
    one, two = (open_boxes(tmp_path / f"trees.{each}")["all"].objects for each in ("csv", "parquet"))
    assert one.classes == two.classes
    assert [each.digest for each in one.marks] == [each.digest for each in two.marks]


def test_has_boxes():
    assert has_boxes(("image_path", "XMin", "ymin", "xmax", "ymax"))
    assert not has_boxes(("path", "label", "xmin"))


def test_many_rows_are_grouped_as_one_by_one(table):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 4, 200)
    boxes = np.sort(rng.uniform(0, 6, (200, 2, 2)), axis=1).reshape(-1, 4)
    text = "".join(
        f"plots/{i}.png,{','.join(map(repr, box))},{i % 2}\n"
        for i, box in zip(images.tolist(), boxes.tolist(), strict=True)
    )
    found = open_boxes(table(HEADER + text))["all"]
    for name, marks in zip(found.names, found.objects.marks, strict=True):
        own = images == int(name[6])
        assert (marks.boxes == boxes[own]).all()
        assert (marks.labels == int(name[6]) % 2).all()
