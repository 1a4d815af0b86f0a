"""The row ids of target maps: digests of the files they are read from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from extract.datasets import ImageSet
from extract.ids import ID_BYTES, as_bytes
from extract.memo import Memo


def identified(images: ImageSet, ids: np.ndarray, memo: Memo) -> ImageSet:
    """The set with the row ids of its maps: of their files and of the image that each lies on.

    A map is looked at together with its image when it is read, so a map on another image is another row.
    """
    targets = images.targets
    assert targets is not None
    found = [ids, *(memo.row_ids(each) for each in targets.sources)]
    return replace(images, targets=replace(targets, ids=_joined(found)))


def _joined(found: Sequence[np.ndarray]) -> np.ndarray:
    """One id for the files of each map."""
    if len(found) == 1:
        return found[0]
    rows = zip(*map(as_bytes, found), strict=True)
    digests = [hashlib.blake2b(b"".join(row), digest_size=ID_BYTES).digest() for row in rows]
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, ID_BYTES)
