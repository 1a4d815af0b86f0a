"""The manifest of a part: what its writer promises of it.  Axes: a part's rows, then a row's own."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import tensorstore as ts

from extract.errors import InputError
from extract.ids import ID_BYTES
from extract.wording import counted

DTYPES: dict[str, np.dtype[Any]] = {
    "float16": np.dtype(np.float16),
    "bfloat16": ts.bfloat16.numpy_dtype,
    "float32": np.dtype(np.float32),
    "uint8": np.dtype(np.uint8),  # label maps
}
FORMAT = 1


def part_rows(row_shape: Sequence[int]) -> int:
    """Rows of a full part: 4096 vectors, or 128 grids."""
    return 4096 if len(row_shape) == 1 else 128


def chunk_rows(row_shape: Sequence[int]) -> int:
    """Rows of a chunk, at most: vectors are loaded whole, grids one by one."""
    return 256 if len(row_shape) == 1 else 1


@dataclass(frozen=True)
class Manifest:
    """Row count, digests and the zarr metadata, with which the array opens without another read."""

    rows: int
    array_digest: str
    ids_digest: str
    zarr: Mapping[str, Any]

    @classmethod
    def of(cls, ids: np.ndarray, rows: np.ndarray, *, compress: bool) -> Self:
        """The manifest that a part of these rows is to have."""
        return cls(len(rows), digest(rows), digest(ids), _zarr(rows.shape, rows.dtype.name, compress))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type the numbers are stored in."""
        return DTYPES[self.zarr["data_type"]]

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of one row."""
        return tuple(self.zarr["shape"][1:])

    @property
    def raw_bytes(self) -> int:
        """What the numbers and the ids amount to."""
        return self.rows * (math.prod(self.row_shape) * self.dtype.itemsize + ID_BYTES)

    @property
    def compressed(self) -> bool:
        """Whether chunks are compressed."""
        return any(codec["name"] == "zstd" for codec in self.zarr["codecs"][0]["configuration"]["codecs"])

    def to_json(self) -> bytes:
        """The manifest as its file holds it."""
        digests = {"array": self.array_digest, "ids": self.ids_digest}
        text = {"format": FORMAT, "rows": self.rows, "sha256": digests, "zarr": self.zarr}
        return json.dumps(text, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, text: bytes | None) -> Self | None:
        """None for what is no manifest: such a part does not count."""
        try:
            read = json.loads(text or b"")
            version = int(read["format"])
            found = cls(int(read["rows"]), read["sha256"]["array"], read["sha256"]["ids"], read["zarr"])
            sound = [found.rows, *found.row_shape] == found.zarr["shape"] and found.raw_bytes > 0
        except (ValueError, LookupError, TypeError):
            return None
        if version != FORMAT:
            raise InputError(f"the feature store was written in format {version}; update visbench to read it")
        return found if sound else None

    def ids_problem(self, ids: bytes | None) -> str | None:
        """What is wrong with the part's ids, if anything."""
        if ids is None:
            return "its ids are missing"
        if len(ids) != self.rows * ID_BYTES:
            return f"its ids are {counted(len(ids), 'byte')} instead of {self.rows * ID_BYTES}"
        if digest(np.frombuffer(ids, np.uint8)) != self.ids_digest:
            return "its ids do not match their digest"
        return None


def digest(numbers: np.ndarray) -> str:
    """SHA-256 of an array's bytes; processors have instructions for it."""
    return hashlib.sha256(np.ascontiguousarray(numbers).reshape(-1).view(np.uint8).data).hexdigest()


def _zarr(shape: tuple[int, ...], dtype: str, compress: bool) -> dict[str, Any]:
    """Metadata of an array that is one shard.

    A chunk is always stored whole, so the rows are divided evenly: what is padded is less than a row a chunk.
    """
    rows, *row_shape = shape
    chunks = -(-rows // chunk_rows(row_shape))
    chunk = -(-rows // chunks)
    little, crc32c = {"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}
    zstd = [{"name": "zstd", "configuration": {"level": 1}}] if compress else []
    sharding = {
        "chunk_shape": [chunk, *row_shape],
        "codecs": [little, *zstd, crc32c],
        "index_codecs": [little, crc32c],
    }
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [rows, *row_shape],
        "data_type": dtype,
        "fill_value": 0 if dtype == "uint8" else "NaN",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [chunk * chunks, *row_shape]}},
        "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": "sharding_indexed", "configuration": sharding}],
    }
