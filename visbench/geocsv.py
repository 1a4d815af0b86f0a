"""The flattened rows of geospatial benches: one (dataset, method, model, configuration) a row, in 30 columns.

Their users expect an interval of 0.0 where there is none; all else that is not known is an empty cell.  A file may have
further columns; values of older files (`raw`, `mean_stdev`, `percentile_2_98` …) are read and written as they came.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from extract.wording import listed
from visbench import georead, georows
from visbench.errors import UsageError
from visbench.record import Record

COLUMNS = (
    *("dataset", "method", "metric_name", "metric_value", "ci_lower", "ci_upper", "feature_dim"),
    *("best_c", "best_lr", "best_batch_size", "n_train", "n_val", "n_test", "seed", "model", "name"),
    *("normalization", "image_size", "interpolation", "partition", "bands"),
    *("c_range_start", "c_range_stop", "c_range_num", "merge_val", "bootstrap"),
    *("fw_iou", "precision", "recall", "f1"),
)
_CORE = {"dataset", "method", "metric_name", "metric_value", "n_train", "n_test", "seed", "model"}
_WORDS = {
    *("dataset", "method", "metric_name", "model", "name"),
    *("normalization", "interpolation", "partition", "bands"),
}
_MANY = 5  # columns that a message names


def text(records: Iterable[Record], header: Sequence[str] = COLUMNS, *, headed: bool = True) -> str:
    """Lines of CSV under `header`; a column that nobody knows stays empty."""
    told = io.StringIO()
    writer = csv.DictWriter(told, header, restval="", extrasaction="ignore", lineterminator="\n")
    if headed:
        writer.writeheader()
    writer.writerows(row for record in records for row in georows.of_record(record))
    return told.getvalue()


def header_to_append(beginning: bytes, path: Path) -> list[str]:
    """The columns of a file that our rows may join, in its order; a file without them is refused."""
    header = _header(beginning)
    missing = [column for column in COLUMNS if column not in header]
    if missing:
        raise UsageError(
            f"{path} holds something else: of the columns of results it lacks {listed(missing, _MANY)}; it is "
            "left as it is; choose another file with --results, or move it away"
        )
    return header


def read(content: bytes, path: Path) -> Iterator[tuple[int, Record | ValueError]]:
    """(line, its record, or what is wrong with it) of a geospatial bench's file; any other is refused."""
    missing = sorted(_CORE - set(_header(content)))
    if missing:
        raise UsageError(
            f"{path} is no table of a geospatial bench (it lacks the columns {listed(missing, _MANY)}), and there is "
            f"no {path.with_suffix('.jsonl').name} beside it; name the .jsonl file that a run wrote"
        )
    reader = csv.DictReader(io.StringIO(content.decode("utf-8-sig", "backslashreplace"), newline=""))
    try:
        for row in reader:
            yield reader.line_num, _record_or_error(row)
    except csv.Error as error:
        raise UsageError(f"{path} cannot be read after line {reader.line_num}: {error}") from error


def _record_or_error(row: dict[Any, Any]) -> Record | ValueError:
    if None in row or None in row.values():
        return ValueError("it does not have as many cells as the header")
    try:
        return georead.record({column: _value(cell, column in _WORDS) for column, cell in row.items()})
    except ValueError as error:
        return error


def _value(cell: str, word: bool) -> str | int | float | bool | None:
    """What a cell says: nothing, a word as it stands, True or False, or a number; 224.0 is 224."""
    if cell in ("", "None", "nan", "NaN"):
        return None
    if word:
        return cell
    if cell in ("True", "False"):
        return cell == "True"
    try:
        number = float(cell)
    except ValueError:
        return cell
    if not math.isfinite(number):
        return cell
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _header(beginning: bytes) -> list[str]:
    lines = beginning.decode("utf-8-sig", "replace").splitlines()
    try:
        return next(csv.reader(lines[:1]), [])
    except csv.Error:  # no table at all
        return []
