"""Tables: CSV, TSV or Parquet with a column of paths and, where known, of labels and of splits.

Headers are read in any case.  A `labels` column may hold several labels a cell, as a list or separated by
";", "|" or ","; where no cell has more than one it is read as `label` is.  Several label columns are read as a
0/1 column a class.  Paths are relative to the table.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from extract.datasets.base import UNLABELLED, ImageSet, Splits, split_name
from extract.datasets.labels import encode, encode_many, word
from extract.datasets.places import image_folders
from extract.datasets.sources import Lazy, Sources
from extract.errors import InputError, MissingExtraError
from extract.wording import counted

EXTENSIONS = (".csv", ".tsv", ".parquet")

_IMAGE = ("path", "image", "image_path", "filepath", "file_path", "file", "filename", "file_name", "img")
_LABEL = ("label", "labels", "class", "class_name", "category", "target")
_SPLIT = ("split", "set", "subset", "partition")
_TRUE, _FALSE = {"1", "1.0", "true"}, {"0", "0.0", "false"}

Columns = Mapping[str, Sequence[Any]]


def open_table(
    table: Path,
    *,
    name: str | None = None,
    image_column: str | None = None,
    label_column: str | Sequence[str] | None = None,
    split_column: str | None = None,
) -> Splits:
    """Read a table; a column that has none of the usual names is to be named."""
    columns = read_columns(table)
    image = find_column(columns, image_column, _IMAGE, "image_column", table)
    if image is None:
        raise InputError(
            f"{table} has the columns {', '.join(columns)}; name the one of paths with --image-column"
        )
    sources, names = _images(columns[image], table)
    folders = () if isinstance(sources[0], bytes) else image_folders(names, table.parent)
    params: dict[str, Any] = {"table": table.name, "image_column": image}
    labels: np.ndarray | None = None
    classes: tuple[str, ...] = ()
    if label_column is not None and not isinstance(label_column, str):
        chosen = [find_column(columns, each, (), "label_column", table) or each for each in label_column]
        labels, classes = _binary(columns, chosen, table), tuple(chosen)
        params["label_column"] = chosen
    elif label := find_column(columns, label_column, _LABEL, "label_column", table):
        labels, classes = _labels(columns[label], several=label.lower() == "labels")
        params["label_column"] = label

    def part(split: str | None, rows: np.ndarray) -> ImageSet:
        own = None if labels is None else labels[rows]
        known = own is not None and (own.any() if own.ndim == 2 else (own != UNLABELLED).any())
        return ImageSet(
            name=name or table.stem,
            split=split,
            sources=Lazy(len(rows), lambda position: sources[rows[position]]),
            names=tuple(names[i] for i in rows),
            labels=own if known else None,
            classes=classes,
            folders=folders,
            params=params,
        )

    split = find_column(columns, split_column, _SPLIT, "split_column", table)
    if split is None:
        return Splits({"all": part(None, np.arange(len(names)))})
    rows = rows_by_split(columns[split], table)
    return Splits({each: part(each, rows[each]) for each in ("train", "val", "test") if len(rows[each])})


def read_columns(table: Path) -> Columns:
    """The cells of each column by its header; those of a text file are text."""
    return _read_parquet(table) if table.suffix.lower() == ".parquet" else _read_csv(table)


def read_headers(table: Path) -> tuple[str, ...]:
    """The names of its columns."""
    if table.suffix.lower() != ".parquet":
        return tuple(_read_csv(table))
    return tuple(_parquet(table, "read_schema").names)


def rows_by_split(cells: Sequence[Any], table: Path) -> dict[str, np.ndarray]:
    """The rows of train, val and test."""
    found = np.array([split_name(str(cell or ""), f"{table}, row {i},") for i, cell in enumerate(cells, 1)])
    return {split: np.flatnonzero(found == split) for split in ("train", "val", "test")}


def find_column(
    columns: Columns, asked: str | None, usual: Sequence[str], option: str, table: Path
) -> str | None:
    """The column that was asked for, or the only one with a usual name; None where there is none."""
    by_lower = {each.strip().lower(): each for each in columns}
    if asked is not None:
        found = asked if asked in columns else by_lower.get(asked.strip().lower())
        if found is None:
            raise InputError(f"{table} has no column {asked!r}; it has {', '.join(columns)}")
        return found
    candidates = [by_lower[each] for each in usual if each in by_lower]
    if len(candidates) > 1:
        raise InputError(
            f"{table} has the columns {' and '.join(candidates)}; choose one with --{option.replace('_', '-')}"
        )
    return candidates[0] if candidates else None


def _images(cells: Sequence[Any], table: Path) -> tuple[Sources, tuple[str, ...]]:
    """Files that must exist, or the encoded images that a Parquet file holds itself."""
    if not len(cells):
        raise InputError(f"{table} has no rows")
    images = [image_cell(cell) for cell in cells]
    encoded = [each for each in images if isinstance(each, bytes)]
    if len(encoded) == len(images):
        return encoded, tuple(f"image {i}" for i in range(len(images)))
    if encoded:
        raise InputError(
            f"{table} holds some images itself and names files for others; it should do one of both"
        )
    names = tuple(existing(str(each), table.parent) for each in images)
    paths = [table.parent / each for each in names]
    missing = [each for each, path in zip(names, paths, strict=True) if not each or not path.exists()]
    if missing:
        raise InputError(
            f"{table} names {counted(len(names), 'file')}, of which {len(missing):,} cannot be found, the first "
            f"{missing[0]!r}; paths are relative to {table.parent.resolve()}"
        )
    return paths, names


def image_cell(cell: Any) -> bytes | str:
    """The image a cell holds, or the path it names; Hugging Face writes {"bytes": …, "path": …}."""
    if isinstance(cell, Mapping):
        cell = cell["path"] if cell.get("bytes") is None else cell["bytes"]
    return cell if isinstance(cell, bytes) else "" if cell is None else str(cell)


def existing(name: str, folder: Path) -> str:
    """`name`, without the blanks around it where only so it is a file."""
    return name if name == name.strip() or (folder / name).exists() else name.strip()


def _labels(cells: Sequence[Any], *, several: bool) -> tuple[np.ndarray, tuple[str, ...]]:
    if any(isinstance(cell, list | tuple | np.ndarray) for cell in cells):
        return encode_many([() if cell is None else cell for cell in cells])
    if not several:
        return encode(cells)
    words = [word(cell) or "" for cell in cells]
    separator = next((each for each in ";|," if any(each in text for text in words)), None)
    if separator is None:
        return encode(cells)
    return encode_many([text.split(separator) for text in words])


def _binary(columns: Columns, chosen: Sequence[str], table: Path) -> np.ndarray:
    """(n, c) from a 0/1 column a class."""
    labels = np.zeros((len(columns[chosen[0]]), len(chosen)), np.uint8)
    for j, column in enumerate(chosen):
        for i, cell in enumerate(columns[column]):
            text = str(cell).strip().lower()
            if text not in _TRUE | _FALSE:
                raise InputError(f"{table}, row {i + 1}, column {column} holds {cell!r}; it should be 0 or 1")
            labels[i, j] = text in _TRUE
    return labels


def _read_csv(table: Path) -> Columns:
    """Columns by header; the separator is the likeliest of the header line."""
    try:
        with table.open(newline="", encoding="utf-8-sig") as file:
            text = file.read()
        separator = max(",;\t", key=text.partition("\n")[0].count)
        spaced = f'{separator} "' in text  # a blank before a quote is no part of the cell
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=spaced)
        rows = [row for row in reader if any(row)]
    except UnicodeDecodeError as error:
        raise InputError(
            f"{table} is not UTF-8 ({error.reason} at byte {error.start}); save it as such"
        ) from None
    except csv.Error as error:
        raise InputError(f"{table} cannot be read as a table: {error}") from None
    if not rows:
        raise InputError(f"{table} is empty; it should begin with a line of column names")
    header, *body = rows
    for number, row in enumerate(body, 1):
        if len(row) != len(header):
            raise InputError(
                f"{table}, row {number} has {counted(len(row), 'cell')} under {counted(len(header), 'column name')}"
            )
    if len(set(header)) != len(header):
        raise InputError(f"{table} has two columns of the same name among {', '.join(header)}")
    return {column: [row[i] for row in body] for i, column in enumerate(header)}


def _read_parquet(table: Path) -> Columns:
    read = _parquet(table, "read_table")
    return {column: read[column].to_pylist() for column in read.column_names}


def _parquet(table: Path, read: str) -> Any:
    try:
        from pyarrow import ArrowInvalid, parquet
    except ImportError:
        raise MissingExtraError(
            f"reading {table.name} needs pyarrow: pip install pyarrow (the extra `tables`)"
        ) from None
    try:
        return getattr(parquet, read)(table)
    except ArrowInvalid as error:
        raise InputError(f"{table} is no Parquet file: {error}") from None
