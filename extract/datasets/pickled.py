"""Large arrays of a pickle without loading, and without running, what it holds.

Only what numpy itself writes is let through (arrays, dtypes, numbers) beside plain Python values; any other
name is refused before it is imported.  Arrays become memory maps of the file, so a pickle of 15 GB opens in
no time and costs what is read of it.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple

import numpy as np

from extract.errors import InputError

_MAPPED = 1 << 16  # bytes from which pickle writes a value outside of its frames, where it can be mapped

_DAMAGED = (pickle.UnpicklingError, EOFError, struct.error, IndexError, KeyError, TypeError, ValueError)


class _Span(NamedTuple):
    """Bytes that were left in the file."""

    offset: int
    length: int


class _Pending:
    """An array whose shape and bytes are told later, as numpy pickles it."""

    array: np.ndarray | None = None

    def __init__(self, path: Path) -> None:
        self._path = path

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _version, shape, dtype, fortran, data = state
        self.array = _array(self._path, data, dtype, shape, "F" if fortran else "C")


def load_arrays(path: Path) -> dict[str, Any]:
    """The dict that `path` holds, its arrays as read-only memory maps where they are large."""
    try:
        with path.open("rb") as file:
            value = _Reader(file, path).load()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except InputError:
        raise
    except _DAMAGED as error:
        raise InputError(f"{path} is no pickle that can be read: {error or type(error).__name__}") from error
    if not isinstance(value, dict):
        raise InputError(f"{path} holds a {type(value).__name__}; what is read is a dict of arrays")
    return {str(key): _settled(each) for key, each in value.items()}


def _settled(value: Any) -> Any:
    if isinstance(value, _Pending):
        return value.array
    if isinstance(value, list | tuple):
        return type(value)(map(_settled, value))
    return value


def _array(path: Path, data: Any, dtype: Any, shape: tuple[int, ...], order: Any) -> np.ndarray:
    if isinstance(data, _Pending):
        data = data.array
    if not isinstance(data, list) and np.dtype(dtype).hasobject:
        raise InputError(f"{path} holds an array of Python objects as bytes; save numbers")
    if isinstance(data, list):  # of objects: text and numbers, which were let through already
        values = np.empty(len(data), object)
        values[:] = data
        return values.reshape(shape, order=order)
    if isinstance(data, _Span):
        return np.memmap(path, dtype, "r", offset=data.offset, shape=shape, order=order)
    if isinstance(data, str):  # as protocol 2 wrote bytes
        data = data.encode("latin-1")
    return np.frombuffer(data, dtype).reshape(shape, order=order)


class _Reader(pickle._Unpickler):
    """The unpickler that is written in Python, since it can be told to leave bytes where they are."""

    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)

    def __init__(self, file: BinaryIO, path: Path) -> None:
        super().__init__(file)
        self._raw, self._path = file, path

    def find_class(self, module: str, name: str) -> Any:
        """What numpy's own pickles ask for; nothing else is imported."""
        home = module.replace("numpy._core", "numpy.core")
        allowed: dict[tuple[str, str], Callable[..., Any]] = {
            ("numpy.core.multiarray", "_reconstruct"): lambda *_: _Pending(self._path),
            ("numpy.core.multiarray", "scalar"): lambda dtype, data: np.frombuffer(data, dtype)[0],
            ("numpy.core.numeric", "_frombuffer"): self._from_buffer,
            ("numpy", "ndarray"): lambda: None,  # named to `_reconstruct`, never called
            ("numpy", "dtype"): np.dtype,
            ("__builtin__", "bytes"): lambda: b"",  # as protocol 2 writes none
            ("_codecs", "encode"): lambda text, coding: text.encode("latin-1"),
        }
        try:
            return allowed[home, name]
        except KeyError:
            raise InputError(
                f"{self._path} asks for {module}.{name}, and a pickle that asks for more than numpy's arrays "
                "could run anything; save the arrays alone"
            ) from None

    def _from_buffer(
        self, data: Any, dtype: Any, shape: tuple[int, ...], order: str, axes: tuple[int, ...] | None = None
    ) -> np.ndarray:
        """As protocol 5 writes an array; order "K" is C order of axes that then change places."""
        if order == "K" and axes is not None:
            return _array(self._path, data, dtype, shape, "C").transpose(axes)
        return _array(self._path, data, dtype, shape, order)

    def _take(self, length: int) -> bytes | _Span:
        """So many bytes, or where they lie if they are many and stand outside of a frame."""
        framed = getattr(self._unframer, "current_frame", None) is not None  # type: ignore[attr-defined]
        if length < _MAPPED or framed:
            return bytes(self.read(length))  # type: ignore[attr-defined]
        offset = self._raw.tell()
        end = self._raw.seek(0, io.SEEK_END)
        if offset + length > end:
            raise EOFError(f"it ends {offset + length - end:,} bytes early")
        self._raw.seek(offset + length)
        return _Span(offset, length)

    def load_binbytes8(self) -> None:
        """Bytes of 4 GB and more, and what protocol 5 writes of an array that can be written to."""
        self.append(self._take(*struct.unpack("<Q", self.read(8))))  # type: ignore[attr-defined]

    def load_binbytes(self) -> None:
        """Bytes below 4 GB."""
        self.append(self._take(*struct.unpack("<I", self.read(4))))  # type: ignore[attr-defined]

    dispatch[pickle.BINBYTES8[0]] = load_binbytes8
    dispatch[pickle.BYTEARRAY8[0]] = load_binbytes8
    dispatch[pickle.BINBYTES[0]] = load_binbytes
