"""How relative pose opens its data and reads what a run has stored: features of images, and the pairs of them.

Axes: n images, d dims, p pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from extract.datasets import Splits
from extract.datasets.navi import open_poses
from extract.ids import keys
from extract.plan import Plan
from visbench import features
from visbench.options import Options
from visbench.reading import shuffled
from visbench.sources import Source

if TYPE_CHECKING:
    from visbench.pipeline import Session


@dataclass(frozen=True)
class Pairs:
    """Pooled features of n images, and the pairs of them."""

    features: np.ndarray  # (n, d), as stored
    images: np.ndarray  # (n, 16) uint8 ids of the images
    members: np.ndarray  # (p, 2) places among the images
    pose: np.ndarray  # (p, 7) of the second camera relative to the first: quaternion and metres

    def __len__(self) -> int:
        return len(self.members)

    @property
    def pictures(self) -> np.ndarray:
        """(p, 2) the members as numbers of pictures; copies, as where a scene has several objects, are one."""
        return pictures(self.members, self.images)

    def join(self, other: Pairs | None) -> Pairs:
        """These, then those of `other`."""
        if other is None:
            return self
        return Pairs(
            np.concatenate([self.features, other.features]),
            np.concatenate([self.images, other.images]),
            np.concatenate([self.members, other.members + len(self.features)]),
            np.concatenate([self.pose, other.pose]),
        )

    def take(self, rows: np.ndarray) -> Pairs:
        """Some of the pairs; the images stay."""
        return Pairs(self.features, self.images, self.members[rows], self.pose[rows])


def pictures(members: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Members (p, 2) as numbers of distinct content; `images` are the (n, 16) ids."""
    numbers = np.unique(keys(images), return_inverse=True)[1].reshape(-1)
    return np.asarray(numbers[members])


RowsOf = Callable[[str], Mapping[str, Pairs]]  # tap → the pairs of each role


def opened(data: Any, options: Options, name: str | None = None) -> Splits:
    """Pairs of NAVI, or of a table of images with the poses of their cameras."""
    if isinstance(data, Splits):
        return data
    told = {key: value for key, value in options.truth.items() if value is not None}
    scale = told.pop("target_scale", None)
    return open_poses(data, name=name, scale=scale, **told)


class Posed:
    """Features and pairs of every role under a tap."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def prepare(self, source: Source) -> None:
        """Nothing is to be read before features are there."""

    def views(self, source: Source, measures: Sequence[Any]) -> None:
        """No image but those of the data."""

    def __call__(self, source: Source, plan: Plan) -> RowsOf:
        """The pairs of every role under a tap, read when asked for; shuffled, each that trains has another's pose."""
        session = self._session

        @lru_cache(maxsize=2)  # a search goes from tap to tap
        def read(tap: str) -> dict[str, Pairs]:
            found = {}
            for role, images in session.data.sets.items():
                groups, ids = images.groups, session.data.ids[role]
                assert groups is not None
                assert groups.ids is not None
                pose = groups.truth["pose"]
                if source.shuffled and role != "test":
                    pose = pose[shuffled(groups.ids, session.options.seed)]
                stored = features.read(plan, tap, ids, session.store)
                found[role] = Pairs(stored, ids, groups.members, pose)
            return found

        return read
