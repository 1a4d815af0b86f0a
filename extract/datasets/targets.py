"""What every image of a set should say, as a map of its own: the files that hold it, and how they are read.

A map lies on its image pixel for pixel, upright.  It is read once, brought into the frame of a backbone
(`extract.maps.frame`) and kept in the feature store; its row id is a digest of the files' content.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from extract.datasets.sources import Lazy, Sources


class MapReader(Protocol):
    """How maps of one kind are read: a frozen dataclass whose fields are all that could change a number."""

    @property
    def kind(self) -> str:
        """What the numbers mean: labels, foreground, depth, normals, response, boundaries."""

    def describe(self) -> dict[str, Any]:
        """JSON values: the kind and all that could change a number."""

    def read(self, sources: tuple[Any, ...], name: str) -> np.ndarray:
        """(h, w) or (h, w, k) of one image, from its files or arrays; `name` is what an error calls it."""


@dataclass(frozen=True, eq=False)
class Targets:
    """A map for each image of a set, in the set's order."""

    names: tuple[str, ...]  # what errors call each: its path below the root
    sources: tuple[Sources, ...]  # one or more files (or arrays) a map: (maps, masks)
    reader: MapReader
    classes: tuple[str, ...] = ()  # of label maps, where their names are known
    params: Mapping[str, Any] = field(default_factory=dict)  # how they were found, for the record
    ids: np.ndarray | None = None  # (n, 16) uint8 row ids, once they are known

    def __len__(self) -> int:
        return len(self.names)

    def read(self, position: int) -> np.ndarray:
        """The map of an image."""
        return self.reader.read(tuple(each[position] for each in self.sources), self.names[position])

    def oriented(self, position: int, *, max_pixels: int) -> tuple[np.ndarray, int]:
        """The map of an image, and the EXIF orientation that its file states."""
        sources, reader = tuple(each[position] for each in self.sources), self.reader
        if not hasattr(reader, "oriented"):
            return reader.read(sources, self.names[position]), 1
        limited: Any = replace(reader, max_pixels=max_pixels)  # type: ignore[type-var]
        found: tuple[np.ndarray, int] = limited.oriented(sources, self.names[position])
        return found

    def subset(self, rows: Iterable[int]) -> Targets:
        """Those of the images at `rows`, in that order."""
        chosen = [int(row) for row in rows]

        def take(each: Sources) -> Sources:
            return Lazy(len(chosen), lambda position: each[chosen[position]])

        return replace(
            self,
            names=tuple(self.names[row] for row in chosen),
            sources=tuple(take(each) for each in self.sources),
            ids=None if self.ids is None else self.ids[chosen],
        )
