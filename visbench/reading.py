"""How a task reads what a run has stored: for pooled probes whole arrays of features with their labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extract.datasets import ImageSet
from extract.ids import keys
from extract.plan import Plan
from visbench import features
from visbench.errors import UsageError
from visbench.outcome import Rows
from visbench.sources import Source

if TYPE_CHECKING:
    from visbench.pipeline import Session


class Views(NamedTuple):
    """Images that are made of those of the data, for a backbone to see as well."""

    images: ImageSet
    ids: np.ndarray  # (v, 16) row ids: of the image and of what was done to it
    of: list[str]  # the name of the image that each is made of


class Pooled:
    """Features and labels of every role under a tap, as arrays."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def prepare(self, source: Source) -> None:
        """Nothing is to be read before features are there."""

    def views(self, source: Source, measures: Sequence[Any]) -> Views | None:
        """No image but those of the data."""
        return None

    def __call__(self, source: Source, plan: Plan) -> Callable[[str], dict[str, Rows]]:
        """The rows of every role under a tap, aligned with labels; read when asked for."""
        session = self._session

        @lru_cache(maxsize=2)  # a search goes from tap to tap
        def read(tap: str) -> dict[str, Rows]:
            rows = {}
            for role, images in session.data.sets.items():
                ids = session.data.ids[role]
                labels = images.known_labels
                if source.shuffled and (role != "test" or not session.task.fitted):
                    labels = labels[shuffled(ids, session.options.seed)]
                rows[role] = Rows(features.read(plan, tap, ids, session.store), labels, ids)
            return rows

        return read


def shuffled(ids: np.ndarray, seed: int) -> np.ndarray:
    """(n,) for each image the one whose label it gets, never itself; by the images and the seed alone.

    Copies of a picture may get several labels.  Of one alone there is nobody to take from: refused.
    """
    if len(ids) < 2:
        raise UsageError(
            "the control shuffle gives each what belongs to another, and there is one alone; leave the control out, "
            "or give more data"
        )
    order = np.argsort(keys(ids), kind="stable")
    circle = np.random.default_rng(seed).permutation(order)
    given = np.empty(len(ids), int)
    given[circle] = np.roll(circle, 1)
    return given
