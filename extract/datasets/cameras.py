"""Images whose cameras' poses are known, brought together in pairs.

    path,scene,qw,qx,qy,qz,tx,ty,tz,split
    cup/000.jpg,cup,0.99,0.1,0.0,0.0,0.02,-0.1,0.8,train

A pose is a quaternion (w, x, y, z) and a translation that take a point of the world into the camera's axes, R x + t, as
COLMAP writes them too.  Poses of one scene have the same world.  What a pair should say is the pose that takes the
first camera's axes into the second's: a quaternion with w ≥ 0 and metres.

Pairs are two images of one scene and one split, their cameras turned against each other by more than 0° and at most
120°, each pair once.  Which ones, up to so many an image, and which of the two comes first is drawn by the poses
themselves: neither the names of files nor their order, which is that of a camera going round, decide it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from extract.datasets.base import Splits
from extract.datasets.grouping import find_columns, grouped_splits, members_of_files
from extract.datasets.groups import Groups
from extract.datasets.table import existing, read_columns, rows_by_split
from extract.errors import InputError
from extract.poses import angle_deg, check_pose, relative
from extract.wording import counted

PAIRS_PER_IMAGE = 8
MAX_ROTATION = 120.0  # degrees
LEAST_ROTATION = 1e-4  # degrees: less is rounding, of a camera that did not turn
DRAWN, FEWEST = (
    0.2,
    4,
)  # of each scene's images, where it has so many, that are scored where nobody says which
AT_ONCE = 1024  # images of a scene whose pairs are looked at together; those of more are dealt into parts
DIGITS = 9  # of a relative pose that count: the rest is rounding, which differs between machines
NUMBERS = ("qw", "qx", "qy", "qz", "tx", "ty", "tz")
USUAL: dict[str, tuple[str, ...]] = {
    "path": ("path", "image", "image_path", "filepath", "file", "filename", "file_name", "name"),
    "scene": ("scene", "scene_name", "sequence", "object"),
    **{name: (name,) for name in NUMBERS},
    "split": ("split", "set", "subset", "partition"),
}
"""The parts that columns of a table play, and what such columns are usually called."""


@dataclass(frozen=True, eq=False)
class Cameras:
    """n images below a folder and the pose of each one's camera."""

    root: Path
    paths: Sequence[str]
    scenes: Sequence[str]
    poses: np.ndarray  # (n, 7) quaternion and translation in metres, camera from world
    rows: Mapping[str, np.ndarray] | None  # split → images; None where nobody says
    params: Mapping[str, Any] = field(default_factory=dict)

    def splits(self, name: str, *, pairs_per_image: int | None, max_rotation: float | None) -> Splits:
        """Image sets with pairs; without splits a fifth of each scene's images is scored and the rest trains."""
        most = PAIRS_PER_IMAGE if pairs_per_image is None else pairs_per_image
        widest = MAX_ROTATION if max_rotation is None else float(max_rotation)
        if most < 1:
            raise InputError(f"pairs_per_image is {most}; an image needs at least 1 pair")
        if not LEAST_ROTATION < widest <= 180:
            raise InputError(f"max_rotation is {widest}; it is in degrees, up to 180")
        rows = self._drawn() if self.rows is None else self.rows
        found = {split: self._pairs(chosen, most, widest) for split, chosen in rows.items()}
        members = np.concatenate([*found.values()])
        if not len(members):
            raise InputError(
                f"{self.root} has {counted(len(self.paths), 'image')} and no two of one scene and one split whose "
                f"cameras are turned by 0° to {widest:g}° against each other"
            )
        ends = np.cumsum([0, *map(len, found.values())])
        of_split = {split: np.arange(*ends[i : i + 2]) for i, split in enumerate(found)}
        files = members_of_files(self.root, [[self.paths[place] for place in pair] for pair in members])
        groups = self._groups(members, {"pairs_per_image": most, "max_rotation": widest})
        return grouped_splits(files, replace(groups, members=files.places), of_split, name=name)

    def _groups(self, members: np.ndarray, told: Mapping[str, Any]) -> Groups:
        """The pairs with their relative poses."""
        truth = np.round(relative(self.poses[members[:, 0]], self.poses[members[:, 1]]), DIGITS) + 0.0
        drawn = {"drawn_test": DRAWN} if self.rows is None else {}
        return Groups(
            "pair",
            members,
            tuple(f"{self.paths[first]} and {self.paths[second]}" for first, second in members),
            {"pose": truth},
            {**self.params, **told, "order": "drawn, each pair once", **drawn},
        )

    def _pairs(self, chosen: np.ndarray, most: int, widest: float) -> np.ndarray:
        """(p, 2) images of the pairs among those chosen, in an order that is drawn: the first few are of all scenes."""
        found = [np.empty((0, 2), np.int64)]
        for images in self._by_scene(chosen):
            for start in range(0, len(images), AT_ONCE):
                part = images[start : start + AT_ONCE]
                found.append(part[draw_pairs(self.poses[part], most, widest)])
        members, digests = np.concatenate(found), _digests(self.poses)
        return members[np.argsort(_mixed(digests[members].sum(axis=1)), kind="stable")]

    def _drawn(self) -> dict[str, np.ndarray]:
        """Of every scene with four images a fifth, at least two, that are scored."""
        every = np.arange(len(self.paths))
        scenes = [images for images in self._by_scene(every) if len(images) >= FEWEST]
        scored = [place for images in scenes for place in images[: max(round(DRAWN * len(images)), 2)]]
        return {"train": np.setdiff1d(every, scored), "test": np.sort(np.array(scored, np.int64))}

    def _by_scene(self, chosen: np.ndarray) -> list[np.ndarray]:
        """The chosen images of each scene, in an order that their poses draw."""
        numbers: dict[str, list[int]] = {}
        for place in chosen:
            numbers.setdefault(self.scenes[place], []).append(int(place))
        return [
            np.array(places)[np.argsort(_digests(self.poses[places]), kind="stable")]
            for places in numbers.values()
        ]


def draw_pairs(poses: np.ndarray, most: int, widest: float) -> np.ndarray:
    """(p, 2) places among n poses of one scene: pairs turned by at most `widest` degrees, up to `most` an image.

    All that may be are gone through in an order drawn by the poses, and each is taken whose images both have room.
    """
    digests = _digests(poses)
    first, second = np.triu_indices(len(poses), k=1)
    angle = angle_deg(poses[first, :4], poses[second, :4])
    may = (angle > LEAST_ROTATION) & (angle <= widest)
    first, second = first[may], second[may]
    lot = _mixed(digests[first] + digests[second])
    chosen, has = [], np.zeros(len(poses), np.int64)
    for row in np.argsort(lot, kind="stable"):
        pair = first[row], second[row]
        if has[pair[0]] < most and has[pair[1]] < most:
            has[[*pair]] += 1
            swapped = (digests[pair[0]] < digests[pair[1]]) == bool(lot[row] & np.uint64(1))
            chosen.append(pair[::-1] if swapped else pair)
    return np.array(chosen, np.int64).reshape(-1, 2)


def open_cameras_table(
    table: Path,
    *,
    name: str | None = None,
    columns: Mapping[str, str] | None = None,
    scale: float | None = None,
    pairs_per_image: int | None = None,
    max_rotation: float | None = None,
) -> Splits:
    """The pairs of a CSV, TSV or Parquet file with an image a row.

    Translations are stored / `scale` metres.  Without a column of splits a fifth of each scene's images is scored.
    """
    cells = read_columns(table)
    parts = find_columns(table, cells, USUAL, columns)
    if lacking := [part for part in USUAL if part not in parts and part != "split"]:
        raise InputError(
            f"{table} has the columns {', '.join(cells)} and none for {', '.join(lacking)}; posed images have "
            f"{', '.join(USUAL)}, of which the last may be left out: call them so, or say which is which, as "
            f"{lacking[0]}={_unused(cells, parts)}"
        )
    paths = [existing(str(each), table.parent) for each in cells[parts["path"]]]
    if not paths:
        raise InputError(f"{table} has no rows; there should be one an image")
    check_files(table.parent, paths, table)
    rows = zip(*(cells[parts[part]] for part in NUMBERS), strict=True)
    poses = np.stack([check_pose(each, f"{table}, row {row}") for row, each in enumerate(rows, 1)])
    units = check_scale(scale, 1.0)
    poses[:, 4:] /= units
    splits = rows_by_split(cells[parts["split"]], table) if "split" in parts else None
    scenes = [str("" if each is None else each).strip() for each in cells[parts["scene"]]]
    if "" in scenes:  # pictures of any scenes would make one, and pairs with poses that mean nothing
        raise InputError(
            f"{table}, row {scenes.index('') + 1}, column {parts['scene']} is empty; every image is of a scene, whose "
            "cameras share one world"
        )
    cameras = Cameras(
        table.parent, paths, scenes, poses, splits, {"table": table.name, "target_scale": units}
    )
    return cameras.splits(name or table.stem, pairs_per_image=pairs_per_image, max_rotation=max_rotation)


def _unused(cells: Mapping[str, Any], parts: Mapping[str, str]) -> str:
    """A column that plays no part yet, to show how one is named."""
    return next((each for each in cells if each not in parts.values()), "COLUMN")


def check_scale(scale: float | None, usual: float) -> float:
    """Stored values a metre."""
    scale = usual if scale is None else float(scale)
    if not (np.isfinite(scale) and scale > 0):
        raise InputError(f"target_scale is {scale}; it is how many stored values are a metre, such as 1000")
    return scale


def check_files(root: Path, paths: Sequence[str], said_by: Path) -> None:
    """Refuse files that are not there, or named twice."""
    missing = [each for each in paths if not each or not (root / each).is_file()]
    if missing:
        raise InputError(
            f"{said_by} names {counted(len(paths), 'image')}, of which {len(missing):,} cannot be found, the first "
            f"{missing[0]!r}; paths are relative to {root.resolve()}"
        )
    if len(set(paths)) < len(paths):
        ordered = sorted(paths)
        twice = next(one for one, other in pairwise(ordered) if one == other)
        raise InputError(f"{said_by} names {twice} twice; an image has one pose")


def _digests(poses: np.ndarray) -> np.ndarray:
    """(n,) uint64, a number drawn by each pose."""
    rows = [np.ascontiguousarray(pose, "<f8").tobytes() for pose in poses + 0.0]
    return np.frombuffer(b"".join(hashlib.blake2b(row, digest_size=8).digest() for row in rows), "<u8")


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Numbers that look drawn anew, by the finaliser of splitmix64 (Steele, Lea & Flood 2014)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(numbers ^ (numbers >> np.uint64(31)))
