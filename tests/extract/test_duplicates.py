"""Equal content in two splits is found, whatever it is called."""

import numpy as np

from extract.duplicates import Duplicate, between, shared, within


def ids(*values: int) -> np.ndarray:
    """Rows that differ in their last byte only and end in zeros, which fixed-width text would drop."""
    rows = np.zeros((len(values), 16), np.uint8)
    rows[:, 3] = values
    return rows


def names(split: str, n: int) -> list[str]:
    return [f"{split}/{i}.jpg" for i in range(n)]


def test_one_of_fifty():
    train, val = ids(*range(50)), ids(*range(100, 149), 7)
    found = between({"train": train, "val": val}, {"train": names("train", 50), "val": names("val", 50)})
    assert found == [Duplicate("train", "train/7.jpg", "val", "val/49.jpg")]
    assert str(found[0]) == "train: train/7.jpg = val: val/49.jpg"
    assert np.flatnonzero(shared(val, train)).tolist() == [49]
    assert within(train) == 0


def test_every_image_of_the_later_split_is_listed_once():
    splits = {"train": ids(1, 1, 2), "val": ids(3, 1, 1), "test": ids(3, 2)}
    called = {split: names(split, len(rows)) for split, rows in splits.items()}
    assert [(each.name_a, each.name_b) for each in between(splits, called)] == [
        ("train/0.jpg", "val/1.jpg"),
        ("train/0.jpg", "val/2.jpg"),
        ("train/2.jpg", "test/1.jpg"),
        ("val/0.jpg", "test/0.jpg"),
    ]
    assert [within(rows) for rows in splits.values()] == [1, 1, 0]


def test_nothing_shared():
    assert between({"train": ids(1), "val": ids()}, {"train": ["a"], "val": []}) == []
    assert shared(ids(), ids(1)).shape == (0,)
