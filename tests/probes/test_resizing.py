"""Bilinear resizing against PyTorch's."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from probes import resizing

side = st.integers(1, 40)


def by_torch(maps, size):
    channels_first = torch.from_numpy(np.moveaxis(maps, -1, 1).copy())
    return torch.nn.functional.interpolate(channels_first, size, mode="bilinear", align_corners=False).numpy()


@settings(max_examples=40, deadline=None)
@given(side, side, side, side)
def test_it_is_what_pytorch_does(high, wide, tall, broad):
    maps = np.random.default_rng(high).standard_normal((2, high, wide, 3)).astype(np.float32)
    ours = np.asarray(resizing.upsample(maps, (tall, broad)))
    np.testing.assert_allclose(
        ours, by_torch(maps, (tall, broad)), atol=5e-5
    )  # its weights are rounded to float32


def test_a_lattice_is_part_of_the_whole():
    maps = np.random.default_rng(0).standard_normal((1, 16, 14, 2)).astype(np.float32)
    whole = np.asarray(resizing.upsample(maps, (224, 210)))
    part = np.asarray(resizing.upsample(maps, (224, 210), stride=4))
    np.testing.assert_allclose(part, whole[:, :, 1::4, 1::4], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("out", "stride", "first"), [(224, 4, 1), (224, 1, 0), (9, 2, 0), (10, 3, 1)])
def test_a_lattice_lies_amid_its_blocks(out, stride, first):
    places = resizing.lattice(out, stride)
    assert places[0] == first
    assert (np.diff(places) == stride).all()
    assert places[-1] < out


@settings(max_examples=40, deadline=None)
@given(side, side)
def test_an_average_weighs_pixels_by_area(into, out):
    table = resizing.average(into, out)
    np.testing.assert_allclose(table.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(table.sum(0), into / out, rtol=1e-5)  # every pixel is used up


def test_an_average_of_whole_blocks_is_their_mean():
    pixels = np.arange(12.0)
    np.testing.assert_allclose(resizing.average(3, 12) @ pixels, pixels.reshape(3, 4).mean(1))
