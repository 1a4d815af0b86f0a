"""What is remembered between runs, in one SQLite file of the user's cache folder.

The row id of a file (a digest of its bytes) by its path and stat, so that an unchanged file is not read
again; answers to requests, such as the identity of a backbone, so that torch need not be imported; and which
images could not be decoded, or were converted.  All of it can be computed anew: a damaged memo is set aside,
one that cannot be written lives in memory.  Threads may share a `Memo`, processes the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import platformdirs

from extract.datasets.sources import Sources
from extract.errors import UnreadableImageError
from extract.ids import ID_BYTES, as_bytes
from extract.images import Source, content_bytes

SETTLED_NS = 2_000_000_000  # file clocks tick coarsely: a younger file may yet change under the same stat
_BATCH = 900  # values a query: older SQLites take 999
_BLOCK = 1024  # files hashed between two commits: what an interruption can lose

T = TypeVar("T")
Remark: TypeAlias = Literal["unreadable", "converted"]

_TABLES = """
    CREATE TABLE IF NOT EXISTS files (path BLOB PRIMARY KEY, stat BLOB, id BLOB) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS answers (kind TEXT, key TEXT, value TEXT, PRIMARY KEY (kind, key));
    CREATE TABLE IF NOT EXISTS remarks (what TEXT, policy TEXT, id BLOB, said TEXT, PRIMARY KEY (what, policy, id));
"""


def content_id(source: Source) -> bytes:
    """The 16-byte row id of an image: a digest of its content, whatever it is called."""
    return hashlib.blake2b(content_bytes(source), digest_size=ID_BYTES).digest()


def derived_id(row_id: bytes, what: str) -> bytes:
    """The row id of a view of an image: of the image's own id and of what was done to it."""
    return hashlib.blake2b(row_id + what.encode(), digest_size=ID_BYTES, person=b"derived").digest()


def default_path() -> Path:
    """`memo.sqlite` in the user's cache folder, or in the one that VISBENCH_CACHE names."""
    folder = os.environ.get("VISBENCH_CACHE") or platformdirs.user_cache_path("visbench", appauthor=False)
    return Path(folder) / "memo.sqlite"


class Memo:
    """See the module; `path` defaults to `default_path()`."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path) if path is not None else default_path()
        self.persistent = True  # False once it had to move into memory
        self._lock = threading.RLock()
        self._database = self._connect()

    def row_ids(
        self, sources: Sources, *, workers: int | None = None, unreadable: dict[int, str] | None = None
    ) -> np.ndarray:
        """(n, 16) uint8 ids of `sources`, in their order; only files not seen before are read.

        The first file that cannot be read raises `UnreadableImageError`; where a dict is given as
        `unreadable`, it gets position → reason instead and the id is all zeros.
        """
        ids = np.zeros((len(sources), ID_BYTES), np.uint8)
        known = self._known_files(sources)
        for position, row_id in known.items():
            ids[position] = np.frombuffer(row_id, np.uint8)
        unknown = [position for position in range(len(sources)) if position not in known]
        with ThreadPoolExecutor(workers or min(16, 2 * (os.cpu_count() or 1))) as pool:
            for block in _blocks(unknown, _BLOCK):
                hashed = pool.map(lambda position: _hash(sources[position]), block)
                files = []
                for position, found in zip(block, hashed, strict=True):
                    if found.error is not None:
                        if unreadable is None:
                            raise found.error
                        unreadable[position] = found.error.reason
                    ids[position] = np.frombuffer(found.row_id, np.uint8)
                    if found.file is not None:
                        files.append((*found.file, found.row_id))
                self._write("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", files)
        return ids

    def recall(self, kind: str, key: str) -> dict[str, Any] | None:
        """What was remembered last under `kind` and `key`."""
        rows = self._read("SELECT value FROM answers WHERE kind = ? AND key = ?", (kind, key))
        return json.loads(rows[0][0]) if rows else None

    def remember(self, kind: str, key: str, value: dict[str, Any]) -> None:
        """Keep a JSON value under `kind` and `key`, in place of an earlier one."""
        self._write("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", [(kind, key, json.dumps(value))])

    def remarks(self, what: Remark, ids: np.ndarray, policy: str) -> dict[int, str]:
        """Position → what was said of those of `ids` that were remarkable under a decoding policy."""
        query = "SELECT id, said FROM remarks WHERE what = ? AND policy = ?"
        known = dict(self._read(query, (what, policy)))
        rows = as_bytes(ids) if known else []
        return {position: known[row_id] for position, row_id in enumerate(rows) if row_id in known}

    def remark(self, what: Remark, policy: str, said: Mapping[bytes, str]) -> None:
        """Keep, by id, why images are unreadable (no later run tries again) or what they were converted from."""
        rows = [(what, policy, row_id, each) for row_id, each in said.items()]
        self._write("INSERT OR REPLACE INTO remarks VALUES (?, ?, ?, ?)", rows)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._database.close()

    def _known_files(self, sources: Sources) -> dict[int, bytes]:
        """Position → id of the files whose stat is the one remembered."""
        if not len(sources) or not isinstance(sources[0], Path):
            return {}  # nor are the others likely to be files, and asking for them may mean decoding them
        asked: list[tuple[int, bytes, bytes]] = []  # position, path, stat
        for position in range(len(sources)):
            source = sources[position]
            if isinstance(source, Path):
                key = _key(source)
                stat = _stat_or_none(key)
                if stat is not None:  # else it is reported when it is read
                    asked.append((position, key, stat))
        known = {}
        for block in _blocks(asked, _BATCH):
            marks = ", ".join("?" * len(block))
            query = f"SELECT path, stat, id FROM files WHERE path IN ({marks})"
            rows = {path: (stat, row_id) for path, stat, row_id in self._read(query, [b[1] for b in block])}
            for position, path, stat in block:
                remembered, row_id = rows.get(path, (b"", b""))
                if remembered == stat:
                    known[position] = row_id
        return known

    def _read(self, query: str, values: Sequence[Any]) -> list[Any]:
        return self._safely(lambda: self._database.execute(query, values).fetchall())

    def _write(self, query: str, rows: Sequence[tuple[Any, ...]]) -> None:
        def write() -> None:
            with self._database:
                self._database.executemany(query, rows)

        if rows:
            self._safely(write)

    def _safely(self, act: Callable[[], T]) -> T:
        """Run `act`; a memo found damaged is begun anew, and one that cannot be used moves into memory."""
        with self._lock:
            try:
                return act()
            except sqlite3.OperationalError:  # read-only, full, locked for good
                self._database.close()
                self._database = self._in_memory()
            except sqlite3.DatabaseError as error:
                if type(error) is not sqlite3.DatabaseError:  # its other children are mistakes of ours
                    raise
                self._database.close()
                self._set_aside()
                self._database = self._connect()
            return act()

    def _connect(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return _prepared(self.path)
        except (OSError, sqlite3.OperationalError):
            return self._in_memory()
        except sqlite3.DatabaseError:
            self._set_aside()
        try:
            return _prepared(self.path)
        except (OSError, sqlite3.DatabaseError):
            return self._in_memory()

    def _in_memory(self) -> sqlite3.Connection:
        self.persistent = False
        return _prepared(":memory:")

    def _set_aside(self) -> None:
        """Rename a damaged memo; its log files go with it, since they would not fit a new one."""
        for ending in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):  # another process was quicker
                old = self.path.with_name(self.path.name + ending)
                old.replace(self.path.with_name(f"{self.path.name}.damaged{ending}"))


def _prepared(path: str | Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=30, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")  # readers do not wait for a writer
        database.execute("PRAGMA synchronous = NORMAL")
        database.executescript(_TABLES)
    except sqlite3.DatabaseError:
        database.close()
        raise
    return database


class _Hashed(NamedTuple):
    row_id: bytes
    file: tuple[bytes, bytes] | None = None  # path and stat, where both may be remembered
    error: UnreadableImageError | None = None


def _hash(source: Source) -> _Hashed:
    try:
        if not isinstance(source, Path):
            return _Hashed(content_id(source))
        key = _key(source)
        before = _stat_or_none(key)
        row_id = content_id(source)
    except UnreadableImageError as error:
        return _Hashed(bytes(ID_BYTES), error=error)
    if before is None or before != _stat_or_none(key) or _age_ns(before) < SETTLED_NS:
        return _Hashed(row_id)
    return _Hashed(row_id, (key, before))


def _key(path: Path) -> bytes:
    """The absolute path, as bytes: a name need not be valid text."""
    raw = os.fsencode(path)
    return raw if os.path.isabs(raw) else os.path.abspath(raw)  # noqa: PTH100, PTH117


def _stat_or_none(path: bytes) -> bytes | None:
    """Device, inode, size, modification and change time: what differs once a file was written to."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    times = status.st_mtime_ns, status.st_ctime_ns
    return struct.pack("=QQqqq", status.st_dev, status.st_ino, status.st_size, *times)


def _age_ns(stat: bytes) -> int:
    *_, modified, changed = struct.unpack("=QQqqq", stat)
    return int(time.time_ns() - max(modified, changed))


def _blocks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))
