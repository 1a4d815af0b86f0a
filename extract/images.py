"""Reading one image: whatever comes, upright 8-bit RGB of (h, w, 3) comes out.

The policy, whose name is `DECODER`: grey and RGB JPEGs are decoded by torchvision, all else by Pillow, which
also has the last word on a JPEG that torchvision refuses.  EXIF orientation is applied, alpha is laid over a
background, 16-bit grey is scaled by 65535, an animation gives its first frame; colour profiles are left
alone.  torch is imported when the first JPEG is decoded.
"""

from __future__ import annotations

import io
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np
import PIL
from PIL import Image, UnidentifiedImageError
from PIL.ExifTags import Base as ExifTag

from extract.errors import UnreadableImageError

Source: TypeAlias = Path | bytes | np.ndarray | Image.Image
"""One image, not decoded: a file, encoded bytes, an (h, w), (h, w, 3) or (h, w, 4) array, or a PIL image."""

Colour: TypeAlias = tuple[int, int, int]

DECODER = "torchvision-jpeg+pillow/1"  # part of every feature's identity: a change of policy counts it up
WHITE: Colour = (255, 255, 255)
MAX_PIXELS = 178_956_970  # where Pillow, too, stops by default

_CONVERTED = {"1": "1-bit", "P": "palette"}  # what a summary calls a mode; others go by Pillow's name
_DEEP_GREY = ("PNG", "PPM")  # formats whose 32-bit mode "I" really holds 16 bits


@dataclass(frozen=True)
class Decoded:
    """Upright pixels (h, w, 3) uint8, and what the image was where it took an interpretation to get there."""

    pixels: np.ndarray
    converted: str | None = None


@dataclass(frozen=True)
class Header:
    """What an image file says of itself.  Width and height are those of the picture held upright."""

    width: int
    height: int
    mode: str  # Pillow's: "RGB", "CMYK", "I;16" …
    format: str  # "JPEG", "PNG" …; "" for what was never a file
    orientation: int  # EXIF, 1 … 8; 1 is upright


class _Refused(Exception):  # noqa: N818 - carries a reason to `read_image`, which names the image
    pass


def read_image(
    source: Source, *, name: str, background: Colour = WHITE, max_pixels: int = MAX_PIXELS
) -> Decoded:
    """Decode `source`.  `name` is what an error calls it.

    `converted` is None for 8-bit grey and RGB, else one of "CMYK", "palette", "alpha", "1-bit", "16-bit grey"
    or Pillow's name of the mode.  May be called from several threads.
    """
    try:
        if isinstance(source, Path | bytes):
            encoded = _encoded(source)
            image = _open(io.BytesIO(encoded), max_pixels)
            if image.format in ("JPEG", "MPO") and image.mode in ("L", "RGB"):
                pixels = _decode_jpeg(encoded)
                if pixels is not None:
                    return Decoded(_upright(pixels, _orientation(image)))
        else:
            image = _open(source, max_pixels)
        image.load()
        pixels, converted = _to_rgb(image, background)
        return Decoded(_upright(pixels, _orientation(image)), converted)
    except (ImportError, MemoryError):  # no fault of the image
        raise
    except Exception as error:  # Pillow's plugins raise whatever a damaged file leads them into
        raise _unreadable(error, name) from error


def header(source: Source, *, name: str | None = None, max_pixels: int = MAX_PIXELS) -> Header:
    """Size, mode and orientation without decoding: a file is read only as far as its header."""
    try:
        if isinstance(source, Path):
            with source.open("rb") as file:
                return _header(_open(file, max_pixels))
        return _header(_open(io.BytesIO(source) if isinstance(source, bytes) else source, max_pixels))
    except Exception as error:
        raise _unreadable(
            error, name or (str(source) if isinstance(source, Path) else "the image")
        ) from error


def content_bytes(source: Source) -> bytes:
    """What makes an image this image: a file's bytes, encoded bytes, or form and values of raw pixels."""
    if isinstance(source, np.ndarray):
        little = np.ascontiguousarray(source, dtype=source.dtype.newbyteorder("<"))
        return f"array {little.shape} {little.dtype.str} ".encode() + little.tobytes()
    if isinstance(source, Image.Image):
        source.load()  # which may settle its orientation
        palette = source.getpalette() if source.mode in ("P", "PA") else None
        form = (source.mode, source.size, palette, source.info.get("transparency"), _orientation(source))
        return f"image {form} ".encode() + source.tobytes()
    try:
        return _file_bytes(source) if isinstance(source, Path) else source
    except (OSError, _Refused) as error:
        raise _unreadable(error, str(source)) from error


def _file_bytes(path: Path) -> bytes:
    """What a file holds; a pipe or a device called like an image would be waited for without end."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise _Refused("it is no file")
        return file.read()


def _encoded(source: Path | bytes) -> bytes:
    data = _file_bytes(source) if isinstance(source, Path) else source
    if not data:
        raise _Refused("it is empty")
    return data


def _open(source: BinaryIO | np.ndarray | Image.Image, max_pixels: int) -> Image.Image:
    """A PIL image of which no more than the header was read, and which is not too large."""
    if Image.MAX_IMAGE_PIXELS is not None and max_pixels > 2 * Image.MAX_IMAGE_PIXELS:
        Image.MAX_IMAGE_PIXELS = -(-max_pixels // 2)  # process-wide, so raised only where asked for
    try:
        if isinstance(source, np.ndarray):
            image = _from_array(source)
        else:
            image = source if isinstance(source, Image.Image) else Image.open(source)
    except Image.DecompressionBombError:
        raise _Refused(_too_large(max_pixels)) from None
    except UnidentifiedImageError:
        raise _Refused("it is no image, or of a format that cannot be read") from None
    if image.width * image.height > max_pixels:
        raise _Refused(_too_large(max_pixels))
    return image


def _header(image: Image.Image) -> Header:
    width, height = image.size
    orientation = _orientation(image)
    if orientation >= 5 and image.format != "TIFF":  # Pillow gives a TIFF's upright size
        width, height = height, width
    return Header(width, height, image.mode, image.format or "", orientation)


def _from_array(array: np.ndarray) -> Image.Image:
    """Arrays take the way of images: boolean, uint8 or (grey only) uint16, channels last."""
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    channels = array.shape[2] if array.ndim == 3 else 1
    deep = array.dtype == np.uint16 and array.ndim == 2
    if array.ndim not in (2, 3) or channels not in (1, 3, 4) or not array.size:
        raise _Refused(f"an array of shape {array.shape} is no (h, w), (h, w, 3) or (h, w, 4) image")
    if not (deep or array.dtype in (np.uint8, np.bool_)):
        raise _Refused(f"an array of {array.dtype} has no known range; give uint8 values of 0 … 255")
    if array.dtype == np.bool_:
        array = array * np.uint8(255)
    return Image.fromarray(np.ascontiguousarray(array))


def _decode_jpeg(encoded: bytes) -> np.ndarray | None:
    """(h, w, 3) as stored, or None where torchvision cannot; a truncated file is such a case."""
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg

    try:
        data = torch.frombuffer(bytearray(encoded), dtype=torch.uint8)  # a copy: torch wants it writable
        pixels: np.ndarray = decode_jpeg(data, mode=ImageReadMode.RGB).permute(1, 2, 0).numpy()
    except RuntimeError:
        return None
    return pixels


def _to_rgb(image: Image.Image, background: Colour) -> tuple[np.ndarray, str | None]:
    """(h, w, 3) uint8 of a loaded image, and the name of its kind where that is not plain grey or RGB."""
    mode = image.mode
    if mode.startswith("I;16") or (mode == "I" and image.format in _DEEP_GREY):
        grey = (np.asarray(image).astype(np.uint32) * 255 + 32767) // 65535
        return np.repeat(grey.astype(np.uint8)[:, :, None], 3, axis=2), "16-bit grey"
    if mode in ("I", "F"):
        what = "32-bit integers" if mode == "I" else "floating-point values"
        raise _Refused(f"it holds {what}, whose range is unknown; save it with 8 or 16 bits")
    if image.has_transparency_data:
        ground = Image.new("RGBA", image.size, (*background, 255))
        return np.asarray(Image.alpha_composite(ground, image.convert("RGBA")).convert("RGB")), "alpha"
    pixels = np.asarray(image if mode == "RGB" else image.convert("RGB"))
    return pixels, None if mode in ("L", "RGB") else _CONVERTED.get(mode, mode)


def _orientation(image: Image.Image) -> int:
    """The EXIF orientation, 1 where there is none or where the EXIF data is damaged."""
    try:
        value = image.getexif().get(ExifTag.Orientation, 1)
    except Exception:  # the pixels are fine all the same, and every viewer shows them
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _upright(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Undo an EXIF orientation: 5 … 8 swap the axes, after a flip up-down, left-right or both."""
    if orientation in (3, 4, 6, 7):
        pixels = pixels[::-1]
    if orientation in (2, 3, 7, 8):
        pixels = pixels[:, ::-1]
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    return np.ascontiguousarray(pixels)


def policy(max_pixels: int | None = None) -> str:
    """Under which it is remembered that an image cannot be read: another limit or Pillow may let it through."""
    return f"{DECODER}, Pillow {PIL.__version__}, {max_pixels or MAX_PIXELS} pixels"


def _too_large(max_pixels: int) -> str:
    return f"it has more than {max_pixels:,} pixels (--max-pixels raises the limit)"


def _unreadable(error: Exception, name: str) -> UnreadableImageError:
    reason = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
    name = name.encode(errors="backslashreplace").decode()  # a path need not be text
    of_system = isinstance(error, OSError) and error.errno is not None  # Pillow's own have no number
    return UnreadableImageError(name, " ".join(reason.split()), lasting=not of_system)
