"""Images that belong together, in pairs or triplets, and what is known of each group.

A group stands in a set of images by their places in it.  What is known of it (`truth`) is one value a group: numbers
as arrays with a leading axis of groups, and what differs in length, as keypoints do, as arrays of objects.  An object
may have a `digest` (bytes) of all that it says.

Of an anchor, a positive and a negative nobody says which comes first; were it always the positive, a backbone that
finds all alike would be right wherever a tie counts as the first.  `identified` then draws the order by content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from extract.errors import InputError
from extract.ids import ID_BYTES
from extract.wording import counted


@dataclass(frozen=True, eq=False)
class Groups:
    """Pairs or triplets of the images of a set."""

    noun: str  # "pair" or "triplet"
    members: np.ndarray  # (g, k) int64: places in the set
    names: tuple[str, ...]  # what errors call each, as "pairs.csv, row 3"
    truth: Mapping[str, np.ndarray] = field(default_factory=dict)  # name → (g, …)
    params: Mapping[str, Any] = field(default_factory=dict)  # how they were found, for the record
    turns: str | None = None  # a truth (g,) bool that turns over when the last two members change places
    ids: np.ndarray | None = (
        None  # (g, 16) uint8: of the members' content and of the truth, once they are known
    )

    def __post_init__(self) -> None:
        lengths = {len(self.members), len(self.names), *map(len, self.truth.values())}
        if len(lengths) > 1 or self.members.ndim != 2:
            raise InputError(
                f"{counted(len(self.members), self.noun)} came with {counted(len(self.names), 'name')} and "
                f"{', '.join(f'{len(each)} {name}' for name, each in self.truth.items()) or 'no truth'}; "
                f"there must be one of each a {self.noun}"
            )

    def __len__(self) -> int:
        return len(self.members)

    def take(self, chosen: np.ndarray) -> Groups:
        """The groups of a mask or of indices; the images stay as they are."""
        rows = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        return replace(
            self,
            members=self.members[rows],
            names=tuple(self.names[row] for row in rows),
            truth={name: each[rows] for name, each in self.truth.items()},
            ids=None if self.ids is None else self.ids[rows],
        )

    def of_images(self, rows: Iterable[int]) -> Groups:
        """The groups all of whose images are among `rows` of the set, which become the images in that order."""
        chosen = np.asarray([*rows], np.int64)
        place = np.full(max(int(self.members.max(initial=-1)), int(chosen.max(initial=-1))) + 1, -1)
        place[chosen[::-1]] = np.arange(len(chosen))[::-1]  # of an image that comes twice the first place
        members = place[self.members]
        whole = (members >= 0).all(axis=1)
        return replace(self.take(whole), members=members[whole])

    def identified(self, images: np.ndarray) -> Groups:
        """The groups with their ids, in the order of these; `images` are the (n, 16) row ids of the set's images."""
        if self.turns is not None:
            return self._ordered(images).identified(images)
        ids = np.zeros((len(self), ID_BYTES), np.uint8)
        for row, members in enumerate(self.members):
            told = hashlib.blake2b(images[members].tobytes(), digest_size=ID_BYTES)
            for name in sorted(self.truth):
                told.update(name.encode() + b"\0" + _bytes(self.truth[name][row]))
            ids[row] = np.frombuffer(told.digest(), np.uint8)
        order = np.lexsort(ids.T[::-1])
        return replace(replace(self, ids=ids).take(order))

    def _ordered(self, images: np.ndarray) -> Groups:
        """With the last two members of each in an order that neither file names nor the answer decide."""
        assert self.turns is not None
        members, answers = self.members.copy(), self.truth[self.turns].copy()
        for row, (*others, left, right) in enumerate(members):
            both = [images[left].tobytes(), images[right].tobytes()]
            told = hashlib.blake2b(images[others].tobytes() + b"".join(sorted(both)))
            if (both == sorted(both)) == bool(told.digest()[0] & 1):
                members[row, -2:] = right, left
                answers[row] = not answers[row]
        return replace(self, members=members, truth={**self.truth, self.turns: answers}, turns=None)


def _bytes(value: Any) -> bytes:
    """What is known of one group, in a form that can be hashed."""
    if isinstance(value, str | bytes | None | bool):
        return repr(value).encode()
    if hasattr(value, "digest"):
        return bytes(value.digest)
    if isinstance(value, Mapping):
        return b"".join(str(key).encode() + b"\0" + _bytes(value[key]) for key in sorted(value))
    array = np.asarray(value)
    if array.dtype == object:
        return b"".join(map(_bytes, array.ravel()))
    return f"{array.dtype.kind}{array.shape}".encode() + np.ascontiguousarray(array).tobytes()
