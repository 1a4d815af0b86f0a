"""How the points of one image lie in another, in pixels of the upright images: (x, y), from the first pixel's edge.

What a pair's `truth["relation"]` is: either something that knows of every point (`truth`), or keypoints.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np

Size = tuple[int, int]  # (height, width) of an upright image


class Relation(Protocol):
    """What is known of a pair, for every point of its first image."""

    @property
    def digest(self) -> bytes:
        """Of all that could change an answer."""

    def truth(self, points: np.ndarray, first: Size, second: Size) -> tuple[np.ndarray, np.ndarray]:
        """(n, 2) where points (n, 2) of the first image lie in the second, and (n,) bool whether that is known."""


@dataclass(frozen=True, eq=False)
class Keypoints:
    """Points that somebody marked in both images."""

    first: np.ndarray  # (k, 2) float64
    second: np.ndarray  # (k, 2)
    visible: np.ndarray  # (k,) bool: marked in both
    extent: float  # the longer side of the object's box in the second image, that errors are measured by
    category: str | None = None

    @property
    def digest(self) -> bytes:
        """Of the points and of the extent."""
        told = hashlib.blake2b(repr((self.extent, self.category)).encode())
        for each, dtype in ((self.first, "<f8"), (self.second, "<f8"), (self.visible, "u1")):
            told.update(np.ascontiguousarray(each.astype(dtype)).tobytes())
        return told.digest()
