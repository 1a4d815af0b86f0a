"""Classes told apart by what they are called.  Axes: m texts, n images, d dims of the space they share, c classes.

After Radford et al. 2021 (arXiv:2103.00020): the embeddings of all texts of a class are brought to length 1, averaged,
and brought to length 1 again; an image belongs to the class whose embedding has the largest cosine with its own.
"""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Array, Float, Int, Num

from probes import checks, shapes
from probes.errors import InputError
from probes.knn import normalise

BLOCK = 4096  # images compared at a time
SHORTEST = 1e-4  # of a mean of embeddings of length 1: what is shorter points nowhere


def class_embeddings(
    embeddings: Num[np.ndarray | Array, "m d"],
    classes: Int[np.ndarray | Array, " _m"],
    *,
    num_classes: int,
) -> Float[np.ndarray, "c d"]:
    """One embedding of length 1 a class, from those of its texts, of which each counts alike.

    `classes` (m,) says whose text each is; a class without any is refused, and so is one whose texts cancel out.
    """
    texts = checks.check_features(embeddings, "embeddings of texts")
    owners = checks.check_labels(classes, num_classes, "classes of texts")
    checks.check_together(texts, owners, "embeddings of texts and their classes")
    counts = np.bincount(owners, minlength=num_classes)
    if not counts.all():
        raise InputError(
            f"class {int(counts.argmin())} has no text; give at least one for each of {num_classes} classes"
        )
    sums = np.zeros((num_classes, texts.shape[1]))
    np.add.at(sums, owners, _of_length_one(texts.astype(np.float64)))
    means = sums / counts[:, None]
    lengths = np.linalg.norm(means, axis=1)
    if lengths.min() < SHORTEST:
        raise InputError(
            f"the embeddings of the texts of class {int(lengths.argmin())} cancel out, so it lies in no direction; "
            "give it other texts"
        )
    return np.asarray(means / lengths[:, None], np.float32)


def similarity(
    features: Num[np.ndarray | Array, "n d"], classes: Num[np.ndarray | Array, "c _d"]
) -> Float[np.ndarray, "n c"]:
    """Cosines of (n, d) image embeddings and (c, d) class embeddings; 0 for a row of zeros."""
    features = checks.check_features(features)
    classes = checks.check_features(classes, "class embeddings")
    checks.check_dims(features, classes, "features and class embeddings")
    size = min(shapes.bucket(len(features)), BLOCK)
    blocks = [
        np.asarray(_cosines(shapes.pad(features[start : start + size], size), classes))
        for start in range(0, len(features), size)
    ]
    return np.concatenate(blocks)[: len(features)]


def _of_length_one(rows: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m d"]:
    """Rows of length 1, on the host: they are few, and of many shapes.  A row of zeros stays so."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1))


@jax.jit
def _cosines(block: Num[Array, "n d"], classes: Num[Array, "c d"]) -> Float[Array, "n c"]:
    return normalise(block) @ normalise(classes).T
