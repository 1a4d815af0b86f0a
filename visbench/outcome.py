"""What goes into a measurement and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Rows:
    """Pooled features of one role, n rows of d dims, aligned with labels and content digests."""

    features: np.ndarray  # (n, d), as stored
    labels: np.ndarray  # (n,) indices into the classes
    ids: np.ndarray  # (n, 16) uint8

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, chosen: np.ndarray) -> Rows:
        """The rows of a mask or of indices."""
        return Rows(self.features[chosen], self.labels[chosen], self.ids[chosen])

    def join(self, other: Rows | None) -> Rows:
        """These rows, then those of `other`."""
        if other is None:
            return self
        pairs = ((self.features, other.features), (self.labels, other.labels), (self.ids, other.ids))
        return Rows(*(np.concatenate(pair) for pair in pairs))


@dataclass
class Outcome:
    """What a probe said: the parts of a record that are known only afterwards."""

    metrics: dict[str, Any]
    intervals: dict[str, Any] = field(default_factory=dict)
    n: dict[str, int] = field(default_factory=dict)
    context: dict[str, Any] = field(default_factory=dict)
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    selection: dict[str, Any] = field(default_factory=dict)  # what it found, for selection["outcome"]
    convergence: dict[str, Any] = field(default_factory=dict)
    per_sample: dict[str, np.ndarray] = field(default_factory=dict)  # metric → (n,), NaN where it has none
    ids: np.ndarray | None = None  # (n, 16) of the samples, where they are not the scored images in order
    trials: list[dict[str, Any]] = field(default_factory=list)  # of a search: a row a setting, with its score
    tap: str | None = None  # the one that was chosen, where several were asked for
    taps: list[str] | None = None  # all of them, where a head reads several layers
    warnings: list[str] = field(default_factory=list)
    probe: Any = None
