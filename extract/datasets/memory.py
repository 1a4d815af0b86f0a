"""Images that are in memory already, or named one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from extract.datasets.base import ImageSet, Splits, one_set
from extract.datasets.labels import encode
from extract.datasets.places import image_folders
from extract.datasets.sources import Lazy, Sources
from extract.errors import InputError
from extract.images import Source


def open_arrays(images: Any, labels: Any = None, *, name: str | None = None) -> Splits:
    """A list of images, or one array (n, h, w), (n, h, w, 3) or (n, h, w, 4), with or without labels.

    Labels are numbers or names, -1 or None where unlabelled; (n, c) of 0 and 1 gives an image several.
    """
    sources = _array(images) if isinstance(images, np.ndarray) else [as_source(each) for each in images]
    if not len(sources):
        raise InputError("there are no images")
    files = [each for each in sources if isinstance(each, Path)] if isinstance(sources, list) else []
    names = [str(each) for each in files]
    if len(set(names)) != len(sources):
        names = [f"image {i}" for i in range(len(sources))]
    encoded, classes = _labels(labels) if labels is not None else (None, ())
    folders = image_folders(str(each) for each in files)
    return one_set(ImageSet(name or "images", None, sources, tuple(names), encoded, classes, folders=folders))


def as_source(image: Any) -> Source:
    """One image as a dataset gives it: a path, bytes, a PIL image, an array, or a uint8 tensor (c, h, w)."""
    if isinstance(image, dict) and "bytes" in image:  # as Hugging Face datasets keep them
        image = image["bytes"] if image["bytes"] is not None else image.get("path")
    if isinstance(image, str):
        return Path(image)
    if isinstance(image, bytes | Path | np.ndarray | Image.Image):
        return image
    if hasattr(image, "detach"):  # a tensor
        array: np.ndarray = image.detach().cpu().numpy()
        if array.dtype == np.uint8 and array.ndim == 3 and array.shape[0] in (1, 3, 4):
            return array.transpose(1, 2, 0)
        raise InputError(
            f"an image is a tensor of {array.dtype} {array.shape}; give the dataset without its transform, "
            "since the backbone's own is applied"
        )
    raise InputError(
        f"an image is a {type(image).__name__}; it should be a path, bytes, a PIL image or a uint8 array"
    )


def _array(images: np.ndarray) -> Sources:
    if images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] not in (1, 3, 4)):
        raise InputError(f"images have the shape {images.shape}; it should be (n, h, w) or (n, h, w, 3)")
    if images.dtype not in (np.uint8, np.bool_) and not (images.dtype == np.uint16 and images.ndim == 3):
        raise InputError(f"images are {images.dtype} of no known range; give uint8 values of 0 … 255")
    return Lazy(len(images), lambda position: images[position])


def _labels(labels: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    array = np.asarray(labels) if hasattr(labels, "shape") else None
    if array is None or array.ndim == 1:
        return encode(labels)
    if array.ndim != 2 or not np.isin(array, (0, 1)).all():
        raise InputError(f"labels have the shape {array.shape}; it should be (n,), or (n, c) of 0 and 1")
    return array.astype(np.uint8), tuple(map(str, range(array.shape[1])))
