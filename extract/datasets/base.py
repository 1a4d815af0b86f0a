"""What every reader gives: images in a fixed order, by split.

Labels are (n,) int64 indices into `classes`, -1 where unlabelled, or (n, c) uint8 where an image may have
several.  Classes are numbered by name and once for all splits: in numeric order where every name is an
integer, else by code point.  They are those of every split together, so a class that only `test` has keeps
its name, and `check_scorable` can refuse it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from extract.datasets.groups import Groups
from extract.datasets.objects import Objects
from extract.datasets.sources import Lazy, Sources
from extract.datasets.targets import Targets
from extract.errors import InputError
from extract.wording import counted

SPLITS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
"""What a split may be called (in any case), and what we call it."""

UNLABELLED = -1


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images in a fixed order, with what is known of them."""

    name: str  # of the dataset
    split: str | None  # "train", "val", "test", or None
    sources: Sources
    names: tuple[str, ...]  # what errors and records call each image: its path below `root`, or "image 17"
    labels: np.ndarray | None = None
    classes: tuple[str, ...] = ()
    targets: Targets | Objects | None = None  # what each should say, where that is a map or are boxes
    groups: Groups | None = None  # pairs or triplets of these images
    folders: tuple[Path, ...] = ()  # that hold the images: nothing of ours may come to lie in them
    params: Mapping[str, Any] = field(default_factory=dict)  # what was done to get here, for the record

    def __post_init__(self) -> None:
        size = len(self.names)
        if len(self.sources) != size or (self.labels is not None and len(self.labels) != size):
            have = f"{counted(len(self.sources), 'image')}, {counted(size, 'name')}"
            have += "" if self.labels is None else f" and {counted(len(self.labels), 'label')}"
            raise InputError(f"{self.name} has {have}; there must be one of each an image")
        if len(set(self.names)) != size:
            raise InputError(
                f"{self.name} lists {_repeated(self.names)} twice; leave one of them out, or name each apart"
            )
        if len(set(self.classes)) != len(self.classes):
            raise InputError(f"{self.name} has two classes called {_repeated(self.classes)!r}")
        if self.targets is not None and len(self.targets) != size:
            raise InputError(
                f"{self.name} has {counted(size, 'image')} and {counted(len(self.targets), 'target')}; "
                "there must be one an image"
            )
        if self.labels is not None:
            _check_labels(self.labels, self.classes, self.name)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def size(self) -> int:
        """How much there is to score: images, or pairs or triplets of them."""
        return len(self) if self.groups is None else len(self.groups)

    @property
    def multilabel(self) -> bool:
        """Whether an image may have several labels, or none."""
        return self.labels is not None and self.labels.ndim == 2

    @property
    def unlabelled(self) -> int:
        """How many images have no label; with several labels an image, none is an answer too."""
        if self.labels is None:
            return len(self)
        return 0 if self.multilabel else int((self.labels == UNLABELLED).sum())

    @property
    def known_labels(self) -> np.ndarray:
        """The labels, where `check_scorable` has let the set pass."""
        assert self.labels is not None, f"{self.name} is not labelled"
        return self.labels

    @property
    def maps(self) -> Targets:
        """The target maps of a task of maps."""
        assert isinstance(self.targets, Targets), f"{self.name} has no maps"
        return self.targets

    @property
    def objects(self) -> Objects:
        """The marked objects of a task of boxes."""
        assert isinstance(self.targets, Objects), f"{self.name} has no boxes"
        return self.targets

    @property
    def counts(self) -> np.ndarray:
        """(c,) images of each class."""
        if self.labels is None:
            return np.zeros(len(self.classes), np.int64)
        if self.multilabel:
            return np.asarray(self.labels.sum(axis=0, dtype=np.int64))
        counts: np.ndarray = np.bincount(self.labels[self.labels >= 0], minlength=len(self.classes))
        return counts

    def subset(self, indices: Iterable[int] | np.ndarray, **params: Any) -> ImageSet:
        """The images at `indices`, in that order; `params` say for the record how they were chosen."""
        rows = [int(i) for i in indices]
        return replace(
            self,
            sources=Lazy(len(rows), lambda position: self.sources[rows[position]]),
            names=tuple(self.names[i] for i in rows),
            labels=None if self.labels is None else self.labels[rows],
            targets=None if self.targets is None else self.targets.subset(rows),
            groups=None if self.groups is None else self.groups.of_images(rows),
            params={**self.params, **params},
        )

    def limit(self, per_class: int) -> ImageSet:
        """The first `per_class` images of every class, in the set's own order; of all where none is labelled.

        Images without a label count as one more class.  With several labels an image, those stay that are
        among the first `per_class` of any of their classes.  Of pairs and triplets the first so many stay,
        and the images in them.
        """
        if per_class < 1:
            raise InputError(f"the limit is {per_class} images a class; it must be at least 1")
        kept: np.ndarray
        if self.groups is not None:
            few = self.groups.take(np.arange(min(per_class, len(self.groups))))
            return replace(self, groups=few).subset(np.unique(few.members), limit=per_class)
        if self.labels is None:
            kept = np.arange(len(self)) < per_class
        elif self.multilabel:
            columns = np.column_stack([self.labels, ~self.labels.any(axis=1)]).astype(bool)
            kept = np.any(columns & (columns.cumsum(axis=0) <= per_class), axis=1)
        else:
            kept = np.zeros(len(self), dtype=bool)
            for label in np.unique(self.labels):
                kept[np.flatnonzero(self.labels == label)[:per_class]] = True
        return self.subset(np.flatnonzero(kept), limit=per_class)


@dataclass(frozen=True, eq=False)
class Splits(Mapping[str, ImageSet]):
    """A dataset: its image sets by "train", "val" and "test", or the one under "all"."""

    sets: Mapping[str, ImageSet]
    ignored: Mapping[str, int] = field(default_factory=dict)  # files left unread: extension → count
    hidden: tuple[str, ...] = ()  # hidden and system files passed over, each name once

    def __post_init__(self) -> None:
        orders = {each.classes for each in self.sets.values() if each.labels is not None}
        if len(orders) > 1:
            raise InputError(
                f"the splits of {self.name} number classes differently; open them together, as a mapping of splits"
            )

    def __getitem__(self, split: str) -> ImageSet:
        return self.sets[split]

    def __iter__(self) -> Iterator[str]:
        return iter(self.sets)

    def __len__(self) -> int:
        return len(self.sets)

    @property
    def name(self) -> str:
        """Of the dataset."""
        return next(iter(self.sets.values())).name

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names by label, the same for every split."""
        return next((each.classes for each in self.sets.values() if each.classes), ())


def check_scorable(train: ImageSet | None, scored: ImageSet) -> None:
    """Refuse what cannot be scored: missing labels, one class only, classes that `train` has no image of.

    With several labels an image only the first is checked: a class without positives has a score of its own.
    """
    for images in (train, scored):
        if images is not None and images.unlabelled:
            what = (
                f"{_called(images)} lacks labels for {images.unlabelled:,} of {counted(len(images), 'image')}"
            )
            way_out = "lay them out as class folders, or give a table with a label column (--label-column)"
            raise InputError(f"{what}; features can be extracted, but to score them {way_out}")
    if scored.multilabel:
        return
    reference = scored if train is None else train
    if reference.classes != scored.classes:
        raise InputError(
            f"{_called(reference)} and {_called(scored)} number classes differently; open them together"
        )
    present = reference.counts > 0
    if present.sum() < 2:
        only = scored.classes[int(present.argmax())]
        raise InputError(f"{_called(reference)} has only the class {only!r}; a score needs at least two")
    lacking = [scored.classes[i] for i in np.flatnonzero((scored.counts > 0) & ~present)]
    if lacking:
        raise InputError(
            f"{_called(scored)} has images of {', '.join(lacking)}, of which {_called(reference)} has none "
            "to learn from; add some there, or leave the class out of both"
        )


def one_set(images: ImageSet) -> Splits:
    """A dataset of one image set."""
    return Splits({images.split or "all": images})


def split_name(name: str, where: str) -> str:
    """ "train", "val" or "test" for what a split is called."""
    try:
        return SPLITS[name.strip().lower()]
    except KeyError:
        raise InputError(f"{where} names the split {name!r}; splits are train, val and test") from None


def _check_labels(labels: np.ndarray, classes: tuple[str, ...], name: str) -> None:
    if labels.ndim == 2 and labels.dtype == np.uint8:
        if labels.shape[1] != len(classes) or labels.max(initial=0) > 1:
            raise InputError(
                f"{name} has {counted(labels.shape[1], 'column')} of labels for {_classes(classes)}"
            )
    elif labels.ndim != 1 or labels.dtype != np.int64:
        raise InputError(f"labels are (n,) int64 or (n, c) uint8, not {labels.shape} {labels.dtype}")
    elif labels.size and not UNLABELLED <= labels.min() <= labels.max() < len(classes):
        raise InputError(f"{name} has labels {labels.min()} … {labels.max()} for {_classes(classes)}")


def _classes(classes: tuple[str, ...]) -> str:
    return counted(len(classes), "class")


def _called(images: ImageSet) -> str:
    return f"{images.name} ({images.split})" if images.split else images.name


def _repeated(names: Iterable[str]) -> str:
    return Counter(names).most_common(1)[0][0]
