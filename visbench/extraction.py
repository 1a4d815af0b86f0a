"""Features of a whole dataset into the store: every split, labelled or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from extract import taps as tap_names
from extract.datasets import ImageSet
from extract.memo import Memo
from extract.shares import share
from extract.store import Store
from extract.wording import counted
from visbench import console, features, sources
from visbench.errors import UsageError
from visbench.opening import identify, open_splits, refuse_unreadable
from visbench.options import Options


@dataclass(frozen=True)
class Extracted:
    """What was done for one backbone; a picture that stands in the dataset twice is one row."""

    backbone: str
    identities: dict[str, str]  # tap → under which identity its rows are stored
    rows: int  # now stored for each tap
    computed: int
    cached: int
    unreadable: dict[str, str]  # name → reason of images left out, those known from earlier runs too
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        return asdict(self)


class Extraction:
    """The images of one dataset, and the backbones and taps that are wanted of them.

    What is wrong with a name or a tap is refused before an image is read.
    """

    def __init__(
        self,
        dataset: Any,
        backbones: Sequence[Any],
        taps: str | Sequence[str],
        options: Options,
        *,
        layers: Sequence[int] | None = None,
    ) -> None:
        self.options = options
        self.taps = [str(tap) for tap in tap_names.parse_many(taps, layers=layers)]
        self.store = options.store if isinstance(options.store, Store) else Store(options.store)
        self.memo = Memo()
        opened = open_splits(dataset, options, self.store)
        self.sources = sources.find_all(backbones, self.taps, options, self.memo, every=True)
        self.images: ImageSet = features.concat(list(opened.values()))
        self.ids, self.unreadable = identify(self.images, self.memo, options)
        refuse_unreadable(self.unreadable, options)
        self._refuse_none_left()

    def run(self, shard: tuple[int, int] | None = None) -> Iterator[Extracted]:
        """Extract what the store lacks, a backbone at a time."""
        ours = self.readable(shard)
        images, ids = self.images.subset(ours), self.ids[ours]
        for source in self.sources:
            plan, spent = features.ensure(
                source, images, ids, self.taps, self.options, store=self.store, memo=self.memo
            )
            self.unreadable |= spent.unreadable
            said = counted(spent.computed, "image")
            console.note(f"{source.asked}: {said} extracted, {spent.cached:,} cached")
            self._refuse_none_left()
            yield Extracted(
                source.asked,
                {f"{tap.kind}@{tap.layer}": which.digest for tap, which in plan.identities.items()},
                spent.computed + spent.cached,
                spent.computed,
                spent.cached,
                dict(self.unreadable),
                round(spent.seconds, 3),
            )

    def readable(self, shard: tuple[int, int] | None = None) -> np.ndarray:
        """Positions of the images to extract.  A share is of the whole set, whatever is known by then to be bad."""
        ours = range(len(self.images)) if shard is None else share(len(self.images), *shard)
        return np.array([i for i in ours if self.images.names[i] not in self.unreadable], np.int64)

    def _refuse_none_left(self) -> None:
        if len(self.unreadable) == len(self.images):
            raise UsageError(
                f"no image of {self.images.name} can be read ({counted(len(self.images), 'file')} tried); "
                "`visbench check` shows why"
            )
