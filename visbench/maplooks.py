"""One image and its map, looked at once: whether they fit, and what the map holds."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from extract.datasets import ImageSet
from extract.errors import InputError, UnreadableImageError
from extract.images import Header, header, read_image
from extract.maps.readers import check_fits

SAMPLED = 1024  # pixels a map that medians and the look of normals are taken of


@dataclass
class Look:
    """What was seen of one image and its map; of a map that cannot be used only `fault`, the reason."""

    fault: str | None = None
    size: tuple[int, int] = (0, 0)  # height, width
    turned: bool = False  # by EXIF
    digest: bytes = b""  # of the map as it is read
    pixels: int = 0
    valid: int = 0  # of them
    least: float = np.inf  # of the valid pixels
    most: float = -np.inf
    at_most: int = 0  # pixels that hold `most`
    sample: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))  # (k,) or (k, 3) valid pixels
    counts: np.ndarray | None = None  # (256,) pixels of each class

    @property
    def variety(self) -> float:
        """How much there is to see: classes, or whether values differ, and then the share that is valid."""
        kinds = float((self.counts > 0).sum()) if self.counts is not None else float(self.most > self.least)
        return kinds + self.valid / max(self.pixels, 1)


def look(images: ImageSet, position: int, max_pixels: int) -> Look:
    """Read an image and its map as a run would."""
    try:
        return _look(images, position, max_pixels)
    except UnreadableImageError as error:
        called = images.names[position]
        return Look(fault=str(error) if called not in str(error) else f"it cannot be read: {error.reason}")
    except InputError as error:
        return Look(fault=str(error))


def valid(target: np.ndarray, kind: str) -> np.ndarray:
    """(h, w) bool: the pixels of a map that say something."""
    if kind in ("labels", "foreground"):
        return np.asarray(target != 255)
    if kind == "depth":
        return np.asarray(target > 0)
    if kind == "normals":
        return np.asarray((target != 0).any(axis=-1))
    return np.asarray(target >= 0)


def _look(images: ImageSet, position: int, max_pixels: int) -> Look:
    targets, name, source = images.maps, images.names[position], images.sources[position]
    pixels = read_image(source, name=name, max_pixels=max_pixels).pixels
    said = (
        header(source, name=name, max_pixels=max_pixels)
        if isinstance(source, Path | bytes)
        else Header(pixels.shape[1], pixels.shape[0], "RGB", "", 1)
    )
    target = targets.read(position)
    orientation = getattr(targets.reader, "orientation", None)
    files = tuple(each[position] for each in targets.sources)
    stated = 1 if orientation is None else orientation(files, targets.names[position])
    check_fits(target.shape, said, (targets.names[position], name), stated)
    kind = targets.reader.kind
    good = valid(target, kind)
    values = target[good]
    seen = Look(
        size=(pixels.shape[0], pixels.shape[1]),
        turned=said.orientation != 1,
        digest=hashlib.blake2b(np.ascontiguousarray(target).tobytes(), digest_size=16).digest(),
        pixels=good.size,
        valid=len(values),
    )
    if kind in ("labels", "foreground"):
        seen.counts = np.bincount(values.ravel(), minlength=256)
    elif len(values):
        seen.sample = values[:: -(-len(values) // SAMPLED)].astype(np.float32)
        seen.least, seen.most = float(values.min()), float(values.max())
        seen.at_most = int((values == values.max()).sum())
    return seen
