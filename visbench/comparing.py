"""Which of two is better, by how much and how surely: paired on the same samples, corrected after Holm.

Nothing is run: the scores of every sample lie beside the records.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from probes import statistics
from visbench import opponents, samples
from visbench.errors import UsageError, did_you_mean
from visbench.opponents import Row
from visbench.record import Json, Record, protocol_part, run_key
from visbench.samples import Samples
from visbench.separable import LEVEL
from visbench.separable import Paired as Paired
from visbench.tasks import better

if TYPE_CHECKING:
    from visbench.pipeline import Result

RESAMPLES = 10_000
RESAMPLES_A_BOARD = 200  # the smallest p that can be seen must stay well below LEVEL / boards

Test = Literal["bootstrap", "permutation"]
Files = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class Comparison:
    """Two records on one board: the difference of a metric over the samples that both scored."""

    title: str  # of the board
    metric: str
    better: str | None  # "higher", "lower"; None where it is not known
    a: str  # as the board shows it
    b: str
    key_a: str  # the beginning of the record's key
    key_b: str
    score_a: float  # means over the paired samples
    score_b: float
    difference: float  # a - b
    low: float  # 95 % interval of the difference
    high: float
    p: float  # two-sided, of no difference
    p_holm: float  # corrected for all comparisons of the call
    n: int  # paired samples
    n_a: int  # samples that each of them scored
    n_b: int
    test: Test
    resamples: int
    seed: int
    notes: tuple[str, ...] = ()  # what a reader should know: in what they differ, what was left out

    @property
    def separable(self) -> bool:
        """Whether the two differ significantly."""
        return self.p_holm < LEVEL

    @property
    def winner(self) -> Literal["a", "b"] | None:
        """The better one; None where the two are not separable, or nobody said which way is better."""
        if not self.separable or self.better is None:
            return None
        return "a" if (self.difference > 0) == (self.better == "higher") else "b"

    @property
    def verdict(self) -> str:
        """`resnet50 is better`, `not separable`."""
        if not self.separable:
            return "not separable"
        ahead = self.winner or ("a" if self.difference > 0 else "b")
        name = (
            getattr(self, ahead) if self.a != self.b else f"{ahead.upper()} ({getattr(self, f'key_{ahead}')})"
        )
        return f"{name} is {'better' if self.winner else 'higher'}"

    def to_dict(self) -> Json:
        """All of it, as `--json` prints it."""
        return {**asdict(self), "separable": self.separable, "verdict": self.verdict}


def compare(
    a: str | Path | Record | Result,
    b: str | Path | Record | Result,
    results: Files = (),
    *,
    task: str | None = None,
    metric: str | None = None,
    test: Test = "bootstrap",
    seed: int = 0,
    common: bool = False,
    resamples: int = RESAMPLES,
) -> list[Comparison]:
    """Compare `a` with `b` on every board of `results` that both stand on, by its headline or by `metric`.

    Each is a backbone, a record, its result or the beginning of its key, or a results file: then the same
    backbones of two files are compared.  `test` gives p, intervals are bootstrapped; `common` compares the samples
    that both scored where these are not all.
    """
    if test not in ("bootstrap", "permutation"):
        raise UsageError(f'there is no test "{test}"; it can be bootstrap or permutation')
    files = [results] if isinstance(results, str | Path) else list(results)
    pairs = opponents.pairs(_name(a), _name(b), files, task=task, common=common)
    resamples = max(resamples, RESAMPLES_A_BOARD * len(pairs))
    found: list[Comparison] = []
    left_out: list[UsageError] = []
    for first, second in pairs:
        try:
            found.append(_compare(first, second, metric, test, seed, common, resamples))
        except UsageError as error:
            left_out.append(error)
    if not found:
        raise left_out[0]
    for reason in left_out:
        warnings.warn(f"left out: {reason}", stacklevel=2)
    adjusted = statistics.holm([each.p for each in found])
    return [replace(each, p_holm=float(p)) for each, p in zip(found, adjusted, strict=True)]


def _name(side: str | Path | Record | Result) -> str:
    record = getattr(side, "record", side)
    return run_key(record) if isinstance(record, Record) else str(record)


def _compare(
    first: Row, second: Row, metric: str | None, test: Test, seed: int, common: bool, resamples: int
) -> Comparison:
    metric = metric or first.board.headline
    kept = [samples.read(row.results, row.record) for row in (first, second)]
    scores = [_scores(row, each, metric) for row, each in zip((first, second), kept, strict=True)]
    x, y = _paired(first, second, kept, scores, common)
    has = ~(np.isnan(x) | np.isnan(y))
    if not has.any():
        raise UsageError(f"no sample has a {metric} under both {first.label} and {second.label}")
    x, y = x[has], y[has]
    found = statistics.paired_bootstrap(x, y, resamples=resamples, seed=seed)
    p = found.p if test == "bootstrap" else statistics.permutation_test(x, y, resamples=resamples, seed=seed)
    return Comparison(
        title=first.board.title,
        metric=metric,
        better=better(first.record, metric),
        a=first.label,
        b=second.label,
        key_a=first.key,
        key_b=second.key,
        score_a=float(x.mean()),
        score_b=float(y.mean()),
        difference=found.difference,
        low=found.low,
        high=found.high,
        p=p,
        p_holm=p,
        n=len(x),
        n_a=len(scores[0]),
        n_b=len(scores[1]),
        test=test,
        resamples=resamples,
        seed=seed,
        notes=tuple(_notes(first, second, scores, metric)),
    )


def _scores(row: Row, kept: Samples, metric: str) -> np.ndarray:
    if metric not in kept.scores:
        raise UsageError(
            f"{row.board.title}: no scores of every sample are kept for {metric} of {row.label}."
            f"{did_you_mean(metric, kept.scores)} Kept are {', '.join(kept.scores)}: choose one with --metric"
        )
    scores = kept.scores[metric].astype(np.float64)
    if not samples.mean_is_recorded(row.record, metric, scores):
        raise UsageError(
            f"{metric} of {row.label} ({row.key}) is {row.record.metrics.get(metric)} in its record and no mean of "
            f"its samples' scores, so they do not stand for it; choose another metric with --metric"
        )
    return scores


def _paired(
    first: Row, second: Row, kept: Sequence[Samples], scores: Sequence[np.ndarray], common: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The scores of both, sample by sample."""
    if kept[0].ids_digest == kept[1].ids_digest:
        return scores[0], scores[1]
    here, there = samples.shared(kept[0].ids, kept[1].ids)
    sizes = [len(each) for each in scores]
    if not len(here):
        raise UsageError(f"{first.label} ({first.key}) and {second.label} ({second.key}) share no sample")
    if not common and sizes != [len(here)] * 2:
        raise UsageError(
            f"{first.label} was scored on {sizes[0]:,} samples and {second.label} on {sizes[1]:,}, of which "
            f"{len(here):,} are the same; --common compares these alone"
        )
    return scores[0][here], scores[1][there]


def _notes(first: Row, second: Row, scores: Sequence[np.ndarray], metric: str) -> Iterable[str]:
    """In what two records of one board, or of one backbone, differ, and which samples have no score."""
    rows = first, second
    versions = first.results != second.results
    one, other = (
        opponents.settings(row.record, versions=versions)
        if first.label == second.label
        else protocol_part(row.record)
        for row in rows
    )
    fields = opponents.differing(one, other)
    if fields:
        yield f"they differ in {opponents.in_words(fields)}"
    fits = max(len(row.record.seeds or [1]) * row.record.task_params.get("draws", 1) for row in rows)
    if fits > 1:
        yield f"scores are means of {fits} fits, which are not resampled"
    for row, each in zip(rows, scores, strict=True):
        missing = int(np.isnan(each).sum())
        if missing:
            yield f"{missing:,} of {len(each):,} samples have no {metric} under {row.label}"
