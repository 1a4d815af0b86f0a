"""Retrieval of rows of the same class.  Axes: q queries, n rows of the gallery, d feature dims.

Similarity is the cosine. Without a gallery each row queries all others and is never returned itself, though an
exact copy of it may be. No ranking is ever sorted: each positive's place is counted, so memory does not grow
with q * n.

Ties, similarities nearer than float32 can tell apart, are broken by rule and not by the order of rows. Average
precision takes a group of equals whole, as scikit-learn does; for recall@k a negative as similar as the best
positive comes before it. So a backbone that gives every image the same features gains nothing by it.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num

from probes import checks, shapes
from probes.errors import InputError
from probes.knn import TIE, normalise

BLOCK_NUMBERS = 2**22  # similarities held at a time

Rule = Literal["standard", "classic"]


class Ranking(NamedTuple):
    """What a metric needs to know of each query; where nothing is relevant the first two say 0."""

    average_precision: Float[np.ndarray, " q"]
    first: Int[np.ndarray, " q"]  # place of the best positive, counted from 1
    relevant: Int[np.ndarray, " q"]  # how many positives there are


def rank(
    features: Num[np.ndarray | Array, "q d"],
    labels: Int[np.ndarray | Array, " _q"],
    *,
    gallery: Num[np.ndarray | Array, "n _d"] | None = None,
    gallery_labels: Int[np.ndarray | Array, " _n"] | None = None,
) -> Ranking:
    """Rank the gallery, or all other rows, for each row of `features`."""
    if (gallery is None) != (gallery_labels is None):
        raise InputError(
            "a gallery came without its labels, or labels without a gallery; give both or neither"
        )
    alone = gallery is None
    features, labels = checks.check_features(features), np.asarray(labels)
    gallery = features if alone else checks.check_features(gallery, "gallery")
    gallery_labels = labels if alone else np.asarray(gallery_labels)
    checks.check_together(features, labels)
    checks.check_together(gallery, gallery_labels, "gallery and its labels")
    checks.check_dims(features, gallery, "queries and gallery")
    _, numbers = np.unique(np.concatenate([labels, gallery_labels]), return_inverse=True)
    labels, gallery_labels = numbers[: len(labels)], numbers[len(labels) :]
    relevant = np.bincount(gallery_labels, minlength=numbers.max() + 1)[labels] - alone
    _check_rankable(labels, gallery_labels, relevant)

    # Sorted by class, the positives of a query are neighbours: one slice of its similarities.
    order = np.argsort(gallery_labels, kind="stable")
    begin = np.searchsorted(gallery_labels[order], labels)
    width = shapes.bucket(int(relevant.max()) + alone)
    place = np.argsort(order) if alone else np.full(len(labels), -1)
    n = len(gallery)
    rows = _prepare(shapes.pad(gallery[order], max(shapes.bucket(n), width)))
    step = max(1, min(BLOCK_NUMBERS // len(rows), shapes.bucket(len(features))))
    found = []
    for start in range(0, len(features), step):
        block = [
            shapes.pad(array[start : start + step], step)
            for array in (features, begin, relevant + alone, place)
        ]
        found.append(_rank(*block, rows, n, width=width))
    precision, first = (np.concatenate([np.asarray(a) for a in parts]) for parts in zip(*found, strict=True))
    some = relevant > 0
    return Ranking(
        np.where(some, precision[: len(labels)], 0), np.where(some, first[: len(labels)], 0), relevant
    )


def value(
    ranking: Ranking,
    ks: Sequence[int] = (1, 5, 10),
    *,
    rule: Rule = "standard",
    gallery_size: int | None = None,
) -> dict[str, Any]:
    """`map`, `recall@k` (a positive among the first k) and `queries`, how many are averaged.

    A query without a positive is left out; the older rule, `classic`, counts it as 0. Values of k beyond
    `gallery_size`, the rows there are to return (by default all queries but one), are dropped.
    """
    limit = len(ranking.relevant) - 1 if gallery_size is None else gallery_size
    counted = ranking.relevant > 0 if rule == "standard" else np.ones(len(ranking.relevant), bool)
    metrics: dict[str, Any] = {"map": float(ranking.average_precision[counted].mean(dtype=np.float64))}
    for k in ks:
        if k <= limit:
            metrics[f"recall@{k}"] = float(hits(ranking, k)[counted].mean())
    return metrics | {"queries": int(counted.sum())}


def hits(ranking: Ranking, k: int) -> np.ndarray:
    """Whether a positive is among the first k, query by query."""
    return (ranking.first <= k) & (ranking.relevant > 0)


def score(
    features: Num[np.ndarray | Array, "q d"],
    labels: Int[np.ndarray | Array, " _q"],
    ks: Sequence[int] = (1, 5, 10),
    *,
    gallery: Num[np.ndarray | Array, "n _d"] | None = None,
    gallery_labels: Int[np.ndarray | Array, " _n"] | None = None,
    rule: Rule = "standard",
) -> dict[str, Any]:
    """`rank`, then `value`."""
    ranking = rank(features, labels, gallery=gallery, gallery_labels=gallery_labels)
    return value(ranking, ks, rule=rule, gallery_size=None if gallery is None else len(gallery))


def _check_rankable(labels: np.ndarray, gallery_labels: np.ndarray, relevant: np.ndarray) -> None:
    if (gallery_labels == gallery_labels[0]).all() and (labels == gallery_labels[0]).all():
        raise InputError(
            f"all {len(labels)} rows are of one class; retrieval needs at least two to tell apart"
        )
    if not relevant.any():
        raise InputError(
            f"none of the {len(labels)} queries has another row of its class; there is nothing to score"
        )


_prepare = jax.jit(normalise)


@partial(jax.jit, static_argnames="width")
def _rank(
    queries: Array, begin: Array, positives: Array, place: Array, gallery: Array, n: Array, *, width: int
) -> tuple[Array, Array]:
    """Average precision and first place of a block; positives are rows `begin` … of the gallery, itself too."""
    similarity = normalise(queries) @ gallery.T
    outside = jnp.arange(len(gallery)) >= n
    itself = jnp.arange(len(gallery)) == place[:, None]
    similarity = jnp.where(outside | itself, -jnp.inf, similarity)
    return jax.vmap(partial(_places, width=width))(similarity, begin, positives)


def _places(similarity: Array, begin: Array, positives: Array, *, width: int) -> tuple[Array, Array]:
    # A slice that would reach past the end is moved back by JAX, and its rows with it.
    start = jnp.minimum(begin, len(similarity) - width)
    row = start + jnp.arange(width)
    mine = jax.lax.dynamic_slice(similarity, (start,), (width,))
    mine = jnp.where((row >= begin) & (row < begin + positives), mine, -jnp.inf)
    ascending = jnp.sort(mine)
    real = ascending > -jnp.inf

    def at_least(values: Array) -> Array:
        """How many `values` tie with or exceed each positive."""
        below = jnp.searchsorted(ascending, values + TIE, side="right")
        return jnp.cumsum(jnp.zeros(width + 1, jnp.int32).at[below].add(1)[::-1])[::-1][1:]

    among_all, among_mine = at_least(similarity), at_least(mine)
    precision = jnp.where(real, among_mine / jnp.maximum(among_all, 1), 0)
    return precision.sum() / jnp.maximum(real.sum(), 1), 1 + among_all[-1] - among_mine[-1]
