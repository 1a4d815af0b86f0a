"""Garbage collection: what died, what is damaged, what nobody reads; and small parts written as one.

Any number of processes may read, write and collect meanwhile. A part's manifest goes before its contents, and
what is merged is committed before its sources go; so a reader who finds a part gone looks again and finds its
rows elsewhere, with the same values.
"""

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from extract.store.errors import GoneError
from extract.store.index import Index, read_index
from extract.store.kv import Place
from extract.store.layout import OWN, age, merged, new_name
from extract.store.maintenance import problem, survey
from extract.store.manifest import part_rows
from extract.store.parts import Part, remove_part, write_part
from extract.store.view import gather

Group = list[tuple[Part, np.ndarray]]  # parts, each with a mask over its rows: those that are read from it


@dataclass(frozen=True)
class Report:
    """What a collection did, in parts."""

    unfinished: int = 0  # never committed, left behind by a process that died
    damaged: int = 0
    superseded: int = 0  # all their rows are read from other parts
    merged: int = 0
    merged_into: int = 0

    def __add__(self, other: "Report") -> "Report":
        mine, theirs = vars(self), vars(other)
        return Report(**{name: mine[name] + theirs[name] for name in mine})


def collect(place: Place, *, older_than: float, merge: bool, check: bool) -> Report:
    """Remove what is of no use and merge small parts; see `Store.gc`."""
    total = Report()
    for identity, (names, keys) in survey(place).items():
        damaged = [name for name in names if problem(place, identity, name, arrays=check) is not None]
        seen = {match["part"] for key in keys if (match := OWN.fullmatch(key)) and match["part"]}
        unfinished = [name for name in seen.difference(names) if age(name) >= older_than]
        for name in damaged + unfinished:
            remove_part(place, identity, name)
        total += Report(len(unfinished), len(damaged)) + _compact(place, identity, older_than, merge)
    return total


def _compact(place: Place, identity: str, older_than: float, merge: bool) -> Report:
    """Remove parts of which nothing is read, and write what is read of small ones together.

    A part that a collection wrote lately is left alone, since another collection that runs at this moment may
    remove its sources. Nothing else is removed before its rows are committed elsewhere.
    """
    index = read_index(place, identity, Index({}))
    alive = dict(zip(index.parts, index.winning(), strict=True))
    settled = [part for part in alive if not merged(part.name) or age(part.name) >= older_than]
    superseded = [part for part in settled if not alive[part].any() and age(part.name) >= older_than]
    for part in superseded:
        remove_part(place, identity, part.name)
    total = Report(superseded=len(superseded))
    if merge and len({(part.manifest.dtype, part.manifest.row_shape) for part in alive}) == 1:
        for group in _groups([(part, alive[part]) for part in settled if alive[part].any()]):
            with suppress(GoneError):  # another collection was faster
                _merge(group)
                total += Report(merged=len(group), merged_into=1)
    return total


def _groups(parts: Group) -> list[Group]:
    """Parts at most half full, as many together as fit into one, where that saves parts or rows."""
    groups: list[Group] = [[]]
    full = 0
    for part, alive in parts:
        room, rows = part_rows(part.manifest.row_shape), int(alive.sum())
        if rows > room // 2:
            continue
        if full + rows > room:
            groups.append([])
            full = 0
        groups[-1].append((part, alive))
        full += rows
    return [group for group in groups if len(group) > 1 or not all(alive.all() for _, alive in group)]


def _merge(group: Group) -> None:
    """Commit the rows that are read from these parts as one part, and only then remove them."""
    parts = [part for part, _ in group]
    first = parts[0]
    which = np.repeat(np.arange(len(group)), [alive.sum() for _, alive in group])
    row = np.concatenate([np.flatnonzero(alive) for _, alive in group])
    ids = np.concatenate([part.ids[alive] for part, alive in group])
    rows = gather(parts, which, row, first.manifest.row_shape, first.manifest.dtype)
    name = new_name(merged_from=first.name)
    write_part(first.place, first.identity, name, ids, rows, compress=first.manifest.compressed)
    for part in parts:
        remove_part(part.place, part.identity, part.name)
