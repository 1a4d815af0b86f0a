"""Features of a whole dataset into the store: every split, labelled or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from extract import taps as tap_names
from extract.datasets import ImageSet, open_dataset
from extract.memo import Memo
from extract.shares import share
from extract.store import Store
from visbench import console, features
from visbench.data import known_unreadable, refuse_unreadable, report_unread
from visbench.errors import UsageError
from visbench.options import Options


class Extraction:
    """The images of one dataset and the taps that are wanted of them."""

    def __init__(
        self,
        dataset: Any,
        taps: str | Sequence[str],
        options: Options,
        *,
        layers: Sequence[int] | None = None,
    ) -> None:
        self.options = options
        self.taps = [str(tap) for tap in tap_names.parse_many(taps, layers=layers)]
        self.store = options.store if isinstance(options.store, Store) else Store(options.store)
        self.memo = Memo()
        opened = open_dataset(dataset, **options.reading)
        report_unread(opened)
        sets = [images.limit(options.limit) if options.limit else images for images in opened.values()]
        for images in sets:
            if images.root is not None:
                self.store.refuse_inside(images.root)
        self.images: ImageSet = features.concat(sets)
        failed: dict[int, str] = {}
        self.ids: np.ndarray = self.memo.row_ids(self.images.sources, unreadable=failed)
        self.unreadable = known_unreadable(self.images, self.ids, failed, self.memo, options)
        if self.unreadable:
            refuse_unreadable(self.unreadable, options)
        self._refuse_none_left()

    def find(self, backbones: Sequence[Any]) -> list[features.Source]:
        """The sources of `backbones`; refused if one has no such tap."""
        return features.find_all(backbones, self.taps, self.options, self.memo)

    def run(self, backbones: Sequence[Any], shard: tuple[int, int] | None = None) -> list[features.Spent]:
        """Extract what the store lacks, a backbone at a time."""
        done = []
        ours = self.readable(shard)
        images, ids = self.images.subset(ours), self.ids[ours]
        for source in self.find(backbones):
            _, spent = features.ensure(
                source, images, ids, self.taps, self.options, store=self.store, memo=self.memo
            )
            self.unreadable |= spent.unreadable
            done.append(spent)
            console.note(f"{source.asked}: {spent.computed:,} images extracted, {spent.cached:,} were cached")
            self._refuse_none_left()
        return done

    def readable(self, shard: tuple[int, int] | None = None) -> np.ndarray:
        """Positions of the images to extract.  A share is of the whole set, whatever is known by then to be bad."""
        ours = range(len(self.images)) if shard is None else share(len(self.images), *shard)
        return np.array([i for i in ours if self.images.names[i] not in self.unreadable], np.int64)

    def _refuse_none_left(self) -> None:
        if len(self.unreadable) == len(self.images):
            raise UsageError(
                f"none of the {len(self.images)} images of {self.images.name} can be read; `visbench check` shows why"
            )
