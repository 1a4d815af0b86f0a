"""From the rows of a table, or the lists of a dataset, to image sets with groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from extract.datasets.base import ImageSet, Splits
from extract.datasets.groups import Groups
from extract.datasets.places import image_folders
from extract.datasets.relations import Size
from extract.datasets.sources import Lazy, Sources
from extract.datasets.table import Columns, existing, image_cell
from extract.errors import InputError, UnreadableImageError
from extract.images import header
from extract.wording import counted


@dataclass(frozen=True)
class Members:
    """The images of groups, each once, and which of them make up each group."""

    sources: Sources
    names: tuple[str, ...]
    places: np.ndarray  # (g, k) int64
    root: Path | None = None  # what the names are relative to; None of images that are no files


class Sizes(dict[int, Size | None]):
    """(height, width) of the images by their places, from their headers; None where one cannot be read."""

    def __init__(self, members: Members) -> None:
        super().__init__()
        self.members = members

    def __missing__(self, place: int) -> Size | None:
        try:
            said = header(self.members.sources[int(place)])
            self[place] = (said.height, said.width)
        except UnreadableImageError:  # which is said where images are read
            self[place] = None
        return self[place]


def find_columns(
    table: Path,
    columns: Columns,
    usual: Mapping[str, Sequence[str]],
    told: Mapping[str, str] | None,
) -> dict[str, str]:
    """Which column plays each part: the one told, or the only one with a usual name; parts without one are left out."""
    by_lower = {each.strip().lower(): each for each in columns}
    told = dict(told or {})
    if strange := [part for part in told if part not in usual]:
        raise InputError(
            f"there is no part {strange[0]!r} for a column to play; parts are {', '.join(usual)}"
        )
    found = {}
    for part, names in usual.items():
        if part in told:
            column = told[part] if told[part] in columns else by_lower.get(told[part].strip().lower())
            if column is None:
                raise InputError(f"{table} has no column {told[part]!r}; it has {', '.join(columns)}")
            found[part] = column
            continue
        there = [by_lower[name] for name in names if name in by_lower and by_lower[name] not in told.values()]
        if len(there) > 1:
            raise InputError(
                f"{table} has the columns {' and '.join(there)}, which could both be the {part}; say which, as "
                f"{part}={there[0]}"
            )
        if there:
            found[part] = there[0]
    return found


def members_of_table(table: Path, columns: Columns, chosen: Sequence[str], rows: np.ndarray) -> Members:
    """The images of `chosen` columns in those `rows`: files below the table's folder, or what Parquet holds itself."""
    place: dict[str | bytes, int] = {}
    places = np.zeros((len(rows), len(chosen)), np.int64)
    missing: list[str] = []
    for i, row in enumerate(rows):
        for j, column in enumerate(chosen):
            cell = image_cell(columns[column][row])
            if isinstance(cell, str):
                cell = Path(existing(cell, table.parent)).as_posix() if cell.strip() else ""
            if cell not in place and not isinstance(cell, bytes) and not (table.parent / cell).is_file():
                missing.append(f"{table}, row {row + 1}, column {column} names {cell!r}")
            places[i, j] = place.setdefault(cell, len(place))
    if missing:
        more = f", nor can {counted(len(missing) - 1, 'other')}" if len(missing) > 1 else ""
        raise InputError(
            f"{missing[0]}, which cannot be found{more}; paths are relative to {table.parent.resolve()}"
        )
    encoded = [each for each in place if isinstance(each, bytes)]
    if not encoded:
        return _of_files(table.parent, [*map(str, place)], places)
    if len(encoded) < len(place):
        raise InputError(
            f"{table} holds some images itself and names files for others; it should do one of both"
        )
    return Members(encoded, tuple(f"image {i}" for i in range(len(encoded))), places)


def members_of_files(root: Path, groups: Sequence[Sequence[str]]) -> Members:
    """The images of groups that are named by their paths below `root`."""
    place: dict[str, int] = {}
    places = [[place.setdefault(path, len(place)) for path in group] for group in groups]
    return _of_files(root, [*place], np.array(places, np.int64))


def grouped_splits(
    members: Members,
    groups: Groups,
    rows: Mapping[str, np.ndarray],
    *,
    name: str,
    folders: Sequence[Path] | None = None,
) -> Splits:
    """A dataset whose splits have the groups at `rows` and the images in them, in the order in which they come."""
    if folders is None:
        folders = () if members.root is None else image_folders(members.names, members.root)
    whole = ImageSet(
        name=name,
        split=None,
        sources=members.sources,
        names=members.names,
        folders=tuple(folders),
    )

    def part(split: str, chosen: np.ndarray) -> ImageSet:
        own = groups.take(chosen)
        images = dict.fromkeys(own.members.ravel().tolist())
        return replace(whole, split=None if split == "all" else split, groups=own).subset(images)

    return Splits({split: part(split, chosen) for split, chosen in rows.items() if len(chosen)})


def relation_array(relations: Sequence[Any]) -> np.ndarray:
    """(g,) of objects, which numpy would otherwise look into."""
    array = np.empty(len(relations), object)
    array[:] = relations
    return array


def _of_files(root: Path, names: Sequence[str], places: np.ndarray) -> Members:
    return Members(Lazy(len(names), lambda position: root / names[position]), tuple(names), places, root)
