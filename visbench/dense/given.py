"""Feature grids and target maps that somebody hands over as arrays: looked at once, before anything is trained.

Axes: n images, h w grid, d dims, S pixels a side, k values a pixel or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from probes.boxes import EMPTY
from probes.maps.depth import Depth
from visbench.dense.kinds import Kind
from visbench.errors import UsageError

ROWS = 64  # images looked at together
OFF = 1e-2  # that a length may be off from 1, as in float16

Wrong = Callable[[np.ndarray], np.ndarray]  # (b, S, S[, k]) → (b, S, S) where a value cannot be


def checked_grid(grid: Any, name: str) -> np.ndarray:
    """(n, h, w, d) finite numbers."""
    array = np.asarray(grid)
    if array.ndim != 4 or 0 in array.shape:
        raise UsageError(
            f"{name} have shape {array.shape}; wanted (images, rows, columns, dims), with at least one of each"
        )
    return _finite(array, name)


def checked_tokens(tokens: Any, name: str) -> np.ndarray:
    """(n, d) finite numbers."""
    array = np.asarray(tokens)
    if array.ndim != 2 or 0 in array.shape:
        raise UsageError(f"{name} have shape {array.shape}; wanted (images, dims), with at least one of each")
    return _finite(array, name)


def checked_target(target: Any, kind: Kind, task: Any, name: str) -> np.ndarray:
    """Maps (n, S, S[, k]) as the feature store keeps this kind, in its dtype."""
    array = np.asarray(target)
    if kind.name == "boxes":
        return _checked_boxes(array, task.num_classes, name)
    _check_shape(array, kind, name)
    _check_dtype(array, kind, name)
    wrong, wanted = _rule(kind, task)
    for start, rows in _blocks(array):
        bad = wrong(rows)
        if bad.any():
            row, *place = np.argwhere(bad)[0]
            raise UsageError(
                f"{name} of {kind.name} hold {_shown(rows[row, place[0], place[1]])} in row {start + row}; {wanted}"
            )
    kept = array.astype(kind.dtype, copy=False)
    if isinstance(task, Depth) and any((rows > task.high).any() for _, rows in _blocks(kept)):
        return np.where(kept > task.high, np.float32(kind.void), kept)  # is not scored, as in a run
    return kept


def _checked_boxes(array: np.ndarray, classes: int, name: str) -> np.ndarray:
    """(n, M, 6) rows of objects in shares of the frame; an image without any gets the row that says it exists."""
    if array.ndim != 3 or array.shape[2] != 6 or 0 in array.shape or array.dtype.kind not in "fiu":
        raise UsageError(
            f"{name} of boxes have shape {array.shape} and dtype {array.dtype}; wanted numbers (n, M, 6): x0, y0, x1, "
            "y1 in shares of the frame, label, flag, and rows of −1 where there is no object"
        )
    kept = array.astype(np.float32)
    there = kept[..., 4] >= 0
    boxes, labels, flags = kept[there][:, :4], kept[there][:, 4], kept[there][:, 5]
    inside = (boxes >= 0).all() and (boxes <= 1).all() and (boxes[:, :2] <= boxes[:, 2:]).all()
    if not inside:  # NaN too
        raise UsageError(
            f"{name} hold a box that is no x0, y0, x1, y1 of 0 … 1; boxes are in shares of the frame, so divide pixels "
            "by its side"
        )
    if not np.isin(flags, (0, 1, 2)).all() or not np.isin(labels, np.arange(classes)).all():
        raise UsageError(
            f"{name} hold a label or a flag that is none; with num_classes {classes} labels are 0 … {classes - 1}, and "
            "flags 0 (an object), 1 (difficult) and 2 (a crowd)"
        )
    kept[~there] = -1
    kept[~there.any(axis=1), 0, 5] = EMPTY
    return kept


def _check_shape(array: np.ndarray, kind: Kind, name: str) -> None:
    tail = (kind.depth,) if kind.depth else ()
    wanted = ", ".join(["n", "S", "S", *map(str, tail)])
    if array.ndim != 3 + len(tail) or array.shape[3:] != tail or 0 in array.shape:
        raise UsageError(f"{name} of {kind.name} have shape {array.shape}; wanted ({wanted})")
    if array.shape[1] != array.shape[2]:
        raise UsageError(
            f"{name} have shape {array.shape}; wanted ({wanted}): a map in the square frame that a backbone sees"
        )


def _check_dtype(array: np.ndarray, kind: Kind, name: str) -> None:
    whole = kind.dtype == "uint8"
    if array.dtype.kind not in ("iub" if whole else "f"):
        wanted = "whole numbers" if whole else "floating-point values in the unit of this kind"
        raise UsageError(f"{name} of {kind.name} are {array.dtype}; wanted {wanted}")


def _rule(kind: Kind, task: Any) -> tuple[Wrong, str]:
    """Which pixels cannot be, and what was wanted."""
    if kind.name == "labels":
        most = task.num_classes - 1
        said = f"with num_classes {task.num_classes} labels are 0 … {most}, and 255 where there is none"
        return lambda rows: ((rows < 0) | (rows > most)) & (rows != 255), said
    if kind.name == "foreground":
        return lambda rows: ~np.isin(rows, (0, 1, 255)), "wanted 0, 1, and 255 where nobody said"
    if kind.name == "depth":
        return lambda rows: ~((rows >= 0) & (rows < np.inf)), "wanted 0 or more, and 0 where it is unknown"
    if kind.name == "normals":
        return _no_normal, "wanted vectors of length 1, and the zero vector where it is unknown"
    if kind.name == "orientation":
        return (
            _no_orientation,
            "wanted cos 2a, sin 2a and a coherence of 0 … 1, which is 0 where there is none",
        )
    most = 1.0 if kind.name == "boundaries" else np.inf
    said = "wanted 0 … 1, and −1" if kind.name == "boundaries" else "wanted 0 or more, and −1"
    return (
        lambda rows: ~(((rows >= 0) & (rows <= most) & (rows < np.inf)) | (rows == -1)),
        f"{said} where it is unknown",
    )


def _no_normal(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows.astype(np.float32), axis=-1)
    return np.asarray(~((np.abs(length - 1) <= OFF) | (length == 0)))


def _no_orientation(rows: np.ndarray) -> np.ndarray:
    values = rows.astype(np.float32)
    length, coherence = np.linalg.norm(values[..., :2], axis=-1), values[..., 2]
    right = (np.abs(length - 1) <= OFF) & (coherence > 0) & (coherence <= 1 + OFF)
    return np.asarray(~(right | ((coherence == 0) & np.isfinite(length))))


def _finite(array: np.ndarray, name: str) -> np.ndarray:
    if array.dtype.kind not in "fiu" and array.dtype.name != "bfloat16":
        raise UsageError(f"{name} are of type {array.dtype}; wanted real numbers, such as float16 or float32")
    for start, rows in _blocks(array):
        known = np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
        if not known.all():
            raise UsageError(
                f"{name} hold a value that is not finite in row {start + int(known.argmin())}; "
                "leave that image out or extract it again"
            )
    return array


def _blocks(array: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    return ((start, array[start : start + ROWS]) for start in range(0, len(array), ROWS))


def _shown(value: Any) -> str:
    return str(np.round(np.asarray(value, np.float64), 4).tolist())
