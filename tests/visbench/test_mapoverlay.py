"""The overlay picture: colours told apart, pixels where they belong, void visible as such."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.color import deltaE_ciede2000, rgb2lab

from visbench.mapoverlay import GAP, LINE, PANEL, colours, draw, palette, ramp


@pytest.mark.parametrize(("size", "least"), [(2, 30), (11, 15), (21, 10), (151, 3)])
def test_classes_are_told_apart_by_an_independent_measure(size, least):
    lab = rgb2lab(palette(size)[None] / 255)[0]
    apart = deltaE_ciede2000(lab[:, None], lab[None]) + 1e9 * np.eye(size)
    assert apart.min() > least
    assert (palette(size) == palette(255)[:size]).all()  # a class keeps its colour


def test_the_ramp_rises_evenly_in_lightness():
    lightness = rgb2lab(ramp(np.linspace(0, 1, 65))[None] / 255)[0, :, 0]
    steps = np.diff(lightness)
    assert (steps > 0).all()
    assert steps.max() < 2 * steps.mean()
    assert (ramp(np.array([-1.0, 2.0])) == ramp(np.array([0.0, 1.0]))).all()


def test_a_map_in_colours():
    target = np.array([[0, 1, 255, 2]], np.uint8)
    shown = colours(target, "labels", 3)
    assert (shown[0, [0, 1, 3]] == palette(3)).all()
    assert len(set(shown[0, 2].tolist())) == 1  # grey
    normals = np.zeros((1, 2, 3), np.float32)
    normals[0, 0] = 0, 0, 1
    assert colours(normals, "normals")[0, 0].tolist() == [128, 128, 255]
    depth = np.array([[0, 1, 3]], np.float32)
    assert (colours(depth, "depth")[0, 1:] == ramp(np.array([0.0, 1.0]))).all()
    for nothing, kind in ((np.full((2, 2), 255, np.uint8), "labels"), (np.full((2, 2), -1.0), "response")):
        assert (np.ptp(colours(nothing, kind), axis=-1) == 0).all()


def test_the_panels_show_image_map_and_both():
    pixels = np.zeros((40, 60, 3), np.uint8)
    pixels[:, 30:] = 0, 255, 0
    target = np.zeros((40, 60), np.uint8)
    target[:20], target[:, :10] = 1, 255
    picture = np.asarray(draw(pixels, target, "labels", classes=("a", "b"), title="x"))
    width, height, top = PANEL, PANEL * 40 // 60, LINE + GAP

    def at(panel, x, y):
        return picture[top + y * height // 40, GAP + panel * (width + GAP) + x * width // 60].tolist()

    assert at(0, 45, 10) == [0, 255, 0]
    assert at(1, 45, 10) == palette(2)[1].tolist()
    assert at(1, 45, 30) == palette(2)[0].tolist()
    assert at(2, 5, 10) == [0, 0, 0]  # where nothing is said the image shows
    assert at(2, 45, 30) != at(2, 45, 10)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["labels", "foreground", "depth", "normals", "response", "boundaries"]),
    st.integers(1, 30), st.integers(1, 30), st.integers(0, 10),
)  # fmt: skip
def test_any_map_can_be_drawn(kind, height, width, seed):
    random = np.random.default_rng(seed)
    if kind in ("labels", "foreground"):
        target = random.choice([0, 1, 7, 255], (height, width)).astype(np.uint8)
    else:
        shape = (height, width, 3) if kind == "normals" else (height, width)
        target = (
            random.normal(size=shape) * random.integers(0, 2, (height, width) + (1,) * (len(shape) - 2))
        ).astype(np.float32)
    pixels = random.integers(0, 256, (height, width, 3), np.uint8)
    picture = draw(pixels, target, kind, classes=("a",), title="any")
    assert max(picture.size) < 4 * PANEL
