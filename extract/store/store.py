"""The feature store: rows of numbers by what made them (identity) and what they were made of (row id).

    <store>/<identity>/spec.json       the identity in plain words
    <store>/<identity>/parts/…         immutable parts; `parts.py` tells what one is

There are no locks. Any number of processes and machines write parts; the worst that happens is that a row is
computed twice, and then the part whose name sorts first wins for every reader.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from extract.errors import InputError
from extract.store import collection, maintenance
from extract.store.errors import StoreError
from extract.store.index import Index, read_index
from extract.store.kv import Place
from extract.store.layout import IDENTITY, spec_key
from extract.store.manifest import DTYPES
from extract.store.view import View
from extract.store.writer import PartWriter

EMPTY = Index({})


class Identity(Protocol):
    """All that could change a feature's numbers: a digest of it (32 hex digits), and plain words."""

    @property
    def digest(self) -> str: ...  # noqa: D102
    @property
    def plain(self) -> Mapping[str, Any]: ...  # noqa: D102


class Store:
    """Features at a location: a folder (by default in the user's cache), file://, memory://, s3:// or gs://.

    Identities are given by their digest. What other processes commit is seen at the next call.
    """

    def __init__(self, location: str | Path | None = None) -> None:
        self._place = Place(location)
        self._indices: dict[str, Index] = {}

    @property
    def url(self) -> str:
        """Where the store is; another `Store` of this is the same store."""
        return self._place.url

    def __repr__(self) -> str:
        return f"Store({self.url!r})"

    def present(self, identity: str, ids: np.ndarray) -> np.ndarray:
        """(n,) whether each of the (n, 16) ids is stored."""
        return self._index(identity).locate(ids) >= 0

    def writer(
        self,
        identity: Identity,
        row_shape: Sequence[int],
        dtype: str | np.dtype[Any] = "float16",
        *,
        max_seconds: float = 20.0,
        compress: bool = False,
    ) -> PartWriter:
        """A context manager whose `add(ids, rows)` stores rows of this shape, at most `max_seconds` late."""
        name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
        if name not in DTYPES:
            raise InputError(f"rows are stored as {', '.join(DTYPES)}, not as {name}")
        _check_digest(identity.digest)
        self._describe(identity)
        return PartWriter(
            self._place, identity.digest, row_shape, DTYPES[name], max_seconds=max_seconds, compress=compress
        )

    def view(self, identity: str, ids: np.ndarray) -> View:
        """The rows of these (n, 16) ids, in their order; refused if some are not stored."""
        return View(self._place, identity, ids, lambda: self._index(identity))

    def identities(self) -> list[maintenance.Stored]:
        """What is stored, an entry per identity."""
        return maintenance.identities(self._place)

    def verify(self, identity: str | None = None) -> list[maintenance.Problem]:
        """Read everything, or the identity that begins so, and compare it with the digests; what is damaged."""
        one = None if identity is None else maintenance.find(self._place, identity)
        return list(maintenance.verify(self._place, one))

    def gc(self, *, older_than: float = 86400.0, merge: bool = True, check: bool = True) -> collection.Report:
        """Remove garbage and merge small parts; never touches a file that is not the store's own.

        Garbage is what was never committed and parts of whose rows none is read, both once they are
        `older_than` seconds old, since another process may be at work; and damaged parts, whatever their
        age. To find these everything is read, unless `check` is False. `older_than=0` is for a store that
        nobody else uses at the moment.
        """
        return collection.collect(self._place, older_than=older_than, merge=merge, check=check)

    def find(self, start: str) -> str:
        """The one identity whose digest begins so."""
        return maintenance.find(self._place, start)

    def rm(self, digest: str) -> str:
        """Remove the identity that begins with `digest`, and return it whole."""
        identity = maintenance.find(self._place, digest)
        maintenance.remove(self._place, identity)
        return identity

    def clear(self) -> list[str]:
        """Remove all identities, and return them."""
        identities = list(maintenance.survey(self._place))
        for identity in identities:
            maintenance.remove(self._place, identity)
        return identities

    def free_bytes(self) -> int | None:
        """Bytes left on the store's disk; None where that cannot be known."""
        return self._place.free_bytes()

    def refuse_unwritable(self) -> None:
        """Stop before anything is computed where nothing could be kept."""
        self._place.refuse_unwritable()

    def refuse_inside(self, root: Path) -> None:
        """Refuse a data folder that holds the store, or is it: nothing is ever written beside the data."""
        if self._place.folder is None:
            return
        store, data = self._place.folder, root.resolve()
        if store == data or data in store.parents:
            raise InputError(
                f"the feature store {store} lies in the data folder {data}, where nothing may be written; "
                "choose another place with --store"
            )

    def _index(self, identity: str) -> Index:
        """The identity's index, brought up to date."""
        _check_digest(identity)
        index = read_index(self._place, identity, self._indices.get(identity, EMPTY))
        self._indices[identity] = index
        return index

    def _describe(self, identity: Identity) -> None:
        """Write `spec.json`, or compare it with the one that is there."""
        key = spec_key(identity.digest)
        text = json.dumps(identity.plain, indent=2, sort_keys=True, ensure_ascii=False).encode()
        (found,) = self._place.read([key])
        if found is None:
            self._place.write(key, text)
        elif maintenance.read_plain(found) != json.loads(text):
            raise StoreError(
                f"{key} in the feature store {self.url} is not what is to be stored there; "
                f"it was changed, or is damaged: remove it with `visbench cache rm {identity.digest}`"
            )


def _check_digest(identity: str) -> None:
    if re.fullmatch(IDENTITY, identity) is None:
        raise InputError(f"an identity is a digest of 32 hex digits, but this is {identity!r}")
