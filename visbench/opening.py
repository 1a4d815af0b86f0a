"""A dataset as a run or an extraction opens it: limited, kept apart from what is written, its row ids found.

Names and labels come first; image files are read only for their ids, and none is decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from extract.datasets import ImageSet, Splits, open_dataset
from extract.images import policy
from extract.memo import Memo
from extract.store import Store
from visbench import console
from visbench.errors import UsageError
from visbench.options import Options

Opener = Callable[[Any, Options, str | None], Splits]


@runtime_checkable
class Named(Protocol):
    """A dataset that knows how a task is to open it (`visbench.datasets`)."""

    def opened_for(self, opener: Opener, options: Options, name: str | None) -> Splits:
        """As the task reads it."""


def labelled(data: Any, options: Options, name: str | None = None) -> Splits:
    """Images, with labels where they have some."""
    return open_dataset(data, name=name, **options.reading)


def open_splits(
    data: Any, options: Options, store: Store, *, name: str | None = None, opener: Opener = labelled
) -> Splits:
    """The splits of `data`; refused where `store` or the results would come to lie among its images."""
    opened = (
        data.opened_for(opener, options, name) if isinstance(data, Named) else opener(data, options, name)
    )
    for images in opened.values():
        for folder in images.folders:
            store.refuse_inside(folder)
            _refuse_inside(options.results, folder)
    _report_unread(opened)
    if options.limit is None:
        return opened
    return replace(opened, sets={split: images.limit(options.limit) for split, images in opened.items()})


def identify(images: ImageSet, memo: Memo, options: Options) -> tuple[np.ndarray, dict[str, str]]:
    """(n, 16) row ids; and name → reason of images that cannot be hashed, or could not be decoded once."""
    failed: dict[int, str] = {}
    ids = memo.row_ids(images.sources, unreadable=failed)
    failed |= memo.remarks("unreadable", ids, policy(options.max_pixels))
    return ids, {images.names[position]: reason for position, reason in failed.items()}


def with_training(scored: Splits, training: Splits) -> Splits:
    """One dataset of what is scored in one place and trained on in another, classes mapped by name."""
    name = next((each for each in ("test", "val", "all", "train") if each in scored), None)
    source = next((each for each in ("train", "all") if each in training), None)
    if name is None or source is None:
        raise UsageError(
            f"the training data have no train split but {', '.join(training)}; give the set that trains itself"
        )
    return open_dataset({"train": training[source], "test": scored[name]}, name=scored.name)


def named_apart(sets: Mapping[str, ImageSet]) -> dict[str, ImageSet]:
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


def refuse_unreadable(unreadable: Mapping[str, str], options: Options) -> None:
    """Stop at images that cannot be read, unless they are to be skipped."""
    if unreadable and options.on_bad != "skip":
        name, reason = next(iter(unreadable.items()))
        more = f" (and {len(unreadable) - 1} more)" if len(unreadable) > 1 else ""
        raise UsageError(
            f"{name} cannot be read: {reason}{more}; mend or remove it, or leave such images out with --on-bad skip"
        )


def _report_unread(data: Splits) -> None:
    """Say which files were taken for no images by their names."""
    if data.ignored:
        listed = ", ".join(f"{ending} ({count:,})" for ending, count in data.ignored.items())
        console.note(f"{data.name}: files left unread, by extension: {listed}")


def _refuse_inside(place: Any, folder: Path) -> None:
    """Refuse results in a folder of images, where they would be part of the data next time."""
    if place is not None and folder.resolve() in Path(place).resolve().parents:
        raise UsageError(
            f"results would be written to {place}, which lies in the data folder {folder.resolve()}; "
            "choose another file with --results, or keep none with --no-results"
        )
