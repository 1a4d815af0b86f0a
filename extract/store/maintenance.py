"""What is in a store, what is damaged, and removing an identity.

Only files that the layout names are ever removed; a stranger's file in the folder stays.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from extract.errors import InputError
from extract.store.errors import DamagedError, GoneError
from extract.store.kv import Place
from extract.store.layout import OWN, manifest_key, own_keys, spec_key
from extract.store.manifest import Manifest, digest
from extract.store.parts import read_parts


@dataclass(frozen=True)
class Stored:
    """One identity in the store."""

    digest: str
    plain: dict[str, Any]
    rows: int  # a row that is in two parts counts twice
    parts: int
    bytes: int
    dtype: str | None  # None, and no shape, while nothing is committed
    row_shape: tuple[int, ...] | None


@dataclass(frozen=True)
class Problem:
    """Something damaged: a part, or the identity's `spec.json` where `part` is None."""

    identity: str
    part: str | None
    what: str


def identities(place: Place) -> list[Stored]:
    """What is stored, from the manifests alone."""
    found = []
    for identity, (names, keys) in survey(place).items():
        spec, *texts = place.read([spec_key(identity), *(manifest_key(identity, name) for name in names)])
        manifests = [manifest for text in texts if (manifest := Manifest.from_json(text)) is not None]
        sizes = place.sizes(keys)
        first = manifests[0] if manifests else None
        found.append(
            Stored(
                identity,
                read_plain(spec) or {},
                sum(manifest.rows for manifest in manifests),
                len(manifests),
                sum(manifest.raw_bytes for manifest in manifests) if sizes is None else sizes,
                first.dtype.name if first else None,
                first.row_shape if first else None,
            )
        )
    return found


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
    fault = f"{len(matches)} identities begin" if matches else "no identity begins"
    raise InputError(
        f"{fault} with {start!r} in the feature store {place.url}; `visbench cache ls` shows them"
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
