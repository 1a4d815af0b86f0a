"""Image sets, their limits and subsets, and what cannot be scored."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extract.datasets import ImageSet, Lazy, Splits, check_scorable, open_dataset
from extract.datasets.base import split_name
from extract.errors import InputError


def image_set(labels, classes=("a", "b", "c"), split=None, dtype=np.int64) -> ImageSet:
    labels = None if labels is None else np.array(labels, dtype)
    n = 6 if labels is None else len(labels)
    return ImageSet(
        "set", split, [bytes([i]) for i in range(n)], tuple(f"{i}.jpg" for i in range(n)), labels, classes
    )


def test_a_subset_keeps_images_names_and_labels_together():
    part = image_set([0, 1, 2, 1]).subset([3, 0], drawn="by hand")
    assert [part.sources[i] for i in range(2)] == [b"\x03", b"\x00"]
    assert part.names == ("3.jpg", "0.jpg")
    assert part.labels.tolist() == [1, 0]
    assert part.params == {"drawn": "by hand"}
    assert part.counts.tolist() == [1, 1, 0]


@given(st.lists(st.integers(-1, 2), min_size=1, max_size=40), st.integers(1, 5))
def test_a_limit_takes_the_first_of_every_class_in_order(labels, per_class):
    whole = image_set(labels)
    part = whole.limit(per_class)
    rows = [int(name.removesuffix(".jpg")) for name in part.names]
    assert rows == sorted(rows)
    assert part.params == {"limit": per_class}
    for label in set(labels):
        having = [row for row, each in enumerate(labels) if each == label]
        assert [row for row in rows if labels[row] == label] == having[:per_class]


def test_a_limit_without_labels_and_with_several():
    assert image_set(None).limit(2).names == ("0.jpg", "1.jpg")
    several = image_set([[1, 0], [1, 0], [1, 1], [0, 0], [0, 0]], ("a", "b"), dtype=np.uint8)
    assert several.limit(1).names == ("0.jpg", "2.jpg", "3.jpg")
    with pytest.raises(InputError, match="at least 1"):
        several.limit(0)


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match=r"0 … 3 for 3 classes"):
        image_set([0, 3])
    with pytest.raises(InputError, match="two classes called 'a'"):
        image_set([0, 1], ("a", "b", "a"))
    with pytest.raises(InputError, match=r"lists 0\.jpg twice"):
        image_set([0, 1]).subset([0, 1, 0])
    with pytest.raises(InputError, match="2 images, 1 name"):
        ImageSet("set", None, [b"", b""], ("a",))
    with pytest.raises(InputError, match="int64"):
        image_set([0.0, 1.0], dtype=np.float64)


def test_lazy_images_end_where_a_list_would():
    lazy = Lazy(3, lambda i: bytes([i]))
    assert list(lazy) == [b"\x00", b"\x01", b"\x02"]
    assert lazy[-1] == b"\x02"
    with pytest.raises(IndexError):
        lazy[3]


def test_what_can_be_scored():
    train, test = image_set([0, 0, 1, 2], split="train"), image_set([1, 2], split="test")
    check_scorable(train, test)
    check_scorable(None, test)
    check_scorable(train, image_set([1], split="test"))  # one class is enough there


@pytest.mark.parametrize(
    ("train", "test", "reason"),
    [
        ([0, 1], [0, -1, -1], r"set \(test\) lacks labels for 2 of 3 images; features can be extracted"),
        ([0, 1], None, r"set \(test\) lacks labels for 6 of 6 images"),
        ([-1, 1], [0, 1], r"set \(train\) lacks labels for 1 of 2 images"),
        ([1, 1], [1, 1], r"set \(train\) has only the class 'b'; a score needs at least two"),
        ([0], [0], "only the class 'a'"),
        ([0, 1], [0, 2], r"set \(test\) has images of c, of which set \(train\) has none to learn from"),
    ],
)
def test_what_cannot_be_scored(train, test, reason):
    with pytest.raises(InputError, match=reason):
        check_scorable(image_set(train, split="train"), image_set(test, split="test"))


def test_one_image_alone_cannot_be_scored():
    with pytest.raises(InputError, match="only the class"):
        check_scorable(None, image_set([2]))


def test_classes_numbered_apart_cannot_be_scored():
    with pytest.raises(InputError, match="open them together"):
        check_scorable(image_set([0, 1], ("a", "b")), image_set([0, 1], ("b", "a")))


def test_splits_are_a_mapping():
    train, test = image_set([0, 1], split="train"), image_set([2], split="test")
    splits = Splits({"train": train, "test": test})
    assert list(splits) == ["train", "test"]
    assert splits["test"] is test
    assert "val" not in splits
    assert splits.classes == ("a", "b", "c")
    assert splits.name == "set"
    assert open_dataset(splits) is splits
    assert open_dataset(train)["train"] is train


def test_names_of_splits():
    assert [split_name(each, "x") for each in ("Train", " VALID ", "validation", "test")] == [
        "train",
        "val",
        "val",
        "test",
    ]
    with pytest.raises(InputError, match=r"t\.csv names the split 'fold1'"):
        split_name("fold1", "t.csv")
