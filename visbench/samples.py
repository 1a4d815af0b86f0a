"""The score of every sample of a run, kept beside its record, so that a comparison needs no second run.

    results/visbench.jsonl
    results/visbench.samples/
      ids/<digest>                         (n, 16) bytes: the row ids of a scored split, in its order
      scores/<digest>/zarr.json, c/0/0     one zarr3 array (metrics, n), bool or float32, NaN where a sample has none

Both are named by a digest of what they hold, so what is written twice is the same bytes, by however many processes.
A record is the commit: it names its scores, and its line is appended after they are written.  Needs neither torch
nor jax.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore as ts

from extract.errors import InputError
from extract.ids import ID_BYTES, keys
from extract.store.kv import CONTEXT, Place
from extract.store.manifest import digest as array_digest
from visbench.errors import UsageError
from visbench.record import Record, digest
from visbench.results import log_of


@dataclass(frozen=True, eq=False)
class Samples:
    """What one run said of every sample it scored."""

    scores: Mapping[str, np.ndarray]  # metric → (n,) bool or float32, NaN where a sample has no score
    ids_digest: str  # equal for runs that scored the same samples in the same order
    _place: Place = field(repr=False)

    @cached_property
    def ids(self) -> np.ndarray:
        """(n, 16) uint8 content digests of the samples."""
        with _telling(self._place, "read"):
            (content,) = self._place.read([f"ids/{self.ids_digest}"])
        ids = np.frombuffer(content or b"", np.uint8).reshape(-1, ID_BYTES)
        if _ids_digest(ids) != self.ids_digest:
            what = "missing" if content is None else "damaged"
            raise UsageError(f"the sample ids {self.ids_digest} in {self._place.url} are {what}; run again")
        return ids


def folder_of(results: str | Path) -> Path:
    """Where the scores of every sample lie: `visbench.samples/` beside `visbench.jsonl`."""
    log = log_of(results)
    return log.with_name(f"{log.stem}.samples")


def write(results: str | Path, per_sample: Mapping[str, Any], ids: np.ndarray) -> str | None:
    """Keep metric → (n,) scores of the samples with these (n, 16) ids; the reference is for the record.

    None if there are no scores to keep.
    """
    if not per_sample:
        return None
    table, ids = _table(per_sample, len(ids)), np.ascontiguousarray(ids, np.uint8)
    told = {"metrics": list(per_sample), "ids": _ids_digest(ids)}
    reference, place = _reference(told, table), _place(results)
    with _telling(place, "written"):
        place.write(f"ids/{told['ids']}", ids.tobytes())
        metadata = {**_zarr(table), "attributes": told}
        _open(place, reference, {"metadata": metadata}, create=True).write(table).result()
    return reference


def read(results: str | Path, record: Record) -> Samples:
    """The scores that `record`, a line of `results`, was made of."""
    reference, place = record.samples, _place(results)
    whose = f"the record of {record.backbone} from {record.timestamp or 'an unknown time'}"
    if not isinstance(reference, str) or not re.fullmatch("[0-9a-f]{32}", reference):
        raise UsageError(f"{whose} in {results} keeps no scores of its samples; run it again to compare it")
    with _telling(place, "read"):
        missing = place.read([f"scores/{reference}/zarr.json"]) == [None]
    if missing:
        raise UsageError(
            f"the scores of the samples of {whose} are not in {place.url}; "
            f"bring that folder along with {results}, or run again"
        )
    with _telling(place, "read"):
        array = _open(place, reference, {})
        table = array.read().result()
    told = array.spec().to_json()["metadata"].get("attributes", {})
    if _reference(told, table) != reference:
        raise UsageError(f"the scores {reference} in {place.url} are damaged; run {record.backbone} again")
    return Samples(dict(zip(told["metrics"], table, strict=True)), told["ids"], place)


def shared(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the samples that two sets of ids have in common stand in each, in the order of the first.

    Of a picture that occurs several times, the first occurrence belongs to the first, and so on.
    """
    _, here, there = np.intersect1d(
        _numbered(first), _numbered(second), assume_unique=True, return_indices=True
    )
    order = np.argsort(here)
    return here[order], there[order]


def mean_is_recorded(record: Record, metric: str, scores: np.ndarray) -> bool:
    """Whether a metric of a record is the mean of its samples' scores: only then do they stand for it."""
    recorded, known = record.metrics.get(metric), scores[~np.isnan(scores)]
    if not isinstance(recorded, int | float) or not len(known):
        return False
    return abs(float(known.mean(dtype=np.float64)) - recorded) <= 1e-4 * max(1.0, abs(recorded))


def _numbered(ids: np.ndarray) -> np.ndarray:
    """(n,) values of 20 bytes that are all different: an id and how many equal ones stand before it."""
    order = np.argsort(keys(ids), kind="stable")
    ranked = keys(ids)[order]
    begins = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]][: len(ranked)])
    before = np.empty(len(ids), ">u4")
    before[order] = np.arange(len(ids)) - np.repeat(begins, np.diff(np.r_[begins, len(ids)]))
    whole = np.concatenate([ids, before[:, None].view(np.uint8)], axis=1)
    return np.ascontiguousarray(whole).view(f"S{ID_BYTES + 4}").reshape(-1)


def _table(per_sample: Mapping[str, Any], n: int) -> np.ndarray:
    rows = {metric: np.asarray(scores) for metric, scores in per_sample.items()}
    for metric, scores in rows.items():
        if scores.shape != (n,):
            raise ValueError(
                f"the scores of {metric} have shape {scores.shape}, but {n} samples were scored; "
                "give one a sample, NaN where it has none"
            )
    hits = all(scores.dtype == bool for scores in rows.values())
    return np.stack([scores.astype(bool if hits else np.float32) for scores in rows.values()])


def _ids_digest(ids: np.ndarray) -> str:
    return array_digest(ids)[:32]


def _reference(told: Mapping[str, Any], table: np.ndarray) -> str:
    return digest([told.get("metrics"), told.get("ids"), table.dtype.name, table.shape, array_digest(table)])


def _place(results: str | Path) -> Place:
    return Place(folder_of(results))


def _open(place: Place, reference: str, more: Mapping[str, Any], *, create: bool = False) -> Any:
    spec = {
        "driver": "zarr3",
        "kvstore": place.kvstore(f"scores/{reference}/"),
        "store_data_equal_to_fill_value": True,
        "fill_missing_data_reads": False,  # a lost chunk is an error, not misses
        **more,
    }
    return ts.open(spec, open=True, create=create, read=True, write=create, context=CONTEXT).result()


def _zarr(table: np.ndarray) -> dict[str, Any]:
    """Metadata of one compressed chunk."""
    hits = table.dtype == bool
    order = {"name": "bytes"} if hits else {"name": "bytes", "configuration": {"endian": "little"}}
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(table.shape),
        "data_type": table.dtype.name,
        "fill_value": False if hits else "NaN",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(table.shape)}},
        "chunk_key_encoding": {"name": "default"},
        "codecs": [order, {"name": "zstd", "configuration": {"level": 3}}, {"name": "crc32c"}],
    }


@contextmanager
def _telling(place: Place, done: str) -> Iterator[None]:
    """Say what could not be done in words of results, not of the feature store."""
    try:
        with place.telling(done):
            yield
    except InputError as error:
        raise UsageError(
            f"the scores of every sample in {place.url} could not be {done} ({error.__cause__ or error}); "
            "check the disk and its permissions, or choose another file with --results"
        ) from error
