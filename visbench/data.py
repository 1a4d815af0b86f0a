"""The images of a run: opened, limited, given their roles, and freed of what cannot be read.

Everything is decided from names, labels and content digests; no image is decoded here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from extract import duplicates
from extract.datasets import SPLITS, ImageSet, Splits, check_scorable, class_order, renumbered
from extract.ids import keys
from extract.memo import Memo
from extract.store import Store
from extract.wording import counted
from visbench import console
from visbench.errors import UsageError
from visbench.identifying import identified
from visbench.opening import identify, named_apart, open_splits, refuse_unreadable, with_training
from visbench.options import Options
from visbench.record import digest
from visbench.selection import HOLDOUT, divide, holdout
from visbench.task import Task

ROLES = ("train", "val", "test")


@dataclass
class RunData:
    """Images and row ids by role; `test` is what is scored."""

    name: str
    sets: dict[str, ImageSet]
    ids: dict[str, np.ndarray]  # role → (n, 16) uint8
    splits: Mapping[str, Any]  # role → the split's name in the data
    params: Mapping[str, Any]  # for the record's dataset_params
    unreadable: dict[str, str] = field(default_factory=dict)  # name → reason
    lost: int = 0  # pairs or triplets that went with what cannot be read
    whole: tuple[ImageSet, np.ndarray] | None = None  # images and ids that train and test were drawn from

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names by label."""
        images = self.sets["test"]
        return images.classes if images.targets is None else images.targets.classes

    @property
    def fingerprint(self) -> str:
        """A digest of the content of every role and of the name of each image's class, in whatever order."""
        rows = {
            role: [_hashed(self.ids[role]), _hashed(_truth(images))] for role, images in self.sets.items()
        }
        return digest([rows, list(self.classes)])

    @property
    def counts(self) -> dict[str, Any]:
        """Images a role, classes, and how many files could not be read."""
        counts: dict[str, Any] = {role: len(images) for role, images in self.sets.items()}
        for role, images in self.sets.items():
            if images.groups is not None:
                counts[f"{role}_{images.groups.noun}s"] = len(images.groups)
        return counts | {"classes": len(self.classes), "unreadable": len(self.unreadable)}

    @property
    def names(self) -> list[str]:
        """Of all images, role by role."""
        return [name for images in self.sets.values() for name in images.names]

    def shared_with_training(self) -> np.ndarray:
        """(n,) bool: scored images whose very bytes also train."""
        trained = [self.ids[role] for role in ("train", "val") if role in self.ids]
        if not trained:
            return np.zeros(len(self.ids["test"]), dtype=bool)
        return duplicates.shared(self.ids["test"], np.concatenate(trained))

    def drop(self, unreadable: Mapping[str, str]) -> None:
        """Leave out images by name, rows and labels together."""
        self.unreadable = dict(sorted({**self.unreadable, **unreadable}.items()))
        if self.whole is not None:  # drawn anew, as a later run will that knows of them from the start
            self.draw(*_without(unreadable, *self.whole))
            return
        for role, images in self.sets.items():
            self.sets[role], self.ids[role] = _without(unreadable, images, self.ids[role])
            if images.groups is not None:
                self.lost += images.size - self.sets[role].size
        self.refuse_empty()

    def check(self) -> None:
        """Refuse a scored set that cannot be scored, or whose classes do not all train."""
        _check_scorable(self.sets)

    def draw(self, images: ImageSet, ids: np.ndarray) -> None:
        """Divide a labelled set without splits: a fifth of each class is scored, the rest trains."""
        self.whole = images, ids
        scored = holdout(ids, _strata(images))
        for role, mask in (("train", ~scored), ("test", scored)):
            self.sets[role], self.ids[role] = images.subset(np.flatnonzero(mask)), ids[mask]
        if not scored.any():
            self.refuse_empty(images)
            raise UsageError(
                f"no class of {images.name} has two different images, so none can be drawn to be scored; "
                "give more images a class, or splits of your own"
            )

    def refuse_empty(self, *sets: ImageSet) -> None:
        """Stop where a role, or one of `sets`, has no image."""
        for images in sets or self.sets.values():
            if not images.size:
                split = f"the {images.split} split of " if images.split else ""
                bad = f": {counted(len(self.unreadable), 'file')} cannot be read" if self.unreadable else ""
                what = "image" if images.groups is None else images.groups.noun
                raise UsageError(
                    f"no {what} is left in {split}{images.name}{bad}; `visbench check` shows why"
                )


class Divided(NamedTuple):
    """A dataset with its roles given, before any image was read."""

    name: str
    sets: dict[str, ImageSet]
    splits: Mapping[str, Any]
    params: Mapping[str, Any]


def divided(task: Task, data: Any, train_data: Any, options: Options, *, store: Store) -> Divided:
    """Open `data`, and decide by names and labels alone what trains, selects and is scored."""
    opener = task.opener()
    opened = open_splits(data, options, store, name=options.dataset_name, opener=opener)
    name, scored = opened.name, options.split or _only(opened)
    if train_data is not None:
        if not task.fitted:
            raise UsageError(f"{task.name} learns nothing, so a training set would not be used; leave it out")
        opened = with_training(opened, open_splits(train_data, options, store, opener=opener))
    for images in opened.values():
        _refuse_multilabel(images, task)
    division = divide(
        opened,
        split=scored,
        train_split=options.train_split,
        val_split=options.val_split,
        allow_same=options.allow_same,
        needs_train=task.fitted,
    )
    roles = (("train", division.train), ("val", division.val), ("test", division.test))
    sets = named_apart({role: images for role, images in roles if images is not None})
    _check_scorable(sets)
    return Divided(name, sets, dict(division.how), _params(sets["test"], options))


def _only(opened: Splits) -> str | None:
    """The split that is scored because there is no other, where its name says nothing of a role (NIGHTS' parts)."""
    name, *others = opened
    return None if others or name in (*SPLITS, "all") else name


def gather(task: Task, divided: Divided, options: Options, *, memo: Memo) -> RunData:
    """Find every image's row id, leave out what cannot be read, and put the rest in the order of content."""
    sets, ids = dict(divided.sets), dict[str, np.ndarray]()
    unreadable: dict[str, str] = {}
    for role, images in sets.items():
        found, bad = identify(images, memo, options)
        images = identified(images, found, memo)
        sets[role], ids[role] = by_content(images, found)
        unreadable |= bad
    refuse_unreadable(unreadable, options)
    run = RunData(divided.name, sets, ids, divided.splits, divided.params)
    if unreadable:
        run.drop(unreadable)
    if task.fitted and "train" not in run.sets:
        _draw_test(run)
    run.refuse_empty()
    run.check()
    return run


def by_content(images: ImageSet, ids: np.ndarray) -> tuple[ImageSet, np.ndarray]:
    """Rows by their digests, and classes by name: a number cannot depend on the names of files, or on order."""
    rows = keys(ids)
    if images.targets is not None:
        assert images.targets.ids is not None
        order = np.lexsort((keys(images.targets.ids), rows))
    else:
        images = renumbered(images, class_order(images.classes))
        order = np.lexsort((rows,) if images.labels is None else (images.known_labels, rows))
    return images.subset(order), ids[order]


def report_duplicates(run: RunData) -> None:
    """Warn of pictures that stand in two roles; not of a split that was knowingly given two."""
    names = {role: images.names for role, images in run.sets.items()}
    apart = {names[role]: role for role in reversed(names)}.values()
    said = {role: run.sets[role].split or role for role in names if role in apart}  # as the data call them
    if len(set(said.values())) < len(said):  # two datasets, whose splits have one name
        said = {role: role for role in said}
    found = duplicates.between(
        {split: run.ids[role] for role, split in said.items()},
        {split: names[role] for role, split in said.items()},
    )
    if found:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        console.warn(
            f"the same picture is in two splits: {min(found)}{more}; the score without them is recorded too"
        )


def _draw_test(run: RunData) -> None:
    """Divide a set without splits: a fifth of each class is scored, the rest trains."""
    images, ids = run.sets.pop("test"), run.ids.pop("test")
    _check_scorable({"test": images})
    run.draw(images, ids)
    run.splits = {"split": "test (drawn)", "train_split": "train (drawn)", "val_split": None}
    run.params = {**run.params, "drawn_test": HOLDOUT}
    part = "a fifth" if images.labels is None else "a fifth of each class"
    console.note(
        f"{images.name} has no splits: {part}, drawn by content, is scored "
        f"({len(run.sets['test']):,} of {counted(len(images), 'image')})"
    )


def _check_scorable(sets: Mapping[str, ImageSet]) -> None:
    """Refuse labels that cannot be scored; maps are looked at when they are read."""
    if sets["test"].targets is None and sets["test"].groups is None:
        check_scorable(sets.get("train"), sets["test"])


def _params(images: ImageSet, options: Options) -> Mapping[str, Any]:
    """How the data came to be these, for the record; with maps, also how they are read."""
    if images.groups is not None:
        return {**images.params, **images.groups.params}
    if images.targets is None:
        return images.params
    told = {name: options.truth[name] for name in ("normal_source",) if options.truth.get(name)}
    return {
        **images.params,
        **images.targets.params,
        **told,
        "target_transform": images.targets.reader.describe(),
    }


def _strata(images: ImageSet) -> np.ndarray:
    """(n,) what a part that is drawn is to have its share of: classes, where images have one."""
    return np.zeros(len(images), int) if images.labels is None else images.known_labels


def _truth(images: ImageSet) -> np.ndarray:
    """What each image should say, in a form that can be hashed."""
    known = images.groups if images.targets is None else images.targets
    if known is None:
        return images.known_labels
    assert known.ids is not None
    return known.ids


def _hashed(rows: np.ndarray) -> str:
    return hashlib.sha256(rows.tobytes()).hexdigest()


def _without(unreadable: Mapping[str, str], images: ImageSet, ids: np.ndarray) -> tuple[ImageSet, np.ndarray]:
    keep = np.array([name not in unreadable for name in images.names], dtype=bool)
    if keep.all():
        return images, ids
    kept = images.subset(np.flatnonzero(keep))
    if kept.groups is None:
        return kept, ids[keep]
    used = np.unique(kept.groups.members)  # a picture that no pair needs any more is no part of the data
    return kept.subset(used), ids[keep][used]


def _refuse_multilabel(images: ImageSet, task: Task) -> None:
    if images.multilabel:
        raise UsageError(
            f"images of {images.name} have several labels each, and {task.name} takes one an image; "
            "name a column that has one with --label-column"
        )


def __getattr__(name: str) -> Any:
    """The documented datasets, `visbench.data.ImageFolderDataset` and so on."""
    from visbench import datasets

    if name in datasets.NAMES:
        return datasets.NAMES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
