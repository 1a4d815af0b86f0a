"""Stored rows in the order they were asked for, lazily or whole.  Axes: n rows, then a row's own."""

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import tensorstore as ts

from extract.store.errors import GoneError, MissingRowsError, StoreError
from extract.store.index import Index
from extract.store.kv import Place
from extract.store.parts import Part
from extract.wording import counted

IN_FLIGHT = 8  # parts that are read at the same time


class View:
    """What is stored for `ids` under one identity: (n, …), each row as its part's manifest committed it."""

    def __init__(self, place: Place, identity: str, ids: np.ndarray, refresh: Callable[[], Index]) -> None:
        self._place, self._identity, self._ids, self._refresh = place, identity, ids, refresh
        self._find()

    def _find(self) -> None:
        """Look up in which part, and where in it, each row lies."""
        index = self._refresh()
        rows = index.locate(self._ids)
        missing = rows < 0
        if missing.any() or not index.parts:
            raise MissingRowsError(
                f"the feature store {self._place.url} lacks {missing.sum():,} of {counted(len(rows), 'row')} of "
                f"{self._identity}; extract them first",
                missing,
            )
        used, self._part = np.unique(index.part_of(rows), return_inverse=True)
        self._row = rows - index.starts[index.part_of(rows)]
        self._parts = [index.parts[i] for i in used]
        first, *others = (part.manifest for part in (self._parts or index.parts[:1]))
        if any((m.dtype, m.row_shape) != (first.dtype, first.row_shape) for m in others):
            raise StoreError(
                f"parts of {self._identity} in the feature store {self._place.url} differ in dtype or shape; "
                f"remove them with `visbench cache rm {self._identity}` and extract again"
            )
        self.dtype: np.dtype[Any] = first.dtype
        self.shape: tuple[int, ...] = (len(rows), *first.row_shape)

    def __len__(self) -> int:
        return len(self._ids)

    def read(self, rows: slice | np.ndarray | None = None) -> np.ndarray:
        """These rows (all of them by default) as an array of the stored dtype.

        Whole parts are read side by side, straight into the array. Should somebody have merged parts since
        the view was opened, the rows are looked up again.
        """
        try:
            return self._read(rows)
        except GoneError:
            self._find()
            self.__dict__.pop("array", None)
            return self._read(rows)

    def start(self, rows: np.ndarray) -> Callable[[], np.ndarray]:
        """Begin to read these rows, and go on; what is returned waits for them. Duplicates are read twice."""
        out = np.empty((len(rows), *self.shape[1:]), self.dtype)
        begun = list(begin(self._parts, self._part[rows], self._row[rows], out))

        def finish() -> np.ndarray:
            try:
                for each in begun:
                    each()
            except GoneError:
                return self.read(rows)
            return out

        return finish

    def _read(self, rows: slice | np.ndarray | None) -> np.ndarray:
        chosen = slice(None) if rows is None else rows
        return gather(self._parts, self._part[chosen], self._row[chosen], self.shape[1:], self.dtype)

    @cached_property
    def array(self) -> Any:
        """A lazy TensorStore over all rows, for streaming: `view.array[i:j].read()` is a future.

        It stays with the parts that were there when it was made; open another view if they are merged.
        """
        if not self._parts:
            return ts.array(np.empty(self.shape, self.dtype))
        starts = np.cumsum([0, *(part.manifest.rows for part in self._parts)])
        rows = span(starts[self._part] + self._row)
        whole = ts.concat([part.array for part in self._parts], axis=0)
        return whole[rows].translate_to[(0,) * len(self.shape)]


def gather(
    parts: list[Part], part: np.ndarray, row: np.ndarray, row_shape: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray:
    """(n, …) row `row[i]` of part `part[i]` for each i; several parts at the same time, and each only once."""
    out = np.empty((len(part), *row_shape), dtype)
    under_way: list[Callable[[], None]] = []
    for started in begin(parts, part, row, out):
        under_way.append(started)
        if len(under_way) == IN_FLIGHT:
            under_way.pop(0)()
    for finish in under_way:
        finish()
    return out


def begin(
    parts: list[Part], part: np.ndarray, row: np.ndarray, out: np.ndarray
) -> Iterator[Callable[[], None]]:
    """Begin to read the same rows into `out`, part after part as this is asked; each waits for its own."""
    order = part.argsort(kind="stable")
    bounds = part[order].searchsorted(range(len(parts) + 1))
    for one, (start, stop) in zip(parts, pairwise(bounds), strict=True):
        if stop > start:
            yield _start(one, row[order[start:stop]], out, order[start:stop])


def _start(part: Part, rows: np.ndarray, out: np.ndarray, to: np.ndarray) -> Callable[[], None]:
    """Begin to read rows of a part into `out[to]`; what is returned waits until they are there.

    TensorStore copies straight into `out`, runs of rows fast, but others row by row. That suits grids, and few
    vectors; where vectors are wanted in another order, it is faster to read them as a run and then sort.
    """
    first, last = rows.min(), rows.max()
    source, target = span(rows), span(to)
    runs = isinstance(source, slice) and isinstance(target, slice)
    if runs or out.ndim > 2 or last - first >= 2 * len(rows):
        copied = ts.array(out)[target].write(part.array[source])
        return lambda: part.wait(copied)
    read = part.array[first : last + 1].read()

    def finish() -> None:
        out[to] = part.wait(read)[rows - first]

    return finish


def span(rows: np.ndarray) -> slice | np.ndarray:
    """Consecutive rows as a slice, other rows as they are."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows
