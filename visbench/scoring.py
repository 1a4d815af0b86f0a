"""Classification metrics with their 95 % intervals, from logits.  Axes: r fits, n samples, c classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from probes import crossed, statistics
from probes.affine import TOP
from probes.metrics import classification as metric
from visbench.outcome import Outcome

PROPORTIONS = ("top1", "top5")  # Wilson intervals
AVERAGES = {"balanced_accuracy": metric.balanced_accuracy, "macro_f1": metric.macro_f1}  # bootstrap ones


def score(fits: Sequence[np.ndarray], labels: np.ndarray, *, votes: bool = False, seed: int = 0) -> Outcome:
    """Accuracies and class averages with intervals; beside them what always naming one class would score.

    Of several fits (seeds, draws) of one setting it is the mean, and the intervals resample fits and samples.
    Where logits are `votes`, a class without any is not among the first five, however few classes have one:
    it would be there by its place in the alphabet.
    """
    found = [_rows(logits, labels, votes) for logits in fits]
    tallies = [metric.tally(logits, labels, num_classes=logits.shape[1]) for logits in fits]
    values = [metric.value(each) for each in tallies]
    hits = {name: np.stack([rows[name] for rows in found]) for name in PROPORTIONS if name in found[0]}
    means = {name: float(np.mean(rows)) for name, rows in hits.items()}
    means |= {name: float(np.mean([each[name] for each in values])) for name in AVERAGES}
    outcome = Outcome(means)
    if len(fits) == 1:
        outcome.intervals = {
            name: list(statistics.wilson(int(rows.sum()), rows.size)) for name, rows in hits.items()
        }
        for name, average in AVERAGES.items():
            outcome.intervals[name] = list(
                statistics.bootstrap_confusion(tallies[0].confusion, average, seed=seed)
            )
    else:
        outcome.intervals = {
            name: list(crossed.bootstrap_mean(rows, seed=seed)) for name, rows in hits.items()
        }
        predictions = np.stack([rows["prediction"] for rows in found])
        averages = crossed.bootstrap_classes(
            labels, predictions, AVERAGES, num_classes=fits[0].shape[1], seed=seed
        )
        outcome.intervals |= {name: list(ends) for name, ends in averages.items()}
        outcome.context["top1_std"] = float(hits["top1"].mean(axis=1).std(ddof=1))
    outcome.n = dict.fromkeys(outcome.metrics, len(labels))
    outcome.per_sample = {
        name: rows[0] if len(fits) == 1 else rows.mean(axis=0) for name, rows in hits.items()
    }
    outcome.context |= {
        "chance": float(np.bincount(labels).max() / len(labels)),
        "classes_scored": values[0]["classes_scored"],
    }
    return outcome


def quick(logits: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """top1 and mean cross-entropy."""
    values = metric.value(metric.tally(logits, labels, num_classes=logits.shape[1]))
    return values["top1"], values["loss"]


def _rows(logits: np.ndarray, labels: np.ndarray, votes: bool) -> dict[str, np.ndarray]:
    rows = metric.per_sample(logits, labels, num_classes=logits.shape[1])
    if votes and logits.shape[1] > TOP:
        rows["top5"] = rows["top5"] & (logits[np.arange(len(labels)), labels] > 0)
    return rows
