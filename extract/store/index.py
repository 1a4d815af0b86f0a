"""Which rows of an identity are stored, and where.

Rows are counted through all parts, in the order of the parts' names. A row that is in two parts is read from
the part whose name sorts first, by everybody.
"""

from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise

import numpy as np

from extract.ids import ID_BYTES, keys
from extract.store.errors import GoneError, StoreError
from extract.store.kv import Place
from extract.store.layout import committed
from extract.store.parts import Part, read_parts

ATTEMPTS = 10


class Index:
    """The parts of one identity and the ids they hold, as they were when it was read."""

    def __init__(self, parts: Mapping[str, Part]) -> None:
        self.parts = tuple(parts[name] for name in sorted(parts))
        self.starts = np.cumsum([0, *(part.manifest.rows for part in self.parts)])  # of each part's rows

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """All ids in order, and which row each is; stable, so that the first part comes first."""
        ids = keys(
            np.concatenate([part.ids for part in self.parts]) if self.parts else np.empty((0, ID_BYTES))
        )
        order = ids.argsort(kind="stable")
        return ids[order], order

    def locate(self, ids: np.ndarray) -> np.ndarray:
        """(n,) the row that holds each id, -1 where none does."""
        known, order = self._sorted
        if not len(known):
            return np.full(len(ids), -1)
        asked = keys(ids)
        at = np.minimum(known.searchsorted(asked), len(known) - 1)
        return np.where(known[at] == asked, order[at], -1)

    def part_of(self, rows: np.ndarray) -> np.ndarray:
        """(n,) which of `parts` holds each row."""
        return self.starts.searchsorted(rows, side="right") - 1

    def winning(self) -> list[np.ndarray]:
        """For each part a mask over its rows: those that are read from it."""
        known, order = self._sorted
        first = np.ones(len(known), bool)
        first[1:] = known[1:] != known[:-1]
        wins = np.zeros(len(known), bool)
        wins[order[first]] = True
        return [wins[start:stop] for start, stop in pairwise(self.starts)]


def read_index(place: Place, identity: str, old: Index) -> Index:
    """The index as it is now, reading only what `old` does not have.

    A part that goes away while it is being read was merged into another, or removed: then look again.
    """
    known = {part.name: part for part in old.parts}
    for _ in range(ATTEMPTS):
        names = committed(place, identity)
        if names == list(known):
            return old
        try:
            fresh = read_parts(place, identity, [name for name in names if name not in known])
        except GoneError:
            continue
        return Index({name: known[name] for name in names if name in known} | fresh)
    raise StoreError(f"the feature store {place.url} keeps changing while it is being read; try again")
