"""Nearest neighbours.  Axes: q queries, n rows of the bank, d feature dims, k neighbours, m values of k, c classes.

Similarity is the cosine in [-1, 1], 0 for a row of zeros. Votes are weighted exp(similarity / temperature), as
in DINO (Caron et al., ICCV 2021), or count alike. One search serves every k.
"""

from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num

from probes import checks, shapes
from probes.errors import InputError
from probes.scaling import raised

TILE = 4096  # rows that meet as many others at a time: 64 MB of similarities
TIE = 5e-7  # similarities nearer than this cannot be told apart in float32

Metric = Literal["cosine", "dot"]


class Votes(NamedTuple):
    """For each k the share of votes of every class, and the class that wins."""

    share: Float[Array, "m q c"]
    label: Int[Array, "m q"]


def search(
    queries: Num[np.ndarray | Array, "q d"],
    bank: Num[np.ndarray | Array, "n _d"],
    *,
    k: int,
    exclude_self: bool = False,
    metric: Metric = "cosine",
) -> tuple[Float[np.ndarray, "q k"], Int[np.ndarray, "q k"]]:
    """The k most similar rows of the bank, best first, by exact search: (similarity, index).

    With `exclude_self` the queries are the bank, and row i is never found by query i, though an exact copy of it
    is. Handed the same array twice, the search makes each product once for both of its rows. Of equal similarities
    the lower index comes first; so which of several equals takes the last place depends on the order of the bank,
    and `predict` wants a few neighbours more than its largest k.
    """
    same = queries is bank
    bank = checks.check_features(bank, "bank")
    queries = bank if same else checks.check_features(queries, "queries")
    checks.check_dims(queries, bank, "queries and bank")
    if exclude_self:
        checks.check_together(queries, bank, "queries and bank, to be the same rows,")
    checks.check_k(k, len(bank) - exclude_self)

    step, rows, n = _tile(len(queries)), _tile(len(bank)), len(bank)
    starts, offsets = range(0, len(queries), step), range(0, n, rows)
    best = [(jnp.full((step, k), -jnp.inf), jnp.full((step, k), -1)) for _ in starts]
    own = starts if exclude_self else [-step for _ in starts]  # no row has such an index
    for j, offset in enumerate(offsets):
        chunk = _prepare(shapes.pad(bank[offset : offset + rows], rows), metric=metric)
        for i, start in enumerate(starts[: j + 1] if same else starts):
            similarity = _similarity(shapes.pad(queries[start : start + step], step), chunk, metric=metric)
            whole = offset + rows <= n and (i != j or not exclude_self)  # nothing in it to leave out
            best[i] = _merge(best[i], similarity, offset, n, own[i], whole=whole)
            if same and i < j:
                best[j] = _merge(best[j], similarity, start, n, own[j], whole=True, turned=True)
    similarity, index = (
        np.concatenate([np.asarray(part) for part in parts]) for parts in zip(*best, strict=True)
    )
    return similarity[: len(queries)], index[: len(queries)]


@partial(jax.jit, static_argnames=("ks", "num_classes", "temperature"))
def predict(
    similarity: Float[Array, "q found"],
    neighbour_labels: Int[Array, "q found"],
    *,
    ks: tuple[int, ...],
    num_classes: int,
    temperature: float | None = 0.07,
) -> Votes:
    """Votes of the first k neighbours for each of `ks` ; `temperature` None counts them alike.

    Neighbours as similar as the k-th share the places left for them, so a vote does not depend on the order of
    the bank as long as all of these were found. Equal votes: the class with the larger sum of similarities,
    then the lower one. The shares of all m * q * c are held: give many queries at many classes in parts.
    """
    found = similarity.shape[1]
    if not all(1 <= k <= found for k in ks):
        raise InputError(f"votes of {ks} neighbours asked, but {found} were found; search for more")
    rows = jnp.arange(len(similarity))[:, None]

    def by_class(weights: Array) -> Array:
        return jnp.zeros((len(similarity), num_classes)).at[rows, neighbour_labels].add(weights)

    def vote(k: int) -> tuple[Array, Array]:
        last = similarity[:, k - 1 : k]
        above = similarity > last + TIE
        tied = jnp.abs(similarity - last) <= TIE
        places = above + tied * (k - above.sum(1, keepdims=True)) / tied.sum(1, keepdims=True)
        weights = (
            places
            if temperature is None
            else places * jnp.exp((similarity - similarity[:, :1]) / temperature)
        )
        share = by_class(weights / weights.sum(1, keepdims=True))
        leading = share >= share.max(1, keepdims=True) * (1 - 1e-6)
        label = jnp.where(leading, by_class(places * similarity), -jnp.inf)
        return share, (label >= label.max(1, keepdims=True) - TIE * k).argmax(1)

    shares, labels = zip(*map(vote, ks), strict=True)
    return Votes(jnp.stack(shares), jnp.stack(labels))


def normalise(features: Num[Array, "n d"]) -> Float[Array, "n d"]:
    """Rows of length 1; a row of zeros stays so. Safe for float16 and for values whose squares overflow."""
    features = raised(features)
    largest = jnp.abs(features).max(1, keepdims=True)
    features = features / jnp.where(largest > 0, largest, 1)
    length = jnp.linalg.norm(features, axis=1, keepdims=True)
    return features / jnp.where(length > 0, length, 1)


def _tile(n: int) -> int:
    """Rows of a tile, such that n rows fill a whole number of them."""
    return shapes.bucket(-(-n // -(-n // TILE)))


@partial(jax.jit, static_argnames="metric")
def _prepare(rows: Array, *, metric: Metric) -> Array:
    return normalise(rows) if metric == "cosine" else raised(rows)


@partial(jax.jit, static_argnames="metric")
def _similarity(block: Array, chunk: Array, *, metric: Metric) -> Array:
    prepared: Array = _prepare(block, metric=metric)
    return prepared @ chunk.T


@partial(jax.jit, static_argnames=("whole", "turned"))
def _merge(
    best: tuple[Array, Array],
    similarity: Array,
    offset: Array,
    n: Array,
    own: Array,
    *,
    whole: bool,
    turned: bool = False,
) -> tuple[Array, Array]:
    """The best k of those known and those of one more tile of the bank; the known ones, earlier rows, come first."""
    similarity = similarity.T if turned else similarity
    size, k = similarity.shape[1], best[0].shape[1]
    index = offset + jnp.arange(size)
    if not whole:
        itself = index == own + jnp.arange(len(similarity))[:, None]
        similarity = jnp.where((index < n) & ~itself, similarity, -jnp.inf)
    values, places = jax.lax.top_k(similarity, min(k, size))
    values, indices = (jnp.concatenate(pair, 1) for pair in zip(best, (values, index[places]), strict=True))
    values, places = jax.lax.top_k(values, k)
    return values, jnp.take_along_axis(indices, places, 1)
