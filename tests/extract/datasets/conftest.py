"""Tiny pictures and maps on disk."""

import numpy as np
import pytest
from PIL import Image


@pytest.fixture(scope="session")
def save():
    """`save(path, array)`: a picture, 8- or 16-bit map, `.npy` or, with `palette=True`, an indexed PNG."""

    def write(path, array, *, palette=False, exif=None):
        path.parent.mkdir(parents=True, exist_ok=True)
        array = np.asarray(array)
        if path.suffix == ".npy":
            np.save(path, array)
            return path
        if palette:
            image = Image.frombytes("P", array.shape[::-1], array.astype(np.uint8).tobytes())
            image.putpalette(np.random.default_rng(0).integers(0, 256, 768, np.uint8).tobytes())
        else:
            image = Image.fromarray(array)
        options = {}
        if exif is not None:
            options["exif"] = Image.Exif()
            options["exif"][0x0112] = exif
        image.save(path, **options)
        return path

    return write


@pytest.fixture(scope="session")
def photo():
    """`photo(seed)`: (h, w, 3) colours, of 6×8 pixels unless told otherwise."""
    return lambda seed, height=6, width=8: np.random.default_rng(seed).integers(
        0, 256, (height, width, 3), np.uint8
    )
