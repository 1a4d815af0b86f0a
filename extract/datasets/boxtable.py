"""Tables of boxes, a row each, as `image_path,xmin,ymin,xmax,ymax,label`: CSV, TSV or Parquet.

Coordinates are edges counted from 0, as deepforest (Weinstein et al. 2020) and most others write them: xmax − xmin is
the width.  A row without a box, or with one of zeros as deepforest writes it, names an image without objects.  Paths
are relative to the table; `width` and `height` beside four corners are the image's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from extract.datasets.base import ImageSet, Splits
from extract.datasets.grouping import find_columns, members_of_table
from extract.datasets.labels import class_order, word
from extract.datasets.marking import Rules, marked
from extract.datasets.objects import IGNORED, PLAIN, Marks, Objects
from extract.datasets.places import image_folders
from extract.datasets.table import Columns, read_columns, rows_by_split
from extract.errors import InputError

CORNERS = (
    ("xmin", "ymin", "xmax", "ymax"),
    ("x_min", "y_min", "x_max", "y_max"),
    ("x0", "y0", "x1", "y1"),
    ("x1", "y1", "x2", "y2"),
    ("left", "top", "right", "bottom"),
)
SIZED = (("xmin", "ymin", "width", "height"), ("left", "top", "width", "height"))
NEAR, LONG = 0.75, 5  # how alike two names are of which one may be misspelt, and how long
ONLY = "object"  # the class where no column names one
_PARTS = {
    "image": ("image_path", "path", "image", "filename", "file_name", "filepath", "file_path", "file", "img"),
    "label": ("label", "class", "class_name", "category", "name"),
    "split": ("split", "set", "subset", "partition"),
    "difficult": ("difficult",),
}


def open_box_table(table: Path, *, rules: Rules, name: str | None = None) -> Splits:
    """The images of a table in the order in which they first come, with their boxes."""
    columns = read_columns(table)
    found = find_columns(table, columns, _PARTS, None)
    if "image" not in found:
        raise InputError(
            f"{table} has the columns {', '.join(columns)}, and none is called {' or '.join(_PARTS['image'][:3])}"
        )
    _refuse_misspelt(table, columns, found)
    edges, size = _corners(table, columns, taken=set(found.values()))
    rows = np.arange(len(columns[found["image"]]))
    if not len(rows):
        raise InputError(f"{table} has no rows")
    members = members_of_table(table, columns, [found["image"]], rows)
    images = members.places[:, 0]
    full = _full(edges, table)
    if not full.any():
        raise InputError(f"{table} has no box; there is nothing to find")
    labels, classes = _labels(columns[found["label"]] if "label" in found else None, full, table)
    difficult = (
        _truths(columns[found["difficult"]], table) if "difficult" in found else np.zeros(len(rows), bool)
    )
    flags = np.where(difficult & (not rules.include_difficult), IGNORED, PLAIN)

    def marks(image: int, own: np.ndarray) -> Marks:
        boxes = own[full[own]]
        where = f"{table}, {members.names[image]}"
        return marked(
            edges[boxes], labels[boxes], flags[boxes], rules, where=where, size=_stated(size[own], where)
        )

    whole = ImageSet(
        name=name or table.stem,
        split=None,
        sources=members.sources,
        names=members.names,
        targets=Objects(
            names=tuple(f"{each} in {table.name}" for each in members.names),
            marks=tuple(marks(image, own) for image, own in enumerate(_rows_of(images))),
            reader=rules.reader,
            classes=classes,
            params={"layout": "table"},
        ),
        folders=() if members.root is None else image_folders(members.names, members.root),
    )
    if "split" not in found:
        return Splits({"all": whole})
    parts = {
        split: list(dict.fromkeys(images[chosen].tolist()))
        for split, chosen in rows_by_split(columns[found["split"]], table).items()
    }
    _refuse_shared(parts, members.names, table)
    return Splits(
        {split: replace(whole, split=split).subset(chosen) for split, chosen in parts.items() if chosen}
    )


def has_boxes(headers: Sequence[str]) -> bool:
    """Whether the columns of a table say where boxes are."""
    lower = {each.strip().lower() for each in headers}
    return any(lower.issuperset(names) for names in (*CORNERS, *SIZED))


def _corners(table: Path, columns: Columns, taken: set[str]) -> tuple[np.ndarray, np.ndarray]:
    """(n, 4) edges, NaN where a cell is empty, and (n, 2) the stated height and width of the image or NaN."""
    by_lower = {each.strip().lower(): each for each in columns if each not in taken}

    def numbers(names: Sequence[str]) -> np.ndarray:
        return np.column_stack([_numbers(columns[by_lower[each]], table, by_lower[each]) for each in names])

    found = [names for names in CORNERS if by_lower.keys() >= set(names)]
    if len(found) > 1:
        raise InputError(
            f"{table} has boxes twice, as {','.join(found[0])} and {','.join(found[1])}; keep one of them"
        )
    if found:
        edges = numbers(found[0])
        size = np.full((len(edges), 2), np.nan)
        if by_lower.keys() >= {"width", "height"}:
            size = numbers(("height", "width"))
        return edges, size
    sized = [names for names in SIZED if by_lower.keys() >= set(names)]
    if not sized:
        hint = (
            "; x and y may be a corner or the middle, so name them xmin and ymin" if "x" in by_lower else ""
        )
        raise InputError(
            f"{table} has the columns {', '.join(columns)}; a box is xmin,ymin,xmax,ymax or "
            f"xmin,ymin,width,height{hint}"
        )
    edges = numbers(sized[0])
    edges[:, 2:] += edges[:, :2]
    return edges, np.full((len(edges), 2), np.nan)


def _refuse_misspelt(table: Path, columns: Columns, found: Mapping[str, str]) -> None:
    """A column whose name is nearly that of a part which none plays: left alone, all would be of one class, say."""
    known = {name for names in (*CORNERS, *SIZED) for name in names}
    spare = {each.strip().lower(): each for each in columns if each not in found.values()}
    for part in [each for each in _PARTS if each not in found]:
        for usual in [each for each in _PARTS[part] if len(each) >= LONG]:
            near = get_close_matches(usual, spare.keys() - known, n=1, cutoff=NEAR)
            if near:
                raise InputError(
                    f"{table} has a column {spare[near[0]]!r} and none called {part}; call it {part} if that is "
                    "what it says, else by a name that is less like it"
                )


def _numbers(cells: Sequence[Any], table: Path, column: str) -> np.ndarray:
    """(n,) float64, NaN of an empty cell."""
    values = np.full(len(cells), np.nan)
    for row, cell in enumerate(cells):
        text = "" if cell is None else str(cell).strip()
        if text.lower() not in ("", "nan", "none", "null"):
            try:
                values[row] = float(text)
            except ValueError:
                raise InputError(
                    f"{table}, row {row + 1}, column {column} holds {cell!r}; it should be a number of pixels"
                ) from None
    return values


def _full(edges: np.ndarray, table: Path) -> np.ndarray:
    """(n,) whether a row has a box."""
    empty = np.isnan(edges)
    partly = empty.any(axis=1) & ~empty.all(axis=1)
    if partly.any():
        raise InputError(
            f"{table}, row {int(partly.argmax()) + 1} has a box of which a side is missing; an image without objects "
            "has a row without any"
        )
    return np.asarray(~empty.any(axis=1) & (edges != 0).any(axis=1))


def _labels(cells: Sequence[Any] | None, full: np.ndarray, table: Path) -> tuple[np.ndarray, tuple[str, ...]]:
    """(n,) labels, those of rows without a box 0, and the classes by name."""
    if cells is None:
        return np.zeros(len(full), np.int64), (ONLY,)
    words = [word(cell) if there else None for cell, there in zip(cells, full, strict=True)]
    bare = [row for row, each in enumerate(words, 1) if each is None and full[row - 1]]
    if bare:
        raise InputError(f"{table}, row {bare[0]} has a box without a class; name one, or take the box out")
    classes = class_order(each for each in words if each is not None)
    index = {name: place for place, name in enumerate(classes)}
    return np.array([0 if each is None else index[each] for each in words], np.int64), classes


def _rows_of(images: np.ndarray) -> list[np.ndarray]:
    """The rows of each image, in their order."""
    order = np.argsort(images, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(images[order])) + 1)


def _truths(cells: Sequence[Any], table: Path) -> np.ndarray:
    """(n,) bool of 0/1 cells; an empty one is 0."""
    values = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False, "": False}
    said = ["" if cell is None else str(cell).strip().lower() for cell in cells]
    strange = [each for each in said if each not in values]
    if strange:
        raise InputError(f"{table} has {strange[0]!r} in its column difficult; it should be 0 or 1")
    return np.array([values[each] for each in said], bool)


def _stated(size: np.ndarray, where: str) -> tuple[int, int] | None:
    """(height, width) of an image, where its rows state it."""
    told = np.unique(size[np.nan_to_num(size).min(axis=1) > 0], axis=0)
    if len(told) > 1:
        said = " and ".join(f"{width:g}×{height:g}" for height, width in told.tolist())
        raise InputError(f"{where} has several sizes: {said}; an image has one")
    return (int(told[0, 0]), int(told[0, 1])) if len(told) else None


def _refuse_shared(parts: dict[str, list[int]], names: Sequence[str], table: Path) -> None:
    seen: dict[int, str] = {}
    for split, images in parts.items():
        for image in images:
            if seen.setdefault(image, split) != split:
                raise InputError(
                    f"{table} has {names[image]} in {seen[image]} and in {split}; an image must not be learnt from and "
                    "scored"
                )
