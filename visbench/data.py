"""The images of a run: opened, limited, given their roles, and freed of what cannot be read.

Everything is decided from file names and content digests; no image is decoded here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from extract import duplicates
from extract.datasets import ImageSet, Splits, check_scorable, open_dataset
from extract.images import policy
from extract.memo import Memo
from extract.store import Store
from visbench import console
from visbench.errors import UsageError
from visbench.options import Options
from visbench.record import digest
from visbench.selection import HOLDOUT, divide, holdout
from visbench.tasks import Task

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
    whole: tuple[ImageSet, np.ndarray] | None = None  # images and ids that train and test were drawn from

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names by label."""
        return self.sets["test"].classes

    @property
    def fingerprint(self) -> str:
        """A digest of content and labels of every role, in order; names of files and folders are not in it."""
        parts = {
            role: [self.ids[role].tobytes().hex(), _labels(images)] for role, images in self.sets.items()
        }
        return digest([parts, list(self.classes)])

    @property
    def counts(self) -> dict[str, Any]:
        """Images a role, classes, and how many files could not be read."""
        counts: dict[str, Any] = {role: len(images) for role, images in self.sets.items()}
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
        self.unreadable |= unreadable
        if self.whole is not None:  # drawn anew, as a later run will that knows of them from the start
            self.draw(*_without(unreadable, *self.whole))
            return
        for role, images in self.sets.items():
            self.sets[role], self.ids[role] = _without(unreadable, images, self.ids[role])
        self.refuse_empty()

    def check(self) -> None:
        """Refuse a scored set that cannot be scored, or whose classes do not all train."""
        check_scorable(self.sets.get("train"), self.sets["test"])

    def draw(self, images: ImageSet, ids: np.ndarray) -> None:
        """Divide a labelled set without splits: a fifth of each class is scored, the rest trains."""
        self.whole = images, ids
        scored = holdout(ids, images.known_labels)
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
            if not len(images):
                split = f"the {images.split} split of " if images.split else ""
                bad = f": {len(self.unreadable)} files cannot be read" if self.unreadable else ""
                raise UsageError(f"no image is left in {split}{images.name}{bad}; `visbench check` shows why")


def gather(task: Task, data: Any, train_data: Any, options: Options, *, store: Store, memo: Memo) -> RunData:
    """Open `data`, decide what trains, selects and is scored, and find every image's row id."""
    opened = open_dataset(data, name=options.dataset_name, **options.reading)
    if train_data is not None:
        if not task.fitted:
            raise UsageError(f"{task.name} learns nothing, so a training set would not be used; leave it out")
        opened = _with_training(opened, open_dataset(train_data, **options.reading))
    for images in opened.values():
        if images.root is not None:
            store.refuse_inside(images.root)
        refuse_inside(options.results, images)
        _refuse_multilabel(images, task)
    report_unread(opened)
    splits = {
        name: images.limit(options.limit) if options.limit else images for name, images in opened.items()
    }
    division = divide(
        splits,
        split=options.split,
        train_split=options.train_split,
        val_split=options.val_split,
        allow_same=options.allow_same,
        needs_train=task.fitted,
    )
    sets = {
        role: images
        for role, images in (("train", division.train), ("val", division.val), ("test", division.test))
        if images is not None
    }
    sets = _named_apart(sets)
    unreadable: dict[str, str] = {}
    ids = {role: _row_ids(images, memo, options, unreadable) for role, images in sets.items()}
    params = {**_params(sets["test"]), **({"limit": options.limit} if options.limit else {})}
    run = RunData(opened.name, sets, ids, dict(division.how), params)
    if unreadable:
        refuse_unreadable(unreadable, options)
        run.drop(unreadable)
    if task.fitted and "train" not in run.sets:
        _draw_test(run)
    run.refuse_empty()
    run.check()
    return run


def report_duplicates(run: RunData) -> None:
    """Warn of pictures that stand in two roles; not of a split that was knowingly given two."""
    names = {role: images.names for role, images in run.sets.items()}
    apart = {names[role]: role for role in reversed(names)}.values()
    found = duplicates.between({role: run.ids[role] for role in names if role in apart}, names)
    if found:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        console.warn(
            f"the same picture is in two splits: {found[0]}{more}; the score without them is recorded too"
        )


def refuse_unreadable(unreadable: Mapping[str, str], options: Options) -> None:
    """Stop at images that cannot be read, unless they are to be skipped."""
    if options.on_bad != "skip":
        name, reason = next(iter(unreadable.items()))
        more = f" (and {len(unreadable) - 1} more)" if len(unreadable) > 1 else ""
        raise UsageError(
            f"{name} cannot be read: {reason}{more}; mend or remove it, or leave such images out with --on-bad skip"
        )


def known_unreadable(
    images: ImageSet, ids: np.ndarray, failed: Mapping[int, str], memo: Memo, options: Options
) -> dict[str, str]:
    """Name → reason of images that could not be hashed now, or could not be decoded once."""
    unreadable = {images.names[position]: reason for position, reason in failed.items()}
    known = memo.unreadable(ids, policy(options.max_pixels))
    if known:
        for name, row in zip(images.names, ids, strict=True):
            if row.tobytes() in known:
                unreadable[name] = known[row.tobytes()]
    return unreadable


def _named_apart(sets: Mapping[str, ImageSet]) -> dict[str, ImageSet]:
    """The sets under names that are those of one image: arrays have an "image 3" in every split.

    A set in two roles keeps its names, which do mean the same images.
    """
    distinct = {id(images): images for images in sets.values()}
    names = [name for images in distinct.values() for name in images.names]
    if len(set(names)) == len(names):
        return dict(sets)
    apart = {
        key: replace(images, names=tuple(f"{images.split}: {name}" for name in images.names))
        for key, images in distinct.items()
    }
    return {role: apart[id(images)] for role, images in sets.items()}


def _row_ids(images: ImageSet, memo: Memo, options: Options, unreadable: dict[str, str]) -> np.ndarray:
    failed: dict[int, str] = {}
    ids = memo.row_ids(images.sources, unreadable=failed)
    unreadable |= known_unreadable(images, ids, failed, memo, options)
    return ids


def _draw_test(run: RunData) -> None:
    """Divide a set without splits: a fifth of each class is scored, the rest trains."""
    images, ids = run.sets.pop("test"), run.ids.pop("test")
    check_scorable(None, images)
    run.draw(images, ids)
    run.splits = {"split": "test (drawn)", "train_split": "train (drawn)", "val_split": None}
    run.params = {**run.params, "drawn_test": HOLDOUT}
    console.note(
        f"{images.name} has no splits: a fifth of each class, drawn by content, is scored "
        f"({len(run.sets['test'])} of {len(images)} images)"
    )


def _with_training(scored: Splits, training: Splits) -> Splits:
    """One dataset of what is scored in one place and trained on in another, classes mapped by name."""
    name = next((each for each in ("test", "val", "all", "train") if each in scored), None)
    source = next((each for each in ("train", "all") if each in training), None)
    if name is None or source is None:
        raise UsageError(
            f"the training data have no train split but {', '.join(training)}; give the set that trains itself"
        )
    return open_dataset({"train": training[source], "test": scored[name]}, name=scored.name)


def _params(images: ImageSet) -> dict[str, Any]:
    return {key: value for key, value in images.params.items() if key != "limit"}


def _labels(images: ImageSet) -> Any:
    return None if images.labels is None else images.labels.tolist()


def _without(unreadable: Mapping[str, str], images: ImageSet, ids: np.ndarray) -> tuple[ImageSet, np.ndarray]:
    keep = np.array([name not in unreadable for name in images.names], dtype=bool)
    return (images, ids) if keep.all() else (images.subset(np.flatnonzero(keep)), ids[keep])


def _refuse_multilabel(images: ImageSet, task: Task) -> None:
    if images.multilabel:
        raise UsageError(
            f"images of {images.name} have several labels each, and {task.name} takes one an image; "
            "name a column that has one with --label-column"
        )


def report_unread(data: Splits) -> None:
    """Say which files were taken for no images by their names."""
    if data.ignored:
        listed = ", ".join(f"{ending} ({count:,})" for ending, count in data.ignored.items())
        console.note(f"{data.name}: files left unread, by extension: {listed}")


def refuse_inside(place: Any, images: ImageSet) -> None:
    """Refuse results in a folder that is walked for images, where they would be part of the data next time."""
    if place is None or images.root is None or "table" in images.params:
        return
    target, root = Path(place).resolve(), images.root.resolve()
    if root in target.parents:
        raise UsageError(
            f"results would be written to {place}, which lies in the data folder {root}; "
            "choose another file with --results, or keep none with --no-results"
        )
