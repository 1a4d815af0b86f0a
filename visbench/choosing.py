"""Which rows fit and which are held out while settings are chosen; the scored split is never among them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from extract.ids import keys
from probes import masks
from visbench.errors import UsageError
from visbench.outcome import Rows
from visbench.selection import HOLDOUT, holdout


class Fold(NamedTuple):
    """Rows of `train` that fit, and the rows that compare the settings: of `val`, or of `train` again."""

    fits: np.ndarray  # indices into the training rows, val joined behind them
    held: np.ndarray


@dataclass(frozen=True)
class Selection:
    """A way to choose: `val`, `holdout`, or cross-validation with so many `folds`."""

    kind: str
    folds: int = 0

    def __str__(self) -> str:
        return f"cv{self.folds}" if self.kind == "cv" else self.kind

    def on(self, val_split: str | None) -> str:
        """The held-out rows in words."""
        if self.kind == "cv":
            return f"{self.folds} folds of the training data"
        return f"the {val_split} split" if self.kind == "val" else "held-out training data"


def parse_selection(text: str | None, *, has_val: bool) -> Selection:
    """What `--select` asks for; by default the val split where there is one, else a part held out."""
    if text is None:
        return Selection("val" if has_val else "holdout")
    if text == "val" and not has_val:
        raise UsageError("--select val needs a val split, and there is none; holdout and cv5 need none")
    if text in ("val", "holdout"):
        return Selection(text)
    found = re.fullmatch(r"cv(\d+)", text)
    if not found or int(found[1]) < 2:
        raise UsageError(
            f"--select {text!r}: settings are chosen on val, on a holdout, or by cv5 (any number)"
        )
    return Selection("cv", int(found[1]))


def make_folds(
    selection: Selection, train: Rows, val: Rows | None, *, seed: int = 0, fraction: float = HOLDOUT
) -> list[Fold]:
    """The folds, as indices into `train` and, behind its rows, `val`."""
    rows = train.join(val)
    if selection.kind == "val":
        assert val is not None
        return [Fold(np.arange(len(train)), np.arange(len(train), len(rows)))]
    if selection.kind == "holdout":
        held = holdout(rows.ids, rows.labels, fraction)
        if not held.any():
            raise UsageError(
                "no class has two different training images, so none can be held out to choose settings; "
                "give a val split, or fix the setting (for example --C 1)"
            )
        return [Fold(np.flatnonzero(~held), np.flatnonzero(held))]
    pictures, first, picture = np.unique(keys(rows.ids), return_index=True, return_inverse=True)
    if selection.folds > len(pictures):
        raise UsageError(
            f"--select {selection} needs {selection.folds} different images and has {len(pictures)}"
        )
    trains = masks.folds(rows.labels[first], selection.folds, seed=seed)  # copies of a picture stay together
    return [Fold(np.flatnonzero(mask[picture]), np.flatnonzero(~mask[picture])) for mask in trains]


def held_rows(folds: Sequence[Fold]) -> int:
    """How many rows compare the settings; those that several folds hold out count once."""
    return len(np.unique(np.concatenate([fold.held for fold in folds])))


def draw_shots(rows: Rows, among: np.ndarray, shots: int, draws: int, *, seed: int = 0) -> list[np.ndarray]:
    """Draws of `shots` rows a class from the rows `among`; by content, whatever their order."""
    order = among[np.argsort(keys(rows.ids[among]), kind="stable")]
    drawn = masks.few_shot(rows.labels[order], shots, draws=draws, seed=seed)
    return [np.sort(order[mask]) for mask in drawn]


def fraction_of(selection: Selection, fraction: float = HOLDOUT) -> float | None:
    """The share held out, where it is one."""
    return fraction if selection.kind == "holdout" else None
