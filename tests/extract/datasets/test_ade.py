"""ADE20K's challenge data made by hand: 0 is void, classes count from 1, names come from the table."""

import numpy as np
import pytest

from extract.datasets.ade import class_names, find_challenge, open_ade
from extract.errors import InputError
from extract.maps.readers import LabelReader

READER = LabelReader(num_classes=150, offset=1)


@pytest.fixture
def challenge(tmp_path, save, photo):
    root = tmp_path / "ADEChallengeData2016"
    for split, called, count in (("training", "train", 2), ("validation", "val", 1)):
        for i in range(count):
            save(root / f"images/{split}/ADE_{called}_{i:08}.jpg", photo(i))
            labels = np.full((6, 8), 1, np.uint8)
            labels[0, :3] = 0, 1, 150
            save(root / f"annotations/{split}/ADE_{called}_{i:08}.png", labels)
    rows = [f"{i}\t0.1\t1\t1\t0\tthing {i}, other word\t" for i in range(1, 149)]
    rows += ["149\t0\t1\t1\t0\tscreen, silver screen", "150\t0\t1\t1\t0\tscreen, CRT screen"]
    (root / "objectInfo150.txt").write_text("Idx\tRatio\tTrain\tVal\tStuff\tName\n" + "\n".join(rows))
    return root


def test_zero_is_void_once_in_both_splits(challenge):
    splits = open_ade(challenge, reader=READER)
    assert {split: len(each) for split, each in splits.items()} == {"train": 2, "val": 1}
    for images in splits.values():
        assert images.targets.read(0)[0, :3].tolist() == [255, 0, 149]
        assert images.targets.read(0).max() == 255
    assert splits["train"].names[0] == "images/training/ADE_train_00000000.jpg"
    assert splits["train"].targets.names[0] == "annotations/training/ADE_train_00000000.png"
    classes = splits["val"].targets.classes
    assert classes[:2] == ("thing 1", "thing 2")
    assert classes[-2:] == ("screen, silver screen", "screen, CRT screen")


def test_found_from_above_and_without_names(challenge, tmp_path):
    (challenge / "objectInfo150.txt").unlink()
    assert find_challenge(tmp_path) == challenge
    assert open_ade(tmp_path, reader=READER)["train"].targets.classes == ()


def test_what_does_not_fit(challenge, tmp_path):
    with pytest.raises(InputError, match="number classes from 1"):
        open_ade(challenge, reader=LabelReader(num_classes=150))
    with pytest.raises(InputError, match=r"150 class.* and 151"):
        open_ade(challenge, reader=LabelReader(num_classes=151, offset=1))
    (challenge / "images/validation/ADE_val_00000000.jpg").unlink()
    with pytest.raises(InputError, match="validation holds no image"):
        open_ade(challenge, reader=READER)
    (challenge / "images/validation").rmdir()
    with pytest.raises(InputError, match="has annotations/validation but no images/validation"):
        open_ade(challenge, reader=READER)
    with pytest.raises(InputError, match="not laid out as ADEChallengeData2016"):
        open_ade(tmp_path / "elsewhere", reader=READER)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("a\tb\n1\tx\n", "no columns Idx and Name"),
        ("", "no columns Idx and Name"),
        ("Idx\tName\n1\n", "without a number and a name"),
        ("Idx\tName\n1\tx\n3\ty\n", r"does not number its classes 1 … 2"),
    ],
)
def test_a_table_of_names_that_is_none(tmp_path, table, said):
    path = tmp_path / "objectInfo150.txt"
    path.write_text(table)
    with pytest.raises(InputError, match=said):
        class_names(path)
