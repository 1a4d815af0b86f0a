"""Classification metrics as counts that add up.  Axes: n samples, c classes.

The rank of the true class and its cross-entropy are found on the device, a block of rows at a time and always in
blocks of one shape; they are summed on the host in 64 bit. Of equal logits the lower class comes first, as in
argmax.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num

from probes import affine, checks, shapes
from probes.affine import TOP
from probes.errors import InputError

BLOCK = 8192  # most rows looked at in one go


class Tally(NamedTuple):
    """Counts over any set of rows; the tally of two sets is the `add` of theirs."""

    confusion: Int[np.ndarray, "c c"]  # rows: target, columns: prediction
    top1: int  # rows whose true class comes first
    top5: int  # or among the first five; all of them where there are no more classes than that
    loss: float  # sum of the cross-entropies in nats
    n: int


def tally(
    logits: Num[np.ndarray | Array, "n c"],
    labels: Int[np.ndarray | Array, " _n"],
    *,
    num_classes: int,
    mask: Bool[np.ndarray | Array, " _n"] | None = None,
) -> Tally:
    """Count rows; those where `mask` is False do not count, and their labels may be anything."""
    if mask is not None:
        kept = checks.check_mask(mask, len(logits))
        logits, labels = np.asarray(logits)[kept], np.asarray(labels)[kept]
    rows = per_sample(logits, labels, num_classes=num_classes)
    table = confusion(np.asarray(labels), rows["prediction"], num_classes=num_classes)
    top5 = rows.get("top5", np.ones(len(labels), bool))
    return Tally(table, int(rows["top1"].sum()), int(top5.sum()), float(rows["loss"].sum()), len(labels))


def confusion(
    labels: Int[np.ndarray, " n"], predictions: Int[np.ndarray, " n"], *, num_classes: int
) -> Int[np.ndarray, "c c"]:
    """How many rows of each class (down) are said to be of which (across)."""
    cells = np.asarray(labels, np.int64) * num_classes + predictions
    return np.bincount(cells, minlength=num_classes**2).reshape(num_classes, num_classes)


def add(first: Tally, second: Tally) -> Tally:
    """The tally of both sets of rows together."""
    total: Tally = jax.tree.map(lambda a, b: a + b, first, second)
    return total


def value(total: Tally) -> dict[str, Any]:
    """`top1`, `top5` where there are more than 5 classes, and means over the classes that occur in the targets.

    A class that is predicted but never a target has neither recall nor a place in `macro_f1`: predicting it costs
    the class it was taken from. (scikit-learn would average it in as 0 unless told the labels.) In
    `per_class_recall` a class without targets is None.
    """
    if total.n == 0:
        raise InputError("there are no rows to score; wanted at least one")
    hits, targets, predictions = margins(total.confusion)
    scored = targets > 0
    values: dict[str, Any] = {"top1": total.top1 / total.n}
    if len(hits) > TOP:
        values["top5"] = total.top5 / total.n
    return values | {
        "balanced_accuracy": float(balanced_accuracy(hits, targets, predictions)),
        "macro_f1": float(macro_f1(hits, targets, predictions)),
        "per_class_recall": [float(h / t) if t else None for h, t in zip(hits, targets, strict=True)],
        "loss": total.loss / total.n,
        "classes_scored": int(scored.sum()),
        "n": total.n,
    }


def margins(confusion: Int[np.ndarray, "c c"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What class averages are made of: hits, targets and predictions of each class."""
    return confusion.diagonal(), confusion.sum(1), confusion.sum(0)


def balanced_accuracy(
    hits: Num[np.ndarray, "*b c"], targets: Num[np.ndarray, "*b c"], predictions: Num[np.ndarray, "*b c"]
) -> Float[np.ndarray, "*b"]:
    """Mean recall of the classes that occur in the targets; takes what `statistics.bootstrap_confusion` gives."""
    return _mean_over_targets(hits, targets, targets)


def macro_f1(
    hits: Num[np.ndarray, "*b c"], targets: Num[np.ndarray, "*b c"], predictions: Num[np.ndarray, "*b c"]
) -> Float[np.ndarray, "*b"]:
    """Mean over the same classes of 2 hits / (targets + predictions)."""
    return _mean_over_targets(2 * hits, targets + predictions, targets)


def _mean_over_targets(above: np.ndarray, below: np.ndarray, targets: np.ndarray) -> np.ndarray:
    shares = above / np.maximum(below, 1)
    return np.asarray(shares.sum(-1, where=targets > 0) / (targets > 0).sum(-1))


def per_sample(
    logits: Num[np.ndarray | Array, "n c"], labels: Int[np.ndarray | Array, " _n"], *, num_classes: int
) -> dict[str, np.ndarray]:
    """Row by row: `top1` and `top5` hits (the latter where c > 5), the `prediction` and the `loss` in nats."""
    logits, labels = checks.check_features(logits, "logits"), checks.check_labels(labels, num_classes)
    checks.check_together(logits, labels, "logits and labels")
    if logits.shape[1] != num_classes:
        raise InputError(
            f"logits have {logits.shape[1]} columns but num_classes is {num_classes}; wanted one per class"
        )
    size = min(shapes.bucket(len(logits)), BLOCK)
    blocks = []
    for start in range(0, len(logits), size):
        rows = logits[start : start + size], labels[start : start + size]
        found = _look(*(shapes.pad(array, size) for array in rows))
        blocks.append([np.asarray(array)[: len(rows[1])] for array in found])
    rank, prediction, loss = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    samples = {"top1": rank < 1, "prediction": prediction, "loss": loss.astype(np.float64)}
    return samples | ({"top5": rank < TOP} if num_classes > TOP else {})


@jax.jit
def _look(
    logits: Num[Array, "n c"], labels: Int[Array, " n"]
) -> tuple[Int[Array, " n"], Int[Array, " n"], Float[Array, " n"]]:
    logits = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    return affine.rank(logits, labels), logits.argmax(1), affine.cross_entropy(logits, labels)
