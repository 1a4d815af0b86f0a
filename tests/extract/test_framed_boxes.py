"""Boxes and masks in the frame of a backbone: against pictures, and what holds of all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extract.datasets.objects import CROWD, IGNORED, PLAIN, Marks
from extract.errors import InputError
from extract.framed_boxes import EXISTS, back, check_marks, framed, framed_masks, padded, sampled, seen
from extract.geometry import axes
from extract.images import Header
from extract.maps.frame import Frame


def marks(*boxes, flags=None, labels=None, **more):
    count = len(boxes)
    return Marks(
        np.array(boxes, np.float64).reshape(-1, 4),
        np.arange(count) if labels is None else np.array(labels, np.int64),
        np.zeros(count, np.uint8) if flags is None else np.array(flags, np.uint8),
        **more,
    )


def rectangles(boxes, size):
    masks = np.zeros((len(boxes), *size), bool)
    for mask, (x0, y0, x1, y1) in zip(masks, np.asarray(boxes, int), strict=True):
        mask[y0:y1, x0:x1] = True
    return masks


sides = st.integers(8, 300)


@st.composite
def boxed(draw, most=4):
    """(height, width) and boxes with whole corners, at least a pixel wide."""
    height, width = draw(sides), draw(sides)
    boxes = []
    for _ in range(draw(st.integers(1, most))):
        x0, y0 = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
        boxes.append([x0, y0, draw(st.integers(x0 + 1, width)), draw(st.integers(y0 + 1, height))])
    return (height, width), boxes


def test_a_landscape_by_hand():
    found = framed(
        marks([200, 100, 440, 220], [0, 0, 60, 480], [0, 0, 200, 480], [75, 0, 82, 480], [70, 10, 82, 400]),
        (480, 640),
        224,
    )
    scale = 224 / 480  # 640 becomes 299, of which 37 are left of the frame
    across = 299 / 640
    assert found[0] == pytest.approx(
        [200 * across - 37, 100 * scale, 440 * across - 37, 220 * scale, 0, PLAIN]
    )
    assert found[1] == pytest.approx([0, 0, 200 * across - 37, 224, 2, PLAIN])  # its centre is seen
    assert found[2] == pytest.approx(
        [0, 0, 82 * across - 37, 224, 3, IGNORED]
    )  # of its centre that cannot be said
    assert found[:, 4].tolist() == [0, 2, 3, 4]  # the second is not seen at all
    assert found.dtype == np.float32


def test_an_identity_where_the_image_is_the_frame():
    boxes = [[3.25, 4, 10.5, 60], [0, 0, 64, 64], [58, 60, 68.5, 64], [-3, 2, 5, 9]]
    found = framed(marks(*boxes), (64, 64), 64)
    assert (found[:, :4] == np.clip(np.array(boxes, np.float32), 0, 64)).all()
    assert (found[:, 5] == PLAIN).all()


def test_flags_in_the_frame():
    boxes = [[0, 0, 110, 100], [0, 0, 110, 100], [0, 0, 110, 100], [120, 5, 120.5, 90], [120, 5, 120, 90]]
    found = framed(marks(*boxes, flags=[PLAIN, CROWD, IGNORED, PLAIN, PLAIN]), (100, 300), 100)
    assert found[:, 5].tolist() == [IGNORED, CROWD, IGNORED, IGNORED]
    assert found[:, 4].tolist() == [0, 1, 2, 3]  # what has no area is not seen
    assert (found[:3, :4] == [0, 0, 10, 100]).all()


def test_the_box_of_a_picture_is_seen_where_it_says():
    rng = np.random.default_rng(0)
    for height, width in ((480, 640), (333, 500), (500, 333), (97, 91), (60, 1500)):
        for _ in range(5):
            short = min(height, width)
            side = short // 3
            x0, y0 = (  # away from the edges, where a bicubic picture overshoots to one side only
                int(rng.integers((long - short) // 2 + 5, (long + short) // 2 - side - 5))
                for long in (width, height)
            )
            picture = np.zeros((height, width, 3), np.uint8)
            picture[y0 : y0 + side, x0 : x0 + side] = 255
            shown = Frame(size=128).place_image(picture)[:, :, 0] / 255
            (row,) = framed(marks([x0, y0, x0 + side, y0 + side]), (height, width), 128)
            for axis, (low, high) in ((0, row[[0, 2]]), (1, row[[1, 3]])):
                profile = shown.sum(axis=axis)
                middle = (profile * (np.arange(128) + 0.5)).sum() / profile.sum()
                assert middle == pytest.approx((low + high) / 2, abs=0.1)
                assert profile.sum() / profile.max() == pytest.approx(high - low, abs=0.5)


@given(boxed(), st.integers(8, 128))
def test_there_and_back(drawn, side):
    size, boxes = drawn
    found = framed(marks(*boxes), size, side)
    assert (found[:, :4] >= 0).all()
    assert (found[:, :4] <= side).all()
    assert (found[:, 2:4] > found[:, :2]).all()
    seen = np.array(boxes, np.float64)[found[:, 4].astype(int)]
    window = back(np.array([[0, 0, side, side]]), size, side)[0]
    expected = np.stack([np.clip(seen[:, i], window[i % 2], window[2 + i % 2]) for i in range(4)], axis=1)
    assert back(found[:, :4], size, side) == pytest.approx(expected, abs=1e-3 * max(size) / side + 1e-3)


@given(boxed(), st.integers(8, 128))
def test_areas_scale(drawn, side):
    size, boxes = drawn
    rows, columns = axes(*size, side)
    scale = rows.resized / rows.length * columns.resized / columns.length
    found = framed(marks(*boxes), size, side)
    whole = (found[:, :4] > 1e-3).all(axis=1) & (found[:, :4] < side - 1e-3).all(axis=1)
    original = np.array(boxes, np.float64)[found[:, 4].astype(int)]
    areas = (original[:, 2:] - original[:, :2]).prod(axis=1) * scale
    assert (found[:, 2:4] - found[:, :2]).prod(axis=1)[whole] == pytest.approx(
        areas[whole], rel=1e-3, abs=1e-3
    )


@given(boxed(), st.integers(8, 64))
def test_a_mask_fills_its_box(drawn, side):
    """A pixel of the frame is in the mask of a rectangle where its centre is in the rectangle's box."""
    size, boxes = drawn
    said = marks(*boxes, masks=lambda: rectangles(boxes, size))
    rows, masks = framed(said, size, side), framed_masks(said, size, side)
    assert masks.shape == (len(rows), side, side)
    centres = np.arange(side) + 0.5
    for (x0, y0, x1, y1), mask in zip(rows[:, :4], masks, strict=True):
        inside = [(centres > low + 1e-3) & (centres < high - 1e-3) for low, high in ((y0, y1), (x0, x1))]
        beyond = [(centres < low - 1e-3) | (centres > high + 1e-3) for low, high in ((y0, y1), (x0, x1))]
        assert mask[np.ix_(*inside)].all()
        assert not mask[beyond[0]].any()
        assert not mask[:, beyond[1]].any()


def test_masks_are_sampled_in_their_box():
    mask = np.zeros((64, 64), bool)
    mask[8:36, 20:34] = True
    assert sampled(mask, np.array([20, 8, 34, 36])).all()
    wide = sampled(mask, np.array([6, 8, 34, 36]))  # its left half is empty
    assert wide.shape == (14, 14)
    assert not wide[:, :7].any()
    assert wide[:, 7:].all()
    assert sampled(mask, np.array([20, 8, 20.5, 8.5]), 3).tolist() == [[True] * 3] * 3
    assert not sampled(mask, np.array([60, 60, 64, 64])).any()
    assert (
        sampled(np.eye(14, dtype=bool), np.array([0, 0, 14, 14])).tolist() == np.eye(14, dtype=bool).tolist()
    )


def test_masks_that_are_not_there_or_do_not_fit():
    box = [1, 1, 4, 4]
    with pytest.raises(InputError, match=r"the objects of a\.jpg have boxes but no outlines"):
        framed_masks(marks(box), (8, 8), 8, name="a.jpg")
    with pytest.raises(InputError, match=r"a.jpg is 8×8 .* their masks have the shape \(1, 6, 8\)"):
        framed_masks(marks(box, masks=lambda: np.ones((1, 6, 8), bool)), (8, 8), 8, name="a.jpg")
    hidden = marks([0, 0, 2, 8], masks=lambda: np.ones((1, 8, 24), bool))
    assert framed_masks(hidden, (8, 24), 8).shape == (0, 8, 8)


def test_an_object_of_whose_mask_nothing_is_seen_is_not_scored():
    boxes = [[1, 1, 7, 7], [1, 1, 7, 7], [2, 2, 8, 8]]
    rows = framed(marks(*boxes, flags=[PLAIN, CROWD, PLAIN]), (16, 16), 16)
    masks = rectangles([[0, 0, 0, 0], [0, 0, 0, 0], [2, 2, 8, 8]], (16, 16))
    assert seen(rows, masks)[:, 5].tolist() == [IGNORED, CROWD, PLAIN]
    assert (seen(rows, masks)[:, :5] == rows[:, :5]).all()
    masks[2] = rectangles([[7, 7, 16, 16]], (16, 16))
    with pytest.raises(
        InputError, match=r"a\.jpg: more than half of the outline of its object 3 lies outside"
    ):
        seen(rows, masks, name="a.jpg")


def test_rows_are_padded():
    rows = framed(marks([1, 1, 4, 4], [2, 2, 8, 8]), (8, 8), 8)
    full = padded(rows, 4)
    assert full.dtype == np.float32
    assert (full[:2] == rows).all()
    assert (full[2:] == -1).all()
    empty = padded(framed(marks(), (8, 8), 8), 3)
    assert empty.tolist() == [[-1] * 5 + [EXISTS], [-1] * 6, [-1] * 6]
    for room, given_rows in ((1, rows), (0, rows[:0])):
        with pytest.raises(InputError, match="there is room for"):
            padded(given_rows, room)


def header(width, height, orientation=1):
    return Header(width, height, "RGB", "JPEG", orientation)


def test_marks_of_another_image_are_refused():
    box = [1, 1, 4, 4]
    check_marks(marks(box, size=(6, 8)), header(8, 6), "a.jpg")
    with pytest.raises(
        InputError, match=r"a\.jpg is 8×6, and its objects were marked on 6×8; the two look turned"
    ):
        check_marks(marks(box, size=(8, 6)), header(8, 6), "a.jpg")
    with pytest.raises(InputError, match="marked on 80×60; use the images on which the boxes were drawn"):
        framed(marks(box, size=(60, 80)), (6, 8), 8, name="a.jpg")
    with pytest.raises(
        InputError,
        match=r"a.jpg is 8×6, and more than half of its object 2 lies outside, from \(9, 1\) to \(12, 4\)",
    ):
        framed(marks(box, [9, 1, 12, 4]), (6, 8), 8, name="a.jpg")
    framed(marks(box, [5, 1, 11, 4], [7.5, 0, 9, 6]), (6, 8), 8)  # half of it, and two pixels
    with pytest.raises(InputError, match="more than half of its object 1"):
        framed(marks([4, 1, 13, 4]), (6, 8), 8)


def test_marks_on_turned_images():
    box = [1, 1, 4, 4]
    check_marks(marks(box, size=(6, 8)), header(8, 6, 6), "a.jpg")  # marked as seen
    check_marks(marks(), header(8, 6, 6), "a.jpg")
    with pytest.raises(
        InputError, match="EXIF orientation 6, and its objects were marked on 6×8, the image as it is"
    ):
        check_marks(marks(box, size=(8, 6)), header(8, 6, 6), "a.jpg")
    for turned, size in ((header(8, 6, 3), (6, 8)), (header(8, 8, 6), (8, 8)), (header(8, 6, 6), None)):
        with pytest.raises(InputError, match="as seen or as stored cannot be told"):
            check_marks(marks(box, size=size), turned, "a.jpg")
