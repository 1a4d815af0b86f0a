"""Looks at the input once, on the host, before a jitted call.

JAX does not raise for an index out of range: it clamps, or yields NaN. So labels, finiteness and k are checked
here. Each function returns its input as a numpy array, or raises `InputError`.
"""

from typing import Any

import numpy as np

from probes.errors import InputError


def check_features(features: Any, name: str = "features") -> np.ndarray:
    """One finite row of numbers per sample."""
    array = np.asarray(features)
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"{name} have shape {array.shape}; wanted (samples, dims) with at least one of each")
    if array.dtype.kind not in "fiu" and array.dtype.name != "bfloat16":
        raise InputError(f"{name} are of type {array.dtype}; wanted real numbers, such as float32")
    bad = [i for i in range(0, len(array), 4096) if not np.isfinite(array[i : i + 4096]).all()]
    if bad:
        row = bad[0] + int(np.argmin(np.isfinite(array[bad[0] : bad[0] + 4096]).all(1)))
        raise InputError(
            f"{name} hold a value that is not finite in row {row}; leave that row out or extract it again"
        )
    return array


def check_labels(labels: Any, num_classes: int, name: str = "labels") -> np.ndarray:
    """Whole numbers from 0 to `num_classes` - 1, one per sample."""
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iu" or not len(array):
        raise InputError(
            f"{name} have shape {array.shape} and type {array.dtype}; wanted one whole number per sample"
        )
    if array.max() >= num_classes:
        raise InputError(
            f"{name} go up to {array.max()} but num_classes is {num_classes}; "
            "count the classes on the training split, or pass num_classes"
        )
    if array.min() < 0:
        raise InputError(
            f"{name} go down to {array.min()}; leave the unlabelled rows out, classes count from 0"
        )
    return array


def check_trainable(labels: Any, num_classes: int, name: str = "labels") -> np.ndarray:
    """Labels a classifier can learn from: at least two classes occur."""
    array = check_labels(labels, num_classes, name)
    if (array == array[0]).all():
        raise InputError(
            f"all {len(array)} {name} are class {array[0]}; a classifier needs rows of at least two classes"
        )
    return array


def check_together(features: Any, labels: Any, what: str = "features and labels") -> None:
    """As many rows here as there."""
    if len(features) != len(labels):
        raise InputError(f"{what} have {len(features)} and {len(labels)} rows; wanted one for one")


def check_dims(features: Any, others: Any, what: str) -> None:
    """Rows of the same length, so that they can be compared."""
    if features.shape[1] != others.shape[1]:
        raise InputError(
            f"{what} have {features.shape[1]} and {others.shape[1]} dims; take both from the same backbone and tap"
        )


def check_k(k: int, available: int, of: str = "rows of the bank") -> int:
    """There are k neighbours to find."""
    if not 1 <= k <= available:
        raise InputError(
            f"k is {k} but there are {available} {of} to choose from; give a k from 1 to {available}"
        )
    return k


def check_mask(mask: Any, samples: int) -> np.ndarray:
    """One truth value per sample, at least one of them True; None means that all count."""
    if mask is None:
        return np.ones(samples, bool)
    array = np.asarray(mask)
    if array.shape != (samples,) or array.dtype != bool:
        raise InputError(
            f"mask has shape {array.shape} and type {array.dtype}; wanted one truth value for {samples} rows"
        )
    if not array.any():
        raise InputError("mask leaves no row; at least one must count")
    return array


def check_training(
    features: Any, labels: Any, mask: Any, num_classes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows that a probe can be fitted to, their labels (0 where masked) and the mask."""
    features = check_features(features)
    mask = check_mask(mask, len(features))
    check_together(features, labels)
    labels = np.where(mask, np.asarray(labels), 0)
    check_trainable(labels[mask], num_classes)
    return features, labels, mask


def check_positive(values: Any, name: str) -> np.ndarray:
    """Finite numbers greater than 0, at least one."""
    array = np.asarray(values, np.float64)
    if array.ndim != 1 or not len(array) or not (np.isfinite(array) & (array > 0)).all():
        raise InputError(f"{name} are {array.tolist()}; wanted a list of finite numbers greater than 0")
    return array
