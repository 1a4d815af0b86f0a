"""What an extraction would do before it does it: the rows that are missing and what they cost.

Needs no torch: a run whose features are all stored stops here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from extract import taps as tap_names
from extract.ids import ID_BYTES, keys
from extract.spec import BackboneSpec, Identity, identity
from extract.store import Store
from extract.taps import Tap

_ITEM_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}


@dataclass(frozen=True)
class Plan:
    """The rows each tap lacks, for n images.  An image that stands in a dataset twice is planned once."""

    spec: BackboneSpec
    dtype: str
    ids: np.ndarray  # (n, 16) uint8, in the dataset's order
    identities: Mapping[Tap, Identity]  # by resolved tap
    lacking: Mapping[Tap, np.ndarray]  # (n,) bool: to be written under this tap

    @property
    def passes(self) -> int:
        """Forward passes: images of which any tap is missing."""
        return int(self.missing.sum())

    @property
    def cached(self) -> int:
        """Images, each picture counted once, that need no forward pass."""
        return len(np.unique(keys(self.ids))) - self.passes

    @property
    def missing(self) -> np.ndarray:
        """(n,) bool: the images that must go through the backbone."""
        return np.asarray(np.any(list(self.lacking.values()), axis=0))

    @property
    def bytes(self) -> int:
        """What the store will grow by, near enough."""
        return sum(int(rows.sum()) * (self.row_bytes(tap) + ID_BYTES) for tap, rows in self.lacking.items())

    def row_bytes(self, tap: Tap) -> int:
        """One stored row of `tap`, in bytes."""
        return prod(tap_names.shape(tap, self.spec)) * _ITEM_BYTES[self.dtype]


def make(
    spec: BackboneSpec,
    taps: str | Sequence[Tap | str],
    ids: np.ndarray,
    *,
    store: Store,
    dtype: str = "float16",
) -> Plan:
    """Compare what is asked of a backbone with what `store` holds."""
    resolved = dict.fromkeys(tap_names.resolve(tap, spec) for tap in tap_names.parse_many(taps))
    identities = {tap: identity(spec, tap, dtype) for tap in resolved}
    first = np.zeros(len(ids), dtype=bool)
    first[np.unique(keys(ids), return_index=True)[1]] = True
    lacking = {tap: first & ~store.present(which.digest, ids) for tap, which in identities.items()}
    return Plan(spec, dtype, ids, identities, lacking)
