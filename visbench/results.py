"""Results files: JSON lines that many processes append to, and flattened rows of them for spreadsheets.

`results.jsonl` is the truth.  Asked for `results.csv`, the records go to `results.jsonl` beside it and a row of each to
the CSV (visbench.geocsv), to which nothing is done but appending.  The CSV is read only where no records lie beside it:
then it is another bench's.
"""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from visbench import geocsv
from visbench.errors import UsageError
from visbench.record import FIELDS, Record

_HEADER_BYTES = 1 << 16

# Mappings of plain values, which get a column each; other mappings and lists are one cell of JSON.
_SPREAD = {"counts", "hyperparameters", "metrics", "intervals", "n", "context", "extra"}


def append(path: str | Path, records: Iterable[Record]) -> None:
    """Add `records` in one locked write: all or none, whatever other processes do and the disk holds."""
    path, log, records = Path(path), log_of(path), list(records)
    if not records:
        return
    if path != log:
        _check_table(path)  # before a log is made beside what is not ours
    lines = "".join(f"{record.to_json()}\n" for record in records)
    log.parent.mkdir(parents=True, exist_ok=True)
    with _appending(log) as file:
        if path == log:
            _write_whole(file, lines)
            return
        with _appending(path) as table:
            rows = _rows(table, path, file, records)
            before = os.fstat(file).st_size
            _write_whole(file, lines)
            try:
                _write_whole(table, rows)
            except BaseException:
                os.ftruncate(file, before)
                raise


def read(path: str | Path, *, missing_ok: bool = False) -> list[Record]:
    """The records in the order they were written; a damaged line is named in a warning and left out.

    A CSV without records beside it is read as the rows of a geospatial bench.
    """
    path, log = Path(path), log_of(path)
    if path != log and path.is_file() and not log.exists():
        return list(_parse_rows(path.read_bytes(), path))
    try:
        with log.open("rb") as file, _locked(file.fileno(), fcntl.LOCK_SH):
            content = file.read()
    except FileNotFoundError:
        if missing_ok:
            return []
        raise UsageError(f"there are no results at {log}; name the file a run wrote with --results") from None
    return list(_parse(content, log))


def check_writable(path: str | Path) -> None:
    """Refuse a place that `append` could not write to, leaving nothing behind."""
    path = Path(path)
    for target in dict.fromkeys((log_of(path), path)):
        try:
            if target.exists():
                if not target.is_file():
                    raise OSError("not a file")
                target.open("ab").close()
            else:
                above = next(parent for parent in target.absolute().parents if parent.exists())
                tempfile.TemporaryFile(dir=above).close()
        except OSError as error:
            raise UsageError(
                f"results cannot be written to {target}: {(error.strerror or str(error)).lower()}; "
                "choose another file with --results, or keep none with --no-results"
            ) from error
    if path != log_of(path):
        _check_table(path)


def log_of(path: str | Path) -> Path:
    """The file that holds the records: beside a CSV, the JSON lines of the same name."""
    path = Path(path)
    return path.with_suffix(".jsonl") if path.suffix.lower() == ".csv" else path


class ResultWriter:
    """Appends records to one file, whose place is checked at once."""

    def __init__(self, path: str | Path) -> None:
        check_writable(path)
        self.path = Path(path)

    def append(self, *records: Record) -> None:
        """Add `records` in one locked write."""
        append(self.path, records)


def flatten(record: Record) -> dict[str, Any]:
    """A record as one row of a table: `metrics.top1`, `intervals.top1.low`, `intervals.top1.high`, …"""
    row: dict[str, Any] = {}
    for name, value in _cells(record):
        row[name] = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
    return row


def wide(records: Iterable[Record]) -> tuple[list[str], list[dict[str, Any]]]:
    """Columns and rows.  Columns follow a record's fields, so a new metric stands beside the others."""
    rows = [flatten(record) for record in records]
    seen = dict.fromkeys(column for row in rows for column in row)
    return sorted(seen, key=lambda column: FIELDS.index(column.partition(".")[0])), rows


def csv_text(records: Iterable[Record]) -> str:
    """All fields of all records as CSV."""
    columns, rows = wide(records)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _cells(record: Record) -> Iterator[tuple[str, Any]]:
    for name in FIELDS:
        value = getattr(record, name)
        if name == "intervals":
            for key, ends in value.items():
                low, high = ends or (None, None)
                yield from ((f"{name}.{key}.low", low), (f"{name}.{key}.high", high))
        elif name in _SPREAD:
            yield from ((f"{name}.{key}", item) for key, item in value.items())
        else:
            yield name, value


def _parse(content: bytes, log: Path) -> Iterator[Record]:
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            yield Record.from_json(line)
        except ValueError as error:
            _left_out(log, number, error)


def _parse_rows(content: bytes, path: Path) -> Iterator[Record]:
    for number, found in geocsv.read(content, path):
        if isinstance(found, Record):
            yield found
        else:
            _left_out(path, number, found)


def _left_out(path: Path, number: int, error: ValueError) -> None:
    warnings.warn(f"{path}, line {number} is left out: {error}", stacklevel=3)


def _rows(table: int, path: Path, log: int, records: Sequence[Record]) -> str:
    """The rows to append to an open CSV under its own header; a new one begins with those of all earlier records."""
    beginning = os.pread(table, _HEADER_BYTES, 0)
    if beginning:
        return geocsv.text(records, geocsv.header_to_append(beginning, path), headed=False)
    earlier = os.pread(log, os.fstat(log).st_size, 0)
    return geocsv.text([*_parse(earlier, log_of(path)), *records])


def _check_table(path: Path) -> None:
    """Refuse a CSV, if it is there, that our rows may not join."""
    try:
        with path.open("rb") as file:
            beginning = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return
    if beginning:
        geocsv.header_to_append(beginning, path)


@contextmanager
def _appending(path: Path) -> Iterator[int]:
    """The file, which is made if it is not there, locked for writing at its end."""
    with path.open("ab+", buffering=0) as file, _locked(file.fileno(), fcntl.LOCK_EX):
        yield file.fileno()


@contextmanager
def _locked(descriptor: int, kind: int) -> Iterator[None]:
    fcntl.flock(descriptor, kind)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _write_whole(descriptor: int, lines: str) -> None:
    """Append `lines` at the start of a line; what a full disk cuts short is taken back."""
    data = lines.encode("utf-8", "backslashreplace")  # how JSON has lone surrogates
    before = os.fstat(descriptor).st_size
    if before and os.pread(descriptor, 1, before - 1) != b"\n":  # a writer died in the middle of a line
        data = b"\n" + data
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    except BaseException:
        os.ftruncate(descriptor, before)
        raise
