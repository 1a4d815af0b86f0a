"""Maps of quantities: depth in metres, unit normals, responses.  Whole numbers need their unit, floats bring it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from extract.errors import InputError
from extract.maps.base import Reader, RefusedMapError, as_tuple, refuse_channels, summary, without_alpha
from extract.maps.files import RawMap

SHORTEST = 0.1  # of a decoded normal; below it there is none
NYU = (slice(45, 471), slice(41, 601))  # rows and columns
LONGEST = 1.5  # no unit vector decodes to more, but black and white do: they mark holes


@dataclass(frozen=True)
class _Scaled(Reader):
    """A reader of one number a pixel: raw / scale."""

    scale: float | None = None  # raw units in one of ours; None: 1, which only floats may have
    hole: float | tuple[float, ...] | None = None  # raw values that say nothing

    def __post_init__(self) -> None:
        if self.scale is not None and not 0 < self.scale < np.inf:
            raise InputError(f"the scale is {self.scale}; it is how many raw units make one, and positive")

    def _scaled(self, raw: RawMap, name: str, what: str, unit: str) -> tuple[np.ndarray, np.ndarray]:
        """(h, w) float32, and (h, w) bool where it is finite and no hole."""
        pixels = without_alpha(raw.pixels, name)
        refuse_channels(pixels, name, f"{what} has one number a pixel")
        if pixels.dtype.kind != "f" and self.scale is None:
            raise RefusedMapError(f"{what} {name} holds {summary(pixels)} and needs its unit: {unit}")
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and not valid
            values = pixels.astype(np.float32)
        valid = np.isfinite(values)
        for hole in as_tuple(self.hole):
            valid &= pixels != hole
        if self.scale not in (None, 1):
            values /= np.float32(self.scale)
        return values, valid


@dataclass(frozen=True)
class DepthReader(_Scaled):
    """Metres.  Not valid are 0, negative numbers, NaN, infinities, holes and what lies beyond `max_depth` metres.

    `scale` is raw units a metre: 1000 of millimetres, 512 of Taskonomy's depth_zbuffer (whose hole is 65535).
    Floats are metres unless a scale is given.  `nyu_crop` leaves what lies outside the window in which NYUv2 is
    scored (Eigen, Puhrsch & Fergus, NeurIPS 2014) not valid; it is defined on 480 × 640.
    """

    kind: ClassVar[str] = "depth"

    max_depth: float | None = None
    nyu_crop: bool = False

    def _made(self, raw: RawMap, sources: tuple[Any, ...], name: str) -> np.ndarray:
        """(h, w) float32 metres, 0 where not valid."""
        unit = "--target-scale 1000 if they are millimetres"
        depth, valid = self._scaled(raw, name, "the depth map", unit)
        valid &= depth > 0
        if self.max_depth is not None:
            valid &= depth <= self.max_depth
        if self.nyu_crop:
            valid &= _inside_nyu(depth.shape, name)
        depth[~valid] = 0
        return depth


def _inside_nyu(shape: tuple[int, ...], name: str) -> np.ndarray:
    """(480, 640) bool: rows 45 … 470, columns 41 … 600."""
    if shape != (480, 640):
        raise RefusedMapError(
            f"the depth map {name} is {shape[0]} × {shape[1]}; the window of NYUv2 is defined on 480 × 640, so give "
            "maps of that size, or say --no-nyu-crop"
        )
    inside = np.zeros(shape, dtype=bool)
    inside[NYU] = True
    return inside


@dataclass(frozen=True)
class ResponseReader(_Scaled):
    """How strongly something answers at a pixel, 0 or more: raw / scale, then log(1 + it) where `log1p`.

    Taskonomy's scales are 1000 (edge_texture), 30 (keypoints2d), 50 with log1p (edge_occlusion).  With `mask`
    a second source says where it is valid (0: a hole, as mask_valid has it).  NaN and holes are not valid.
    """

    kind: ClassVar[str] = "response"

    log1p: bool = False
    mask: bool = False

    def _made(self, raw: RawMap, sources: tuple[Any, ...], name: str) -> np.ndarray:
        """(h, w) float32 ≥ 0, -1 where not valid."""
        unit = "--target-scale 1000, for Taskonomy's edge_texture (keypoints2d 30, edge_occlusion 50)"
        values, valid = self._scaled(raw, name, "the response map", unit)
        if self.mask:
            valid &= self._masked(sources, name, values.shape)
        if (negative := valid & (values < 0)).any():
            raise RefusedMapError(
                f"the response map {name} holds {summary(values[valid])}, negative at {int(negative.sum()):,} pixels; "
                "responses are 0 or more, so name what marks a hole: --target-hole -1"
            )
        if self.log1p:
            np.log1p(values, out=values, where=valid)
        values[~valid] = -1
        return values


@dataclass(frozen=True)
class NormalsReader(Reader):
    """Unit normals (x, y, z) from colours or from floats.

    Whole numbers of 8 or 16 bits are colours: v / 255 · 2 - 1.  Floats are taken as they are, in [-1, 1];
    `colours=True` says that they are in [0, 1] and decoded likewise.  `order` names the channels as they come
    ("zyx" of one saved as BGR), `flip` the axes whose sign is turned ("y").  Shorter than 0.1 or longer than
    1.5 after decoding is no normal; with `mask` a second source says where there is one.
    """

    kind: ClassVar[str] = "normals"

    colours: bool = False
    order: str = "xyz"
    flip: str = ""
    mask: bool = False

    def __post_init__(self) -> None:
        if sorted(self.order) != ["x", "y", "z"]:
            raise InputError(
                f"order is {self.order!r}; it names the channels as they come, such as xyz or zyx"
            )
        if not set(self.flip) <= set("xyz"):
            raise InputError(f"flip is {self.flip!r}; it names axes to turn round, among x, y and z")

    def _made(self, raw: RawMap, sources: tuple[Any, ...], name: str) -> np.ndarray:
        """(h, w, 3) float32 unit vectors, the zero vector where not valid."""
        pixels = without_alpha(raw.pixels, name)
        if pixels.ndim != 3 or pixels.shape[2] != 3:
            raise RefusedMapError(
                f"the normals {name} are of shape {pixels.shape}; give (h, w, 3), channels last"
            )
        normals = self._decoded(pixels, name)
        x, y, z = np.moveaxis(normals, 2, 0)
        squares = x * x + y * y + z * z
        valid = (squares >= SHORTEST**2) & (squares <= LONGEST**2)  # False of NaN
        if self.mask:
            valid &= self._masked(sources, name, pixels.shape)
        factors = np.zeros_like(squares)
        np.divide(1, np.sqrt(squares, where=valid, out=squares), where=valid, out=factors)
        if pixels.dtype.kind == "f":  # NaN times 0 is NaN
            normals[~valid] = 0
        normals *= factors[:, :, None]
        return normals

    def describe(self) -> dict[str, Any]:
        """JSON values: all that could change a number."""
        return {**super().describe(), "lengths": [SHORTEST, LONGEST]}

    def _decoded(self, pixels: np.ndarray, name: str) -> np.ndarray:
        """(h, w, 3) float32 in the order x, y, z."""
        values = (
            pixels
            if self.order == "xyz"
            else np.take(pixels, [self.order.index(axis) for axis in "xyz"], axis=2)
        )
        if pixels.dtype in (np.uint8, np.uint16):
            normals = values * np.float32(2 / np.iinfo(pixels.dtype).max) - np.float32(1)
        elif pixels.dtype.kind != "f":
            raise RefusedMapError(
                f"the normals {name} are {summary(pixels)}; give colours of 8 or 16 bits, or floats"
            )
        elif self.colours:
            normals = values.astype(np.float32) * 2 - 1
        else:
            self._check_floats(pixels, name)
            normals = values.astype(np.float32)
        for axis in self.flip:
            normals[:, :, "xyz".index(axis)] *= -1
        return normals

    def _check_floats(self, pixels: np.ndarray, name: str) -> None:
        low, high = np.nanmin(pixels, initial=0), np.nanmax(pixels, initial=0)
        if low < -1.01 or high > 1.01:
            raise RefusedMapError(
                f"the normals {name} are {summary(pixels)}; floats have to lie in [-1, 1], so divide them first"
            )
        if low == 0 and high > 0:
            lengths = np.sqrt(np.einsum("hwc,hwc->hw", pixels, pixels, dtype=np.float64))
            if np.nanmedian(np.abs(lengths[lengths > 0] - 1)) > 0.05:
                raise RefusedMapError(
                    f"the normals {name} are {summary(pixels)}, never negative and not of length 1: if they are "
                    "colours of 0 … 1, say so with --normal-colours"
                )


def suspicious(normals: np.ndarray) -> str | None:
    """What is odd about (…, 3) unit normals of one or more images, or None.

    A surface that is seen faces the camera, so z has one sign nearly everywhere, while x takes both.
    """
    given = normals.reshape(-1, 3)
    given = given[np.abs(given).sum(axis=1) > 0]
    if len(given) == 0:
        return None
    mean = given.mean(axis=0, dtype=np.float64)
    positive = (given > 0).mean(axis=0)
    agreed = np.maximum(positive, (given < 0).mean(axis=0))
    shown = f"the mean normal is ({mean[0]:.2f}, {mean[1]:.2f}, {mean[2]:.2f})"
    best = int(np.argmax(np.abs(mean) * agreed))
    if best != 2 and (agreed[best] > agreed[2] + 0.1 or (best == 0 and agreed[0] > 0.9)):
        return (
            f"{shown}, so {'xyz'[best]} and not z looks at the camera: the channels seem to be swapped; a map saved as "
            "BGR is read with --normal-order zyx"
        )
    if agreed[2] < 0.75:
        return (
            f"{shown} and z has one sign at {agreed[2]:.0%} of the pixels only, though what is seen faces the camera: "
            "are these normals in the camera's frame?"
        )
    return None
