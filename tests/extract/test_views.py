import json

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from extract.errors import InputError
from extract.views import FLATTEST, Warp, _from_corners, _turns, apply_homography, displacements

ids = st.binary(min_size=16, max_size=16)
warps = st.floats(0, 0.4999)
SQUARE = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], float)


def moved(warp, row_id, size):
    return apply_homography(warp.homography(row_id, size), SQUARE * size)


@given(ids, warps, st.integers(0, 2**40), st.sampled_from([14, 224, 518]))
def test_corners_go_where_they_are_sent(row_id, max_warp, seed, size):
    warp = Warp(max_warp, seed)
    corners = moved(warp, row_id, size)
    steps = corners - SQUARE * size
    assert np.abs(steps).max() <= max_warp * size + 1e-9
    if max_warp < 0.247:
        np.testing.assert_allclose(steps, displacements(row_id, seed) * max_warp * size, atol=1e-9 * size)


@given(ids, st.floats(0.001, 0.2475), st.integers(0, 9))
def test_a_curve_over_max_warp_moves_each_corner_on_one_line(row_id, max_warp, seed):
    step = (moved(Warp(max_warp, seed), row_id, 100) - SQUARE * 100) / max_warp
    again = (moved(Warp(0.1, seed), row_id, 100) - SQUARE * 100) / 0.1
    np.testing.assert_allclose(step, again, atol=1e-7)


@given(
    st.lists(st.sampled_from([-1.0, 1.0]) | st.floats(-1, 1), min_size=8, max_size=8), st.floats(0, 0.2474)
)
def test_small_warps_never_fold(steps, max_warp):
    assert _turns(SQUARE + max_warp * np.reshape(steps, (4, 2))).min() >= 1 - 4 * max_warp - 1e-12 > FLATTEST


@settings(max_examples=200)
@given(ids, st.floats(0.3, 0.4999))
def test_large_warps_are_neither_folded_nor_mirrored(row_id, max_warp):
    homography = Warp(max_warp).homography(row_id, 1)
    assert _turns(apply_homography(homography, SQUARE)).min() > FLATTEST * 0.999
    assert np.linalg.det(homography) > 0
    y, x = np.mgrid[0:1:9j, 0:1:9j].reshape(2, -1)
    assert np.isfinite(apply_homography(homography, np.column_stack([x, y]))).all()


def test_folded_ones_are_drawn_again():
    folds = [np.uint32(i).tobytes() * 4 for i in range(300)]
    folds = [i for i in folds if _turns(SQUARE + 0.45 * displacements(i, 0)).min() < FLATTEST]
    assert 5 < len(folds) < 150
    for row_id in folds:
        assert (Warp(0.45).homography(row_id, 9) == Warp(0.45).homography(row_id, 9)).all()
        assert not np.allclose(moved(Warp(0.45), row_id, 1) - SQUARE, 0.45 * displacements(row_id, 0))


def test_displacements_are_uniform_and_independent():
    drawn = np.array([displacements(bytes(8) + i.to_bytes(8, "big"), 0).ravel() for i in range(4000)])
    assert np.abs(drawn).max() < 1
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=0.05)
    np.testing.assert_allclose(drawn.T @ drawn / 4000, np.eye(8) / 3, atol=0.03)
    assert len(np.unique(drawn)) == drawn.size


def test_the_numbers_are_the_same_on_every_machine():
    np.testing.assert_allclose(
        displacements(bytes(range(16)), 0)[:2],
        [[0.7987093434462009, -0.7800854278981204], [-0.7744513856278428, -0.299661139565915]],
        rtol=0,
        atol=0,
    )


@given(ids, ids)
def test_seed_and_image_decide_and_nothing_else_does(one, other):
    assume(one != other)
    first = Warp(0.2).homography(one, 64)
    Warp(0.2).homography(other, 64)
    assert (Warp(0.2).homography(one, 64) == first).all()
    assert not np.allclose(Warp(0.2).homography(other, 64), first)
    assert not np.allclose(Warp(0.2, seed=1).homography(one, 64), first)
    twice = np.diag([2, 2, 1]) @ first @ np.diag([0.5, 0.5, 1])
    np.testing.assert_allclose(Warp(0.2).homography(one, 128), twice, atol=1e-9)


@given(ids, st.floats(0.01, 0.49))
def test_the_closed_form_is_the_solution_of_eight_equations(row_id, max_warp):
    corners = moved(Warp(max_warp), row_id, 1) * 50
    rows = []
    for (x, y), (u, v) in zip(SQUARE * 50, corners, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
    solved = np.append(np.linalg.solve(np.array(rows), corners.ravel()), 1).reshape(3, 3)
    np.testing.assert_allclose(_from_corners(corners, 50), solved, rtol=1e-6, atol=1e-8)


def test_no_warp_gives_the_very_pixels():
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    warp = Warp(0)
    homography = warp.homography(bytes(16), 32)
    assert (homography == np.eye(3)).all()
    assert warp.apply(pixels, homography) is pixels


def blob(x, y, side=96, sigma=2.0):  # of a larger one perspective moves the centre of gravity
    rows, columns = np.mgrid[:side, :side] + 0.5
    values = 250 * np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / (2 * sigma**2))
    return np.repeat(values.round().astype(np.uint8)[..., None], 3, axis=2)


def cubic(values, x, y):
    """Keys's kernel with a = -1, which is Pillow's; edges are replicated. `x` and `y` from the first pixel's centre."""

    def kernel(t):
        t = np.abs(t)
        return np.where(t < 1, t**3 - 2 * t**2 + 1, np.where(t < 2, -(t**3) + 5 * t**2 - 8 * t + 4, 0))

    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    found = 0
    for i in range(-1, 3):
        for j in range(-1, 3):
            weight = kernel(y - top - i) * kernel(x - left - j)
            rows, columns = (np.clip(at, 0, len(values) - 1) for at in (top + i, left + j))
            found = found + weight * values[rows, columns]
    return found


@pytest.mark.parametrize("max_warp", [0.02, 0.2, 0.4])
def test_pixels_are_what_the_kernel_gives_at_the_place_they_come_from(max_warp):
    noise = np.random.default_rng(0).integers(0, 256, (48, 48, 3), np.uint8)
    homography = Warp(max_warp).homography(b"0123456789abcdef", 48)
    seen = Warp(max_warp).apply(noise, homography)[..., 1]
    rows, columns = np.mgrid[:48, :48] + 0.5
    source = apply_homography(np.linalg.inv(homography), np.stack([columns, rows], axis=-1))
    inside = ((source > 0) & (source < 48)).all(axis=-1)
    x, y = np.where(inside[..., None], source, 0).transpose(2, 0, 1) - 0.5
    expected = np.where(inside, np.clip(cubic(noise[..., 1].astype(float), x, y), 0, 255), 0)
    assert np.abs(seen - expected).max() <= 1.01


@pytest.mark.parametrize("max_warp", [0.02, 0.1, 0.2])
@pytest.mark.parametrize("place", [(48, 48), (20.3, 71.8), (80, 25.5)])
def test_landmarks_land_where_the_homography_says(place, max_warp):
    tried = 0
    for number in range(12):
        homography = Warp(max_warp).homography(number.to_bytes(16, "big"), 96)
        expected = apply_homography(homography, np.array(place))
        if ((expected > 12) & (expected < 84)).all():
            seen = Warp(max_warp).apply(blob(*place), homography)[..., 0].astype(float)
            rows, columns = np.mgrid[:96, :96] + 0.5
            found = np.array([(seen * columns).sum(), (seen * rows).sum()]) / seen.sum()
            assert np.abs(found - expected).max() < 0.2
            tried += 1
    assert tried >= 3


def test_outside_is_black_and_inside_is_not():
    white = np.full((64, 64, 3), 255, np.uint8)
    homography = Warp(0.2).homography(b"0123456789abcdef", 64)
    seen = Warp(0.2).apply(white, homography)
    rows, columns = np.mgrid[:64, :64] + 0.5
    source = apply_homography(np.linalg.inv(homography), np.stack([columns, rows], axis=-1))
    inside = ((source > 0) & (source < 64)).all(axis=-1)
    np.testing.assert_array_equal(seen == 255, np.repeat(inside[..., None], 3, axis=2))
    np.testing.assert_array_equal(seen == 0, np.repeat(~inside[..., None], 3, axis=2))
    assert 0.3 < inside.mean() < 1


def test_a_pure_shift_moves_pixels_whole():
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)
    shift = np.array([[1, 0, 3], [0, 1, -2], [0, 0, 1.0]])
    seen = Warp().apply(pixels, shift)
    np.testing.assert_array_equal(seen[:14, 3:], pixels[2:, :13])
    assert not seen[14:].any()
    assert not seen[:, :3].any()


def test_points_on_and_behind_the_horizon_are_nowhere():
    homography = np.array([[1, 0, 0], [0, 1, 0], [-0.1, 0, 1.0]])
    points = np.array([[5.0, 2], [10, 2], [11, 2], [np.nan, 1]])
    np.testing.assert_allclose(apply_homography(homography, points), [[10, 4], *[[np.nan, np.nan]] * 3])
    assert apply_homography(homography, np.zeros((2, 3, 5, 2))).shape == (2, 3, 5, 2)
    assert apply_homography(homography, np.array([1, 1])).shape == (2,)


@given(ids, st.floats(0.01, 0.2))
def test_there_and_back_again(row_id, max_warp):
    homography = Warp(max_warp).homography(row_id, 224)
    points = np.random.default_rng(0).uniform(0, 224, (50, 2))
    there = apply_homography(homography, points)
    back = np.linalg.inv(homography)
    np.testing.assert_allclose(apply_homography(back / back[2, 2], there), points, atol=1e-6)


def test_a_view_has_an_id_of_all_that_made_it():
    row_id = bytes(range(16))
    warp = Warp(0.2)
    assert json.loads(json.dumps(warp.describe())) == warp.describe()
    views = [
        warp.view_id(row_id, 224),
        warp.view_id(row_id, 448),
        warp.view_id(row_id, 224, crop={"size": 224}),
        warp.view_id(bytes(16), 224),
        Warp(0.1).view_id(row_id, 224),
        Warp(0.2, 1).view_id(row_id, 224),
        row_id,
    ]
    assert len(set(views)) == len(views)
    assert {len(each) for each in views} == {16}
    assert Warp(0.2).view_id(row_id, 224) == views[0]


def test_what_cannot_be_warped_is_refused():
    for max_warp in (-0.1, 0.5, 1, float("nan")):
        with pytest.raises(InputError, match="max_warp is"):
            Warp(max_warp)
    for pixels in (
        np.zeros((4, 5, 3), np.uint8),
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 3)),
        np.zeros((0, 0, 3)),
    ):
        with pytest.raises(InputError, match="square uint8 crop"):
            Warp().apply(pixels, np.eye(3))
    with pytest.raises(InputError, match="horizon"):
        Warp().apply(np.zeros((4, 4, 3), np.uint8), np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0.0]]))
