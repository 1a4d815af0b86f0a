"""Arrays in files: .npy and .npz, never unpickled, and never larger than their headers were checked for."""

from __future__ import annotations

import io
import threading
import zipfile
from typing import IO

import numpy as np
from numpy.lib import format as npy

from extract.images import _Refused, _too_large

# Headers are parsed by Python's `ast`, which in 3.11 may fail where several threads parse at once.
_PARSING = threading.Lock()

NPY, ZIP = b"\x93NUMPY", b"PK"


def read(encoded: bytes, key: str | None, max_pixels: int) -> np.ndarray:
    """(h, w) or (h, w, k) of an .npy, or of the array called `key` (or the only one) of an .npz."""
    if encoded.startswith(NPY):
        file = io.BytesIO(encoded)
        shape, fortran, dtype = _header(file, max_pixels)
        return _shaped(memoryview(encoded)[file.tell() :], shape, fortran, dtype)
    with zipfile.ZipFile(io.BytesIO(encoded)) as archive, archive.open(_member(archive, key)) as member:
        shape, fortran, dtype = _header(member, max_pixels)
        return _shaped(member.read(_count(shape) * dtype.itemsize), shape, fortran, dtype)


def size(file: IO[bytes], key: str | None, max_pixels: int) -> tuple[int, int]:
    """(h, w) without the values."""
    if file.read(len(NPY)) == NPY:
        file.seek(0)
        shape = _header(file, max_pixels)[0]
    else:
        with zipfile.ZipFile(file) as archive, archive.open(_member(archive, key)) as member:
            shape = _header(member, max_pixels)[0]
    return shape[0], shape[1]


def checked(array: np.ndarray, max_pixels: int) -> np.ndarray:
    """`array` itself, in the machine's byte order and without a last axis of one."""
    if isinstance(array, np.ma.MaskedArray):
        raise _Refused("it is a masked array; fill it with a value that is not valid: array.filled(0)")
    _check(array.shape, array.dtype, max_pixels)
    return native(array[:, :, 0] if array.shape[2:] == (1,) else array)


def native(array: np.ndarray) -> np.ndarray:
    """`array` in the machine's byte order; of booleans, whose bytes may be anything (Pillow's are 255), 0 and 1."""
    if array.dtype == bool:
        return np.asarray(array.view(np.uint8) != 0)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _header(file: IO[bytes], max_pixels: int) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):  # others are for named fields
        raise _Refused(f"it is an .npy of version {version}, which holds no plain numbers")
    reader = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    with _PARSING:
        shape, fortran, dtype = reader(file)
    _check(shape, dtype, max_pixels)
    return shape, fortran, dtype


def _check(shape: tuple[int, ...], dtype: np.dtype, max_pixels: int) -> None:
    if dtype.hasobject:
        raise _Refused("it holds Python objects, which are never unpickled; save an array of numbers")
    if dtype.kind not in "buif":
        raise _Refused(f"it holds {dtype}, which are no real numbers")
    if len(shape) not in (2, 3) or not _count(shape):
        raise _Refused(f"an array of shape {shape} is no map; give (h, w) or (h, w, channels)")
    if len(shape) == 3 and shape[2] > 4:
        way_out = "array[0]" if shape[0] == 1 else "array.transpose(1, 2, 0)"
        hint = f"; channels come last: {way_out}" if shape[0] <= 4 else ""
        raise _Refused(f"an array of shape {shape} has {shape[2]} channels; a map has up to 4{hint}")
    if shape[0] * shape[1] > max_pixels:
        raise _Refused(_too_large(max_pixels))


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for side in shape:
        count *= int(side)  # Python's integers do not overflow
    return count


def _shaped(data: bytes | memoryview, shape: tuple[int, ...], fortran: bool, dtype: np.dtype) -> np.ndarray:
    count = _count(shape)
    if len(data) < count * dtype.itemsize:
        raise _Refused(f"it is cut short: {len(data):,} of {count * dtype.itemsize:,} bytes of values")
    values = np.frombuffer(data, dtype, count).reshape(shape, order="F" if fortran else "C")
    return checked(values, count)


def _member(archive: zipfile.ZipFile, key: str | None) -> str:
    names = [each.removesuffix(".npy") for each in archive.namelist() if each.endswith(".npy")]
    listed = ", ".join(names[:10]) or "none"
    if key is None and len(names) != 1:
        raise _Refused(f"it holds {len(names)} arrays ({listed}); name the one that is the map: --target-key")
    if key is not None and key not in names:
        raise _Refused(f"it holds no array called {key!r} but {listed}")
    return f"{names[0] if key is None else key}.npy"
