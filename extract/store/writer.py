"""Writing rows as they come, a part at a time, in the background."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import numpy as np

from extract.errors import InputError
from extract.ids import ID_BYTES
from extract.store.errors import NonFiniteRowError, OverflowingRowError, StoreError
from extract.store.kv import Place
from extract.store.layout import new_name
from extract.store.manifest import part_rows
from extract.store.parts import write_part

IN_FLIGHT = 2  # parts being written; with the one being filled, three are in memory


class PartWriter:
    """Collects rows and commits them as a part once it is full, or its oldest row is `max_seconds` old.

    Any thread may `add`; it waits only while two parts are being written. What fails in the background is
    raised by the next `add`, `flush` or `close`. Leaving the `with` block commits what was added, also after
    an exception: those rows are good.
    """

    def __init__(
        self,
        place: Place,
        identity: str,
        row_shape: Sequence[int],
        dtype: np.dtype[Any],
        *,
        max_seconds: float = 20.0,
        compress: bool = False,
    ) -> None:
        self._place, self._identity, self._compress = place, identity, compress
        self._row_shape, self._dtype, self._max_seconds = tuple(row_shape), dtype, max_seconds
        self._lock = threading.Lock()  # guards the buffer and the list of parts under way
        self._counting = threading.Lock()
        self._room = threading.BoundedSemaphore(IN_FLIGHT)
        self._pool = ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="commit")
        self._buffer: _Buffer | None = None
        self._under_way: list[Future[None]] = []  # and those that failed
        self._closed = False
        self.committed = 0  # rows in the parts that count by now

    def add(self, ids: np.ndarray, rows: np.ndarray) -> None:
        """Take a batch: (b, 16) ids and their (b, …) rows, which are copied. It is refused as a whole."""
        ids, rows = np.asarray(ids), np.asarray(rows)
        if ids.shape != (len(rows), ID_BYTES) or ids.dtype != np.uint8 or rows.shape[1:] != self._row_shape:
            raise InputError(
                f"the store takes (n, {ID_BYTES}) bytes of ids with rows of shape {self._row_shape}, "
                f"but got ids {ids.shape} {ids.dtype} with rows {rows.shape[1:]}"
            )
        rows = storable(rows, self._dtype)
        with self._lock:
            if self._closed:
                raise RuntimeError("rows cannot be added to a writer that is closed")
            self._raise_failure()
            while len(rows):
                if self._buffer is None:
                    self._buffer = self._new_buffer()
                taken = self._buffer.take(ids, rows)
                ids, rows = ids[taken:], rows[taken:]
                if self._buffer.full:
                    self._hand_over()

    def flush(self) -> None:
        """Commit what was added so far, and wait until that is done."""
        with self._lock:
            self._hand_over()
            under_way = list(self._under_way)
        for part in under_way:
            part.result()

    def close(self) -> None:
        """Commit what was added, and stop. A second time does nothing."""
        try:
            self.flush()
        finally:
            self._closed = True
            self._pool.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except StoreError:
            if error is None:  # else the first error is the one to see
                raise

    def _new_buffer(self) -> "_Buffer":
        buffer = _Buffer(self._row_shape, self._dtype)
        buffer.timer = threading.Timer(self._max_seconds, self._expire, [buffer])
        buffer.timer.daemon = True
        buffer.timer.start()
        return buffer

    def _expire(self, buffer: "_Buffer") -> None:
        with self._lock:
            if self._buffer is buffer:
                self._hand_over()

    def _hand_over(self) -> None:
        """Have the buffer written; it is never filled again, since TensorStore reads from it meanwhile."""
        if self._buffer is not None:
            self._room.acquire()  # may take a while: interrupted here, the rows are still to be committed
            buffer, self._buffer = self._buffer, None
            buffer.timer.cancel()
            self._under_way = [part for part in self._under_way if not part.done() or part.exception()]
            self._under_way.append(self._pool.submit(self._commit, new_name(), buffer))

    def _commit(self, name: str, buffer: "_Buffer") -> None:
        try:
            ids, rows = buffer.ids[: buffer.count], buffer.rows[: buffer.count]
            write_part(self._place, self._identity, name, ids, rows, compress=self._compress)
            with self._counting:
                self.committed += buffer.count
        finally:
            self._room.release()

    def _raise_failure(self) -> None:
        for part in self._under_way:
            if part.done():
                part.result()


class _Buffer:
    """Rows on their way into one part."""

    timer: threading.Timer

    def __init__(self, row_shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.ids = np.empty((part_rows(row_shape), ID_BYTES), np.uint8)
        self.rows = np.empty((part_rows(row_shape), *row_shape), dtype)
        self.count = 0

    @property
    def full(self) -> bool:
        return self.count == len(self.rows)

    def take(self, ids: np.ndarray, rows: np.ndarray) -> int:
        """Copy as many rows as there is room for, and say how many."""
        taken = min(len(rows), len(self.rows) - self.count)
        here = slice(self.count, self.count + taken)
        self.ids[here], self.rows[here] = ids[:taken], rows[:taken]
        self.count += taken
        return taken


def storable(rows: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """The rows in the type they are stored in; refuses the batch if one is not finite, or would not be."""
    with np.errstate(over="ignore", invalid="ignore"):
        stored = rows.astype(dtype, copy=False)
    finite = np.isfinite(stored)
    if finite.all():
        return stored
    position = int(finite.reshape(len(rows), -1).all(axis=1).argmin())
    if not np.isfinite(rows[position]).all():
        raise NonFiniteRowError(
            f"row {position} of the batch holds NaN or infinity, which is never stored", position
        )
    largest = np.abs(rows[position]).max()
    raise OverflowingRowError(
        f"row {position} of the batch holds {largest:.6g}, which is too large for {dtype.name}; "
        "store with --dtype float32 (or bfloat16)",
        position,
    )
