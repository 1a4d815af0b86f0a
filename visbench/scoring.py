"""Classification metrics with their 95 % intervals, from logits.  Axes: n samples, c classes."""

from __future__ import annotations

import numpy as np

from probes.metrics import classification as metric
from visbench.outcome import Outcome

REPORTED = ("top1", "top5", "balanced_accuracy", "macro_f1")


def score(logits: np.ndarray, labels: np.ndarray, *, seed: int = 0) -> Outcome:
    """Accuracies and class averages with intervals; beside them what always naming one class would score."""
    total = metric.total([metric.tally(logits, labels)])
    values, ends = metric.value(total), metric.intervals(total, seed=seed)
    outcome = Outcome({name: values[name] for name in REPORTED if name in values})
    outcome.intervals = {name: list(ends[name]) for name in outcome.metrics}
    outcome.n = dict.fromkeys(outcome.metrics, values["n"])
    outcome.per_sample["top1"] = logits.argmax(axis=1) == labels
    outcome.context = {
        "chance": float(np.bincount(labels).max() / len(labels)),
        "classes_scored": values["classes_scored"],
    }
    return outcome


def quick(logits: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """top1 and mean cross-entropy."""
    values = metric.value(metric.total([metric.tally(logits, labels)]))
    return values["top1"], values["loss"]
