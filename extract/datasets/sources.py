"""Images, or maps, one at a time: a list of them, or something that makes each when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from extract.images import Source


class Sources(Protocol):
    """A list of images, or anything that knows its length and gives one at a time."""

    def __len__(self) -> int: ...
    def __getitem__(self, position: int, /) -> Source: ...


@dataclass(frozen=True)
class Lazy:
    """Images made one at a time, when they are asked for; `get` may be called from several threads."""

    size: int
    get: Callable[[int], Source]

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, position: int, /) -> Source:
        if not -self.size <= position < self.size:
            raise IndexError(position)
        return self.get(position % self.size)
