"""Classification metrics with their 95 % intervals, from logits.  Axes: n samples, c classes."""

from __future__ import annotations

import numpy as np

from probes import statistics
from probes.affine import TOP
from probes.metrics import classification as metric
from visbench.outcome import Outcome

PROPORTIONS = ("top1", "top5")  # Wilson intervals
AVERAGES = {"balanced_accuracy": metric.balanced_accuracy, "macro_f1": metric.macro_f1}  # bootstrap ones


def score(logits: np.ndarray, labels: np.ndarray, *, votes: bool = False, seed: int = 0) -> Outcome:
    """Accuracies and class averages with intervals; beside them what always naming one class would score.

    Where logits are `votes`, a class without any is not among the first five, however few classes have one:
    it would be there by its place in the alphabet.
    """
    num_classes = logits.shape[1]
    total = metric.tally(logits, labels, num_classes=num_classes)
    if votes and num_classes > TOP:
        among = metric.per_sample(logits, labels, num_classes=num_classes)["top5"]
        named = logits[np.arange(len(labels)), labels] > 0
        total = total._replace(top5=int((among & named).sum()))
    values = metric.value(total)
    outcome = Outcome({name: values[name] for name in (*PROPORTIONS, *AVERAGES) if name in values})
    for name in PROPORTIONS:
        if name in values:
            outcome.intervals[name] = list(statistics.wilson(getattr(total, name), total.n))
    for name, average in AVERAGES.items():
        ends = statistics.bootstrap_confusion(total.confusion, average, seed=seed)
        outcome.intervals[name] = list(ends)
    outcome.n = dict.fromkeys(outcome.metrics, total.n)
    outcome.per_sample["top1"] = logits.argmax(axis=1) == labels
    outcome.context = {
        "chance": float(np.bincount(labels).max() / len(labels)),
        "classes_scored": values["classes_scored"],
    }
    return outcome


def quick(logits: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """top1 and mean cross-entropy."""
    values = metric.value(metric.tally(logits, labels, num_classes=logits.shape[1]))
    return values["top1"], values["loss"]
