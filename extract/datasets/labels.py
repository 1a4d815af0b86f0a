"""From labels as people write them to indices: by name, in one order, for all splits at once.

Text and integers name classes; a missing value, an empty text and the integer -1 mean unlabelled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from extract.datasets.base import UNLABELLED, ImageSet
from extract.errors import InputError
from extract.wording import counted

_INTEGER = re.compile(r"-?\d+")


def class_order(names: Iterable[str]) -> tuple[str, ...]:
    """Every name once: in numeric order where all are integers ("2" before "10"), else by code point."""
    distinct = set(names)
    if all(_INTEGER.fullmatch(name) for name in distinct):
        return tuple(sorted(distinct, key=lambda name: (int(name), name)))
    return tuple(sorted(distinct))


def encode(values: Sequence[Any]) -> tuple[np.ndarray, tuple[str, ...]]:
    """(n,) int64 labels and the class names they count in."""
    words = [word(value) for value in values]
    if all(each is None or _INTEGER.fullmatch(each) for each in words):
        words = [None if each == str(UNLABELLED) else each for each in words]
    order = class_order(each for each in words if each is not None)
    index: dict[str | None, int] = {name: i for i, name in enumerate(order)} | {None: UNLABELLED}
    return np.array([index[each] for each in words], np.int64), order


def encode_indices(values: Sequence[Any], classes: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """The same where labels already are indices into `classes`, whose order then stays."""
    labels = np.array([UNLABELLED if word(value) is None else int(value) for value in values], np.int64)
    if labels.min(initial=UNLABELLED) < UNLABELLED or labels.max(initial=UNLABELLED) >= len(classes):
        raise InputError(
            f"labels run from {labels.min()} to {labels.max()}, but what is named is {counted(len(classes), 'class')}"
        )
    return labels, tuple(map(str, classes))


def encode_many(rows: Sequence[Sequence[Any]]) -> tuple[np.ndarray, tuple[str, ...]]:
    """(n, c) uint8 labels of images that have any number of them, and the class names."""
    named = [[each for each in map(word, row) if each is not None] for row in rows]
    order = class_order(each for row in named for each in row)
    index = {name: i for i, name in enumerate(order)}
    labels = np.zeros((len(rows), len(order)), np.uint8)
    for position, row in enumerate(named):
        labels[position, [index[each] for each in row]] = 1
    return labels, order


def word(value: Any) -> str | None:
    """A label as a class name; None where there is none."""
    value = value.item() if hasattr(value, "item") else value  # numpy and torch scalars
    if value is None or value != value or (isinstance(value, str) and not value.strip()):  # NaN is not itself
        return None
    if isinstance(value, float):
        if not value.is_integer():
            raise InputError(
                f"a label is {value}; classes are integers or text, and this looks like a measure"
            )
        value = int(value)
    if not isinstance(value, str | int):
        raise InputError(f"a label is a {type(value).__name__}; classes are integers or text")
    return str(value).strip()


def unite(sets: Mapping[str, ImageSet]) -> dict[str, ImageSet]:
    """The same sets with one numbering of classes: each label keeps its name."""
    labelled = [each for each in sets.values() if each.labels is not None]
    if len({each.multilabel for each in labelled}) > 1:
        raise InputError("some splits have one label an image and some have several; they cannot be compared")
    orders = {each.classes for each in labelled}
    order = orders.pop() if len(orders) == 1 else class_order(name for each in orders for name in each)
    return {split: renumbered(each, order) for split, each in sets.items()}


def renumbered(images: ImageSet, order: tuple[str, ...]) -> ImageSet:
    """The same images with their classes in another order, in which all of them occur."""
    if images.labels is None or images.classes == order:
        return replace(images, classes=order)
    to = np.array([order.index(name) for name in images.classes], np.int64)
    if images.multilabel:
        labels = np.zeros((len(images), len(order)), np.uint8)
        labels[:, to] = images.labels
    else:
        labels = np.append(to, UNLABELLED)[images.labels]  # -1 takes the last entry
    return replace(images, labels=labels, classes=order)
