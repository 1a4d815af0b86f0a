"""Which images train, which select the settings, which are scored.

`test` is scored where there is one, and then `val` selects; otherwise `val` is scored and a fifth of `train`
selects.  What is drawn is drawn by content: stratified, the same on every machine and under any file names,
and copies of one picture stay on one side.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from extract.datasets import SPLITS, ImageSet
from extract.ids import ID_BYTES, keys
from visbench.errors import UsageError

HOLDOUT = 0.2


@dataclass(frozen=True)
class Division:
    """The three roles.  Without `val`, settings are chosen on a part of `train` (see `holdout`)."""

    train: ImageSet | None
    val: ImageSet | None
    test: ImageSet
    how: Mapping[str, Any] = field(default_factory=dict)  # for the record


def divide(
    splits: Mapping[str, ImageSet],
    *,
    split: str | None = None,
    train_split: str | None = None,
    val_split: str | None = None,
    allow_same: bool = False,
    needs_train: bool = True,
) -> Division:
    """Give each split its role; a set without splits is returned as `test` alone (see `draw_test`)."""
    split, train_split, val_split = map(_usual, (split, train_split, val_split))
    scored = split or next((name for name in ("test", "val", "all", "train") if name in splits), None)
    if scored is None or scored not in splits:
        raise UsageError(
            f"there is no split {scored!r} to score; the data has {_names(splits)}: name one with --split"
        )
    if not needs_train:
        return Division(None, None, splits[scored], {"split": scored})
    if scored == "all" and train_split is None:
        return Division(None, None, splits["all"], {"split": "all"})
    trained = train_split or "train"
    if trained == scored and split is None and train_split is None:
        raise UsageError(
            "there is only a training split, and nothing to score: add a test or val split, give the images "
            "without splits so that a part is drawn, or say --split train --allow-same"
        )
    if trained not in splits:
        raise UsageError(
            f"there is no split {trained!r} to train on; the data has {_names(splits)}: name one with --train-split"
        )
    if trained == scored and not allow_same:
        raise UsageError(
            f"the probe would be trained and scored on the same {len(splits[scored])} images. "
            "Give another --train-split, or --allow-same."
        )
    selects = val_split or ("val" if "val" in splits and "val" not in (scored, trained) else None)
    if selects is not None and selects not in splits:
        raise UsageError(
            f"there is no split {selects!r} to select on; the data has {_names(splits)}: name one with --val-split"
        )
    if selects == scored and not allow_same:
        raise UsageError(
            f"settings would be chosen on the {scored!r} split, which is scored. "
            "Give another --val-split, or --allow-same."
        )
    if selects is not None and selects == trained and not allow_same:
        raise UsageError(
            f"settings would be chosen on the {trained!r} split, which trains. Give another --val-split, or none: "
            "a fifth of what trains is then held out."
        )
    val = splits[selects] if selects else None
    return Division(
        splits[trained], val, splits[scored], {"split": scored, "train_split": trained, "val_split": selects}
    )


def holdout(ids: np.ndarray, labels: np.ndarray, fraction: float = HOLDOUT) -> np.ndarray:
    """(n,) bool: the rows held out, about `fraction` of each class, at least one where a class has two.

    Rows of a class are taken in the order of their content digests; equal pictures go together.
    """
    held = np.zeros(len(ids), dtype=bool)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        pictures, picture = np.unique(keys(ids[rows]), return_inverse=True)  # sorted: the digest is the order
        take = min(max(round(fraction * len(pictures)), 1), len(pictures) - 1)
        held[rows] = picture < take
    return held


def content_ids(features: np.ndarray) -> np.ndarray:
    """(n, 16) a digest of each row, for arrays that came without images."""
    rows = np.ascontiguousarray(features)
    digests = [hashlib.blake2b(row.tobytes(), digest_size=ID_BYTES).digest() for row in rows]
    return np.frombuffer(b"".join(digests), np.uint8).reshape(len(rows), ID_BYTES)


def _usual(split: str | None) -> str | None:
    """Splits are named on the command line as folders are: "Validation" is val."""
    return None if split is None else SPLITS.get(split.strip().lower(), split)


def _names(splits: Mapping[str, ImageSet]) -> str:
    return ", ".join(repr(name) for name in splits) or "none"
