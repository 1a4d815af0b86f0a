"""NAVI (Jampani et al., NeurIPS 2023): photographs of objects from all sides, with the pose of every camera.

    navi_v1.5/
      3d_dollhouse_sink/
        multiview-00-pixel_5/
          annotations.json
            [{"filename": "000.jpg", "split": "train", "camera": {"q": [w, x, y, z], "t": [x, y, z]}}, …]
          images/000.jpg
        video-00-pixel_5/  wild_set/  3d_scan/    (not read: a pair is two views of one still scene)

`camera` takes a point of the object's scan into the camera's axes, in millimetres; one scene has one object in one
place, so that is the world.  `split` is train for about four fifths of each scene's images and val for the others.
The first release had `multiview_00` for `multiview-00-pixel_5`; both are read.  Where several objects stand in one
scene, its photographs lie in the folders of each.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from extract.datasets.base import Splits, split_name
from extract.datasets.cameras import Cameras, check_files, check_scale, open_cameras_table
from extract.datasets.table import EXTENSIONS
from extract.errors import InputError
from extract.poses import check_pose

MILLIMETRES = 1000.0  # a metre
_ANNOTATIONS = "annotations.json"
_SCENES = f"*/multiview*/{_ANNOTATIONS}"


def find_navi(root: Path) -> Path | None:
    """The folder of objects that `root` is, or the one inside it that is called navi…; None where there is none."""
    for folder in (root, *sorted(root.glob("navi*"))):
        if next(folder.glob(_SCENES), None) is not None:
            return folder
    return None


def open_poses(
    data: str | os.PathLike[str],
    *,
    name: str | None = None,
    columns: Mapping[str, str] | None = None,
    scale: float | None = None,
    pairs_per_image: int | None = None,
    max_rotation: float | None = None,
) -> Splits:
    """Pairs of images and the pose of the second camera relative to the first: of NAVI, or of a table (see `cameras`).

    An image is in at most `pairs_per_image` pairs (8 unless told), whose cameras are turned by at most `max_rotation`
    degrees (120).  Translations are stored / `scale` metres: 1000 of NAVI, 1 of a table.  `columns` names the column of
    a table that plays a part (`cameras.USUAL`) and is called otherwise.
    """
    if not isinstance(data, str | os.PathLike):
        raise InputError(
            f"posed images are read from NAVI's folder or a table, not from a {type(data).__name__}; give its path"
        )
    path = Path(data).expanduser()
    if path.is_file() and path.suffix.lower() in EXTENSIONS:
        return open_cameras_table(
            path,
            name=name,
            columns=columns,
            scale=scale,
            pairs_per_image=pairs_per_image,
            max_rotation=max_rotation,
        )
    found = find_navi(path) if path.is_dir() else None
    if found is None:
        raise InputError(
            f"{path} is neither laid out as NAVI (object/multiview-00-camera/{_ANNOTATIONS}) nor a table of images "
            "with the columns path, scene, qw, qx, qy, qz, tx, ty, tz"
        )
    if columns:
        raise InputError(f"{next(iter(columns))} is a column of tables, and {path} is laid out as NAVI")
    cameras = read_navi(found, scale=scale)
    return cameras.splits(
        name or found.resolve().name, pairs_per_image=pairs_per_image, max_rotation=max_rotation
    )


def read_navi(root: Path, *, scale: float | None = None) -> Cameras:
    """The images of every multi-view scene below a folder of objects."""
    paths: list[str] = []
    scenes: list[str] = []
    poses: list[np.ndarray] = []
    splits: list[str] = []
    for file in sorted(root.glob(_SCENES)):
        scene = file.parent.relative_to(root).as_posix()
        for number, entry in enumerate(_entries(file), 1):
            where = f"{file}, entry {number}"
            filename, split, pose = _entry(entry, where)
            paths.append(f"{scene}/images/{filename}")
            scenes.append(scene)
            poses.append(pose)
            splits.append(split_name(split, where))
    check_files(root, paths, root)
    metres = np.stack(poses)
    metres[:, 4:] /= check_scale(scale, MILLIMETRES)
    rows = {split: np.flatnonzero(np.array(splits) == split) for split in ("train", "val", "test")}
    params = {"layout": "navi", "target_scale": check_scale(scale, MILLIMETRES)}
    return Cameras(root, paths, scenes, metres, {each: own for each, own in rows.items() if len(own)}, params)


def _entries(file: Path) -> list[Any]:
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{file} cannot be read as JSON: {error}") from None
    if not isinstance(held, list) or not held:
        raise InputError(f"{file} holds no list of images; wanted one entry an image")
    return held


def _entry(entry: Any, where: str) -> tuple[str, str, np.ndarray]:
    """The file, the split and the pose of an image."""
    try:
        camera = entry["camera"]
        filename, split, numbers = entry["filename"], entry["split"], [*camera["q"], *camera["t"]]
    except (TypeError, KeyError) as error:
        raise InputError(
            f"{where} lacks {error}; an image has filename, split, and camera with q and t"
        ) from None
    return str(filename), str(split), check_pose(numbers, where)
