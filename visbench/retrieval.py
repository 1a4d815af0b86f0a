"""Retrieval on pooled features: every image queries all others; nothing is learnt.

Axes: n samples, d dims, q queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from probes import retrieval, statistics
from visbench.data import RunData
from visbench.errors import UsageError
from visbench.options import Options
from visbench.outcome import Outcome, Rows
from visbench.trials import Trials

TOPK = (1, 5, 10)


class RetrievalProbe:
    """Mean average precision and recall@k of cosine neighbours.

    `rule` says what a query without a relevant item does: "standard" leaves it out, "classic" counts it as 0.
    """

    def __init__(
        self,
        *,
        topk: tuple[int, ...] = TOPK,
        rule: retrieval.Rule = "standard",
        seed: int = 0,
        pooling: str = "default",
        layers: tuple[int, ...] | None = None,
    ) -> None:
        self.topk = tuple(dict.fromkeys(int(k) for k in topk))
        if not self.topk or min(self.topk) < 1:
            raise UsageError(f"topk is {list(topk)}; recall@k needs whole numbers from 1 up")
        self.rule, self.seed = rule, seed
        self.pooling, self.layers = pooling, layers

    def fit(self, features: Any = None, labels: Any = None) -> Self:
        """Nothing is learnt; here so that every probe is used alike."""
        return self

    def evaluate(self, features: Any, labels: Any) -> dict[str, Any]:
        """The metrics of (n, d) features and (n,) labels of any kind."""
        return self.score(np.asarray(features), np.unique(np.asarray(labels), return_inverse=True)[1]).metrics

    def score(self, features: np.ndarray, labels: np.ndarray) -> Outcome:
        """Metrics, and intervals from resampling queries."""
        ranking = retrieval.rank(features, labels)
        outcome = Outcome(retrieval.value(ranking, self.topk, rule=self.rule))
        queries = outcome.metrics.pop("queries")
        counted = ranking.relevant > 0 if self.rule == "standard" else np.ones(len(labels), dtype=bool)
        precision = ranking.average_precision[counted]
        outcome.per_sample["map"] = np.where(counted, ranking.average_precision, np.nan)
        mean = np.column_stack([precision, np.ones_like(precision)])
        ends = statistics.bootstrap(mean, lambda sums: sums[:, 0] / sums[:, 1], seed=self.seed)
        outcome.intervals["map"] = list(ends)
        for k in self.topk:
            if f"recall@{k}" in outcome.metrics:
                every = retrieval.hits(ranking, k)
                outcome.per_sample[f"recall@{k}"] = np.where(counted, every, np.nan)
                hits = every[counted]
                outcome.intervals[f"recall@{k}"] = list(statistics.wilson(int(hits.sum()), len(hits)))
        outcome.n = dict.fromkeys(outcome.metrics, queries)
        outcome.context["chance"] = float(_chance(ranking.relevant)[counted].mean())
        alone = int((ranking.relevant == 0).sum())
        if alone:
            outcome.context["queries_without_match"] = alone
        return outcome


class Retrieval:
    """The measurement as a run asks for it."""

    name = "retrieval"

    def __init__(self, probe: str | None, options: Options) -> None:
        self._tap = options.tap
        settings = dict(options.probe_settings)
        topk = settings.pop("topk", TOPK)
        if settings or options.standardize:
            raise UsageError(f"retrieval has no setting {', '.join(settings) or 'standardize'}; it has topk")
        rule: retrieval.Rule = "classic" if options.protocol == "visbench" else "standard"
        self.probe = RetrievalProbe(topk=topk, rule=rule, seed=options.seed, pooling=options.pooling)

    @staticmethod
    def accepts(probe: str | None) -> set[str]:
        """The settings there are."""
        return {"topk"}

    @property
    def taps(self) -> list[str]:
        """The tap it reads, as asked."""
        return [self._tap]

    def plan(self, run: RunData) -> dict[str, Any]:
        """What of the record is known before."""
        return {"task_params": {"topk": list(self.probe.topk), "rule": self.probe.rule}}

    def __call__(self, rows_of: Callable[[str], Mapping[str, Rows]], run: RunData, trials: Trials) -> Outcome:
        """Score every query of the scored split."""
        test = rows_of(self._tap)["test"]
        outcome = self.probe.score(test.features, test.labels)
        outcome.probe = self.probe
        unmet = [str(k) for k in self.probe.topk if k not in TOPK and f"recall@{k}" not in outcome.metrics]
        if unmet:
            outcome.warnings.append(
                f"recall@{', @'.join(unmet)} says nothing of {len(test)} images and is left out"
            )
        return outcome


def _chance(relevant: np.ndarray) -> np.ndarray:
    """(q,) the average precision to expect of a random order of all others, of which so many are relevant.

    More than the share that is relevant: the mean of 1 / place over all places belongs to it.
    """
    others = len(relevant) - 1
    harmonic = (1 / np.arange(1, others + 1)).sum()
    more = (relevant - 1) / max(others - 1, 1) * (others - harmonic)
    return np.where(relevant > 0, (harmonic + more) / others, 0)
