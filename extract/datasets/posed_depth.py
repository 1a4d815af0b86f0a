"""Two views of a scene whose depth and cameras are known, as pairs of ScanNet or NAVI are.

After Probe3D (El Banani et al., CVPR 2024), which measures correspondence on such pairs.  Cameras look along z, with x
to the right and y down; depth is along z, not along the ray.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from extract.datasets.relations import Size, origin_of, within
from extract.errors import InputError
from extract.images import content_bytes
from extract.maps.quantities import DepthReader

_ASPECT = (
    0.01  # by how much the proportions of a depth map may differ from the image's: ScanNet's do by 0.4 %
)
_RIGID = 1e-3


@dataclass(frozen=True, eq=False)
class PosedDepth:
    """Every point of the first image that has a depth, seen by the second camera.

    The depth map shows what the image shows, in whatever number of pixels.  With the second image's depth map (`seen`)
    a point is known only where the two agree: elsewhere something hides it from the second camera.
    """

    depth: Path | np.ndarray  # (h, w) of the first image, in the unit of the pose once it is read
    first: np.ndarray  # (3, 3) intrinsics, for our coordinates
    second: np.ndarray  # (3, 3)
    pose: np.ndarray  # (4, 4): points of the first camera's frame in the second's
    reader: DepthReader = field(default_factory=DepthReader)
    seen: Path | np.ndarray | None = None  # the second image's depth map
    tolerance: float = 0.05  # of the depth there
    name: str = "the depth map"  # what errors call it

    def __post_init__(self) -> None:
        check_pose(self.pose)
        for each in (self.first, self.second):
            if each.shape != (3, 3) or not np.isfinite(each).all() or not (np.diag(each) > 0).all():
                raise InputError(
                    f"intrinsics are {each.tolist()}; wanted are fx, 0, cx; 0, fy, cy; 0, 0, 1, with fx, fy above 0"
                )
        if not 0 < self.tolerance < np.inf:
            raise InputError(f"the tolerance is {self.tolerance}; it is a part of the depth, such as 0.05")

    @property
    def digest(self) -> bytes:
        """Of the files and of what their numbers mean."""
        settings = {
            "reader": self.reader.describe(),
            "tolerance": self.tolerance,
            "seen": self.seen is not None,
        }
        told = hashlib.blake2b(json.dumps(settings, sort_keys=True).encode())
        for matrix in (self.first, self.second, self.pose):
            told.update(np.ascontiguousarray(matrix, "<f8").tobytes())
        for source in (self.depth, self.seen):
            if source is not None:
                told.update(hashlib.blake2b(content_bytes(source)).digest())
        return told.digest()

    def truth(self, points: np.ndarray, first: Size, second: Size) -> tuple[np.ndarray, np.ndarray]:
        """Known where there is depth and the second camera sees it, if need be beyond its image; else (0, 0)."""
        depths, known = self._depths(self.depth, points, first, self.name)
        rays = np.column_stack([points, np.ones(len(points))]) @ np.linalg.inv(self.first).T
        turned = (rays * depths[:, None]) @ self.pose[:3, :3].T + self.pose[:3, 3]
        known &= turned[:, 2] > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            positions = (turned @ self.second.T)[:, :2] / turned[:, 2:]
        known &= np.isfinite(positions).all(axis=1)
        positions = np.where(known[:, None], positions, 0.0)
        if self.seen is not None:
            seen, there = self._depths(self.seen, positions, second, f"{self.name}, of the second image")
            agree = there & (np.abs(turned[:, 2] - seen) <= self.tolerance * seen)
            known &= agree | ~within(positions, second)
        return np.where(known[:, None], positions, 0.0), known

    def _depths(
        self, source: Path | np.ndarray, points: np.ndarray, size: Size, name: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """(n,) depths at points of an image of that size, 0 where not known, and (n,) bool whether they are."""
        depths = self.reader.read((source,), name)
        scale = np.array(depths.shape[::-1]) / size[::-1]
        if abs(scale[0] / scale[1] - 1) > _ASPECT:
            raise InputError(
                f"{name} is {depths.shape[1]}×{depths.shape[0]} and the image {size[1]}×{size[0]}; they have to show "
                "the same, so be of the same proportions"
            )
        inside = within(points, size)
        places = np.where(inside[:, None], np.floor(points * scale), 0).astype(int)
        columns, rows = np.minimum(places, np.array(depths.shape[::-1]) - 1).T
        found = np.where(inside, depths[rows, columns].astype(np.float64), 0.0)
        return found, found > 0


def check_pose(pose: np.ndarray) -> None:
    """A pose turns and moves; nothing else."""
    rotation = pose[:3, :3]
    rigid = pose.shape == (4, 4) and np.isfinite(pose).all() and np.allclose(pose[3], (0, 0, 0, 1))
    if not rigid or np.abs(rotation @ rotation.T - np.eye(3)).max() > _RIGID or np.linalg.det(rotation) < 0:
        raise InputError(
            f"the pose {pose.tolist()} is no rotation with a translation in its last column; was it written down "
            "transposed?"
        )


def intrinsics(given: np.ndarray, origin: str) -> np.ndarray:
    """(3, 3) for our coordinates, of fx, fy, cx, cy, or of the upper left of a matrix."""
    if given.shape == (4,):
        fx, fy, cx, cy = given
        given = np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])
    matrix = given[:3, :3].copy()
    matrix[:2, 2] += origin_of(origin)
    return matrix


def whole_pose(given: np.ndarray) -> np.ndarray:
    """(4, 4) of the same or of its upper three rows."""
    return given if len(given) == 4 else np.vstack([given, [0.0, 0, 0, 1]])
