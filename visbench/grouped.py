"""How tasks of triplets read what a run has stored: features of all images, and the groups that they stand in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from extract.datasets.groups import Groups
from extract.plan import Plan
from visbench import features
from visbench.reading import shuffled
from visbench.sources import Source

if TYPE_CHECKING:
    from visbench.pipeline import Session

ANSWER = "right"  # what people said of a group; all else that is known of it stays with its images


@dataclass(frozen=True)
class Together:
    """Pooled features of n images, and the groups of them."""

    features: np.ndarray  # (n, d), as stored
    groups: Groups  # members are rows of the features

    @property
    def ids(self) -> np.ndarray:
        """(g, 16) uint8 of the groups."""
        assert self.groups.ids is not None
        return self.groups.ids


class Grouped:
    """Features of the scored images under a tap, with their groups."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def prepare(self, source: Source) -> None:
        """Nothing is to be read before features are there."""

    def views(self, source: Source, measures: Sequence[Any]) -> None:
        """No image but those of the data."""

    def __call__(self, source: Source, plan: Plan) -> Callable[[str], Together]:
        """Features and groups under a tap; with shuffled labels each group has the answer of another."""
        session = self._session
        groups = session.data.sets["test"].groups
        assert groups is not None
        if source.shuffled:
            assert groups.ids is not None
            given = shuffled(groups.ids, session.options.seed)
            groups = replace(groups, truth={**groups.truth, ANSWER: groups.truth[ANSWER][given]})

        @lru_cache(maxsize=1)
        def read(tap: str) -> Together:
            rows = features.read(plan, tap, session.data.ids["test"], session.store)
            return Together(rows, groups)

        return read
