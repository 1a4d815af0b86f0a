"""A map lies in the frame where its image lies, and is sampled once."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from extract import geometry
from extract.errors import InputError
from extract.maps.frame import Frame
from extract.transforms import Transform

SIZES = [
    (1, 1),
    (1, 40),
    (3, 500),
    (31, 32),
    (32, 32),
    (33, 47),
    (47, 33),
    (64, 96),
    (97, 211),
    (480, 640),
    (640, 479),
    (20, 401),
]

sides = st.integers(1, 300)


def middle_of(weights):
    """(row, column) of the centre of mass of (s, s)."""
    rows, columns = weights.sum(axis=1), weights.sum(axis=0)
    total = weights.sum()
    return (rows @ np.arange(len(rows)) / total, columns @ np.arange(len(columns)) / total)


@pytest.mark.parametrize(("height", "width"), SIZES)
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_an_object_at_each_corner_and_edge_stays_with_its_image(height, width, interpolation):
    """One pixel, or as many as a frame pixel covers, at nine places of what the frame shows."""
    frame, transform = Frame(32), Transform(32, interpolation)
    box = frame.crop_box(height, width)
    side = max(1, -(-min(height, width) // 32))
    for part in (0, 0.5, 1):
        for other in (0, 0.5, 1):
            top, left = (
                place.start + round(share * max(0, place.stop - place.start - side))
                for place, share in ((box.rows, part), (box.columns, other))
            )
            target = np.zeros((height, width), np.uint8)
            target[top : top + side, left : left + side] = 1
            picture = np.repeat(target[:, :, None] * np.uint8(255), 3, axis=2)
            shown = transform.place(picture)[0].numpy().astype(float)
            if min(height, width) < 16:  # much enlarged: its edges are where it is half as bright
                rows, columns = (shown.max(axis=axis) > shown.max() / 2 for axis in (1, 0))
                shown = rows[:, None] * columns[None].astype(float)
            shown[shown < 64 * (shown.max() > 1)] = 0  # the tails of the filters
            assert shown.any()
            for placed in (frame.place(target), frame.place_area(target)):
                assert placed.any()
                np.testing.assert_allclose(middle_of(placed), middle_of(shown), atol=0.5)


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_places_in_a_map_and_in_a_picture_agree(height, width):
    """A ramp of positions, as nearest pixels and resized by torch without antialiasing, half a pixel apart at most."""
    frame = Frame(32)
    target = np.stack(np.mgrid[:height, :width], axis=-1).astype(np.float32)
    rows, columns = geometry.middle(height, width)
    shown = torch.from_numpy(target[rows, columns].transpose(2, 0, 1))[None]
    into = geometry.resized(*shown.shape[2:], 32)
    smooth = torch.nn.functional.interpolate(shown, into, mode="bilinear", align_corners=False)[0].numpy()
    top, left = (into[0] - 32) // 2, (into[1] - 32) // 2
    smooth = smooth[:, top : top + 32, left : left + 32].transpose(1, 2, 0)
    assert np.abs(frame.place(target) - smooth).max() <= 0.5 + 1e-3


def test_enlarging_makes_no_new_values():
    placed = Frame(9).place(np.array([[2, 10]], np.uint8))
    assert placed.shape == (9, 9)
    assert set(np.unique(placed)) <= {2, 10}
    assert (
        Frame(6).place(np.array([[2, 10], [10, 2]])).tolist()
        == [[2] * 3 + [10] * 3] * 3 + [[10] * 3 + [2] * 3] * 3
    )


@settings(deadline=None, max_examples=60)
@given(sides, sides, st.integers(1, 40), st.sampled_from(["centre", "left"]), st.integers(0, 2**32 - 1))
def test_every_value_placed_is_one_of_the_map(height, width, size, sampling, seed):
    target = np.random.default_rng(seed).integers(0, 1000, (height, width), np.int32)
    placed = Frame(size, sampling).place(target)
    assert placed.shape == (size, size)
    assert placed.dtype == target.dtype
    assert np.isin(placed, target).all()


@settings(deadline=None, max_examples=60)
@given(sides, sides, st.integers(1, 40))
@example(1, 300, 7)
def test_nearest_is_the_pixel_under_the_centre(height, width, size):
    """Against the crop of PIL's nearest resize, which takes pixel centres too."""
    target = np.arange(height * width, dtype=np.int32).reshape(height, width)
    shown = Image.fromarray(np.ascontiguousarray(target[geometry.middle(height, width)]))
    high, wide = geometry.resized(shown.height, shown.width, size)
    whole = np.asarray(shown.resize((wide, high), Image.Resampling.NEAREST))
    top, left = (high - size) // 2, (wide - size) // 2
    placed = Frame(size).place(target)
    expected = whole[top : top + size, left : left + size]
    # Pillow adds up steps in floating point: where a centre falls between two pixels it may take the other.
    apart = np.abs(np.stack(np.divmod(placed, width)) - np.stack(np.divmod(expected, width)))
    assert apart.max() <= 1
    exact = (
        (np.arange(size) + top + 0.5) * shown.height / high,
        (np.arange(size) + left + 0.5) * shown.width / wide,
    )
    between = [np.isclose(each, np.round(each)) for each in exact]
    assert not apart[0][~between[0]].any()
    assert not apart[1][:, ~between[1]].any()


@settings(deadline=None, max_examples=60)
@given(sides, sides, st.integers(1, 64))
def test_left_is_what_pytorch_calls_nearest(height, width, size):
    target = np.random.default_rng(height).random((height, width), np.float32)
    shown = np.ascontiguousarray(target[geometry.middle(height, width)])
    high, wide = geometry.resized(*shown.shape, size)
    whole = torch.nn.functional.interpolate(torch.from_numpy(shown)[None, None], (high, wide), mode="nearest")
    top, left = (high - size) // 2, (wide - size) // 2
    expected = whole[0, 0, top : top + size, left : left + size].numpy()
    np.testing.assert_array_equal(Frame(size, "left").place(target), expected)


def test_left_is_off_by_up_to_half_a_pixel():
    target = np.arange(4)[None].repeat(4, 0)
    assert Frame(2).place(target)[0].tolist() == [1, 3]
    assert Frame(2, "left").place(target)[0].tolist() == [0, 2]


@settings(deadline=None, max_examples=40)
@given(sides, sides, st.integers(1, 40), st.sampled_from(["centre", "left"]))
def test_channels_are_placed_alike(height, width, size, sampling):
    target = np.random.default_rng(0).random((height, width, 3), np.float32)
    frame = Frame(size, sampling)
    placed = frame.place(target)
    assert placed.shape == (size, size, 3)
    for channel in range(3):
        np.testing.assert_array_equal(placed[:, :, channel], frame.place(target[:, :, channel]))


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 40))
def test_mirroring_a_map_mirrors_its_place_where_the_crop_is_even(height, width, size):
    rows, columns = geometry.axes(height, width, size)
    target = np.random.default_rng(0).random((height, width))
    if (rows.resized - size) % 2 or (columns.resized - size) % 2:
        return
    places = (np.arange(size) + columns.offset + 0.5) * columns.length / columns.resized
    if np.isclose(
        places, np.round(places)
    ).any():  # a centre between two pixels takes the right one either way
        return
    np.testing.assert_array_equal(Frame(size).place(target[:, ::-1]), Frame(size).place(target)[:, ::-1])


def slow_area(target, valid, size, fill):
    """Every pixel weighed by how much of it lies under a frame pixel."""
    rows, columns = geometry.axes(*target.shape, size)
    out = np.full((size, size), float(fill))
    for i in range(size):
        for j in range(size):
            total = weight = 0.0
            for y in range(rows.length):
                for x in range(columns.length):
                    share = 1.0
                    for axis, at, place in ((rows, y, i), (columns, x, j)):
                        low = (axis.offset + place) * axis.length / axis.resized
                        high = (axis.offset + place + 1) * axis.length / axis.resized
                        share *= max(0.0, min(high, at + 1) - max(low, at))
                    if valid[rows.start + y, columns.start + x]:
                        weight += share
                        total += share * target[rows.start + y, columns.start + x]
            if weight > 1e-9:
                out[i, j] = total / weight
    return out


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 14), st.integers(1, 14), st.integers(1, 6), st.integers(0, 99))
@example(1, 40, 5, 0)
def test_area_is_the_mean_of_what_lies_under_a_frame_pixel(height, width, size, seed):
    rng = np.random.default_rng(seed)
    target, valid = rng.random((height, width)), rng.random((height, width)) < 0.7
    everywhere = np.ones_like(valid)
    np.testing.assert_allclose(
        Frame(size).place_area(target), slow_area(target, everywhere, size, 0), rtol=0, atol=1e-5
    )
    target[~valid] = np.nan
    found = Frame(size).place_area(target, valid, fill=-1)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, slow_area(target, valid, size, -1), rtol=0, atol=1e-3)


def test_area_keeps_shares_within_bounds():
    target = (np.random.default_rng(0).random((481, 321)) < 0.1).astype(np.float32)
    found = Frame(224).place_area(target)
    assert 0 <= found.min() <= found.max() <= 1 + 1e-6
    assert (Frame(224).place_area(target, np.zeros(target.shape, bool)) == -1).all()


@settings(deadline=None, max_examples=60)
@given(sides, sides, st.integers(1, 64))
@example(1, 300, 5)
@example(300, 1, 64)
def test_the_crop_box_holds_the_pixels_whose_centres_the_frame_covers(height, width, size):
    box = Frame(size).crop_box(height, width)
    for axis, part, positions in zip(geometry.axes(height, width, size), box[:2], box[2:], strict=True):
        centres = np.arange(axis.length) + 0.5
        places = centres * axis.resized / axis.length - axis.offset
        clear = np.abs(places - np.round(places)) > 1e-9
        inside = np.zeros(axis.length, bool)
        inside[part.start - axis.start : part.stop - axis.start] = True
        np.testing.assert_array_equal(inside[clear], ((places >= 0) & (places < size))[clear])
        assert len(positions) == part.stop - part.start >= 1
        np.testing.assert_allclose(positions, places[inside] - 0.5, atol=1e-9)
        assert positions.min() >= -0.5 - 1e-9
        assert positions.max() < size - 0.5 + 1e-9


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_bringing_a_frame_back_finds_each_pixel_again(height, width):
    """Where the frame is finer than the map, the round trip is the identity."""
    target = np.arange(height * width).reshape(height, width)
    frame = Frame(2 * min(height, width))
    box = frame.crop_box(height, width)
    rows, columns = (
        np.clip(np.floor(at + 0.5), 0, frame.size - 1).astype(int)
        for at in (box.row_positions, box.column_positions)
    )
    back = frame.place(target)[rows[:, None], columns]
    np.testing.assert_array_equal(back, target[box.rows, box.columns])


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_a_picture_is_placed_as_a_backbone_has_it(height, width):
    coarse = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    pixels = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))
    by_torch = Transform(32, "bicubic").place(pixels).numpy().transpose(1, 2, 0)
    difference = np.abs(Frame(32).place_image(pixels).astype(int) - by_torch)
    assert difference.max() <= 3  # each rounds to bytes in two passes
    assert difference.mean() < 0.3


def test_what_changes_a_number_is_described():
    frames = [Frame(), replace(Frame(), size=225), replace(Frame(), sampling="left")]
    assert len({json.dumps(frame.describe(), sort_keys=True) for frame in frames}) == 3
    for wrong in ({"size": 0}, {"sampling": "right"}):
        with pytest.raises(InputError):
            Frame(**wrong)
