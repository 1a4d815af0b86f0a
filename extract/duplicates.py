"""The same picture twice: row ids that occur in more than one split, or more than once in one.

Ids are (n, 16) uint8 digests of content, so equal ids are equal bytes; a picture that was saved again has
another id and is found, if at all, by its features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from extract.ids import as_bytes


class Duplicate(NamedTuple):
    """An image of `split_b` that is in `split_a` too."""

    split_a: str
    name_a: str
    split_b: str
    name_b: str

    def __str__(self) -> str:
        return f"{self.split_a}: {self.name_a} = {self.split_b}: {self.name_b}"


def between(ids: Mapping[str, np.ndarray], names: Mapping[str, Sequence[str]]) -> list[Duplicate]:
    """Every image of a split that an earlier split holds too, beside its first twin there."""
    found = []
    for a, b in combinations(ids, 2):
        first: dict[bytes, int] = {}
        for position, row in enumerate(as_bytes(ids[a])):
            first.setdefault(row, position)
        for position, row in enumerate(as_bytes(ids[b])):
            if row in first:
                found.append(Duplicate(a, names[a][first[row]], b, names[b][position]))
    return found


def within(ids: np.ndarray) -> int:
    """How many images repeat an earlier one of the same split."""
    return len(ids) - len(set(as_bytes(ids)))


def shared(ids: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(n,) bool: the rows of `ids` that occur in `others`, to score a test split without them."""
    known = set(as_bytes(others))
    return np.array([row in known for row in as_bytes(ids)], dtype=bool)
