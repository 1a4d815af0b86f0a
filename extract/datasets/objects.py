"""The objects that are marked on each image of a set: boxes with classes, and their outlines where they have some.

Boxes are x0, y0, x1, y1 in pixels of the upright image, continuous: the left edge of the first pixel is 0, and x1 and
y1 are the right and lower **edges**, so that (x1 − x0)·(y1 − y0) is the area.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from extract.errors import InputError
from extract.ids import ID_BYTES
from extract.wording import counted

PLAIN, IGNORED, CROWD = 0, 1, 2
"""What a flag says: an object; one that is not scored, as VOC's difficult ones; a region of many (COCO)."""


@dataclass(frozen=True, eq=False)
class Marks:
    """The b objects of one image."""

    boxes: np.ndarray  # (b, 4) float64
    labels: np.ndarray  # (b,) int64: places among the classes
    flags: np.ndarray  # (b,) uint8
    size: tuple[int, int] | None = None  # (height, width) of the image, where the annotation states it
    masks: Callable[[], np.ndarray] | None = None  # gives (b, height, width) bool, made when asked for
    outlines: bytes = b""  # of what the masks are made, for the digest

    def __post_init__(self) -> None:
        shapes = self.boxes.shape, self.labels.shape, self.flags.shape
        count = len(self.labels)
        if shapes != ((count, 4), (count,), (count,)):
            raise InputError(f"boxes, labels and flags have shapes {shapes}; wanted (b, 4), (b,) and (b,)")
        if self.flags.max(initial=0) > CROWD:
            raise InputError(f"a flag is {self.flags.max()}; flags are {PLAIN}, {IGNORED} and {CROWD}")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def digest(self) -> bytes:
        """Of all that is said here."""
        told = hashlib.blake2b(self.outlines, digest_size=ID_BYTES)
        for each, dtype in ((self.boxes, "<f8"), (self.labels, "<i8"), (self.flags, "u1")):
            told.update(np.ascontiguousarray(each.astype(dtype)).tobytes())
        return told.digest()


@dataclass(frozen=True)
class ObjectReader:
    """How marks were read: all that could change a number, for the record."""

    kind: str = "boxes"  # or "instances"
    settings: tuple[tuple[str, Any], ...] = ()

    def describe(self) -> dict[str, Any]:
        """JSON values."""
        return {"kind": self.kind, **dict(self.settings)}


@dataclass(frozen=True, eq=False)
class Objects:
    """The marks of each image of a set, in the set's order."""

    names: tuple[str, ...]  # what errors call the annotation of each image
    marks: tuple[Marks, ...]
    reader: ObjectReader = ObjectReader()
    classes: tuple[str, ...] = ()  # by label
    params: Mapping[str, Any] = field(default_factory=dict)  # how they were found, for the record
    ids: np.ndarray | None = None  # (n, 16) uint8 once they are known

    def __post_init__(self) -> None:
        if len(self.names) != len(self.marks):
            raise InputError(
                f"{len(self.names):,} names came with the marks of {len(self.marks):,} images; wanted one an image"
            )
        for name, marks in zip(self.names, self.marks, strict=True):
            if len(marks) and not 0 <= marks.labels.min() <= marks.labels.max() < len(self.classes):
                raise InputError(
                    f"{name} has labels {marks.labels.min()} … {marks.labels.max()} for "
                    f"{counted(len(self.classes), 'class')}"
                )

    def __len__(self) -> int:
        return len(self.marks)

    def subset(self, rows: Iterable[int]) -> Objects:
        """Those of the images at `rows`, in that order."""
        chosen = [int(row) for row in rows]
        return replace(
            self,
            names=tuple(self.names[row] for row in chosen),
            marks=tuple(self.marks[row] for row in chosen),
            ids=None if self.ids is None else self.ids[chosen],
        )

    def identified(self, images: np.ndarray) -> Objects:
        """With a row id for the marks of each image: of the image's own and of all that is said of it."""
        digests = [
            hashlib.blake2b(image.tobytes() + marks.digest, digest_size=ID_BYTES).digest()
            for image, marks in zip(images, self.marks, strict=True)
        ]
        return replace(self, ids=np.frombuffer(b"".join(digests), np.uint8).reshape(-1, ID_BYTES))
