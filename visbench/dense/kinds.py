"""The kinds of target maps, as they lie in the feature store: one row an image, in the frame of a backbone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Kind:
    """How a target map is kept; where it says nothing, all its values are `void`."""

    name: str
    dtype: str
    void: float
    depth: int = 0  # values a pixel; 0: the map has no third axis

    def shape(self, size: int) -> tuple[int, ...]:
        """Of one row."""
        return (size, size, self.depth) if self.depth else (size, size)

    def empty(self, count: int, size: int) -> np.ndarray:
        """So many maps that say nothing."""
        return np.full((count, *self.shape(size)), self.void, self.dtype)


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("labels", "uint8", 255),
        Kind("foreground", "uint8", 255),
        Kind("depth", "float32", 0),
        Kind("normals", "float32", 0, depth=3),
        Kind("response", "float32", -1),
        Kind("corner", "float32", -1),
        Kind("orientation", "float32", 0, depth=3),
        Kind("boundaries", "float32", -1),
        Kind("boxes", "float32", -1),  # rows of objects, as many as the image with the most has
    )
}
