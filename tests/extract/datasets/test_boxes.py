"""One way in to boxes: which layout data have, and what is refused."""

import json

import pytest

from extract.datasets.boxes import layout_of, open_boxes
from extract.errors import InputError

XML = (
    "<annotation><object><name>a</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></object>"
    "</annotation>"
)
LISTING = {
    "images": [{"id": 1, "file_name": "a.jpg", "height": 6, "width": 8}],
    "annotations": [{"image_id": 1, "category_id": 1, "bbox": [0, 0, 2, 2]}],
    "categories": [{"id": 1, "name": "a"}],
}


@pytest.fixture
def root(tmp_path, save, photo):
    """A folder of which it could be said that it is everything."""
    save(tmp_path / "a.jpg", photo(0))
    (tmp_path / "a.xml").write_text(XML)
    (tmp_path / "_annotations.coco.json").write_text(json.dumps(LISTING))
    (tmp_path / "a.csv").write_text("image,xmin,ymin,xmax,ymax,label\na.jpg,0,0,2,2,a\n")
    return tmp_path


def test_layouts_are_told_apart(root):
    assert layout_of(root / "a.csv") == "table"
    assert layout_of(root / "_annotations.coco.json") == "coco"
    with pytest.raises(InputError, match="has annotations of COCO and of VOC; say with --annotations"):
        open_boxes(root)
    digests = {
        open_boxes(data, **told)["all"].objects.marks[0].digest
        for data, told in (
            (root / "a.csv", {}),
            (root, {"annotations": "_annotations.coco.json"}),
            (root, {"annotations": "."}),
        )
    }
    assert len({*digests}) == 1
    (root / "_annotations.coco.json").unlink()
    assert layout_of(root) == "voc"


def test_what_is_no_data_is_refused(root, tmp_path):
    with pytest.raises(InputError, match=r"there is no .*nowhere"):
        open_boxes(tmp_path / "nowhere")
    with pytest.raises(InputError, match="holds no boxes that can be read; boxes are read from a VOC devkit"):
        open_boxes(root / "a.jpg")
    with pytest.raises(InputError, match=r"there is no .*labels\.json, which is named as annotations"):
        open_boxes(root, annotations="labels.json")
    with pytest.raises(InputError, match="a table is the data itself"):
        open_boxes(root, annotations="a.csv")
    for path in ("a.xml", "_annotations.coco.json"):
        (root / path).unlink()
    with pytest.raises(InputError, match=r"is it .*a\.csv that is meant"):
        open_boxes(root)
    (root / "a.csv").unlink()
    with pytest.raises(InputError, match="has no boxes that can be found; boxes are read from"):
        open_boxes(root)


def test_what_a_layout_has_no_use_for_is_refused(root):
    with pytest.raises(InputError, match="read as a table, which has no use for image_dir"):
        open_boxes(root / "a.csv", image_dir="photos")
    with pytest.raises(InputError, match="read as a table, of which boxes are read and no outlines"):
        open_boxes(root / "a.csv", instances=True)
    (root / "_annotations.coco.json").unlink()
    with pytest.raises(InputError, match="read as VOC, which has no use for annotations"):
        open_boxes(root, annotations=".", instances=True)
    with pytest.raises(InputError, match="has boxes but no outlines"):
        open_boxes(root, instances=True)
