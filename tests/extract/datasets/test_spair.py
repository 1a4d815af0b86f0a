"""SPair-71k: pairs of pictures of one class, and the points marked in both."""

import json

import numpy as np
import pytest

from extract.datasets.pairs import looks_related, open_related
from extract.datasets.spair import open_spair
from extract.errors import InputError

FILES = {"train": "trn", "val": "val", "test": "test"}


@pytest.fixture
def spair(tmp_path, save, photo):
    """A folder with a pair a split, and `write(split, number, **changes)` for more."""
    root = tmp_path / "SPair-71k"
    for category in ("cat", "dog"):
        for number in range(3):
            save(root / "JPEGImages" / category / f"2008_{number}.jpg", photo(number, 30, 40))

    def write(split, number, category="cat", **changes):
        stem = f"{number:06}-2008_0-2008_{number}:{category}"
        said = {
            "src_imname": "2008_0.jpg",
            "trg_imname": f"2008_{number}.jpg",
            "src_imsize": [40, 30, 3],
            "trg_imsize": [40, 30, 3],
            "src_bndbox": [1, 2, 31, 20],
            "trg_bndbox": [3, 4, 23, 29],
            "src_kps": [[10, 11], [12, 13]],
            "trg_kps": [[20, 21], [22, 23]],
            "category": category,
            **changes,
        }
        path = root / "PairAnnotation" / FILES[split] / f"{stem}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({key: value for key, value in said.items() if value is not None}))
        layout = root / "Layout" / "large" / f"{FILES[split]}.txt"
        layout.parent.mkdir(parents=True, exist_ok=True)
        with layout.open("a") as file:
            file.write(f"{stem}\n")
        return root

    for split in FILES:
        write(split, 1)
    return write


def test_splits_pairs_and_points(spair):
    root = spair("test", 2, "dog")
    assert looks_related(root)
    splits = open_related(root)
    assert list(splits) == ["train", "val", "test"]
    test = splits["test"]
    assert (test.name, test.split) == ("SPair-71k", "test")
    assert test.names == tuple(
        f"JPEGImages/{each}.jpg" for each in ("cat/2008_0", "cat/2008_1", "dog/2008_0", "dog/2008_2")
    )
    assert test.groups.members.tolist() == [[0, 1], [2, 3]]
    assert test.groups.names == ("000001-2008_0-2008_1:cat", "000002-2008_0-2008_2:dog")
    assert test.groups.truth["category"].tolist() == ["cat", "dog"]
    assert test.groups.params["extent"] == "box"
    assert test.folders == (root,)
    relation = test.groups.truth["relation"][1]
    assert relation.first.tolist() == [[10.5, 11.5], [12.5, 13.5]]  # of pixel indices their centres
    assert relation.second.tolist() == [[20.5, 21.5], [22.5, 23.5]]
    assert relation.visible.all()
    assert relation.extent == 25  # the longer side of the box in the second picture, 20 × 25
    assert relation.category == "dog"
    assert len(splits["train"]) == 2


def test_only_the_splits_that_are_listed(spair):
    root = spair("test", 2)
    (root / "Layout" / "large" / "trn.txt").unlink()
    assert list(open_spair(root, name="pairs")) == ["val", "test"]
    with pytest.raises(InputError, match=r"has no lists of pairs; there should be .*small/trn.txt"):
        open_spair(root, layout="small")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"trg_imname": "2009.jpg"},
            "lacks 1 of 3 pictures that its pairs name, the first JPEGImages/cat/2009.jpg",
        ),
        (
            {"trg_imsize": [80, 60, 3]},
            "2008_2.jpg is 40×30, and 000002-2008_0-2008_2:cat was marked at 80×60",
        ),
        ({"trg_kps": [[1, 2]]}, "2008_2:cat.json: keypoints have the shapes"),
        (
            {"trg_kps": [[1, None], [3, 4]]},
            "cat.json: a visible keypoint has a coordinate that is no finite number",
        ),
        ({"trg_kps": [[1, "x"], [3, 4]]}, "cat.json: "),
        ({"src_kps": [], "trg_kps": []}, "and 0 points; wanted x0, y0, x1, y1 and points"),
        ({"trg_bndbox": [3, 4, 3, 4]}, "the extent 0.0"),
        ({"trg_bndbox": [3, 4]}, r"a box \[3, 4\] and 2 points"),
        ({"trg_bndbox": None}, "has no trg_bndbox; a pair of SPair-71k has src_imname"),
    ],
)
def test_damaged_pairs_are_refused(spair, changes, said):
    with pytest.raises(InputError, match=said):
        open_spair(spair("test", 2, **changes))


def test_missing_or_broken_annotations_are_refused(spair):
    root = spair("test", 2)
    path = root / "PairAnnotation" / "test" / "000002-2008_0-2008_2:cat.json"
    for text, said in (("[]", "has no src_imname"), ("{", "is no JSON")):
        path.write_text(text)
        with pytest.raises(InputError, match=said):
            open_spair(root)
    path.unlink()
    with pytest.raises(
        InputError, match="cannot be read: No such file or directory; is the archive unpacked whole"
    ):
        open_spair(root)


def test_settings_of_tables_are_refused(spair):
    with pytest.raises(InputError, match="disparity_scale is for tables of pairs"):
        open_related(spair("test", 2), disparity_scale=2.0)


def test_a_set_without_exact_sizes_is_read(spair):
    assert np.shape(open_spair(spair("test", 2, trg_imsize=None))["test"].groups.members) == (2, 2)
