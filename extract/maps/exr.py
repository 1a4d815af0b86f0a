"""OpenEXR files, by the optional package of that name."""

from __future__ import annotations

import io
from importlib import import_module
from typing import IO, Any

import numpy as np

from extract.errors import MissingExtraError
from extract.images import _Refused, _too_large

MAGIC = b"v/1\x01"
_WHOLE = (("R", "G", "B"), ("R", "G", "B", "A"))  # what makes a map without being named


def read(encoded: bytes, key: str | None, max_pixels: int) -> np.ndarray:
    """(h, w) or (h, w, k): the only channel, RGB(A), or the channels that `key` names (`Z`, `N.X,N.Y,N.Z`)."""
    library = _library()
    names = _chosen(_header(library, io.BytesIO(encoded), max_pixels), key)
    opened = library.File(io.BytesIO(encoded), separate_channels=True, num_threads=0)
    if not opened.parts:  # it says so on stderr and goes on
        raise _Refused("it is damaged or cut short")
    planes = [opened.channels()[name].pixels for name in names]
    if len({plane.shape for plane in planes}) > 1:
        raise _Refused(f"its channels {', '.join(names)} are of different sizes")
    return planes[0] if len(planes) == 1 else np.stack(planes, axis=-1)


def size(file: IO[bytes], key: str | None, max_pixels: int) -> tuple[int, int]:
    """(h, w) without the values."""
    return _size(_header(_library(), file, max_pixels))


def _library() -> Any:
    try:
        return import_module("OpenEXR")
    except ImportError:
        raise MissingExtraError(
            "reading .exr maps needs OpenEXR: pip install 'visbench[exr]', or save them as .npy"
        ) from None


def _header(library: Any, file: IO[bytes], max_pixels: int) -> dict[str, Any]:
    parts = library.File(file, header_only=True, num_threads=0).parts
    if len(parts) != 1:
        raise _Refused(f"it has {len(parts)} parts, and which is the map is not said; save one a file")
    header: dict[str, Any] = parts[0].header
    if any(tuple(a) != tuple(b) for a, b in zip(header["dataWindow"], header["displayWindow"], strict=True)):
        raise _Refused("its pixels fill only a part of its picture, or more; save the whole of it")
    if any(each.xSampling != 1 or each.ySampling != 1 for each in header["channels"]):
        raise _Refused("it has channels with fewer pixels than its picture; save them whole")
    height, width = _size(header)
    if height * width > max_pixels:
        raise _Refused(_too_large(max_pixels))
    return header


def _size(header: dict[str, Any]) -> tuple[int, int]:
    (left, top), (right, bottom) = (tuple(map(int, corner)) for corner in header["dataWindow"])
    return bottom - top + 1, right - left + 1


def _chosen(header: dict[str, Any], key: str | None) -> tuple[str, ...]:
    names = [each.name for each in header["channels"]]
    if key is not None:
        wanted = tuple(each.strip() for each in key.split(","))
        if missing := [each for each in wanted if each not in names]:
            raise _Refused(f"it has no channel called {missing[0]!r} but {', '.join(names)}")
        return wanted
    if len(names) == 1:
        return (names[0],)
    for whole in _WHOLE:
        if set(names) == set(whole):
            return whole
    raise _Refused(f"it has the channels {', '.join(names)}; name those of the map: --target-key")
