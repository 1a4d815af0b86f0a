"""Boxes of YOLO: shares of the image, the layouts of its folders, and what is refused."""

import pytest

from extract.datasets.boxes import open_boxes
from extract.errors import InputError

LAYOUTS = {
    "split below": ("images/{}", "labels/{}", "val"),
    "split above": ("{}/images", "{}/labels", "valid"),
}


@pytest.fixture
def write(tmp_path, save, photo):
    """`write(path, text)` writes a file below the root, or an image where the text is None; it gives the root."""

    def put(path, text=None, **more):
        place = tmp_path / "yolo" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            save(place, photo(0, 40, 80), **more)
        else:
            place.write_text(text)
        return tmp_path / "yolo"

    return put


@pytest.mark.parametrize("layout", LAYOUTS)
def test_splits_and_boxes(write, layout):
    images, labels, val = LAYOUTS[layout]
    write("data.yaml", "path: .\ntrain: images/train\nnc: 2\nnames:\n  0: cat\n  1: dog\n")
    write(f"{labels.format('train')}/a.txt", "1 0.5 0.5 0.25 0.5\n0 0.25 0.25 0.5 0.5\n")
    write(f"{labels.format(val)}/c.txt", "")
    for path in (f"{images.format('train')}/a.jpg", f"{images.format('train')}/b.jpg"):
        write(path)
    splits = open_boxes(write(f"{images.format(val)}/c.jpg"))
    assert list(splits) == ["train", "val"]
    train = splits["train"]
    assert train.names == tuple(f"{images.format('train')}/{each}.jpg" for each in "ab")
    assert train.objects.classes == splits["val"].objects.classes == ("cat", "dog")
    marks = train.objects.marks[0]
    assert marks.boxes.tolist() == [[30, 10, 50, 30], [0, 0, 40, 20]]
    assert marks.labels.tolist() == [1, 0]
    assert marks.size == (40, 80)
    assert [len(each) for each in (*train.objects.marks, *splits["val"].objects.marks)] == [2, 0, 0]


def test_shares_are_of_the_upright_image(write):
    write("data.yml", "names: [cat]\n")
    write("labels/a.txt", "0 0.5 0.5 0.5 0.5\n")
    write("labels/classes.txt", "cat\n")
    found = open_boxes(write("images/a.jpg", exif=6))["all"].objects
    assert found.marks[0].size == (80, 40)
    assert found.marks[0].boxes.tolist() == [[10, 20, 30, 60]]


def test_a_box_is_drawn_around_an_outline(write):
    write("data.yaml", "names: [cat]\n")
    write("labels/a.txt", "0 0.5 0.25 0.75 0.5 0.25 1\n")
    assert open_boxes(write("images/a.jpg"))["all"].objects.marks[0].boxes.tolist() == [[20, 10, 60, 40]]


@pytest.mark.parametrize(
    ("path", "text", "complaint"),
    [
        ("labels/a.txt", "0 0.5 0.5 0.5", "object 1 has 4 numbers"),
        ("labels/a.txt", "0 0.5 0.5 0.5 0.5 0.9", "object 1 has 6 numbers"),
        ("labels/a.txt", "cat 0.5 0.5 0.5 0.5", "something else than numbers"),
        ("labels/a.txt", "1 0.5 0.5 0.5 0.5", r"is of class 1; data\.yaml names 0 … 0"),
        ("labels/a.txt", "0 20 10 40 20", r"numbers outside 0 … 1"),
        ("labels/a.txt", "0 nan 0.5 0.5 0.5", r"numbers outside 0 … 1"),
        ("labels/a.txt", "", "mark no object"),
        ("labels/b.txt", "0 0.5 0.5 0.5 0.5", r"1 text file without an image \(b\)"),
        ("data.yaml", "names: [cat, cat]", "calls two classes 'cat'"),
        ("data.yaml", "nc: 3", "has no `names`"),
        ("data.yaml", "names: [", "cannot be read"),
        ("data.yaml", "names: {0: cat, b: dog}", "has no `names`"),
        ("data.yaml", "names: [null]", "calls class 0 None, which is no name"),
        ("data.yaml", "names: [[cat]]", r"calls class 0 \['cat'\], which is no name"),
    ],
)
def test_what_cannot_be_meant_is_refused(write, path, text, complaint):
    write("data.yaml", "names: [cat]\n")
    write("labels/a.txt", "0 0.5 0.5 0.5 0.5\n")
    write("images/a.jpg")
    root = write(path, text)
    with pytest.raises(InputError, match=complaint):
        open_boxes(root)


def test_what_has_no_use_is_refused(write):
    write("data.yaml", "names: [cat]\n")
    write("labels/a.txt", "0 0.5 0.5 0.5 0.5\n")
    root = write("images/a.jpg")
    with pytest.raises(InputError, match="read as YOLO, which has no use for image_dir"):
        open_boxes(root, image_dir="images")
    with pytest.raises(InputError, match="read as YOLO, of which boxes are read and no outlines"):
        open_boxes(root, instances=True)
    (root / "data.yaml").unlink()
    with pytest.raises(InputError, match=r"as YOLO has them, and no data\.yaml"):
        open_boxes(root)


def test_an_unreadable_image_is_left_to_those_who_read_it(write):
    write("data.yaml", "names: [cat]\n")
    write("labels/a.txt", "0 0.5 0.5 0.5 0.5\n")
    write("images/a.jpg")
    write("labels/b.txt", "0 0.5 0.5 0.5 0.5\n")
    found = open_boxes(write("images/b.jpg", "no image"))["all"]
    assert [len(each) for each in found.objects.marks] == [1, 0]
