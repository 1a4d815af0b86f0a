"""Keypoints that were marked in two images, as files hold them.

JSON, as {"first": [[x, y], …], "second": [[x, y], …], "visible": [true, …], "box": [x0, y0, x1, y1]}, of which the last
two may be absent, or a CSV with the columns x1, y1, x2, y2 and, if need be, visible.  The box is the object's in the
second image; without one the extent of the visible points there stands for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from extract.datasets.matrix_files import as_text, read_bytes
from extract.datasets.relations import Keypoints, origin_of
from extract.datasets.table import read_columns
from extract.errors import InputError

_SAID = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
_SHOWN = 60  # characters of what a complaint repeats


def read_keypoints(path: Path, origin: str, category: str | None = None) -> tuple[Keypoints, bool]:
    """The keypoints of a file, and whether it says the object's box."""
    data = read_bytes(path)
    held = _json(as_text(data, path), path) if data.lstrip()[:1] in (b"{", b"[") else _columns(path)
    first, second = (_points(held[name], f"{path}, {name}") for name in ("first", "second"))
    visible = _visible(held.get("visible"), len(first), path)
    if not len(first) == len(second) == len(visible):
        raise InputError(
            f"{path} has {len(first)} points of the first image, {len(second)} of the second and {len(visible)} said "
            "to be visible or not; they belong together one by one"
        )
    if not visible.any():
        raise InputError(f"{path} has no visible keypoint; leave the pair out")
    box = held.get("box")
    corners = second[visible] if box is None else _points([box[:2], box[2:]], f"{path}, box")
    extent = float(np.ptp(corners, axis=0).max()) if box is None else float((corners[1] - corners[0]).max())
    if not extent > 0:
        what = f"the box {box}" if box is not None else "no box, and its points in the second image are one"
        raise InputError(
            f"{path} has {what}; errors are measured by the longer side of the object's box: x0, y0, x1, y1"
        )
    shift = origin_of(origin)
    try:
        return Keypoints(
            np.where(visible[:, None], first + shift, 0.0),
            np.where(visible[:, None], second + shift, 0.0),
            visible,
            extent,
            category,
        ), box is not None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _json(text: str, path: Path) -> Mapping[str, Any]:
    try:
        held = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is no JSON: {error}") from None
    if not isinstance(held, Mapping) or "first" not in held or "second" not in held:
        said = ", ".join(held) if isinstance(held, Mapping) else f"a {type(held).__name__}"
        raise InputError(
            f'{path} holds {said}; it should hold {{"first": [[x, y], …], "second": [[x, y], …]}}'
        )
    box = held.get("box")
    if box is not None and (not isinstance(box, list) or len(box) != 4):
        raise InputError(f"{path} has the box {box!r}; it should be x0, y0, x1, y1 in the second image")
    return held


def _columns(path: Path) -> Mapping[str, Any]:
    columns = {name.strip().lower(): cells for name, cells in read_columns(path).items()}
    if lacking := [name for name in ("x1", "y1", "x2", "y2") if name not in columns]:
        raise InputError(
            f"{path} has the columns {', '.join(columns)} and no {', '.join(lacking)}; keypoints are JSON, or a table "
            "with x1, y1 in the first image and x2, y2 in the second"
        )
    first, second = ([*zip(columns[f"x{i}"], columns[f"y{i}"], strict=True)] for i in (1, 2))
    return {"first": first, "second": second, "visible": columns.get("visible")}


def _points(given: Any, where: str) -> np.ndarray:
    """(k, 2) float64; an empty cell or null, of a point that is not visible, is NaN."""
    try:
        points = np.array([[_coordinate(each) for each in point] for point in given], np.float64)
    except (TypeError, ValueError):
        points = np.zeros(0)
    if points.ndim != 2 or points.shape[1] != 2:
        raise InputError(f"{where}: there should be pairs of numbers, x and y, not {str(given)[:_SHOWN]}")
    return points


def _coordinate(value: Any) -> float:
    return np.nan if value is None or value == "" else float(value)


def _visible(given: Any, count: int, path: Path) -> np.ndarray:
    """(k,) bool; all where nothing is said."""
    if given is None:
        return np.ones(count, bool)
    said = [_SAID.get(str(each).strip().lower()) for each in given] if isinstance(given, list) else [None]
    if None in said:
        raise InputError(
            f"{path} says of a point that it is visible: {given}; it should be true or false of each"
        )
    return np.array(said, bool)
