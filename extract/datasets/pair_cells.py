"""What the cells of a table say of each pair: a homography, a disparity map, keypoints, or depth with cameras."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from extract.datasets.grouping import Members, Sizes, relation_array
from extract.datasets.keypoint_files import read_keypoints
from extract.datasets.matrix_files import INTRINSICS, POSE, Wanted, existing_file, homography_of, matrix_of
from extract.datasets.posed_depth import PosedDepth, check_pose, intrinsics, whole_pose
from extract.datasets.relations import Disparity, Size
from extract.datasets.table import Columns
from extract.errors import InputError
from extract.maps.files import map_header
from extract.maps.quantities import DepthReader

_OUTSIDE = 1.0  # pixel: what a marked point may lie beyond the border, by another convention or by rounding


@dataclass(frozen=True)
class Rows:
    """A table of pairs, and the images that its rows name."""

    table: Path
    cells: Columns
    parts: Mapping[str, str]  # the column that plays each part
    members: Members

    def where(self, row: int, part: str) -> str:
        """What errors call a cell."""
        return f"{self.table}, row {row + 1}, column {self.parts[part]}"

    def file(self, row: int, part: str) -> Path:
        """The file that a cell names."""
        cell = self.cells[self.parts[part]][row]
        return existing_file(str(cell or ""), self.table.parent, self.where(row, part))

    def matrix(self, row: int, part: str, wanted: Wanted) -> np.ndarray:
        """The matrix that a cell holds or names."""
        return matrix_of(self.cells[self.parts[part]][row], self.table.parent, self.where(row, part), wanted)

    def number(self, row: int, part: str, told: Any) -> Any:
        """What a cell says, None where it is empty; what was told where there is no such column."""
        if part not in self.parts:
            return told
        cell = self.cells[self.parts[part]][row]
        try:
            return None if cell is None or not str(cell).strip() else float(cell)
        except ValueError:
            raise InputError(f"{self.where(row, part)} holds {cell!r}; it should be a number") from None


Read: TypeAlias = tuple[Sequence[Any], dict[str, Any]]
"""The relation of each pair, and how it was read, for the record."""


def _homographies(rows: Rows, origin: str, told: Mapping[str, Any]) -> Read:
    cells = rows.cells[rows.parts["homography"]]
    return [
        homography_of(cell, rows.table.parent, rows.where(row, "homography"), origin)
        for row, cell in enumerate(cells)
    ], {"origin": origin}


def _disparities(rows: Rows, origin: str, told: Mapping[str, Any]) -> Read:
    for setting in ("scale", "hole"):
        if told[setting] is not None and (column := rows.parts.get(f"disparity_{setting}")):
            raise InputError(f"{rows.table} has a column {column}, and it was told, too; choose one")
    found, sizes = [], Sizes(rows.members)
    for row, places in enumerate(rows.members.places):
        path = rows.file(row, "disparity")
        name = f"the disparity map {path} ({rows.table.name}, row {row + 1})"
        scale = rows.number(row, "disparity_scale", told["scale"])
        hole = rows.number(row, "disparity_hole", told["hole"])
        found.append(
            Disparity(path, 1.0 if scale is None else scale, told["offset"], hole, told["key"], name)
        )
        size = map_header(path, name=name, key=told["key"])
        _check_rectified((size.height, size.width), [sizes[place] for place in places], name)
    how = {f"disparity_{setting}": value for setting, value in told.items() if value is not None}
    how["hidden"] = "not known"
    return found, how if "disparity_scale" in rows.parts else {"disparity_scale": 1.0, **how}


def _keypoints(rows: Rows, origin: str, told: Mapping[str, Any]) -> Read:
    found, boxes, sizes = [], 0, Sizes(rows.members)
    named = categories(rows.cells, rows.parts).get("category", [None] * len(rows.members.places))
    for row, places in enumerate(rows.members.places):
        path = rows.file(row, "keypoints")
        each, boxed = read_keypoints(path, origin, named[row])
        for points, place in zip((each.first, each.second), places, strict=True):
            _refuse_outside(points[each.visible], sizes[place], str(path), rows.members.names[place])
        found.append(each)
        boxes += boxed
    extent = "box" if boxes == len(found) else "box, or points where there is none" if boxes else "points"
    return found, {"origin": origin, "extent": extent}


def _depths(rows: Rows, origin: str, told: Mapping[str, Any]) -> Read:
    parts = rows.parts
    direct, both = "second_from_first" in parts, {"world_from_first", "world_from_second"} <= parts.keys()
    if "first_intrinsics" not in parts or direct == both:
        raise InputError(
            f"{rows.table} has depth and the columns {', '.join(rows.cells)}; the cameras are intrinsics_1, "
            "intrinsics_2 where they differ, and either second_from_first or world_from_first and world_from_second"
        )
    other = "second_intrinsics" if "second_intrinsics" in parts else "first_intrinsics"
    reader, found = DepthReader(scale=told["scale"]), []
    for row in range(len(rows.members.places)):
        where = f"{rows.table}, row {row + 1}"
        try:
            if direct:
                pose = whole_pose(rows.matrix(row, "second_from_first", POSE))
            else:
                one, two = (
                    whole_pose(rows.matrix(row, f"world_from_{it}", POSE)) for it in ("first", "second")
                )
                check_pose(one)
                check_pose(two)
                pose = np.linalg.inv(two) @ one
            first, second = (
                intrinsics(rows.matrix(row, part, INTRINSICS), origin) for part in ("first_intrinsics", other)
            )
            path = rows.file(row, "depth")
            seen = rows.file(row, "second_depth") if "second_depth" in parts else None
            name = f"the depth map {path} ({where})"
            found.append(PosedDepth(path, first, second, pose, reader, seen, name=name))
        except InputError as error:
            raise error if str(error).startswith(where) else InputError(f"{where}: {error}") from None
    hidden = "not known" if "second_depth" in parts else "not told"
    return found, {"origin": origin, "depth_scale": told["scale"], "hidden": hidden}


READERS: dict[str, Callable[[Rows, str, Mapping[str, Any]], Read]] = {
    "homography": _homographies,
    "disparity": _disparities,
    "keypoints": _keypoints,
    "depth": _depths,
}


def _check_rectified(size: Size, images: Sequence[Size | None], name: str) -> None:
    first, second = images
    if first is not None and first != size:
        raise InputError(
            f"{name} is {size[1]}×{size[0]} and the first image {first[1]}×{first[0]}; they have to be of one size"
        )
    if second is not None and second[0] != size[0]:
        raise InputError(
            f"{name} is {size[0]} pixels high and the second image {second[0]}; the two of a rectified stereo pair are "
            "of one height"
        )


def _refuse_outside(points: np.ndarray, size: Size | None, where: str, image: str) -> None:
    """Marks that lie outside their image are those of another, or of another size."""
    if size is None:
        return
    off = ((points < -_OUTSIDE) | (points > np.array(size[::-1]) + _OUTSIDE)).any(axis=1)
    if off.any():
        x, y = points[off][0]
        raise InputError(
            f"{where} marks the point ({x:g}, {y:g}), outside {image}, which is {size[1]}×{size[0]}; were the points "
            "marked at another size?"
        )


def categories(cells: Columns, parts: Mapping[str, str]) -> dict[str, np.ndarray]:
    """(g,) names, where there is a column of them."""
    if "category" not in parts:
        return {}
    return {"category": relation_array([str(cell or "").strip() for cell in cells[parts["category"]]])}
