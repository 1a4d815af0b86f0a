"""Parts: some rows of one identity, written once, never changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import tensorstore as ts

from extract.ids import ID_BYTES
from extract.store.errors import DamagedError, GoneError, StoreError
from extract.store.kv import CONTEXT, Place
from extract.store.layout import home, ids_key, manifest_key, own_keys
from extract.store.manifest import Manifest


@dataclass(frozen=True, eq=False)
class Part:
    """A committed part."""

    place: Place
    identity: str
    name: str
    manifest: Manifest
    ids: np.ndarray = field(repr=False)  # (rows, 16) uint8

    @cached_property
    def array(self) -> Any:
        """The TensorStore over the rows. Opening it reads nothing, since the manifest holds its metadata."""
        spec = _spec(self.place, self.identity, self.name, self.manifest.zarr)
        try:
            return ts.open(spec, open=True, read=True, assume_metadata=True, context=CONTEXT).result()
        except ValueError as error:
            raise lost(
                self.place, self.identity, self.name, f"its manifest describes no array: {error}"
            ) from error

    def wait(self, future: Any) -> Any:
        """The result of a read of `array`; should it fail, the error says whether the part is to blame."""
        try:
            return future.result()
        except ValueError as error:
            with self.place.telling("read"):
                if not str(error).startswith(("DATA_LOSS", "NOT_FOUND")):
                    raise
            raise lost(self.place, self.identity, self.name, str(error)) from error


def read_parts(place: Place, identity: str, names: Sequence[str]) -> dict[str, Part]:
    """These parts with their ids, without those whose manifest cannot be read: they do not count."""
    keys = [manifest_key(identity, name) for name in names] + [ids_key(identity, name) for name in names]
    contents = place.read(keys)
    parts = {}
    for name, text, ids in zip(names, contents, contents[len(names) :], strict=False):
        manifest = Manifest.from_json(text)
        if manifest is not None:
            problem = manifest.ids_problem(ids)
            if problem is not None:
                raise lost(place, identity, name, problem)
            known = np.frombuffer(ids or b"", np.uint8).reshape(-1, ID_BYTES)
            parts[name] = Part(place, identity, name, manifest, known)
        elif text is None:
            raise lost(place, identity, name, "its manifest is missing")
    return parts


def write_part(
    place: Place, identity: str, name: str, ids: np.ndarray, rows: np.ndarray, *, compress: bool = False
) -> None:
    """Write and commit a part; if that fails, remove what was written of it."""
    manifest = Manifest.of(ids, rows, compress=compress)
    spec = _spec(place, identity, name, manifest.zarr)
    try:
        with place.telling("written"):
            array = ts.open(spec, create=True, read=True, write=True, context=CONTEXT).result()
            array.write(rows, can_reference_source_data_indefinitely=True).result()
        place.write(ids_key(identity, name), ids.tobytes())
        place.write(manifest_key(identity, name), manifest.to_json())
    except StoreError:
        remove_part(place, identity, name)
        raise


def remove_part(place: Place, identity: str, name: str) -> None:
    """Remove a part, its manifest first, so that it stops counting before anything is missing from it."""
    place.remove([manifest_key(identity, name)])
    place.remove(own_keys(place, home(identity, name)))
    place.prune(home(identity, name))


def lost(place: Place, identity: str, name: str, what: str) -> StoreError:
    """The error for a part that cannot be read: somebody removed it meanwhile, or it is damaged."""
    part = f"part {name} of {identity} in the feature store {place.url}"
    if place.read([manifest_key(identity, name)]) == [None]:
        return GoneError(f"{part} was removed while it was being read; try again")
    return DamagedError(
        f"{part} is damaged: {what}; `visbench cache verify` lists all such parts, and `visbench cache gc` "
        "removes them, so that their rows are extracted again",
        what,
    )


def _spec(place: Place, identity: str, name: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "driver": "zarr3",
        "kvstore": place.kvstore(home(identity, name)),
        "metadata": dict(metadata),
        "store_data_equal_to_fill_value": True,
        "fill_missing_data_reads": False,  # a lost shard is an error, not rows of NaN
    }
