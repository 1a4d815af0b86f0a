"""Average precision, for one class or many.  Axes: n samples, c classes; targets are 1 where the class applies.

AP is the mean over positives of the precision among all samples that score at least as high. Samples of equal
score thus stand at one rank, and no order of rows changes a value; scikit-learn's definition.
"""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from probes.errors import InputError


def average_precision(
    scores: Num[np.ndarray, " n"], targets: Bool[np.ndarray, " _n"] | Int[np.ndarray, " _n"]
) -> float | None:
    """AP of one ranking; None where there is no positive, as then there is nothing to find."""
    scores, positive = _checked(scores, targets)
    found = np.sort(scores[positive])
    if not len(found):
        return None
    everything = np.sort(scores)
    return float((at_least(found, found) / at_least(everything, found)).mean())


def at_least(ascending: Num[np.ndarray, " m"], thresholds: Num[np.ndarray, " p"]) -> Int[np.ndarray, " p"]:
    """How many of the sorted numbers are not below each threshold."""
    return len(ascending) - np.searchsorted(ascending, thresholds, side="left")


def multilabel(
    scores: Num[np.ndarray, "n c"], targets: Bool[np.ndarray, "_n _c"] | Int[np.ndarray, "_n _c"]
) -> dict[str, Any]:
    """`micro_map` over all pairs of sample and class (the headline) and `macro_map` over classes.

    A class without positives is None in `per_class`, left out of the macro mean and counted in
    `classes_without_positives`; in the micro value its pairs are negatives like others. Samples without any
    positive stay in as negatives.
    """
    scores, positive = _checked(scores, targets)
    micro = average_precision(scores.ravel(), positive.ravel())
    if micro is None:
        raise InputError(
            "targets hold no positive at all; there is nothing to rank, so score a split that has some"
        )
    per_class = [average_precision(scores[:, each], positive[:, each]) for each in range(scores.shape[1])]
    defined: list[float] = [ap for ap in per_class if ap is not None]
    return {
        "micro_map": micro,
        "macro_map": float(np.mean(defined)),
        "per_class": per_class,
        "classes_scored": len(defined),
        "classes_without_positives": len(per_class) - len(defined),
        "n": len(scores),
    }


def per_sample(
    scores: Num[np.ndarray, "n c"], targets: Bool[np.ndarray, "_n _c"] | Int[np.ndarray, "_n _c"]
) -> Float[np.ndarray, " n"]:
    """AP of the classes of each sample; NaN for a sample without positives."""
    scores, positive = _checked(scores, targets)
    found = (average_precision(*row) for row in zip(scores, positive, strict=True))
    return np.array([np.nan if ap is None else ap for ap in found])


def _checked(scores: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if scores.shape != targets.shape or not scores.size:
        raise InputError(
            f"scores have shape {scores.shape} and targets {targets.shape}; wanted the same, not empty"
        )
    if np.isnan(scores).any():
        raise InputError("scores hold NaN, which has no rank; check the probe that gave them")
    if not ((targets == 0) | (targets == 1)).all():
        raise InputError(
            "targets hold other values than 0 and 1; give one column per class, 1 where it applies"
        )
    return scores, targets.astype(bool)
