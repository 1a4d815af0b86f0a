"""Objects of COCO: ids with gaps, crowds, outlines against pycocotools, and the layouts of its like."""

import builtins
import json

import numpy as np
import pytest

from extract.datasets.boxes import open_boxes
from extract.datasets.objects import CROWD, IGNORED, PLAIN
from extract.errors import InputError, MissingExtraError

CATEGORIES = [{"id": 7, "name": "dog"}, {"id": 0, "name": "person"}, {"id": 90, "name": "toothbrush"}]
RUNS = {"size": [6, 8], "counts": [6, 12, 30]}  # columns 1 and 2


def listing(images=2, categories=CATEGORIES, annotations=None, **more):
    if annotations is None:
        annotations = [
            {"id": 0, "image_id": 0, "category_id": 0, "bbox": [1, 2, 3, 3.5], "iscrowd": 0},
            {"id": 5, "image_id": 0, "category_id": 90, "bbox": [0, 0, 8, 6], "iscrowd": 1},
        ]
    shown = [{"id": i, "file_name": f"{i:03}.jpg", "height": 6, "width": 8} for i in reversed(range(images))]
    return {"images": shown, "annotations": annotations, "categories": categories, **more}


@pytest.fixture
def write(tmp_path, save, photo):
    """`write(path, said, folder)`: a JSON file, and its images in a folder; both below the root, which it gives."""

    def put(path, said, folder):
        place = tmp_path / "coco" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(said if isinstance(said, str) else json.dumps(said))
        for each in said["images"] if isinstance(said, dict) else ():
            save(tmp_path / "coco" / folder / each["file_name"], photo(3))
        return tmp_path / "coco"

    return put


@pytest.fixture
def coco(write):
    write("annotations/instances_train2017.json", listing(3), "train2017")
    write("annotations/captions_train2017.json", "[]", "train2017")
    return write("annotations/instances_val2017.json", listing(2), "val2017")


def test_boxes_ids_and_crowds(coco):
    splits = open_boxes(coco)
    assert list(splits) == ["train", "val"]
    train = splits["train"]
    assert train.names == ("train2017/000.jpg", "train2017/001.jpg", "train2017/002.jpg")
    assert train.objects.classes == splits["val"].objects.classes == ("person", "dog", "toothbrush")
    marks = train.objects.marks[0]
    assert marks.boxes.tolist() == [[1, 2, 4, 5.5], [0, 0, 8, 6]]
    assert marks.labels.tolist() == [0, 2]
    assert marks.flags.tolist() == [PLAIN, CROWD]
    assert marks.size == (6, 8)
    assert [len(each) for each in train.objects.marks] == [2, 0, 0]  # images without objects count
    assert train.objects.params == {"layout": "coco"}
    assert train.sources[1].name == "001.jpg"


def test_a_voc_box_and_a_coco_box_of_one_object_are_the_same(coco, tmp_path, save, photo):
    corners = "<xmin>2</xmin><ymin>3</ymin><xmax>4</xmax><ymax>5.5</ymax>"
    text = f"<annotation><object><name>person</name><bndbox>{corners}</bndbox></object></annotation>"
    save(tmp_path / "voc/a.jpg", photo(3))
    (tmp_path / "voc/a.xml").write_text(text)
    (tmp_path / "boxes.csv").write_text("image,xmin,ymin,xmax,ymax,label\nvoc/a.jpg,1,2,4,5.5,person\n")
    found = [open_boxes(tmp_path / each)["all"].objects.marks[0] for each in ("voc", "boxes.csv")]
    found.append(open_boxes(coco)["train"].objects.marks[0])
    assert {tuple(each.boxes[0]) for each in found} == {(1, 2, 4, 5.5)}


def test_one_file_and_a_folder_of_images(write):
    root = write("labels.json", listing(2), "photos")
    for data, told in ((root, {"annotations": "labels.json"}), (root / "labels.json", {})):
        found = open_boxes(data, image_dir="photos", **told)
        assert list(found) == ["all"]
        assert found.name == "coco"
        assert found["all"].names == ("photos/000.jpg", "photos/001.jpg")
    assert open_boxes(root / "labels.json", image_dir="photos")["all"].folders == (root / "photos",)
    write("annotations/instances_val2017.json", listing(1), "pixels/val2017")
    assert open_boxes(root, image_dir="pixels")["val"].names == ("pixels/val2017/000.jpg",)
    (root / "annotations/instances_val2017.json").unlink()
    with pytest.raises(InputError, match="has no boxes that can be found"):
        open_boxes(root)
    with pytest.raises(InputError, match=r"2 images, of which 2 cannot be found in .*000\.jpg, 001\.jpg"):
        open_boxes(root / "labels.json")


def test_a_folder_a_split_as_exported(write):
    extra = [
        {"id": 3, "name": "dog", "supercategory": "none"},
        *CATEGORIES,
    ]  # the name of the whole, as some write it
    for split in ("train", "valid", "test"):
        root = write(f"{split}/_annotations.coco.json", listing(1, extra), split)
    splits = open_boxes(root)
    assert {split: each.names for split, each in splits.items()} == {
        "train": ("train/000.jpg",),
        "val": ("valid/000.jpg",),
        "test": ("test/000.jpg",),
    }
    assert splits["train"].objects.classes == ("person", "toothbrush")  # neither dog has an object
    alone = open_boxes(root / "train")
    assert alone["all"].names == ("000.jpg",)


def test_what_costs_nothing_is_flagged(write):
    boxes = [
        {"image_id": 0, "category_id": 7, "bbox": [1, 1, 0, 3]},
        {"image_id": 0, "category_id": 7, "bbox": [1, 1, 2, 3], "ignore": 1},
        {"image_id": 0, "category_id": 7, "bbox": [1, 1, 2, 3]},
    ]
    root = write("annotations/instances_val2017.json", listing(1, annotations=boxes), "images/val2017")
    found = open_boxes(root)["val"]
    assert found.names == ("images/val2017/000.jpg",)
    assert found.objects.marks[0].flags.tolist() == [IGNORED, IGNORED, PLAIN]
    assert (open_boxes(root, min_box_size=2.5)["val"].objects.marks[0].flags == IGNORED).all()
    with pytest.raises(InputError, match="read as COCO, which has no use for include_difficult"):
        open_boxes(root, include_difficult=True)


PERSON = {"image_id": 0, "category_id": 0, "bbox": [1, 1, 2, 2]}


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("{", "is no JSON"),
        ([], "has not the lists images, annotations, categories"),
        (listing(annotations=[{"image_id": 0, "category_id": 0}]), "entry 0 of annotations has no bbox"),
        (listing(annotations=[{**PERSON, "image_id": 9}]), "of the image 9, which"),
        (listing(annotations=[{**PERSON, "category_id": 9}]), "of the category 9, which"),
        (listing(annotations=[{**PERSON, "bbox": [1, 2]}]), r"its bbox is \[1, 2\]"),
        (
            listing(annotations=[{**PERSON, "bbox": [1, 2, -1, 3]}]),
            r"object 1: a box from \(1, 2\) to \(0, 5\)",
        ),
        (listing(annotations=[{**PERSON, "bbox": [10**400, 2, 1, 3]}]), "not x, y, width, height"),
        (listing(annotations=[{**PERSON, "bbox": [0.1, 0.2, 0.3, 0.3]}]), "in shares of the image"),
        (
            listing(annotations=[{**PERSON, "image_id": [0]}]),
            r"entry 0 of annotations has the image_id \[0\]",
        ),
        (listing(categories=[{"id": [0], "name": "person"}]), r"entry 0 of categories has the id \[0\]"),
        (listing(annotations=[]), "marks no object"),
        (listing(0), "of the image 0, which"),
        (listing(categories=[*CATEGORIES, {"id": 7, "name": "cat"}]), "lists two categories with the id 7"),
        (listing(images=1, categories=[{"id": "a", "name": "b"}]), "category id 'a'"),
        (
            listing(
                categories=[*CATEGORIES, {"id": 8, "name": "person"}],
                annotations=[PERSON, {**PERSON, "category_id": 8}],
            ),
            "two categories with objects are called 'person'",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(write, said, complaint):
    root = write(
        "annotations/instances_val2017.json", said if isinstance(said, dict | str) else "[]", "val2017"
    )
    with pytest.raises(InputError, match=complaint):
        open_boxes(root)


def test_images_listed_twice_are_refused(coco, write):
    said = listing(2)
    said["images"][0]["file_name"] = said["images"][1]["file_name"]
    write("annotations/instances_val2017.json", said, "val2017")
    with pytest.raises(InputError, match=r"lists two images with the file_name '000\.jpg'"):
        open_boxes(coco)
    write("annotations/instances_val2017.json", listing(2), "images")
    write("annotations/instances_train2017.json", listing(3), "images")
    for split in ("train2017", "val2017"):
        for path in (coco / split).iterdir():
            path.unlink()
    with pytest.raises(InputError, match=r"000\.jpg is listed for train and for val"):
        open_boxes(coco)
    write("annotations/instances_val2017.json", listing(2, [{"id": 0, "name": "cat"}], []), "val2017")
    with pytest.raises(InputError, match="category 0 is 'person' in one split and 'cat'"):
        open_boxes(coco)
    write("annotations/instances_train2014.json", listing(3), "train2014")
    with pytest.raises(InputError, match="both list the train split"):
        open_boxes(coco)


def outlined(*outlines, **more):
    annotations = [
        {"id": i, "image_id": 0, "category_id": 0, "bbox": [0, 0, 4, 4], "segmentation": each, **more}
        for i, each in enumerate(outlines)
    ]
    return listing(1, annotations=annotations)


def test_outlines_are_those_of_pycocotools(write):
    mask = pytest.importorskip("pycocotools.mask")
    square, triangle = [1, 1, 4, 1, 4, 3, 1, 3], [5.0, 1.0, 7.5, 1.0, 6.0, 5.5]
    packed = mask.encode(np.asfortranarray(np.eye(6, 8, dtype=np.uint8)))
    packed["counts"] = packed["counts"].decode()
    said = outlined([square, triangle], RUNS, packed)
    found = open_boxes(write("annotations/instances_val2017.json", said, "val2017"), instances=True)[
        "val"
    ].objects
    masks = found.marks[0].masks()
    assert masks.shape == (3, 6, 8)
    assert masks.dtype == bool
    both = mask.decode(mask.frPyObjects([square, triangle], 6, 8)).any(axis=2)
    assert (masks[0] == both).all()
    assert masks[0, 1:3, 1:4].all()
    assert masks[1].any(axis=0).tolist() == [False, True, True, *[False] * 5]
    assert (masks[2] == np.eye(6, 8)).all()
    other = outlined([square], RUNS, packed)
    again = open_boxes(write("annotations/instances_val2017.json", other, "val2017"), instances=True)[
        "val"
    ].objects
    assert again.marks[0].digest != found.marks[0].digest
    plain = open_boxes(write("annotations/instances_val2017.json", said, "val2017"))["val"].objects
    assert plain.marks[0].masks is None


@pytest.mark.parametrize(
    ("outline", "complaint"),
    [
        ([], "has no outline"),
        (None, "has no outline"),
        ([[1, 1, 2, 2]], "has no outline"),
        ([[1, 1, 2, 2, 3, 3, 4]], "odd number of coordinates"),
        ({"size": [8, 6], "counts": [6, 42]}, "a mask of 6×8 on an image of 8×6"),
        ({"size": None, "counts": [6, 42]}, "a mask of None on an image of 8×6"),
        ([[1, 1, float("nan"), 1, 4, 3]], "a polygon with nan"),
        ([[1, 1, "4", 1, 4, 3]], "a polygon with '4'"),
        ({"size": [6, 8], "counts": [6, 12]}, "run lengths that are not the 48 pixels"),
        ({"size": [6, 8], "counts": [68, -20]}, "run lengths that are not the 48 pixels"),
        ({"size": [6, 8], "counts": ""}, "has the run lengths ''"),
        ({"size": [6, 8], "counts": None}, "has the run lengths None"),
    ],
)
def test_what_is_no_outline_is_refused(write, outline, complaint):
    pytest.importorskip("pycocotools")
    root = write("annotations/instances_val2017.json", outlined(outline), "val2017")
    with pytest.raises(InputError, match=rf"annotation 0.*{complaint}"):
        open_boxes(root, instances=True)
    assert len(open_boxes(root)["val"].objects.marks[0]) == 1


def test_run_lengths_of_another_image_are_refused_when_they_are_drawn(write):
    pytest.importorskip("pycocotools")
    said = outlined(RUNS, {"size": [6, 8], "counts": "zzzzzz"})
    found = open_boxes(write("annotations/instances_val2017.json", said, "val2017"), instances=True)["val"]
    with pytest.raises(
        InputError, match=r"000\.jpg, object 2: its run lengths are not those of an image of 8×6"
    ):
        found.objects.marks[0].masks()


def test_a_file_of_brackets_and_a_size_without_end(write):
    root = write("annotations/instances_val2017.json", "[" * 200_000, "val2017")
    with pytest.raises(InputError, match="is no JSON"):
        open_boxes(root)
    said = listing(1)
    said["images"][0]["height"] = float("inf")
    assert (
        open_boxes(write("annotations/instances_val2017.json", said, "val2017"))["val"].objects.marks[0].size
        is None
    )


def test_an_image_of_another_split_is_known_by_any_path(coco, write):
    said = listing(1)
    write("annotations/instances_val2017.json", said, "val2017")
    said["images"][0]["file_name"] = "../train2017/000.jpg"
    write("annotations/instances_val2017.json", said, "val2017")
    with pytest.raises(InputError, match=r"train2017/000\.jpg is listed for train and for val"):
        open_boxes(coco)


def test_the_extra_is_named(write, monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith("pycocotools"):
            raise ImportError(name)
        return real(name, *rest, **more)

    root = write("annotations/instances_val2017.json", outlined([[1, 1, 2, 2, 3, 4]]), "val2017")
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pip install 'visbench\[boxes\]'"):
        open_boxes(root, instances=True)
    assert len(open_boxes(root)["val"]) == 1
