"""Results files: JSON lines that many processes append to, and the CSV drawn from them.

`results.jsonl` is the truth.  Asked for `results.csv`, the records go to `results.jsonl` beside it and the
CSV is drawn anew from all of them; it is never read.
"""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from visbench.errors import UsageError
from visbench.record import FIELDS, Record

# Mappings of plain values, which get a column each; other mappings and lists are one cell of JSON.
_SPREAD = {"counts", "hyperparameters", "metrics", "intervals", "n", "context", "extra"}


def append(path: str | Path, records: Iterable[Record]) -> None:
    """Add `records` in one locked write: all or none, whatever other processes do and the disk holds."""
    path, log = Path(path), log_of(path)
    lines = "".join(f"{record.to_json()}\n" for record in records)
    if not lines:
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab+", buffering=0) as file, _locked(file.fileno(), fcntl.LOCK_EX):
        _write_whole(file.fileno(), lines.encode("utf-8", "backslashreplace"))  # how JSON has lone surrogates
        if path != log:
            file.seek(0)
            _draw_csv(path, _parse(file.read(), log))


def read(path: str | Path, *, missing_ok: bool = False) -> list[Record]:
    """The records in the order they were written; a damaged line is named in a warning and left out."""
    log = log_of(path)
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


def csv_text(records: Iterable[Record]) -> str:
    """All records as CSV.  Columns follow a record's fields, so a new metric stands beside the others."""
    rows = [flatten(record) for record in records]
    seen = dict.fromkeys(column for row in rows for column in row)
    columns = sorted(seen, key=lambda column: FIELDS.index(column.partition(".")[0]))
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
            warnings.warn(f"{log}, line {number} is left out: {error}", stacklevel=2)


@contextmanager
def _locked(descriptor: int, kind: int) -> Iterator[None]:
    fcntl.flock(descriptor, kind)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _write_whole(descriptor: int, data: bytes) -> None:
    """Append `data` at the start of a line; what a full disk cuts short is taken back."""
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


def _draw_csv(path: Path, records: Iterable[Record]) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(csv_text(records), encoding="utf-8", errors="backslashreplace")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
