"""Corners and orientations made from a picture: a slow transcription, scikit-image, pictures known by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from skimage.feature import structure_tensor

from extract.errors import InputError
from extract.maps import made


def photo(side: int = 24, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (side, side, 3), np.uint8)


def grey(luma: np.ndarray) -> np.ndarray:
    return np.repeat(np.clip(np.round(luma), 0, 255).astype(np.uint8)[..., None], 3, -1)


def slow_tensor(pixels: np.ndarray) -> np.ndarray:
    """Windows cut out one by one: (h, w, 3) of xx, xy, yy."""
    luma = (pixels / 255) @ np.array([0.299, 0.587, 0.114])
    padded = np.pad(luma, 1, mode="edge")
    kernel = np.outer([1, 2, 1], [-1, 0, 1]) / 8
    h, w = luma.shape
    x, y = np.zeros((2, h, w))
    for i in range(h):
        for j in range(w):
            window = padded[i : i + 3, j : j + 3]
            x[i, j], y[i, j] = (window * kernel).sum(), (window * kernel.T).sum()
    taps = np.exp(-(np.arange(-6, 7) ** 2) / 8)
    taps = np.outer(taps, taps) / taps.sum() ** 2
    products = np.pad(np.stack([x * x, x * y, y * y], -1), ((6, 6), (6, 6), (0, 0)), mode="edge")
    return np.array(
        [
            [(products[i : i + 13, j : j + 13] * taps[..., None]).sum((0, 1)) for j in range(w)]
            for i in range(h)
        ]
    )


def test_a_slow_transcription_agrees():
    pixels = photo()
    tensor = slow_tensor(pixels)
    matrices = tensor[..., [0, 1, 1, 2]].reshape(*tensor.shape[:2], 2, 2)
    low, high = np.moveaxis(np.linalg.eigvalsh(matrices), -1, 0)
    assert made.corner(pixels) == pytest.approx(np.log1p(1e4 * np.maximum(low, 0)), abs=1e-5)
    found = made.orientation(pixels)
    double = np.arctan2(2 * tensor[..., 1], tensor[..., 0] - tensor[..., 2])
    assert found[..., 0] == pytest.approx(np.cos(double), abs=1e-6)
    assert found[..., 1] == pytest.approx(np.sin(double), abs=1e-6)
    assert found[..., 2] == pytest.approx((high - low) / (high + low), abs=1e-6)
    assert found.dtype == made.corner(pixels).dtype == np.float32


def test_the_direction_is_that_of_the_larger_eigenvector():
    pixels = photo(seed=1)
    tensor = slow_tensor(pixels)
    _, vectors = np.linalg.eigh(tensor[..., [0, 1, 1, 2]].reshape(*tensor.shape[:2], 2, 2))
    x, y = np.moveaxis(vectors[..., 1], -1, 0)
    found = made.orientation(pixels)
    assert found[..., 0] == pytest.approx(x**2 - y**2, abs=1e-5)
    assert found[..., 1] == pytest.approx(2 * x * y, abs=1e-5)


def test_scikit_image_agrees_but_for_its_longer_gaussian():
    pixels = photo(64, seed=2)
    luma = (pixels / 255) @ np.array([0.299, 0.587, 0.114])
    yy, xy, xx = structure_tensor(luma, sigma=2, mode="nearest", order="rc")
    coherence = np.hypot(xx - yy, 2 * xy) / (xx + yy)
    found = made.orientation(pixels)
    assert np.abs(found[..., 2] - coherence).max() < 0.02
    theirs = np.stack([xx - yy, 2 * xy], -1) / np.hypot(xx - yy, 2 * xy)[..., None]
    strong = coherence > 0.3
    assert (found[..., :2] * theirs).sum(-1)[strong].min() > 0.999


@pytest.mark.parametrize("degrees", [0, 20, 45, 90, 120, 175])
def test_a_ramp_points_the_way_it_rises(degrees):
    y, x = np.mgrid[:40, :40]
    angle = np.deg2rad(degrees)
    found = made.orientation(grey(128 + 3 * ((x - 20) * np.cos(angle) + (y - 20) * np.sin(angle))))[
        10:30, 10:30
    ]
    assert found[..., 0] == pytest.approx(np.full((20, 20), np.cos(2 * angle)), abs=0.05)
    assert found[..., 1] == pytest.approx(np.full((20, 20), np.sin(2 * angle)), abs=0.05)
    assert found[..., 2].min() > 0.98
    assert np.abs(np.hypot(found[..., 0], found[..., 1]) - 1).max() < 1e-6


def test_a_ramp_of_one_grey_level_has_the_gradient_it_should():
    xx, xy, yy = made._tensor(grey(np.tile(np.arange(40.0), (40, 1))))
    assert xx[5:-5, 8:-8] == pytest.approx(np.full((30, 24), 255.0**-2))
    assert xy == pytest.approx(np.zeros((40, 40)))
    assert yy == pytest.approx(np.zeros((40, 40)))


def test_turned_and_mirrored_pictures():
    pixels = photo(seed=3)
    plain, corners = made.orientation(pixels), made.corner(pixels)
    turned = np.rot90(plain) * [-1, -1, 1]
    mirrored = plain[:, ::-1] * [1, -1, 1]
    transposed = plain.transpose(1, 0, 2) * [-1, 1, 1]
    for picture, expected in (
        (np.rot90(pixels), turned),
        (pixels[:, ::-1], mirrored),
        (pixels.transpose(1, 0, 2), transposed),
        (255 - pixels, plain),
    ):
        assert made.orientation(picture) == pytest.approx(expected, abs=1e-5)
    assert made.corner(np.rot90(pixels)) == pytest.approx(np.rot90(corners), abs=1e-5)
    assert made.corner(255 - pixels) == pytest.approx(corners, abs=1e-5)


def test_a_checkerboard_has_corners_where_four_squares_meet():
    y, x = np.mgrid[:96, :96]
    found = made.corner(grey(255.0 * ((x // 24 + y // 24) % 2)))
    at = [23.5, 47.5, 71.5]
    meets = np.add.outer(np.abs(y[:, :1, None] - at).min(-1), np.abs(x[0, :, None] - at).min(-1).ravel())
    meets = meets.reshape(96, 96)
    assert found[meets < 2].min() > 4
    assert found[meets > 20].max() < 0.01 * found.max()
    edges = made.orientation(grey(255.0 * (x >= 48)))
    assert edges[40:56, 46:50, 2].min() > 0.999
    assert made.corner(grey(255.0 * (x >= 48))).max() < 1e-6


@pytest.mark.parametrize("side", [1, 2, 5, 40])
@pytest.mark.parametrize("colour", [(0, 0, 0), (255, 255, 255), (13, 200, 77)])
def test_a_plain_picture_has_nothing(side, colour):
    pixels = np.full((side, side, 3), colour, np.uint8)
    assert (made.corner(pixels) == 0).all()
    found = made.orientation(pixels)
    assert np.isfinite(found).all()
    assert (found[..., 2] == 0).all()


def test_colours_of_one_luma_make_no_edge():
    pixels = np.zeros((20, 20, 3), np.uint8)
    pixels[:, :10, 0], pixels[:, 10:, 2] = 61, 160  # 0.299 · 61 against 0.114 · 160: 18.239 and 18.240
    strong = np.zeros_like(pixels)
    strong[:, :10, 1] = 61
    assert made._tensor(pixels)[0].max() < 1e-6 * made._tensor(strong)[0].max()


def test_a_single_bright_pixel_is_finite_everywhere():
    pixels = np.zeros((31, 31, 3), np.uint8)
    pixels[15, 15] = 255
    assert np.isfinite(made.orientation(pixels)).all()
    corners = made.corner(pixels)
    assert corners.argmax() == 15 * 31 + 15
    assert (corners >= 0).all()


def test_constants_are_told_and_other_pictures_refused():
    told = {name: json.dumps(made.describe(name), sort_keys=True) for name in made.MADE}
    assert len(set(told.values())) == 2
    assert "0.587" in told["corner"]
    for pixels in (np.zeros((4, 4), np.uint8), np.zeros((4, 4, 4), np.uint8), np.zeros((4, 4, 3))):
        with pytest.raises(InputError, match=r"wanted \(h, w, 3\) of uint8"):
            made.corner(pixels)
