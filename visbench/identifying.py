"""The row ids of what images should say: of target maps, of marked objects, of pairs and triplets."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from extract.datasets import ImageSet
from extract.datasets.objects import Objects
from extract.ids import ID_BYTES, as_bytes
from extract.memo import Memo


def identified(images: ImageSet, ids: np.ndarray, memo: Memo) -> ImageSet:
    """The set with the row ids of its truth; `ids` are those of its images.

    A map's are of its files and of the image that it lies on, since the two are looked at together when it is read:
    a map on another image is another row.
    """
    if images.groups is not None:
        images = replace(images, groups=images.groups.identified(ids))
    if isinstance(images.targets, Objects):
        return replace(images, targets=images.targets.identified(ids))
    if images.targets is not None:
        found = [ids, *(memo.row_ids(each) for each in images.targets.sources)]
        images = replace(images, targets=replace(images.targets, ids=_joined(found)))
    return images


def _joined(found: Sequence[np.ndarray]) -> np.ndarray:
    """One id for the files of each map."""
    if len(found) == 1:
        return found[0]
    rows = zip(*map(as_bytes, found), strict=True)
    digests = [hashlib.blake2b(b"".join(row), digest_size=ID_BYTES).digest() for row in rows]
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, ID_BYTES)
