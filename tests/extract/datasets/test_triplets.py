"""Triplets and what people said of them, as NIGHTS has them and in other tables."""

import numpy as np
import pytest

from extract.datasets.triplets import open_triplets
from extract.errors import InputError

NIGHTS = "id,ref_path,left_path,right_path,left_vote,right_vote,votes,split,is_imagenet"


@pytest.fixture
def pictures(tmp_path, save, photo):
    for seed in range(9):
        save(tmp_path / "nights" / "ref" / f"{seed}.png", photo(seed))
    return tmp_path / "nights"


def nights(folder, rows, header=NIGHTS, name="data.csv"):
    """A data.csv of (reference, left, right, rest of the row)."""
    lines = [
        ",".join([str(i), *(f"ref/{each}.png" for each in row[:3]), *row[3:]]) for i, row in enumerate(rows)
    ]
    (folder / name).write_text("\n".join([header, *lines]) + "\n")
    return folder


ROWS = [
    (0, 1, 2, "0.0", "1.0", "6", "test", "True"),
    (0, 2, 1, "1", "0", "7.0", "test", "False"),
    (3, 4, 5, "0", "1", "5", "test", "True"),
    (3, 4, 5, "1", "0", "9", "train", "true"),
    (6, 7, 8, "0", "1", "10", "val", "0"),
]


def test_nights(pictures):
    splits = open_triplets(nights(pictures, ROWS))
    assert list(splits) == ["train", "val", "test", "test_imagenet", "test_no_imagenet"]
    test = splits["test"]
    assert (test.name, test.split) == ("nights", "test")
    assert test.names == ("ref/0.png", "ref/1.png", "ref/2.png")
    assert test.groups.noun == "triplet"
    assert test.groups.members.tolist() == [[0, 1, 2], [0, 2, 1]]
    assert test.groups.names == ("data.csv, row 1", "data.csv, row 2")
    assert test.groups.truth["right"].tolist() == [True, False]
    assert test.groups.truth["votes"].tolist() == [6, 7]
    assert test.groups.truth["imagenet"].tolist() == [True, False]
    assert test.groups.params == {
        "table": "data.csv",
        "image_columns": ["ref_path", "left_path", "right_path"],
        "answer_columns": ["left_vote", "right_vote"],
        "min_votes": 6,
        "left_out": 1,
    }
    assert splits["test_imagenet"].groups.names == ("data.csv, row 1",)
    assert splits["test_no_imagenet"].groups.names == ("data.csv, row 2",)
    assert splits["test_no_imagenet"].split == "test_no_imagenet"
    assert splits["val"].names == ("ref/6.png", "ref/7.png", "ref/8.png")
    assert [folder.name for folder in test.folders] == ["ref"]


def test_how_many_people_have_to_agree(pictures):
    data = nights(pictures, ROWS)
    assert len(open_triplets(data, min_votes=0)["test"].groups) == 3
    assert list(open_triplets(data, min_votes=8)) == ["train", "val"]
    with pytest.raises(InputError, match="no triplet with 11 votes or more, and at most 10; ask for fewer"):
        open_triplets(data, min_votes=11)
    (pictures / "other.csv").write_text("ref,left,right,vote\nref/0.png,ref/1.png,ref/2.png,left\n")
    with pytest.raises(InputError, match="no column of votes, so 6 of them cannot be asked for"):
        open_triplets(pictures / "other.csv", min_votes=6)


def test_headers_are_read_by_name(pictures):
    reordered = "id,right_path,REF_PATH,left_path,right_vote,split,left_vote,votes,is_imagenet"
    rows = [(2, 0, 1, "1", "test", "0", "6", "True"), (1, 0, 2, "0", "test", "1", "7", "False")]
    one = open_triplets(nights(pictures, rows, reordered))["test"]
    two = open_triplets(nights(pictures, ROWS))["test"]
    assert [one.names[i] for i in one.groups.members.ravel()] == [
        two.names[i] for i in two.groups.members.ravel()
    ]
    for known in ("right", "votes", "imagenet"):
        assert (one.groups.truth[known] == two.groups.truth[known]).all()


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        ("ref,left,right,right_vote", ["1", "0"]),
        ("reference,left,right,left_vote", ["0", "1"]),
        ("query,left,right,choice", ["Right", " left"]),
        ("anchor,left,right,vote", ["1", "0"]),
        ("ref,left,right,label", ["1.0", "0.0"]),
        ("ref,image_left,image_right,answer", ["right", "left"]),
    ],
)
def test_answers_as_tables_have_them(pictures, header, cells):
    lines = [f"ref/{i}.png,ref/1.png,ref/2.png,{cell}" for i, cell in enumerate(cells)]
    (pictures / "mine.csv").write_text("\n".join([header, *lines]))
    splits = open_triplets(pictures / "mine.csv")
    assert list(splits) == ["all"]
    images = splits["all"]
    assert images.name == "mine"
    assert images.groups.truth["right"].tolist() == [True, False]
    assert {*images.groups.truth} == {"right"}
    assert "min_votes" not in images.groups.params


def test_an_anchor_a_positive_and_a_negative(pictures):
    lines = [f"ref/{i}.png,ref/{i + 1}.png,ref/{i + 2}.png" for i in range(7)]
    (pictures / "mine.csv").write_text("\n".join(["anchor,negative,positive", *lines]))
    images = open_triplets(pictures / "mine.csv")["all"]
    assert images.groups.params["order"] == "drawn by content"
    content = np.random.default_rng(0).integers(0, 256, (9, 16), np.uint8)
    groups = images.groups.identified(content)
    assert {*groups.truth["right"]} == {True, False}
    for members, right in zip(groups.members, groups.truth["right"], strict=True):
        anchor, positive = (int(images.names[place][4]) for place in (members[0], members[1 + right]))
        assert positive == anchor + 2


def test_columns_that_are_called_otherwise(pictures):
    (pictures / "mine.csv").write_text("a,b,c,better\nref/0.png,ref/1.png,ref/2.png,1\n")
    with pytest.raises(
        InputError, match="has the columns a, b, c, better; a triplet is reference, left, right and"
    ):
        open_triplets(pictures / "mine.csv")
    told = {"reference": "a", "left": "b", "right": "c", "answer": "better"}
    assert open_triplets(pictures / "mine.csv", columns=told)["all"].groups.truth["right"].tolist() == [True]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            (0, 1, 9, "0", "1", "6", "test", "True"),
            "row 1, column right_path names 'ref/9.png', which cannot be found",
        ),
        (
            (0, 1, 2, "1", "1", "6", "test", "True"),
            "row 1 says that both of left and right won, as do 1 row in all",
        ),
        ((0, 1, 2, "0", "0", "6", "test", "True"), "row 1 says that neither of left and right won"),
        (
            (0, 1, 2, "0", "0.7", "6", "test", "True"),
            "row 1, column right_vote holds '0.7'; it should be 0 or 1",
        ),
        ((0, 1, 2, "0", "", "6", "test", "True"), "row 1, column right_vote holds ''"),
        (
            (0, 1, 2, "0", "1", "6.5", "test", "True"),
            "row 1, column votes holds '6.5'; it should be a number of votes",
        ),
        ((0, 1, 2, "0", "1", "-6", "test", "True"), "row 1, column votes holds '-6'"),
        ((0, 1, 2, "0", "1", "nan", "test", "True"), "row 1, column votes holds 'nan'"),
        ((0, 1, 2, "0", "1", "inf", "test", "True"), "row 1, column votes holds 'inf'"),
        ((0, 1, 2, "0", "1", "6", "dev", "True"), "row 1, names the split 'dev'"),
        (
            (0, 1, 2, "0", "1", "6", "test", "maybe"),
            "row 1, column is_imagenet holds 'maybe'; it should be true or",
        ),
    ],
)
def test_rows_that_say_nothing_are_refused(pictures, row, said):
    with pytest.raises(InputError, match=said):
        open_triplets(nights(pictures, [row]))


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("ref,left,right", "has nothing of what people chose; there should be right_vote"),
        ("ref,left,right,vote,right_vote", "both right_vote and vote"),
        (
            "ref,left,vote",
            "a triplet is reference, left, right and what people chose, or anchor, positive, negative",
        ),
        ("anchor,positive,negative,vote", "has positive and negative, and vote besides"),
        ("anchor,positive,negative,left,right", "a triplet is"),
        ("ref,reference,left,right,vote", "ref and reference, which could both be the reference"),
        (
            "ref,left,right,vote,label",
            "vote and label, which could both be the answer; say which, as answer=vote",
        ),
    ],
)
def test_columns_that_make_no_triplet_are_refused(pictures, header, said):
    (pictures / "mine.csv").write_text(header + "\n" + ",".join("x" for _ in header.split(",")))
    with pytest.raises(InputError, match=said):
        open_triplets(pictures / "mine.csv")


def test_other_data_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"has no data.csv; triplets are a folder as NIGHTS is"):
        open_triplets(tmp_path)
    with pytest.raises(InputError, match=r"is no table of triplets; wanted is a file ending in .csv"):
        open_triplets(tmp_path / "none.csv")
    with pytest.raises(InputError, match="not a list"):
        open_triplets([])
    (tmp_path / "data.csv").write_text("ref,left,right,vote\n")
    with pytest.raises(InputError, match="has no rows; there should be one a triplet"):
        open_triplets(tmp_path)
