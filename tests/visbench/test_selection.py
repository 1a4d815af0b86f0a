"""Which images train, select and are scored."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extract.datasets import open_dataset
from visbench.errors import UsageError
from visbench.selection import content_ids, divide, holdout


def splits(*names: str):
    image = np.zeros((4, 4, 3), np.uint8)
    return open_dataset({name: ([image, image + 1], ["a", "b"]) for name in names}, name="d")


@pytest.mark.parametrize(
    ("there", "roles"),
    [
        (("train", "val", "test"), ("train", "val", "test")),
        (("train", "test"), ("train", None, "test")),
        (("train", "val"), ("train", None, "val")),
    ],
)
def test_default_roles(there, roles):
    division = divide(splits(*there))
    found = (division.train, division.val, division.test)
    assert tuple(None if images is None else images.split for images in found) == roles


def test_nothing_to_train_is_needed_for_what_learns_nothing():
    assert divide(splits("val"), needs_train=False).train is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"train_split": "val", "split": "val"}, "the same 2 images"),
        ({"split": "holiday"}, "'holiday'"),
        ({"train_split": "holiday"}, "--train-split"),
        ({"val_split": "holiday"}, "--val-split"),
        ({"val_split": "test"}, "which is scored"),
        ({"val_split": "train"}, "which trains"),
    ],
)
def test_wrong_roles_are_refused(options, words):
    with pytest.raises(UsageError, match=words):
        divide(splits("train", "val", "test"), **options)


def test_a_training_split_alone_is_said_to_be_one():
    with pytest.raises(UsageError, match="only a training split, and nothing to score"):
        divide(splits("train"))


def test_splits_are_named_as_folders_are():
    division = divide(splits("train", "val", "test"), split="Validation", train_split="TRAIN")
    assert (division.test.split, division.train.split) == ("val", "train")


def test_the_same_split_twice_can_be_allowed():
    assert divide(splits("train"), split="train", allow_same=True).train.split == "train"


def test_holdout_takes_a_fifth_of_each_class():
    ids = np.random.default_rng(0).integers(0, 256, (100, 16), dtype=np.uint8)
    labels = np.repeat([0, 1, 2], [50, 45, 5])
    held = holdout(ids, labels)
    assert [int(held[labels == label].sum()) for label in range(3)] == [10, 9, 1]


def test_a_class_of_one_is_never_held_out_and_copies_stay_together():
    ids = np.zeros((5, 16), np.uint8)
    ids[:, 0] = [7, 1, 1, 1, 2]  # class 0 has one row; class 1 has three copies of a picture and another
    held = holdout(ids, np.array([0, 1, 1, 1, 1]))
    assert not held[0]
    assert held[1] == held[2] == held[3] != held[4]


def test_ids_that_end_in_zero_bytes_stay_apart():
    ids = np.zeros((4, 16), np.uint8)
    ids[:, 0] = [1, 2, 3, 4]
    assert holdout(ids, np.zeros(4, int)).sum() == 1


@given(st.integers(0, 2**32 - 1), st.integers(2, 40))
def test_holdout_depends_on_content_and_not_on_order(seed, count):
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, 256, (count, 16), dtype=np.uint8)
    labels = rng.integers(0, 3, count)
    order = rng.permutation(count)
    assert (holdout(ids, labels)[order] == holdout(ids[order], labels[order])).all()


def test_content_ids_of_rows():
    rows = np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0]])
    ids = content_ids(rows)
    assert ids.shape == (3, 16)
    assert (ids[0] == ids[1]).all()
    assert (ids[0] != ids[2]).any()
