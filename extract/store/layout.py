"""Which keys a store consists of.

    <identity>/spec.json                       the identity in plain words
    <identity>/parts/<part>/zarr.json, c/0/…   one zarr3 array (rows, …) in one shard, with checksums
    <identity>/parts/<part>/ids                the rows' ids, 16 bytes each, in the array's order
    <identity>/parts/<part>.json               the manifest, written last: only a part that has one counts

An identity is 32 hex digits. A part's name begins with the time it was written at, so that names sort by age,
and goes on with a random number, so that no two writers choose the same.
"""

import re
import secrets
import threading
import time
from datetime import UTC, datetime

from extract.store.kv import Place

IDENTITY = "[0-9a-f]{32}"
_STAMP = r"\d{8}T\d{12}-[0-9a-f]{12}"
NAME = rf"{_STAMP}(?:_{_STAMP})?"
_OF_PART = r"\.json|/zarr\.json|/ids|/c(?:/\d+)+"
OWN = re.compile(
    rf"(?P<identity>{IDENTITY})/(?:spec\.json|parts/(?P<part>{NAME})(?:{_OF_PART}))(?:\.__lock)?"
)

_last_microsecond = 0
_clock = threading.Lock()


def spec_key(identity: str) -> str:
    """Where an identity stands in plain words."""
    return f"{identity}/spec.json"


def manifest_key(identity: str, name: str) -> str:
    """The key whose presence makes a part count."""
    return f"{identity}/parts/{name}.json"


def home(identity: str, name: str) -> str:
    """The prefix under which a part's array and ids lie."""
    return f"{identity}/parts/{name}/"


def ids_key(identity: str, name: str) -> str:
    """The key of a part's ids."""
    return f"{home(identity, name)}ids"


def own_keys(place: Place, within: str = "") -> list[str]:
    """The keys under a prefix that belong to a store, unfinished files of killed writers among them."""
    return [key for key in place.keys(within) + place.locks(within) if OWN.fullmatch(key)]


def committed(place: Place, identity: str) -> list[str]:
    """The names of the parts that have a manifest, in the order in which they win."""
    found = re.compile(rf"{identity}/parts/({NAME})\.json").fullmatch
    return sorted(match[1] for match in map(found, place.keys(f"{identity}/parts/")) if match)


def new_name(merged_from: str | None = None) -> str:
    """A part name that sorts after every name this process made before.

    A merged part holds rows that were read from the parts it replaces. Its name begins with that of the first
    of these, so that it stays ahead of all other parts that hold the same rows.
    """
    global _last_microsecond
    with _clock:
        _last_microsecond = max(time.time_ns() // 1000, _last_microsecond + 1)
        seconds, micros = divmod(_last_microsecond, 10**6)
    stamp = f"{datetime.fromtimestamp(seconds, UTC):%Y%m%dT%H%M%S}{micros:06}-{secrets.token_hex(6)}"
    return stamp if merged_from is None else f"{merged_from.partition('_')[0]}_{stamp}"


def merged(name: str) -> bool:
    """Whether a part was merged from others."""
    return "_" in name


def age(name: str) -> float:
    """Seconds since a part was named, by this machine's clock."""
    stamp = name.rpartition("_")[2].partition("-")[0]
    return time.time() - datetime.strptime(f"{stamp}+0000", "%Y%m%dT%H%M%S%f%z").timestamp()
