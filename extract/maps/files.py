"""One map as its file holds it: numbers and nothing else, never scaled, converted or guessed.

Files are told apart by content.  An indexed PNG gives its indices, a 2- or 4-bit grey one 0 … 3 or 0 … 15,
a 16-bit one all its bits.  What Pillow would change on the way is undone or refused.  torch is imported only
for PNGs of three 16-bit channels.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, TypeVar

import numpy as np
from PIL import Image

from extract.errors import InputError
from extract.images import (
    MAX_PIXELS,
    _encoded,
    _header,
    _open,
    _orientation,
    _Refused,
    _unreadable,
    _upright,
)
from extract.images import Source as ImageSource
from extract.maps import arrays, exr

Source: TypeAlias = ImageSource | str
"""One map: a file, encoded bytes, an array or a PIL image."""

_Read = TypeVar("_Read")

DECODER = "map-files/1"  # part of every map's identity: a change of policy counts it up

_LOSSLESS = ("PNG", "TIFF", "BMP", "GIF", "PPM", "TGA", "")  # "": what was never a file
_LEVELS = {"L;2": 85, "L;4": 17}  # what Pillow multiplies the few levels of such a file by
_MODES = ("1", "L", "P", "I", "F", "LA", "RGB", "RGBA")


@dataclass(frozen=True)
class RawMap:
    """The numbers of a map, upright, and what else its file says."""

    pixels: np.ndarray  # (h, w) or (h, w, k) of whatever type the file has
    orientation: int = 1  # EXIF, already undone
    palette: np.ndarray | None = None  # (up to 256, 3) uint8: the colours of an indexed file
    lossy: bool = False  # as JPEG is: the numbers are near those that were saved


@dataclass(frozen=True)
class MapHeader:
    """The size of a map held upright, and the EXIF orientation that its file states (1 where none)."""

    height: int
    width: int
    orientation: int = 1


def read_map(source: Source, *, name: str, key: str | None = None, max_pixels: int = MAX_PIXELS) -> RawMap:
    """Read a map raw.  `name` is what an error calls it; `key` names the array of an .npz or EXR channels.

    Raises UnreadableImageError, an InputError, for what cannot be read without guessing, and
    MissingExtraError where a package is needed.  May be called from several threads.
    """
    source = _known(source, name)

    def read() -> RawMap:
        if isinstance(source, np.ndarray):
            return RawMap(arrays.checked(source, max_pixels))
        if isinstance(source, Image.Image):
            return _from_image(_open(source, max_pixels), None)
        encoded = _encoded(source)
        opener = _opener(encoded[:8])
        if opener is not None:
            return RawMap(opener.read(encoded, key, max_pixels))
        return _from_image(_open_file(io.BytesIO(encoded), max_pixels), encoded)

    return _named(read, name)


def map_header(
    source: Source, *, name: str, key: str | None = None, max_pixels: int = MAX_PIXELS
) -> MapHeader:
    """Size and orientation without decoding: a file is read only as far as its header."""
    source = _known(source, name)

    def read() -> MapHeader:
        if isinstance(source, np.ndarray):
            return MapHeader(*arrays.checked(source, max_pixels).shape[:2])
        if isinstance(source, Image.Image):
            return _image_header(_open(source, max_pixels))
        with _stream(source) as file:
            opener = _opener(file.read(8))
            file.seek(0)
            if opener is not None:
                return MapHeader(*opener.size(file, key, max_pixels))
            return _image_header(_open_file(file, max_pixels))

    return _named(read, name)


def _known(source: Any, name: str) -> ImageSource:
    if isinstance(source, str):
        return Path(source)
    if not isinstance(source, Path | bytes | np.ndarray | Image.Image):
        raise InputError(
            f"{name} is a {type(source).__name__}; give a map as a path, bytes, a numpy array or a PIL image"
        )
    return source


def _named(read: Callable[[], _Read], name: str) -> _Read:
    try:
        return read()
    except (ImportError, MemoryError, InputError):  # no fault of the map, or said already
        raise
    except _Refused as error:
        raise _unreadable(error, name) from None
    except Exception as error:  # Pillow's plugins raise whatever a damaged file leads them into
        raise _unreadable(error, name) from error


def _stream(source: Path | bytes) -> AbstractContextManager[BinaryIO]:
    return source.open("rb") if isinstance(source, Path) else nullcontext(io.BytesIO(source))


def _opener(start: bytes) -> Any:
    """The module that reads what begins like this; None for pictures."""
    if start.startswith(b"MATLAB"):
        raise _Refused("it is a MATLAB file, whose maps are not found by themselves; save the map as .npy")
    if start.startswith((arrays.NPY, arrays.ZIP)):
        return arrays
    return exr if start.startswith(exr.MAGIC) else None


def _open_file(file: BinaryIO, max_pixels: int) -> Image.Image:
    try:
        return _open(file, max_pixels)
    except _Refused:
        file.seek(0)
        if file.read(4) in (b"II*\0", b"MM\0*") and not _too_large(file):
            raise _Refused(
                "it is a TIFF of a kind that Pillow does not read, such as 16- or 64-bit floats or deep channels; "
                "save it as .npy"
            ) from None
        raise


def _too_large(file: BinaryIO) -> bool:
    file.seek(0)
    try:
        Image.open(file)
    except Image.DecompressionBombError:
        return True
    except Exception:
        return False
    return True  # it opens, so its size is what was refused


def _image_header(image: Image.Image) -> MapHeader:
    found = _header(image)
    return MapHeader(found.height, found.width, found.orientation)


def _from_image(image: Image.Image, encoded: bytes | None) -> RawMap:
    """The numbers of a PIL image that may not be loaded yet."""
    pages = getattr(image, "n_frames", 1)
    if pages > 1 and image.format != "MPO":
        raise _Refused(f"it holds {pages} pages, and which is the map is not said; save one a file")
    levels = _stored_as(image)
    stored = _orientation(image)  # of a PNG, asking for it loads it
    if levels in ("RGB;16B", "RGB;16L"):
        if image.format != "PNG" or encoded is None:
            raise _Refused("Pillow drops half of each 16-bit channel of such a file; save it as PNG or .npy")
        return RawMap(_upright(_deep_png(encoded), stored), stored)
    if image.mode not in _MODES and not image.mode.startswith("I;16"):
        raise _Refused(f"its mode is {image.mode}, which is no map of numbers; save it as grey, RGB or .npy")
    image.load()  # which turns a TIFF upright
    palette = None
    if image.mode == "P":
        palette = np.array(image.getpalette("RGB"), np.uint8).reshape(-1, 3)
    pixels = _upright(_numbers(image, levels), _orientation(image))
    return RawMap(pixels, stored, palette, _is_lossy(image, encoded))


def _stored_as(image: Image.Image) -> str:
    """Pillow's name of how the file packs its pixels, "" where that is not known; refuses what it would change."""
    tags = getattr(image, "tag_v2", {})
    if tags.get(262) == 0 and image.mode != "1":
        raise _Refused("it is a TIFF that counts from white (MinIsWhite); save it counting from black")
    tiles: Any = getattr(image, "tile", None)
    if not tiles:  # loaded before it came to us
        return ""
    codec, _, _, args = tiles[0]
    if codec in ("ppm", "ppm_plain") and args[1] not in (255, 65535):
        raise _Refused(f"its values end at {args[1]}, and Pillow stretches them; save it as PNG")
    levels = str(args if isinstance(args, str) else args[0]) if args else ""
    if codec == "libtiff" and levels in ("I;16BS", "I;32BS", "I;32B", "F;32BF"):
        raise _Refused(
            "Pillow swaps the bytes of a compressed big-endian TIFF; save it uncompressed or as .npy"
        )
    if levels in ("LA;16B", "RGBA;16B", "RGBA;16L"):
        raise _Refused("it has 16-bit channels and alpha; save it without alpha")
    return levels


def _numbers(image: Image.Image, levels: str) -> np.ndarray:
    """(h, w) or (h, w, k) as stored, of a loaded image."""
    pixels = np.asarray(image)
    signed = getattr(image, "tag_v2", {}).get(339, (1,))[0] == 2
    if image.mode == "L" and levels in _LEVELS:
        return pixels // np.uint8(_LEVELS[levels])
    if image.mode == "L" and signed:
        return pixels.view(np.int8)
    if image.mode == "I" and image.format in ("PNG", "PPM"):
        return pixels.astype(np.uint16)
    if image.mode == "I" and image.format == "TIFF" and not signed:
        return pixels.view(np.uint32)
    return arrays.native(pixels)


def _deep_png(encoded: bytes) -> np.ndarray:
    """(h, w, 3) uint16; Pillow would keep the upper eight bits of each."""
    import torch
    from torchvision.io import ImageReadMode, decode_png

    data = torch.frombuffer(bytearray(encoded), dtype=torch.uint8)  # a copy: torch wants it writable
    pixels: np.ndarray = decode_png(data, mode=ImageReadMode.UNCHANGED).permute(1, 2, 0).numpy()
    return pixels


def _is_lossy(image: Image.Image, encoded: bytes | None) -> bool:
    if image.format == "WEBP" and encoded is not None:
        return b"VP8L" not in encoded[12:64]  # at 12, or behind the header of an extended file
    packed = str(image.info.get("compression", ""))
    return (image.format or "") not in _LOSSLESS or "jpeg" in packed or "webp" in packed
