"""Similarity as people see it: which of two images is more like a third; nothing is learnt.

Axes: n images, d dims, t triplets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from extract.wording import counted
from probes import checks, similarity, statistics
from probes.similarity import Tally
from visbench.data import RunData
from visbench.errors import UsageError
from visbench.grouped import Together
from visbench.options import Options
from visbench.outcome import Outcome
from visbench.trials import Trials

METRICS = ("cosine", "euclidean")
MANY_TIES = 0.01  # of the triplets: more are worth a word
ONE_SIDED = 10  # triplets: of fewer, all answers may well be on one side
CLASSIC = "midvision_2afc"  # what the older tool calls its protocol
RESAMPLED = ("precision", "recall", "f1")


class SimilarityProbe:
    """Agreement with people on triplets: a reference, a left and a right image.

    `ties` says what images count that are equally similar to the reference: "half" an answer right, or "left".
    """

    def __init__(
        self,
        *,
        metric: similarity.Metric = "cosine",
        ties: similarity.Ties = "half",
        seed: int = 0,
        pooling: str = "default",
        layers: tuple[int, ...] | None = None,
    ) -> None:
        if metric not in METRICS:
            raise UsageError(f"metric is {metric!r}; images can be compared by {' or '.join(METRICS)}")
        self.metric, self.ties, self.seed = metric, ties, seed
        self.pooling, self.layers = pooling, layers

    def fit(self, features: Any = None, labels: Any = None) -> Self:
        """Nothing is learnt; here so that every probe is used alike."""
        return self

    def evaluate(self, features: Any, members: Any, right: Any) -> dict[str, Any]:
        """The metrics of (n, d) features.

        `members` (t, 3) are rows of them: reference, left and right; `right` (t,) says where people chose right.
        """
        return self.score(np.asarray(features), np.asarray(members), np.asarray(right)).metrics

    def score(
        self,
        features: np.ndarray,
        members: np.ndarray,
        right: np.ndarray,
        *,
        parts: dict[str, np.ndarray] | None = None,
    ) -> Outcome:
        """Metrics with intervals; of each of the `parts`, masks of triplets, the accuracy too."""
        right = _answers(right)
        checks.check_together(members, right, "triplets and answers")
        near = similarity.compare(features, members, metric=self.metric)
        each = similarity.tally(*near, right, ties=self.ties)
        total = similarity.summed(each)
        outcome = Outcome({name: float(score) for name, score in similarity.value(total).items()})
        outcome.n = dict.fromkeys(outcome.metrics, len(right))
        outcome.per_sample["accuracy"] = each.agreed
        outcome.intervals = self._resampled(each) | self._interval("accuracy", each.agreed)
        outcome.intervals["tie_rate"] = list(statistics.wilson(int(total.ties), len(right)))
        for name, mask in (parts or {}).items():
            if mask.any():
                key, agreed = f"accuracy_{name}", each.agreed[mask]
                outcome.metrics[key], outcome.n[key] = float(agreed.mean()), len(agreed)
                outcome.intervals |= self._interval(key, agreed)
        outcome.context |= {"chance": 0.5, "right_share": float(right.mean())}
        outcome.warnings += _warnings(each, self.ties)
        return outcome

    def _interval(self, name: str, agreed: np.ndarray) -> dict[str, list[float]]:
        """Of a mean of agreements: Wilson's where each is yes or no, else from resampling triplets, if they vary."""
        if np.isin(agreed, (0, 1)).all():
            return {name: list(statistics.wilson(int(agreed.sum()), len(agreed)))}
        if len(agreed) < 2:  # one is all that could be drawn
            return {}
        rows = np.column_stack([agreed, np.ones_like(agreed)])
        low, high = statistics.bootstrap(rows, lambda sums: sums[:, 0] / sums[:, 1], seed=self.seed)
        return {name: [float(low), float(high)]}

    def _resampled(self, each: Tally) -> dict[str, list[float]]:
        """Intervals from resampling triplets, where there are several."""
        if len(each.agreed) < 2:
            return {}

        def values(sums: np.ndarray) -> np.ndarray:
            found = similarity.value(Tally(*sums.T))
            return np.column_stack([found[name] for name in RESAMPLED])

        low, high = statistics.bootstrap(np.column_stack(each), values, seed=self.seed)
        ends = np.column_stack([low, high]).tolist()
        return dict(zip(RESAMPLED, ends, strict=True))


class Similarity:
    """The measurement as a run asks for it."""

    name = "similarity"

    def __init__(self, probe: str | None, options: Options) -> None:
        self._tap = options.tap
        settings = dict(options.probe_settings)
        metric = settings.pop("metric", "cosine")
        if settings or options.standardize:
            raise UsageError(
                f"similarity has no setting {', '.join(settings) or 'standardize'}; it has metric"
            )
        self._classic = options.protocol == "visbench"
        if self._classic and metric != "cosine":
            raise UsageError(
                f"--protocol visbench compares by cosine, and metric is {metric!r}; leave one of the two out"
            )
        ties: similarity.Ties = "left" if self._classic else "half"
        self.probe = SimilarityProbe(metric=metric, ties=ties, seed=options.seed, pooling=options.pooling)

    @staticmethod
    def accepts(probe: str | None) -> set[str]:
        """The settings there are."""
        return {"metric"}

    @property
    def taps(self) -> list[str]:
        """The tap it reads, as asked."""
        return [self._tap]

    def plan(self, run: RunData) -> dict[str, Any]:
        """What of the record is known before."""
        params = {"metric": self.probe.metric, "ties": self.probe.ties}
        return {"task_params": {**params, **({"protocol": CLASSIC} if self._classic else {})}}

    def __call__(self, rows_of: Callable[[str], Together], run: RunData, trials: Trials) -> Outcome:
        """Score every triplet of the scored split."""
        rows = rows_of(self._tap)
        truth, members = rows.groups.truth, rows.groups.members
        parts: dict[str, np.ndarray] = {}
        if "imagenet" in truth:
            inside = truth["imagenet"].astype(bool)
            parts = {"imagenet": inside, "no_imagenet": ~inside}
        outcome = self.probe.score(rows.features, members, truth["right"], parts=parts)
        outcome.ids, outcome.probe = rows.ids, self.probe
        if "votes" in truth:
            outcome.context["min_votes"] = int(truth["votes"].min())
        return outcome


def _answers(right: np.ndarray) -> np.ndarray:
    """(t,) bool; what is neither yes nor no, such as a share of votes, is refused."""
    if right.ndim != 1 or not np.isin(right, (0, 1)).all():
        shown = ", ".join(str(each) for each in np.unique(right)[:3])
        raise UsageError(
            f"answers have shape {right.shape} and values such as {shown}; wanted one a triplet: whether people "
            "chose right (1) or left (0)"
        )
    return right.astype(bool)


def _warnings(each: Tally, ties: str) -> list[str]:
    """Ties, and answers on one side: what a score near chance would not tell."""
    said, count, tied = [], len(each.said), int(each.ties.sum())
    if tied > MANY_TIES * count:
        counts = "half an answer" if ties == "half" else "as an answer left"
        said.append(
            f"{tied:,} of {counted(count, 'triplet')} are ties: both images are equally similar to the reference, and "
            f"each counts {counts}; do the features tell these images apart?"
        )
    answers = each.said[each.ties == 0]
    if len(answers) >= ONE_SIDED and (answers == answers[0]).all():
        side = "right" if answers[0] else "left"
        said.append(
            f"every answer is {side}, whatever people chose; are the columns of the triplets as they should be?"
        )
    if (each.chosen == each.chosen[0]).all():
        side = "right" if each.chosen[0] else "left"
        said.append(
            f"people chose {side} in every triplet, so whatever always says {side} is right; precision, recall and f1 "
            "say nothing here"
        )
    return said
