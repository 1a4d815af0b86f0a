"""Records for other programs: flattened rows as CSV, every field as CSV, Parquet or a data frame, boards for pages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from visbench import board_formats, geocsv, results
from visbench.board import boards
from visbench.errors import UsageError
from visbench.record import Record
from visbench.replacing import replacing
from visbench.standings import Wanted, standings, taken_of

BOARDS = tuple(form for form in board_formats.FORMATS if form != "csv")  # csv has rows of its own here
FORMATS = ("csv", "wide", "parquet", *BOARDS)


def export(files: Sequence[str | Path], form: str, wanted: Wanted) -> str | bytes:
    """The records of `files` that are wanted, in one of `FORMATS`; Parquet is bytes.

    `csv` is a flattened row a record (visbench.geocsv), `wide` and `parquet` have a column for each field and number;
    the others are the boards of these records.
    """
    if form in BOARDS:
        return _valid(board_formats.drawn(standings(files, wanted), form))
    records = standing(files, wanted)
    if form == "parquet":
        return parquet(records)
    return _valid(geocsv.text(records) if form == "csv" else results.csv_text(records))


def standing(files: Sequence[str | Path], wanted: Wanted) -> list[Record]:
    """The records that boards show, board by board, best first; nobody asks which of them are separable."""
    found = boards([record for record, _ in taken_of(files, wanted)], every=wanted.every)
    return [entry.record for board in found for entry in board.entries]


def parquet(records: Iterable[Record]) -> bytes:
    """The wide rows as a Parquet file."""
    try:
        import pyarrow
        from pyarrow import parquet as files
    except ImportError:
        raise UsageError("Parquet needs pyarrow: pip install 'visbench[tables]'") from None
    sink = pyarrow.BufferOutputStream()
    files.write_table(
        pyarrow.table({name: pyarrow.array(each) for name, each in columns(records).items()}), sink
    )
    return bytes(sink.getvalue())


def to_pandas(records: Record | Iterable[Record] | str | os.PathLike[str]) -> Any:
    """Records, or those of a results file, as a pandas data frame: a row a record, a column for each field and number.

    Mappings of numbers are spread over columns such as `metrics.top1` and `intervals.top1.low`, others are JSON.
    """
    try:
        import pandas
    except ImportError:
        raise UsageError("to_pandas needs pandas: pip install 'visbench[tables]'") from None
    if isinstance(records, str | os.PathLike):
        records = results.read(os.fspath(records))
    return pandas.DataFrame(columns([records] if isinstance(records, Record) else records))


def columns(records: Iterable[Record]) -> Mapping[str, list[Any]]:
    """The wide rows as columns of one type each, None where a row has nothing: what is mixed with words is words."""
    names, rows = results.wide(records)
    return {name: _one_type([row.get(name) for row in rows]) for name in names}


def _one_type(values: list[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} and len(kinds) > 1:
        return [None if value is None else float(value) for value in values]
    if kinds == {str} or len(kinds) > 1:
        return [None if value is None else _valid(str(value)) for value in values]
    return values


def _valid(text: str) -> str:
    """Lone surrogates, which UTF-8 does not have, by their escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def write(out: Path, content: str | bytes, sources: Iterable[str | Path]) -> None:
    """Put `content` at `out` in one piece; results files are never overwritten."""
    kept = {path.resolve() for each in sources for path in (Path(each), results.log_of(each))}
    if out.resolve() in kept or out.is_dir():
        what = "a folder" if out.is_dir() else "what is exported"
        raise UsageError(f"{out} is {what}; name another file with -o")
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as draft:
        draft.write_bytes(
            content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
        )
