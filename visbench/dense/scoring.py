"""From tallies to metrics with 95 % intervals, and what they are to be read beside: baselines and the grid's ceiling.

Axes: n images, f fits (seeds), B resamples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from probes.resampling import interval, resampled
from visbench.dense.streams import Stream
from visbench.dense.training import EVALUATED
from visbench.outcome import Outcome

RESAMPLES = 1000
LEVEL = 0.95


def values(task: Any, tally: Any) -> dict[str, float]:
    """Every metric of one fit: means of per-image values, and those of all pixels together."""
    found = {name: float(_mean(rows)) for name, rows in task.scores(tally).items()}
    return found | {name: float(each) for name, each in _of_all(task, tally).items()}


def score(task: Any, tallies: Sequence[Any], *, seed: int = 0) -> Outcome:
    """The mean over fits, its interval from resampling images (and fits, where there are several; Owen 2007)."""
    each = [values(task, tally) for tally in tallies]
    outcome = Outcome({name: float(np.mean([one[name] for one in each])) for name in each[0]})
    rows = [task.scores(tally) for tally in tallies]
    n = len(jax.tree.leaves(tallies[0])[0])
    draws = _draws(task, tallies, rows, seed) if n > 1 else {}  # one image tells nothing of its kind
    for name, drawn in draws.items():
        low, high = interval(drawn, LEVEL)
        outcome.intervals[name] = [float(low), float(high)]
    for name in _of_all(task, tallies[0]):
        if not name.endswith("_pooled"):
            outcome.per_sample[name] = np.mean([influence(task, tally)[name] for tally in tallies], axis=0)
    for name in getattr(task, "counts", ()):  # no scores: what the others are to be read beside
        outcome.context[name] = outcome.metrics.pop(name)
        outcome.intervals.pop(name, None)
        outcome.per_sample.pop(name, None)
    outcome.n = dict.fromkeys(outcome.metrics, n)
    for name in rows[0]:
        per_image = np.mean([one[name] for one in rows], axis=0)
        outcome.per_sample[name] = per_image
        known = int((~np.isnan(per_image)).sum())
        outcome.n[name] = known
        if known < n:
            outcome.context[f"{name}_undefined"] = n - known
    return outcome


def influence(task: Any, tally: Any) -> dict[str, np.ndarray]:
    """(n,) each image's part in a metric of all pixels: the metric plus n times its slope in the image's weight.

    Such parts have the metric as their mean, and to resample them is to resample the metric to first order (the
    infinitesimal jackknife: Jaeckel 1972, Efron 1982), so that two backbones can be compared image by image.
    """
    if hasattr(task, "influence"):  # of a metric that is no function of sums
        known: dict[str, np.ndarray] = task.influence(tally)
        return known
    n = len(jax.tree.leaves(tally)[0])
    step = 1e-4  # of one image's weight; central differences leave an error of its square
    whole = _summed(tally)

    def moved(sign: int) -> Any:
        return jax.tree.map(lambda all_, own: all_ + sign * step * own.astype(np.float64), whole, tally)

    value, more, less = (task.pooled(sums) for sums in (whole, moved(1), moved(-1)))
    return {name: value[name] + n * (more[name] - less[name]) / (2 * step) for name in value}


def _of_all(task: Any, tally: Any) -> dict[str, Any]:
    """The metrics of all images together: of the sums of their tallies, or of their tallies as a whole."""
    found: dict[str, Any] = task.value(tally) if hasattr(task, "value") else task.pooled(_summed(tally))
    return found


def _of_weighted(task: Any, tally: Any, times: np.ndarray) -> dict[str, Any]:
    """The same of B resamples, in which each image counts (B, n) times."""
    found: dict[str, Any]
    if hasattr(task, "weighted"):
        found = task.weighted(tally, times)
    else:
        found = task.pooled(jax.tree.map(lambda leaf: _weighted(times, leaf), tally))
    return found


def baselines(task: Any, train: Stream, rows: np.ndarray) -> dict[str, np.ndarray]:
    """What says the same of every image: one value everywhere, one a row of the picture, or one a place in it."""
    counted = jax.jit(task.evidence)
    evidence: Any = None
    for chosen, _, target in train.blocks(EVALUATED, rows):
        found = counted(np.asarray(target)[: len(chosen)])
        evidence = found if evidence is None else jax.tree.map(np.add, evidence, found)
    size = train.target.shape[1:3]
    summed = {
        "constant": jax.tree.map(lambda leaf: np.sum(leaf, axis=(0, 1), keepdims=True), evidence),
        "row": jax.tree.map(lambda leaf: np.sum(leaf, axis=1, keepdims=True), evidence),
        "place": evidence,
    }
    guesses = {name: task.guess(jax.tree.map(jax.numpy.asarray, each)) for name, each in summed.items()}
    return {name: _spread(np.asarray(guess), size) for name, guess in guesses.items()}


def _spread(guess: np.ndarray, size: Sequence[int]) -> np.ndarray:
    return np.broadcast_to(guess, (*size, *guess.shape[2:]))


def _draws(
    task: Any, tallies: Sequence[Any], rows: Sequence[Mapping[str, np.ndarray]], seed: int
) -> dict[str, np.ndarray]:
    """Metric → (B,) its values on resamples of the images; fits are drawn too, where there are several."""
    n, fits = len(jax.tree.leaves(tallies[0])[0]), len(tallies)
    found: dict[str, list[np.ndarray]] = {}
    weights = _fit_weights(fits, seed)
    for times, weight in _chunks(n, weights, seed):
        drawn: dict[str, list[np.ndarray]] = {}
        for tally, scores in zip(tallies, rows, strict=True):
            for name, each in scores.items():
                known = ~np.isnan(each)
                with np.errstate(invalid="ignore"):  # a resample in which no image has a value
                    mean = times @ np.where(known, each, 0) / (times @ known.astype(float))
                drawn.setdefault(name, []).append(mean)
            for name, each in _of_weighted(task, tally, times).items():
                drawn.setdefault(name, []).append(np.asarray(each))
        for name, several in drawn.items():
            found.setdefault(name, []).append((np.stack(several, axis=1) * weight).sum(axis=1))
    return {name: np.concatenate(several) for name, several in found.items()}


def _chunks(n: int, weights: np.ndarray, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    start = 0
    for times in resampled(np.ones(n, int), RESAMPLES, seed):
        yield times, weights[start : start + len(times)]
        start += len(times)


def _fit_weights(fits: int, seed: int) -> np.ndarray:
    """(B, f) the share of each fit in every resample."""
    if fits == 1:
        return np.ones((RESAMPLES, 1))
    return (
        np.random.default_rng([seed, fits]).multinomial(fits, np.full(fits, 1 / fits), size=RESAMPLES) / fits
    )


def _weighted(times: np.ndarray, leaf: np.ndarray) -> np.ndarray:
    """(B, …) sums of an (n, …) leaf."""
    sums: np.ndarray = times @ leaf.reshape(len(leaf), -1).astype(np.float64)
    return sums.reshape(len(times), *leaf.shape[1:])


def _summed(tally: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.astype(np.float64).sum(axis=0), tally)


def _mean(rows: np.ndarray) -> float:
    known = rows[~np.isnan(rows)]
    return float(known.mean()) if len(known) else float("nan")
