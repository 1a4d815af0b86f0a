"""Which of two images is more like a third, for people and for features.  Axes: n images, d dims, t triplets.

Two alternatives, forced choice, as NIGHTS asks it (Fu et al., "DreamSim", NeurIPS 2023): a triplet is a reference, a
left and a right image, and people chose left or right.  Features choose the image that is nearer to the reference.

A backbone that tells two images apart is not helped by rounding, nor one that does not: sums are in 64 bit, where a
product of two float32 is exact, and images with the same features are exactly as similar.  Such a tie is half an
answer `right`, what a coin would say on average; the classic rule calls it `left`, which rewards a backbone that
collapsed with the share of triplets in which people chose left.

All of it is numpy: a few million products take less time than compiling them, or than importing JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from probes import checks
from probes.errors import InputError
from probes.metrics.sums import ratio

BLOCK_NUMBERS = (
    2**17
)  # features of one side held at a time, in 64 bit: what passes between operations stays in cache
TIE = 1e-12  # of a similarity: what is nearer differs in the rounding of its sums only

Metric = Literal["cosine", "euclidean"]
Ties = Literal["half", "left"]


class Tally(NamedTuple):
    """Of each triplet, or sums of them; a tie that counts half says right by half."""

    said: Float[np.ndarray, "*t"]  # that features say right: 0, 0.5 or 1
    chosen: Float[np.ndarray, "*t"]  # that people chose right: 0 or 1
    both: Float[np.ndarray, "*t"]
    ties: Float[np.ndarray, "*t"]
    triplets: Float[np.ndarray, "*t"]

    @property
    def agreed(self) -> Float[np.ndarray, "*t"]:
        """That features and people say the same."""
        return np.asarray(self.triplets - self.said - self.chosen + 2 * self.both)


def compare(
    features: Num[np.ndarray, "n d"], members: Int[np.ndarray, "t 3"], *, metric: Metric = "cosine"
) -> tuple[Float[np.ndarray, " t"], Float[np.ndarray, " t"]]:
    """How similar the left and the right image of each triplet are to its reference.

    `members` are places in `features`: reference, left, right. The similarity is the cosine, 0 with a row of zeros,
    or minus the Euclidean distance. Each triplet's numbers come from its own rows alone, so equal rows give equal
    numbers, in whatever order triplets and images stand.
    """
    features = checks.check_features(features)
    members = _checked_members(members, len(features))
    measure = _measure(metric)
    left, right = np.empty(len(members)), np.empty(len(members))
    step = max(1, BLOCK_NUMBERS // features.shape[1])
    for start in range(0, len(members), step):
        block = slice(start, start + step)
        reference, one, other = (
            features[column].astype(np.float64, order="C") for column in members[block].T
        )
        with np.errstate(over="ignore", invalid="ignore"):  # told below
            left[block], right[block] = measure(reference, one), measure(reference, other)
    if not (np.isfinite(left) & np.isfinite(right)).all():
        raise InputError(
            f"features go up to {np.abs(features).max():.3g}, whose squares are too large to add; scale them down"
        )
    return left, right


def tally(
    left: Float[np.ndarray, " t"],
    right: Float[np.ndarray, " t"],
    chosen_right: Bool[np.ndarray, " t"],
    *,
    ties: Ties = "half",
) -> Tally:
    """What each triplet adds to the counts, from similarities to the reference and from what people chose."""
    if ties not in ("half", "left"):
        raise InputError(f"ties is {ties!r}; a tie can count half, or as an answer left")
    tied = np.abs(left - right) <= TIE * np.maximum(np.abs(left), np.abs(right))
    said = np.where(tied, 0.5 if ties == "half" else 0.0, right > left)
    chosen = chosen_right.astype(np.float64)
    return Tally(said, chosen, said * chosen, tied.astype(np.float64), np.ones(len(left)))


def value(total: Tally) -> dict[str, Float[np.ndarray, "*b"]]:
    """Of any sums of tallies, leading axes kept.

    `accuracy` is the share of triplets in which features and people agree; `precision`, `recall` and `f1` are those
    of the answer right, as scikit-learn has them where nothing ties, and 0 where there is nothing to divide by.
    Ties enter them as expected counts: half a prediction of right each, and half a hit where people chose right.
    `tie_rate` is the share of ties, by whichever rule they count.
    """
    return {
        "accuracy": ratio(total.agreed, total.triplets, otherwise=0.0),
        "precision": ratio(total.both, total.said, otherwise=0.0),
        "recall": ratio(total.both, total.chosen, otherwise=0.0),
        "f1": ratio(2 * total.both, total.said + total.chosen, otherwise=0.0),
        "tie_rate": ratio(total.ties, total.triplets, otherwise=0.0),
    }


def score(
    features: Num[np.ndarray, "n d"],
    members: Int[np.ndarray, "t 3"],
    chosen_right: Bool[np.ndarray, " _t"],
    *,
    metric: Metric = "cosine",
    ties: Ties = "half",
) -> dict[str, float]:
    """`compare`, `tally` of each, and the `value` of their sum."""
    checks.check_together(members, chosen_right, "triplets and answers")
    found = tally(*compare(features, members, metric=metric), chosen_right, ties=ties)
    return {name: float(each) for name, each in value(summed(found)).items()}


def summed(found: Tally) -> Tally:
    """The tally of all triplets together."""
    return Tally(*(np.asarray(each.sum()) for each in found))


def _cosine(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(t,) of rows; divided last, so that a product of 0 stays 0."""
    size = np.sqrt((one * one).sum(axis=1)) * np.sqrt((other * other).sum(axis=1))
    product = (one * other).sum(axis=1)
    known = np.isfinite(size)
    return np.asarray(np.divide(product, size, out=np.where(known, 0.0, np.nan), where=known & (size > 0)))


def _nearness(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    difference = one - other
    return np.asarray(-np.sqrt((difference * difference).sum(axis=1)))


def _measure(metric: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    measures = {"cosine": _cosine, "euclidean": _nearness}
    if metric not in measures:
        raise InputError(f"there is no metric {metric!r}; images can be compared by {' or '.join(measures)}")
    return measures[metric]


def _checked_members(members: np.ndarray, images: int) -> np.ndarray:
    if members.ndim != 2 or members.shape[1] != 3 or members.dtype.kind not in "iu" or not len(members):
        raise InputError(
            f"members have shape {members.shape} and type {members.dtype}; wanted (triplets, 3) whole numbers: the "
            "places of reference, left and right among the images"
        )
    if members.min() < 0 or members.max() >= images:
        raise InputError(
            f"members go from {members.min()} to {members.max()}, but there are {images} images, counted from 0; "
            "give features of every image that a triplet names"
        )
    return members
