"""Tables of pairs of images, and how the points of the first lie in the second.

    image_1,image_2,homography
    wall/1.png,wall/3.png,wall/H13.txt

Beside the two images a row has one of four: a `homography` (nine numbers, or a file), a `disparity` map, `keypoints`
that somebody marked (see `keypoint_files`), or a `depth` map of the first with cameras: `intrinsics_1`,
`intrinsics_2` (where they differ), and the pose as `second_from_first` or as `world_from_first` and
`world_from_second`; `depth_2` says what the second camera sees.  It may have a `category` and a `split`.  Headers
are read by name, in any order and case.  Paths are relative to the table.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from extract.datasets import hpatches, spair
from extract.datasets.base import Splits
from extract.datasets.grouping import (
    Members,
    find_columns,
    grouped_splits,
    members_of_table,
    relation_array,
)
from extract.datasets.groups import Groups
from extract.datasets.memory import as_source
from extract.datasets.pair_cells import READERS, Rows, categories
from extract.datasets.places import image_folders
from extract.datasets.relations import Keypoints, origin_of
from extract.datasets.table import EXTENSIONS, Columns, read_columns, read_headers, rows_by_split
from extract.errors import InputError

_IMAGES = (
    *(tuple(f"{stem}{join}{i}" for i in "12") for stem in ("image", "img", "path") for join in ("_", "")),
    ("first", "second"),
    ("source", "target"),
    ("src", "trg"),
    ("left", "right"),
    ("left_path", "right_path"),
)
RELATIONS = ("homography", "disparity", "keypoints", "depth")
USUAL: dict[str, tuple[str, ...]] = {
    "first": tuple(first for first, _ in _IMAGES),
    "second": tuple(second for _, second in _IMAGES),
    "homography": ("homography", "matrix"),
    "disparity": ("disparity", "disparity_map", "disparity_path"),
    "keypoints": ("keypoints", "keypoints_path", "matches"),
    "disparity_scale": ("disparity_scale",),
    "disparity_hole": ("disparity_hole",),
    "depth": ("depth", "depth_1", "depth1"),
    "second_depth": ("depth_2", "depth2"),
    "first_intrinsics": ("intrinsics", "intrinsics_1", "intrinsics1"),
    "second_intrinsics": ("intrinsics_2", "intrinsics2"),
    "second_from_first": ("second_from_first",),
    "world_from_first": ("world_from_first",),
    "world_from_second": ("world_from_second",),
    "category": ("category", "class", "class_name"),
    "split": ("split", "set", "subset", "partition"),
}
"""The parts that columns play, and what such columns are usually called."""


LAYOUTS = (
    f"a table ({', '.join(EXTENSIONS)}) with image_1, image_2 and one of {', '.join(RELATIONS)}; SPair-71k "
    "(JPEGImages, PairAnnotation, Layout); HPatches (v_… and i_… with 1.ppm and H_1_2)"
)


def looks_related(data: Any, columns: Mapping[str, str] | None = None) -> bool:
    """Whether these are pairs with a relation; not so are images alone, in a folder or a table."""
    return _layout(data, columns) is not None


def open_related(data: Any, *, name: str | None = None, **told: Any) -> Splits:
    """The pairs of `data`, told by its layout; `told` are the further options of `open_pairs`."""
    told = {option: value for option, value in told.items() if value is not None}
    layout = _layout(data, told.get("columns"))
    if layout in ("table", "memory"):
        return open_pairs(data, name=name, **told)
    if layout is None:
        named = isinstance(data, str | os.PathLike)
        what = os.fspath(data) if named else f"a {type(data).__name__}"
        problem = "does not exist" if named and not Path(data).expanduser().exists() else "holds no pairs"
        raise InputError(f"{what} {problem}; the layouts of pairs are: {LAYOUTS}")
    if told:
        raise InputError(f"{next(iter(told))} is for tables of pairs; {data} says all of that itself")
    path = Path(data).expanduser()
    return (spair.open_spair if layout == "spair" else hpatches.open_hpatches)(path, name=name)


def open_pairs(
    data: Any,
    *,
    name: str | None = None,
    columns: Mapping[str, str] | None = None,
    origin: str = "index",
    disparity_scale: float | None = None,
    disparity_offset: float = 0.0,
    disparity_hole: float | tuple[float, ...] | None = None,
    disparity_key: str | None = None,
    depth_scale: float | None = None,
) -> Splits:
    """The pairs of a CSV, TSV or Parquet file, or of a list of (image, image, relation).

    `columns` names the column that plays a part (`USUAL`) and is called otherwise.  `origin` says where homographies
    and keypoints count from: the centre of the first pixel ("index") or its "edge".  A disparity in pixels is
    stored / `disparity_scale` (1 unless told) + `disparity_offset`; columns of the first and of `disparity_hole` may
    say it row by row.  Depth is stored / `depth_scale`, in the unit of the poses; whole numbers need it told.
    """
    origin_of(origin)
    told: dict[str, dict[str, Any]] = {
        "disparity": {
            "scale": disparity_scale,
            "offset": disparity_offset,
            "hole": disparity_hole,
            "key": disparity_key,
        },
        "depth": {"scale": depth_scale},
    }
    if not isinstance(data, str | os.PathLike):
        return _in_memory(data, name)
    table = Path(data).expanduser()
    if table.suffix.lower() not in EXTENSIONS or not table.is_file():
        raise InputError(f"{table} is no table of pairs; wanted is a file ending in {', '.join(EXTENSIONS)}")
    cells = read_columns(table)
    parts = find_columns(table, cells, _usual(cells), columns)
    kind = _kind(table, cells, parts)
    count = len(cells[parts["first"]])
    if not count:
        raise InputError(f"{table} has no rows; there should be one a pair of images")
    for of, settings in told.items():
        if kind != of and (unused := [key for key, value in settings.items() if value]):
            raise InputError(f"{table} has no {of} maps, so {of}_{unused[0]} would say nothing; leave it out")
    members = members_of_table(table, cells, [parts["first"], parts["second"]], np.arange(count))
    params: dict[str, Any] = {
        "table": table.name,
        "image_columns": [parts["first"], parts["second"]],
        "relation": kind,
        "relation_column": parts[kind],
    }
    relations, how = READERS[kind](Rows(table, cells, parts, members), origin, told.get(kind, {}))
    groups = Groups(
        "pair",
        members.places,
        tuple(f"{table.name}, row {i}" for i in range(1, count + 1)),
        {"relation": relation_array(relations), **categories(cells, parts)},
        {**params, **how},
    )
    rows = {"all": np.arange(count)}
    if "split" in parts:
        rows = rows_by_split(cells[parts["split"]], table)
    return grouped_splits(members, groups, rows, name=name or table.stem)


def _usual(cells: Columns) -> dict[str, tuple[str, ...]]:
    """Of the names that images have in pairs only those that come as a pair, where any do."""
    there = {each.strip().lower() for each in cells}
    whole = [pair for pair in _IMAGES if there.issuperset(pair)] or _IMAGES
    return {**USUAL, "first": tuple(each[0] for each in whole), "second": tuple(each[1] for each in whole)}


def _layout(data: Any, columns: Mapping[str, str] | None) -> str | None:
    """ "memory", "table", "spair" or "hpatches"."""
    if not isinstance(data, str | os.PathLike):
        first = data[0] if isinstance(data, list) and data else None
        return "memory" if isinstance(first, tuple | list) and len(first) == 3 else None
    path = Path(data).expanduser()
    if path.is_dir():
        return "spair" if spair.is_spair(path) else "hpatches" if hpatches.sequences(path) else None
    if path.suffix.lower() not in EXTENSIONS or not path.is_file():
        return None
    there = {each.strip().lower() for each in read_headers(path)}
    related = any(there.issuperset(pair) for pair in _IMAGES) or any(there & {*USUAL[it]} for it in RELATIONS)
    return "table" if columns or related else None


def _kind(table: Path, cells: Columns, parts: dict[str, str]) -> str:
    """Which relation the table has; it must have one, and both images."""
    if lacking := [part for part in ("first", "second") if part not in parts]:
        unused = next((each for each in cells if each not in parts.values()), "COLUMN")
        raise InputError(
            f"{table} has the columns {', '.join(cells)} and none of the {lacking[0]} images; call the two image_1 and "
            f"image_2, or say which it is, as {lacking[0]}={unused}"
        )
    both = {parts[part].strip().lower() for part in ("first", "second")}
    if len(both) < 2:
        raise InputError(f"{table}: {parts['first']!r} cannot be both images of a pair; name another for one")
    found = [part for part in RELATIONS if part in parts]
    if len(found) != 1:
        what = "both of the columns " + " and ".join(found) if found else f"the columns {', '.join(cells)}"
        raise InputError(
            f"{table} has {what}; to say how the images of a pair lie to each other there should be exactly one of "
            f"{', '.join(RELATIONS)}"
        )
    return found[0]


def _in_memory(data: Any, name: str | None) -> Splits:
    """Of (image, image, relation): an image that comes twice, as one object or path, is one image of the set."""
    rows = list(data) if isinstance(data, list | tuple) else []
    if not rows or not all(
        isinstance(row, tuple | list) and len(row) == 3 and _is_relation(row[2]) for row in rows
    ):
        raise InputError(
            "pairs are a table, or a list of (image, image, relation) with a Homography, a Disparity or Keypoints"
        )
    place: dict[Any, int] = {}
    sources = []
    places = np.zeros((len(rows), 2), np.int64)
    for i, (first, second, _) in enumerate(rows):
        for j, image in enumerate((first, second)):
            key = os.fspath(image) if isinstance(image, str | os.PathLike) else id(image)
            if key not in place:
                sources.append(as_source(image))
            places[i, j] = place.setdefault(key, len(place))
    names = tuple(str(each) if isinstance(each, str) else f"image {i}" for i, each in enumerate(place))
    kinds = sorted({type(row[2]).__name__.lower() for row in rows})
    if "keypoints" in kinds and len(kinds) > 1:
        raise InputError(
            f"pairs have {' and '.join(kinds)}; keypoints are scored otherwise, so open them apart"
        )
    groups = Groups(
        "pair",
        places,
        tuple(f"pair {i}" for i in range(len(rows))),
        {"relation": relation_array([row[2] for row in rows])},
        {"relation": kinds[0] if len(kinds) == 1 else kinds},
    )
    folders = image_folders(str(each) for each in sources if isinstance(each, Path))
    whole = {"all": np.arange(len(rows))}
    return grouped_splits(
        Members(sources, names, places), groups, whole, name=name or "pairs", folders=folders
    )


def _is_relation(value: Any) -> bool:
    return isinstance(value, Keypoints) or (hasattr(value, "truth") and hasattr(value, "digest"))
