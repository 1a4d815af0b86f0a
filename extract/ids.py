"""Row ids, (n, 16) uint8 digests of content, as values that compare and sort whole."""

from __future__ import annotations

import numpy as np

from extract.errors import InputError

ID_BYTES = 16


def keys(ids: np.ndarray) -> np.ndarray:
    """(n,) strings, which numpy sorts fast; all are of one length, so no two become equal."""
    if ids.ndim != 2 or ids.shape[1] != ID_BYTES:
        raise InputError(f"row ids are an (n, {ID_BYTES}) array of bytes, but this one has shape {ids.shape}")
    return np.ascontiguousarray(ids, np.uint8).view(f"S{ID_BYTES}").reshape(-1)


def as_bytes(ids: np.ndarray) -> list[bytes]:
    """The same as Python's bytes, which numpy's strings would give without zeros at their end."""
    rows: list[bytes] = keys(ids).view(f"V{ID_BYTES}").tolist()
    return rows
