"""What the readers of maps share."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from extract.errors import InputError
from extract.images import MAX_PIXELS
from extract.maps.files import DECODER, RawMap, read_map

_OPAQUE = {np.dtype(np.uint8): 255, np.dtype(np.uint16): 65535}
_NAMES = {"u": "integers", "i": "integers", "f": "floating-point values"}


class RefusedMapError(InputError):
    """A map was read, but what its numbers mean would have to be guessed, or is not what was asked for."""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Fields that every reader has."""

    kind: ClassVar[str]

    key: str | None = None  # the array of an .npz, or the channels of an EXR file
    max_pixels: int = field(default=MAX_PIXELS, compare=False)  # more are refused

    def describe(self) -> dict[str, Any]:
        """JSON values: the kind and all that could change a number."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.compare}
        return {"kind": self.kind, "decoder": DECODER, **{key: _plain(it) for key, it in values.items()}}

    def read(self, sources: tuple[Any, ...], name: str) -> np.ndarray:
        """The map upright, from its file or array (and a mask): (h, w), of normals (h, w, 3)."""
        return self.oriented(sources, name)[0]

    def oriented(self, sources: tuple[Any, ...], name: str) -> tuple[np.ndarray, int]:
        """What `read` gives, and the EXIF orientation that the map's file states and that was undone."""
        raw = read_map(sources[0], name=name, key=self.key, max_pixels=self.max_pixels)
        if raw.lossy and not self._bears_loss:
            raise RefusedMapError(
                f"{name} was compressed with loss, as JPEG is, so its numbers are no longer those of the map; "
                "make it again as PNG, TIFF or .npy"
            )
        return self._made(raw, sources, name), raw.orientation

    @property
    def _bears_loss(self) -> bool:
        return False

    def _made(self, raw: RawMap, sources: tuple[Any, ...], name: str) -> np.ndarray:
        """What the raw numbers mean; `sources[1:]` are still to be read."""
        raise NotImplementedError

    def _masked(self, sources: tuple[Any, ...], name: str, shape: tuple[int, ...]) -> np.ndarray:
        """(h, w) bool: where the second source, a mask, is not 0."""
        if len(sources) < 2:
            raise RefusedMapError(f"{name} comes without the mask that says where it is valid")
        called = f"the mask of {name}"
        mask = one_plane(read_map(sources[1], name=called, max_pixels=self.max_pixels), called)
        if mask.shape != shape[:2]:
            raise RefusedMapError(
                f"{name} is {shape[1]}×{shape[0]} and its mask {mask.shape[1]}×{mask.shape[0]}; "
                "they have to be of one size"
            )
        valid: np.ndarray = mask != 0
        return valid


def one_plane(raw: RawMap, name: str) -> np.ndarray:
    """(h, w): the channel of a grey map, also where it was saved three times over as RGB."""
    pixels = without_alpha(raw.pixels, name)
    if pixels.ndim == 2:
        return pixels
    first: np.ndarray = pixels[:, :, 0]
    if not (pixels == first[:, :, None]).all():
        raise RefusedMapError(f"{name} has {pixels.shape[2]} channels that differ; give a map of one channel")
    return first


def without_alpha(pixels: np.ndarray, name: str) -> np.ndarray:
    """The map without an alpha channel that says nothing; one that says something is refused."""
    if pixels.ndim == 2 or pixels.shape[2] not in (2, 4):
        return pixels
    if (pixels[:, :, -1] != _OPAQUE.get(pixels.dtype, 1)).any():
        raise RefusedMapError(
            f"{name} has an alpha channel that is not opaque everywhere, or a channel too many; save the map "
            "without it"
        )
    return pixels[:, :, 0] if pixels.shape[2] == 2 else pixels[:, :, :3]


def refuse_channels(pixels: np.ndarray, name: str, what: str) -> None:
    """Refuse a map of several channels where one is needed."""
    if pixels.ndim != 2:
        shape = "×".join(map(str, pixels.shape))
        raise RefusedMapError(f"{name} is {shape}, of {pixels.shape[2]} channels; {what}")


def summary(pixels: np.ndarray) -> str:
    """ "16-bit integers (min 0, median 2731, max 9999)"."""
    if pixels.dtype == bool:
        return f"booleans ({pixels.mean():.1%} of them true)"
    kind = f"{8 * pixels.dtype.itemsize}-bit {_NAMES[pixels.dtype.kind]}"
    finite = pixels[np.isfinite(pixels)]
    if not finite.size:
        return f"{kind} (none of them finite)"
    low, median, high = finite.min(), np.median(finite), finite.max()
    return f"{kind} (min {low:.6g}, median {median:.6g}, max {high:.6g})"


def listed(values: np.ndarray) -> str:
    """ "0, 1, 15 and 3 more"."""
    shown = ", ".join(f"{value:g}" for value in values[:10].tolist())
    return shown if len(values) <= 10 else f"{shown} and {len(values) - 10:,} more"


def as_tuple(values: Any) -> tuple[Any, ...]:
    """None, one value or several."""
    if values is None:
        return ()
    return tuple(values) if isinstance(values, tuple | list) else (values,)


def _plain(value: Any) -> Any:
    return [_plain(each) for each in value] if isinstance(value, tuple | list) else value
