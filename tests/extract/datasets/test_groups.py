"""Groups of images of a set: how they follow a choice of images, and how they are told apart."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extract.datasets.base import ImageSet
from extract.datasets.grouping import relation_array
from extract.datasets.groups import Groups
from extract.datasets.relations import Homography, Keypoints
from extract.errors import InputError


def ids(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, 16), np.uint8)


def triplets(members, right=None, **more):
    members = np.array(members, np.int64).reshape(-1, 3)
    right = np.zeros(len(members), bool) if right is None else np.array(right)
    return Groups(
        "triplet", members, tuple(f"row {i}" for i in range(len(members))), {"right": right}, **more
    )


def test_one_of_everything_a_group():
    with pytest.raises(
        InputError, match="2 triplets came with 2 names and 3 right; there must be one of each"
    ):
        Groups("triplet", np.zeros((2, 3), int), ("a", "b"), {"right": np.zeros(3, bool)})
    with pytest.raises(InputError, match="1 pair came with 2 names and no truth"):
        Groups("pair", np.zeros((1, 2), int), ("a", "b"))


def test_a_mask_or_indices_choose():
    groups = triplets([[0, 1, 2], [3, 4, 5], [0, 4, 2]], [True, False, True])
    by_mask, by_row = groups.take(np.array([True, False, True])), groups.take(np.array([2, 0]))
    assert by_mask.names == ("row 0", "row 2")
    assert by_row.members.tolist() == [[0, 4, 2], [0, 1, 2]]
    assert groups.take(np.array([], int)).truth["right"].shape == (0,)


@given(st.permutations(range(6)), st.integers(0, 6))
def test_groups_follow_their_images(order, count):
    groups = triplets([[0, 1, 2], [3, 4, 5], [0, 4, 2]], [True, False, True])
    kept = groups.of_images(order[:count])
    whole = [row for row in groups.members.tolist() if set(row) <= set(order[:count])]
    assert [[order[place] for place in row] for row in kept.members.tolist()] == whole
    assert len(kept.truth["right"]) == len(whole)


def test_an_image_that_is_chosen_twice_is_found_at_its_first_place():
    assert triplets([[0, 1, 2]]).of_images([2, 0, 0, 1, 2]).members.tolist() == [[1, 3, 0]]


def test_a_set_takes_its_groups_along():
    images = ImageSet("set", None, [b""] * 6, tuple("abcdef"), groups=triplets([[0, 1, 2], [5, 4, 0]]))
    assert images.subset([5, 4, 3, 0]).groups.members.tolist() == [[0, 1, 3]]
    first = images.limit(1)
    assert first.names == ("a", "b", "c")
    assert len(first.groups) == 1


@given(st.permutations(range(4)), st.permutations(range(6)))
def test_ids_know_neither_the_order_of_groups_nor_of_images(rows, images):
    members = np.array([[0, 1, 2], [3, 4, 5], [0, 4, 2], [1, 1, 5]])
    right, content = np.array([True, False, True, False]), ids(6)
    expected = triplets(members, right).identified(content)
    place = np.argsort(images)
    found = triplets(place[members[list(rows)]], right[list(rows)]).identified(content[list(images)])
    assert (found.ids == expected.ids).all()
    assert (content[list(images)][found.members] == content[expected.members]).all()
    assert (found.truth["right"] == expected.truth["right"]).all()


def test_ids_know_members_and_truth():
    def one(members, **truth):
        return Groups("pair", np.array([members]), ("a",), {k: relation_array([v]) for k, v in truth.items()})

    marks = Keypoints(np.zeros((1, 2)), np.ones((1, 2)), np.ones(1, bool), 9.0)
    told = [
        one([0, 1]),
        one([1, 0]),
        one([0, 2]),
        one([0, 1], relation=Homography(np.eye(3))),
        one([0, 1], relation=Homography(np.diag([1.0, 1, 2]))),
        one([0, 1], relation=marks),
        one([0, 1], relation=replace(marks, extent=10.0)),
        one([0, 1], category="cat"),
        one([0, 1], category="dog"),
        one([0, 1], name="cat"),
        one([0, 1], box=np.arange(4.0)),
        one([0, 1], box={"x": 1, "y": 2}),
    ]
    assert len({groups.identified(ids(3)).ids.tobytes() for groups in told}) == len(told)


def test_an_order_that_nobody_gave_is_drawn_by_content():
    count = 400
    content, members = ids(3 * count), np.arange(3 * count).reshape(-1, 3)
    drawn = triplets(members, turns="right").identified(content)
    chosen = np.where(drawn.truth["right"], drawn.members[:, 2], drawn.members[:, 1])
    assert (chosen % 3 == 1).all()  # the positive stays the answer
    assert (drawn.members[:, 0] % 3 == 0).all()
    assert 0.4 < drawn.truth["right"].mean() < 0.6
    assert drawn.turns is None
    assert (drawn.identified(content).ids == drawn.ids).all()
    swapped = triplets(members[:, [0, 2, 1]], np.ones(count, bool), turns="right").identified(content)
    assert (swapped.members == drawn.members).all()
    assert (swapped.truth["right"] == drawn.truth["right"]).all()
