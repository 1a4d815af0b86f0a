"""Marks of images: their shapes, digests and places in a set."""

import numpy as np
import pytest

from extract.datasets.base import ImageSet
from extract.datasets.objects import CROWD, IGNORED, PLAIN, Marks, ObjectReader, Objects
from extract.errors import InputError


def marks(boxes, labels=None, flags=None, **more):
    boxes = np.array(boxes, np.float64).reshape(-1, 4)
    labels = np.zeros(len(boxes), np.int64) if labels is None else np.array(labels, np.int64)
    flags = np.zeros(len(boxes), np.uint8) if flags is None else np.array(flags, np.uint8)
    return Marks(boxes, labels, flags, **more)


def test_marks_have_one_of_each():
    assert len(marks([[0, 0, 1, 1], [1, 1, 3, 4]], flags=[PLAIN, CROWD])) == 2
    assert len(marks([])) == 0
    with pytest.raises(InputError, match=r"wanted \(b, 4\), \(b,\) and \(b,\)"):
        marks([[0, 0, 1, 1]], labels=[0, 1])
    with pytest.raises(InputError, match="a flag is 3"):
        marks([[0, 0, 1, 1]], flags=[3])


def test_a_digest_covers_all_that_is_said():
    one = marks([[0, 0, 1, 1]])
    assert one.digest == marks([[0, 0, 1, 1]]).digest
    others = [
        marks([[0, 0, 1, 2]]),
        marks([[0, 0, 1, 1]], labels=[1]),
        marks([[0, 0, 1, 1]], flags=[IGNORED]),
        marks([[0, 0, 1, 1]], outlines=b"polygon"),
        marks([]),
    ]
    assert len({one.digest, *(each.digest for each in others)}) == 6


def test_a_set_goes_with_its_marks(photo):
    found = Objects(
        ("a.xml", "b.xml", "c.xml"),
        (marks([[0, 0, 1, 1]]), marks([]), marks([[1, 1, 2, 2]], labels=[1])),
        ObjectReader(settings=(("min_box_size", 0.0),)),
        ("cat", "dog"),
    )
    images = ImageSet("pets", None, [photo(i) for i in range(3)], ("a", "b", "c"), targets=found)
    part = images.subset([2, 0])
    assert part.objects.names == ("c.xml", "a.xml")
    assert part.objects.marks[0].labels.tolist() == [1]
    assert found.reader.describe() == {"kind": "boxes", "min_box_size": 0.0}
    assert images.limit(2).names == ("a", "b")
    ids = np.arange(48, dtype=np.uint8).reshape(3, 16)
    named = found.identified(ids)
    assert named.ids.shape == (3, 16)
    assert (named.subset([1]).ids == named.ids[[1]]).all()
    assert (found.subset([1]).identified(ids[[1]]).ids == named.ids[[1]]).all()
    assert (found.identified(ids[::-1]).ids != named.ids).any()


def test_marks_and_classes_have_to_agree():
    with pytest.raises(InputError, match="2 names came with the marks of 1 images"):
        Objects(("a", "b"), (marks([]),))
    with pytest.raises(InputError, match=r"a\.xml has labels 2 … 2 for 2 classes"):
        Objects(("a.xml",), (marks([[0, 0, 1, 1]], labels=[2]),), classes=("cat", "dog"))
