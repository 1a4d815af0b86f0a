"""What is in a store, what is damaged, and removing an identity.

Only files that the layout names are ever removed; a stranger's file in the folder stays.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from extract.errors import InputError
from extract.ids import ID_BYTES, keys
from extract.store.errors import DamagedError, GoneError
from extract.store.kv import Place
from extract.store.layout import OWN, ids_key, manifest_key, own_keys, spec_key
from extract.store.manifest import Manifest, digest
from extract.store.parts import read_parts
from extract.wording import counted


@dataclass(frozen=True)
class Stored:
    """One identity in the store."""

    digest: str
    plain: dict[str, Any]
    rows: int  # that a reader finds: one that two processes both computed counts once
    parts: int
    bytes: int  # of everything, what is stored twice included
    surplus_rows: int  # stored again, by a process that did not know of the first
    surplus_bytes: int
    dtype: str | None  # None, and no shape, while nothing is committed
    row_shape: tuple[int, ...] | None


@dataclass(frozen=True)
class Problem:
    """Something damaged: a part, or the identity's `spec.json` where `part` is None."""

    identity: str
    part: str | None
    what: str


def identities(place: Place) -> list[Stored]:
    """What is stored, from the manifests, and from the ids where rows may be stored twice."""
    return [_stored(place, identity, *seen) for identity, seen in survey(place).items()]


def _stored(place: Place, identity: str, names: list[str], own: list[str]) -> Stored:
    spec, *texts = place.read([spec_key(identity), *(manifest_key(identity, name) for name in names)])
    read = zip(names, map(Manifest.from_json, texts), strict=True)
    parts = {name: manifest for name, manifest in read if manifest is not None}
    first = next(iter(parts.values()), None)
    total, sizes = sum(part.rows for part in parts.values()), place.sizes(own)
    again = _stored_again(place, identity, parts)
    return Stored(
        identity,
        read_plain(spec) or {},
        rows=total - again,
        parts=len(parts),
        bytes=sum(part.raw_bytes for part in parts.values()) if sizes is None else sizes,
        surplus_rows=again,
        surplus_bytes=again * first.raw_bytes // first.rows if first else 0,
        dtype=first.dtype.name if first else None,
        row_shape=first.row_shape if first else None,
    )


def _stored_again(place: Place, identity: str, parts: Mapping[str, Manifest]) -> int:
    """How many rows of these parts are in another of them too; of damaged ids nothing is known."""
    if len(parts) < 2:
        return 0
    contents = place.read(ids_key(identity, name) for name in parts)
    ids = [
        np.frombuffer(content, np.uint8).reshape(-1, ID_BYTES)
        for content, manifest in zip(contents, parts.values(), strict=True)
        if content is not None and manifest.ids_problem(content) is None
    ]
    rows = np.concatenate([np.empty((0, ID_BYTES), np.uint8), *ids])
    return len(rows) - len(np.unique(keys(rows)))


def verify(place: Place, identity: str | None = None) -> Iterator[Problem]:
    """Read every part (of one identity) and compare it with its manifest."""
    for one, (names, _) in survey(place, identity).items():
        if read_plain(place.read([spec_key(one)])[0]) is None:
            yield Problem(one, None, "its spec.json is missing or cannot be read")
        for name in names:
            what = problem(place, one, name)
            if what is not None:
                yield Problem(one, name, what)


def remove(place: Place, identity: str) -> None:
    """Remove an identity: its manifests first, then all else of it."""
    names, keys = survey(place, identity)[identity]
    place.remove([manifest_key(identity, name) for name in names])
    place.remove(keys)
    place.prune(f"{identity}/")


def find(place: Place, start: str) -> str:
    """The one identity that begins with `start`."""
    matches = [identity for identity in survey(place) if identity.startswith(start)]
    if len(matches) == 1 and start:
        return matches[0]
    found = counted(len(matches), "identity", "identities") if matches else "nothing"
    raise InputError(
        f'"{start}" is the beginning of {found} in the feature store {place.url}; `visbench cache ls` shows them'
    )


def problem(place: Place, identity: str, name: str, *, arrays: bool = True) -> str | None:
    """What is wrong with a committed part, if anything; its array is only read where `arrays` says so."""
    try:
        parts = read_parts(place, identity, [name])
        if not parts:
            return "its manifest cannot be read"
        rows = parts[name].wait(parts[name].array.read()) if arrays else None
    except GoneError:
        return None
    except DamagedError as error:
        return error.what
    same = rows is None or digest(rows) == parts[name].manifest.array_digest
    return None if same else "its array does not match its digest"


class Survey(NamedTuple):
    """An identity's part names with a manifest, and all its own keys."""

    committed: list[str]
    keys: list[str]


def survey(place: Place, identity: str | None = None) -> dict[str, Survey]:
    """The identities of a place (or the one) by their digest, from one listing."""
    found: dict[str, Survey] = {}
    for key in own_keys(place, f"{identity}/" if identity else ""):
        match = OWN.fullmatch(key)
        assert match is not None
        one = found.setdefault(match["identity"], Survey([], []))
        one.keys.append(key)
        if match["part"] and key == manifest_key(match["identity"], match["part"]):
            one.committed.append(match["part"])
    return found


def read_plain(text: bytes | None) -> dict[str, Any] | None:
    """The contents of a `spec.json`, None if it cannot be read."""
    try:
        plain = json.loads(text or b"")
    except ValueError:
        return None
    return plain if isinstance(plain, dict) else None
