"""What every reader of boxes does alike: boxes are checked, and those that are not to be scored are flagged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from extract.datasets.objects import IGNORED, PLAIN, Marks, ObjectReader
from extract.errors import InputError


@dataclass(frozen=True)
class Rules:
    """Which objects are scored, and whether each has to come with its outline."""

    min_box_size: float = 0  # pixels of the image: objects whose shorter side is less are not scored
    include_difficult: bool = False  # VOC's difficult objects are scored like others
    instances: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.min_box_size < np.inf:
            raise InputError(f"min_box_size is {self.min_box_size}; it is a number of pixels, 0 or more")

    @property
    def reader(self) -> ObjectReader:
        """For the record."""
        kind = "instances" if self.instances else "boxes"
        told = (
            ("min_box_size", float(self.min_box_size)),
            ("include_difficult", bool(self.include_difficult)),
        )
        return ObjectReader(kind, told)


def marked(
    boxes: Sequence[Any] | np.ndarray,
    labels: Sequence[int] | np.ndarray,
    flags: Sequence[int] | np.ndarray,
    rules: Rules,
    *,
    where: str,
    size: tuple[int, int] | None = None,
    masks: Callable[[], np.ndarray] | None = None,
    outlines: bytes = b"",
) -> Marks:
    """The objects of an image, boxes as edges x0, y0, x1, y1; `where` is what an error calls their annotation.

    A box whose second corner lies before its first is refused.  One without area (COCO's training set has two) and one
    smaller than `rules` ask for are kept and flagged IGNORED, so that they are neither asked for nor in the way.
    """
    edges = np.array(boxes, np.float64).reshape(-1, 4)
    said = np.array(flags, np.uint8).reshape(-1)
    sides = edges[:, 2:] - edges[:, :2]
    wrong = ~np.isfinite(edges).all(axis=1) | (sides < 0).any(axis=1)
    if wrong.any():
        place = int(wrong.argmax())
        x0, y0, x1, y1 = edges[place].tolist()
        raise InputError(
            f"{where}, object {place + 1}: a box from ({x0:g}, {y0:g}) to ({x1:g}, {y1:g}); the second corner has to "
            "lie right of and below the first, so mend the annotation or take the object out"
        )
    if (sides > 0).all(axis=1).any() and (np.abs(edges) <= 1).all() and (edges != np.round(edges)).any():
        raise InputError(
            f"{where}: all boxes lie in the first pixel, so they seem to be in shares of the image; wanted pixels, so "
            "multiply x by its width and y by its height"
        )
    shorter = sides.min(axis=1, initial=np.inf)
    said[(said == PLAIN) & ((shorter == 0) | (shorter < rules.min_box_size))] = IGNORED
    return Marks(edges, np.array(labels, np.int64).reshape(-1), said, size, masks, outlines)
