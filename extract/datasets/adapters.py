"""Datasets of other libraries, told by what they can do: neither torch nor `datasets` is imported.

An item is asked for by one thread at a time, since few datasets say whether they bear more; nothing is
pickled and no worker process started.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from extract.datasets.base import ImageSet, Splits, one_set
from extract.datasets.labels import encode, encode_indices
from extract.datasets.memory import as_source
from extract.datasets.places import image_folders
from extract.datasets.sources import Lazy, Sources
from extract.errors import InputError, UnreadableImageError
from extract.images import Source

_IMAGE_COLUMNS = ("image", "img")
_LABEL_COLUMNS = ("label", "labels", "fine_label", "class", "target")


def open_torch_style(dataset: Any, *, name: str | None = None) -> Splits:
    """Anything with `len` and `[i]` → image or (image, label); `.classes` names the labels where it is there.

    Labels are taken from `.targets` or `.labels`; without these every item is asked for once.  Where
    torchvision would only open files, the files themselves are read.
    """
    return one_set(_torch_style(dataset, name or type(dataset).__name__))


def _torch_style(dataset: Any, name: str) -> ImageSet:
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise InputError(f"{type(dataset).__name__} is no dataset that can be read; it needs len() and [i]")
    if len(dataset) == 0:
        raise InputError(f"the dataset {name} is empty")
    if hasattr(dataset, "dataset") and hasattr(dataset, "indices"):  # torch.utils.data.Subset
        return _torch_style(dataset.dataset, name).subset(dataset.indices)
    paths = _plain_files(dataset)
    sources: Sources = paths or _one_by_one(len(dataset), lambda i: _parts(dataset[i])[0])
    values = _targets(dataset)
    labels, classes = (None, ()) if values is None else _encoded(values, getattr(dataset, "classes", None))
    names = [str(path) for path in paths] if paths else [f"image {i}" for i in range(len(dataset))]
    folders = image_folders(map(str, paths))
    return ImageSet(name, None, sources, tuple(names), labels, classes, folders=folders)


def open_hugging_face(
    dataset: Any, *, name: str | None = None, image_column: str | None = None, label_column: str | None = None
) -> Splits:
    """A `datasets.Dataset`: its images as encoded bytes, its class names as `ClassLabel` has them."""
    features = dataset.features
    if not hasattr(dataset, "__len__"):
        raise InputError("a streamed dataset has no length and no order; load it without streaming")
    image = _chosen(features, image_column, _IMAGE_COLUMNS, "image_column")
    if image is None:
        raise InputError(
            f"the dataset has the columns {', '.join(features)}; name the images' with image_column"
        )
    label = _chosen(features, label_column, _LABEL_COLUMNS, "label_column")
    values = None if label is None else list(dataset[label])
    if hasattr(features[image], "decode"):
        dataset = dataset.cast_column(image, type(features[image])(decode=False))
    sources = _one_by_one(len(dataset), lambda i: dataset[i][image])
    labels: np.ndarray | None = None
    classes: tuple[str, ...] = ()
    if label is not None and values is not None:
        labels, classes = _encoded(values, getattr(features[label], "names", None))
    names = tuple(f"image {i}" for i in range(len(dataset)))
    title = name or getattr(getattr(dataset, "info", None), "dataset_name", None) or "dataset"
    params = {"image_column": image} | ({"label_column": label} if label else {})
    return one_set(ImageSet(title, None, sources, names, labels, classes, params=params))


def _one_by_one(size: int, get: Callable[[int], Any]) -> Lazy:
    lock = threading.Lock()

    def source(position: int) -> Source:
        try:
            with lock:
                return as_source(get(position))
        except OSError as error:  # what Pillow raises for a damaged image
            raise UnreadableImageError(
                f"image {position}", str(error), lasting=error.errno is None
            ) from error

    return Lazy(size, source)


def _parts(item: Any) -> tuple[Any, Any]:
    """(image, label or None) of an item."""
    if isinstance(item, tuple | list):
        return item[0], item[1] if len(item) > 1 else None
    return item, None


def _targets(dataset: Any) -> Sequence[Any] | None:
    untouched = getattr(dataset, "target_transform", None) is None
    for attribute in ("targets", "labels") if untouched else ():
        values = getattr(dataset, attribute, None)
        values = values() if callable(values) else values
        if values is not None and len(values) == len(dataset):
            return list(values)
    if _parts(dataset[0])[1] is None:
        return None
    return [_parts(dataset[i])[1] for i in range(len(dataset))]


def _plain_files(dataset: Any) -> list[Path]:
    """The files behind a torchvision folder that does nothing to them; else none."""
    loader = getattr(dataset, "loader", None)
    changed = any(getattr(dataset, each, None) is not None for each in ("transform", "target_transform"))
    if changed or not str(getattr(loader, "__module__", "")).startswith("torchvision."):
        return []
    return [Path(path) for path, *_ in getattr(dataset, "samples", ())]


def _encoded(values: Sequence[Any], classes: Sequence[str] | None) -> tuple[np.ndarray, tuple[str, ...]]:
    if classes is None or any(isinstance(value, str) for value in values):
        return encode(values)
    return encode_indices(values, classes)


def _chosen(features: Any, asked: str | None, usual: Sequence[str], option: str) -> str | None:
    if asked is not None:
        if asked not in features:
            raise InputError(f"the dataset has no column {asked!r}; it has {', '.join(features)}")
        return asked
    found = [each for each in usual if each in features]
    if len(found) > 1:
        raise InputError(f"the dataset has the columns {' and '.join(found)}; choose one: {option}")
    return found[0] if found else None
