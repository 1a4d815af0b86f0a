"""Feature maps and their targets as batches, read ahead from the store or held in memory where they fit.

Axes: n images, k batches a chunk, b images a batch.  A chunk is what one call of a training step takes; where chunks
are cut, and whether rows come from memory, changes no number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from extract.store.view import View
from probes.dense import Maps
from visbench.dense.kinds import Kind
from visbench.memory import free_bytes

AHEAD = 2  # chunks being read while one is worked on
CHUNK_BYTES = 1 << 25
SHARE = 4  # of the memory that is free, a quarter may hold rows


class Chunk(NamedTuple):
    """Some batches."""

    maps: Maps  # (k, b, h, w, d) a layer
    target: np.ndarray  # (k, b, S, S, …)
    batches: int  # that exist; the others are void


class Rowwise:
    """Rows of arrays, one array behind the other, as a `Stream` takes them from the store; nothing is copied ahead."""

    def __init__(self, arrays: Sequence[np.ndarray], order: np.ndarray | None = None) -> None:
        self._arrays = [each for each in arrays if len(each)] or list(arrays[:1])
        self._starts = np.cumsum([0, *map(len, self._arrays)])
        self._order = np.arange(self._starts[-1]) if order is None else order
        self.dtype = np.result_type(*self._arrays)
        self.shape = (len(self._order), *self._arrays[0].shape[1:])

    def __len__(self) -> int:
        return len(self._order)

    def read(self, rows: slice | np.ndarray | None = None) -> np.ndarray:
        """These rows (all of them by default), as an array of their own."""
        wanted = self._order if rows is None else self._order[rows]
        which = self._starts.searchsorted(wanted, side="right") - 1
        found = np.empty((len(wanted), *self.shape[1:]), self.dtype)
        for place, array in enumerate(self._arrays):
            own = which == place
            found[own] = array[wanted[own] - self._starts[place]]
        return found

    def start(self, rows: np.ndarray) -> Callable[[], np.ndarray]:
        """The same, when it is asked for."""
        return lambda: self.read(rows)


@dataclass
class Stream:
    """The rows of one role: features of some layers and the target, all in one order."""

    views: Sequence[View | Rowwise]  # a layer each
    tokens: Sequence[View | Rowwise]  # CLS tokens of the same layers, or none
    target: View | Rowwise
    kind: Kind
    held: bool | None = None  # in memory; None: where it fits
    name: str = ""  # what progress calls it
    frame: Any = None  # of the target maps
    original: Callable[[int], np.ndarray] | None = (
        None  # the map of an image as it was drawn, before it was framed
    )
    reads: int = field(default=0, init=False)  # rows read from the store, for those who count

    def __len__(self) -> int:
        return len(self.target)

    @property
    def row_bytes(self) -> int:
        """Of one image."""
        return sum(int(np.prod(view.shape[1:])) * view.dtype.itemsize for view in self._all)

    @property
    def _all(self) -> list[View | Rowwise]:
        return [*self.views, *self.tokens, self.target]

    @cached_property
    def _memory(self) -> list[np.ndarray] | None:
        """All rows, if they are held."""
        held = self.held
        if held is None:
            free = free_bytes()
            held = free is None or self.row_bytes * len(self) * SHARE <= free
        if not held:
            return None
        self.reads += len(self)
        return [view.read() for view in self._all]

    def chunks(self, order: np.ndarray, batch: int) -> Iterator[Chunk]:
        """The rows of `order`, in batches of so many; the last is filled up with images that say nothing."""
        each = max(1, CHUNK_BYTES // max(self.row_bytes * batch, 1)) * batch
        for rows, arrays in self._ahead(
            [order[start : start + each] for start in range(0, len(order), each)]
        ):
            yield self._chunk(
                arrays, batch, -(-len(rows) // batch), min(each, -(-len(order) // batch) * batch)
            )

    def blocks(
        self, size: int, rows: np.ndarray | None = None
    ) -> Iterator[tuple[np.ndarray, Maps, np.ndarray]]:
        """Some rows (all by default), `size` images at a time; a last block that is short repeats its last row."""
        rows = np.arange(len(self)) if rows is None else rows
        starts = range(0, len(rows), size)
        for chosen, arrays in self._ahead([rows[start : start + size] for start in starts]):
            short = size - len(chosen)
            if short and len(rows) > size:
                arrays = [np.concatenate([each, np.repeat(each[-1:], short, axis=0)]) for each in arrays]
            yield chosen, self._maps(arrays[:-1]), arrays[-1]

    def _ahead(self, wanted: Sequence[np.ndarray]) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """The rows asked for, while those that come next are being read."""
        memory = self._memory
        if memory is not None:
            for rows in wanted:
                yield rows, [each[rows] for each in memory]
            return
        under_way: deque[tuple[np.ndarray, Callable[[], list[np.ndarray]]]] = deque()
        for rows in wanted:
            under_way.append((rows, self._begin(rows)))
            if len(under_way) > AHEAD:
                ready, finish = under_way.popleft()
                yield ready, finish()
        while under_way:
            ready, finish = under_way.popleft()
            yield ready, finish()

    def _begin(self, rows: np.ndarray) -> Callable[[], list[np.ndarray]]:
        self.reads += len(rows)
        started = [view.start(rows) for view in self._all]
        return lambda: [finish() for finish in started]

    def _chunk(self, arrays: list[np.ndarray], batch: int, count: int, room: int) -> Chunk:
        """Rows as (k, b, …), where k is that of a full chunk, so that one program serves all."""
        short = room - len(arrays[0])
        if short:
            filled = [
                np.concatenate([each, np.zeros((short, *each.shape[1:]), each.dtype)]) for each in arrays[:-1]
            ]
            void = np.full((short, *arrays[-1].shape[1:]), self.kind.void, arrays[-1].dtype)
            arrays = [*filled, np.concatenate([arrays[-1], void])]
        shaped = [each.reshape(-1, batch, *each.shape[1:]) for each in arrays]
        return Chunk(self._maps(shaped[:-1]), shaped[-1], count)

    def _maps(self, arrays: Sequence[Any]) -> Maps:
        grids = tuple(arrays[: len(self.views)])
        return Maps(grids, tuple(arrays[len(self.views) :]) if self.tokens else None)
