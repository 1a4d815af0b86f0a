"""Matrices as the cells of tables hold them: numbers, row by row, or a file of them.

A file is text, .npy, or what OpenCV's FileStorage writes (XML or YAML); which, its content says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from extract.datasets.relations import Homography
from extract.errors import InputError

_NPY = b"\x93NUMPY"
_YAML = re.compile(
    r"([\w.-]+)\s*:\s*!!opencv-matrix\s+rows:\s*(\d+)\s+cols:\s*(\d+)\s+dt:\s*\S+\s+data:\s*\[([^\]]*)\]"
)
_SHOWN = 60  # characters of a cell that a complaint repeats


class Wanted(NamedTuple):
    """A kind of matrix."""

    said: str  # what it is, for people
    shapes: Mapping[int, tuple[int, ...]]  # by how many numbers there are


HOMOGRAPHY = Wanted("a homography is nine numbers, row by row", {9: (3, 3)})
INTRINSICS = Wanted(
    "intrinsics are fx, fy, cx, cy, or a matrix of 3×3 or 4×4", {4: (4,), 9: (3, 3), 16: (4, 4)}
)
POSE = Wanted("a pose is a matrix of 3×4 or 4×4, row by row", {12: (3, 4), 16: (4, 4)})


def matrix_of(cell: Any, folder: Path, where: str, wanted: Wanted) -> np.ndarray:
    """Of a cell that holds the numbers or names a file below `folder`; `where` is what errors call the cell."""
    if not isinstance(cell, str | Path):
        return _numeric(cell, where, wanted)
    found = numbers(str(cell))
    if found is not None:
        return _shaped(found, where, wanted)
    return read_matrix(existing_file(str(cell), folder, where, "numbers"), wanted)


def homography_of(cell: Any, folder: Path, where: str, origin: str) -> Homography:
    """Of a cell."""
    return _homography(matrix_of(cell, folder, where, HOMOGRAPHY), origin, where)


def read_homography(path: Path, origin: str) -> Homography:
    """Of a file."""
    return _homography(read_matrix(path, HOMOGRAPHY), origin, str(path))


def read_matrix(path: Path, wanted: Wanted) -> np.ndarray:
    """The only matrix of that kind in a file."""
    data = read_bytes(path)
    if data.startswith(_NPY):
        try:
            matrix = np.load(path, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise InputError(f"{path} cannot be read: {error}") from None
        return _numeric(matrix, str(path), wanted)
    text = as_text(data, path)
    if text.lstrip().startswith("<"):
        matrices = _xml(text, path)
    elif "!!opencv-matrix" in text:
        matrices = {name: (rows, columns, body) for name, rows, columns, body in _YAML.findall(text)}
    else:
        return _shaped(numbers(text), str(path), wanted)
    sizes = {name: (_whole(rows), _whole(columns)) for name, (rows, columns, _) in matrices.items()}
    chosen = [name for name, size in sizes.items() if size in wanted.shapes.values()]
    if len(chosen) != 1:
        listed = ", ".join(f"{name} of {rows}×{columns}" for name, (rows, columns) in sizes.items()) or "none"
        raise InputError(
            f"{path} holds {len(chosen)} such matrices ({listed}) and should hold one; {wanted.said}"
        )
    return _shaped(numbers(matrices[chosen[0]][2]), f"{path}, {chosen[0]}", wanted)


def numbers(text: str) -> list[float] | None:
    """Numbers between blanks, commas, semicolons and brackets; None where anything else stands there."""
    try:
        return [float(each) for each in re.split(r"[\s,;\[\]()]+", text) if each]
    except ValueError:
        return None


def existing_file(cell: str, folder: Path, where: str, instead: str = "") -> Path:
    """The file that a cell names, relative to `folder`."""
    path = folder / cell.strip()
    if not cell.strip() or not path.is_file():
        shown = cell if len(cell) <= _SHOWN else cell[:_SHOWN] + "…"
        what = f"are neither {instead} nor" if instead else "is not"
        raise InputError(f"{where} holds {shown!r}, which {what} a file below {folder.resolve()}")
    return path


def read_bytes(path: Path) -> bytes:
    """What a file holds."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def as_text(data: bytes, path: Path) -> str:
    """The same as text."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path} is neither text nor .npy, and cannot be read") from None


def _homography(matrix: np.ndarray, origin: str, where: str) -> Homography:
    try:
        return Homography.of(matrix, origin)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _shaped(found: list[float] | None, where: str, wanted: Wanted) -> np.ndarray:
    if found is None or len(found) not in wanted.shapes:
        what = "something that is no number" if found is None else f"{len(found)} numbers"
        raise InputError(f"{where} holds {what}; {wanted.said}")
    return np.array(found).reshape(wanted.shapes[len(found)])


def _numeric(cell: Any, where: str, wanted: Wanted) -> np.ndarray:
    try:
        found = np.asarray([*map(np.asarray, cell)], np.float64).ravel().tolist()
    except (TypeError, ValueError):
        raise InputError(f"{where} holds {cell!r}; {wanted.said}") from None
    return _shaped(found, where, wanted)


def _whole(text: str) -> int:
    return int(text) if text.strip().isdecimal() else 0


def _xml(text: str, path: Path) -> dict[str, tuple[str, str, str]]:
    """Rows, columns and data of each matrix that OpenCV wrote, by name."""
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise InputError(f"{path} is no XML: {error}") from None
    return {
        each.tag: (each.findtext("rows", "0"), each.findtext("cols", "0"), each.findtext("data", ""))
        for each in root.iter()
        if each.get("type_id") == "opencv-matrix"
    }
