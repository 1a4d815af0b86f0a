"""How tasks of pairs and triplets open their data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from extract.datasets import ImageSet, Splits, open_dataset
from extract.datasets.groups import Groups
from extract.datasets.pairs import looks_related, open_related
from extract.datasets.triplets import open_triplets
from visbench.errors import UsageError
from visbench.options import Options

PARTITIONS = {"imagenet": "test_imagenet", "no_imagenet": "test_no_imagenet"}


def correspondence(data: Any, options: Options, name: str | None = None) -> Splits:
    """Pairs of images where they are laid out so, else every image with a view that is made of it."""
    told = {key: value for key, value in options.truth.items() if value is not None}
    if looks_related(data, told.get("columns")):
        if options.reading:
            raise UsageError(
                f"{next(iter(options.reading))} is for tables of images, and {data} has pairs; leave it out"
            )
        pairs: Splits = open_related(data, name=name, **told)
        return pairs
    if told:
        raise UsageError(f"{next(iter(told))} is for tables of pairs, and {data} is none; leave it out")
    opened = open_dataset(data, name=name, **options.reading)
    return replace(opened, sets={split: _alone(images) for split, images in opened.items()})


def similarity(data: Any, options: Options, name: str | None = None) -> Splits:
    """Triplets, as NIGHTS has them or in a table."""
    if isinstance(data, Splits):
        return data
    told = {key: options.truth.get(key) for key in ("min_votes", "columns")}
    opened = open_triplets(data, name=name, **told)
    return _part(opened, options)


def _part(opened: Splits, options: Options) -> Splits:
    """The triplets with what is scored being a part of the test split."""
    partition = options.truth.get("partition")
    if partition is None:
        return opened
    if partition not in PARTITIONS:
        raise UsageError(f"partition is {partition!r}; it can be {' or '.join(PARTITIONS)}")
    if options.split not in (None, "test"):
        raise UsageError(
            f"partition {partition} is of the test split, and the split {options.split} was asked for; leave one out"
        )
    part = opened.get(PARTITIONS[partition])
    if part is None:
        there = [name for name in PARTITIONS.values() if name in opened]
        why = "it has no test split, or no column is_imagenet that says which triplets are of ImageNet"
        if there:
            why = f"all of its test split are in {there[0]}"
        raise UsageError(f"{opened.name} has no triplet for partition {partition}: {why}")
    params = {**part.params, "partition": partition}
    return replace(opened, sets={**opened.sets, "test": replace(part, params=params)})


def _alone(images: ImageSet) -> ImageSet:
    """Each image by itself: its other half is a view made of it."""
    if images.groups is not None:
        return images
    members = np.arange(len(images))[:, None]
    groups = Groups("pair", members, images.names, params={"pairs": "views of one image"})
    return replace(images, labels=None, classes=(), groups=groups)
