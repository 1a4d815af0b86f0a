"""Patches of one image matched to those of another.

Axes: p pairs, n source patches, m target patches, d dims, k points.

Nearest neighbours of L2-normalised tokens with Lowe's ratio test (IJCV 2004), as Probe3D matches frozen features (El
Banani et al., CVPR 2024).  Tokens come as they are stored and are compared in float32; one of zeros has similarity 0
with every other.  The distance of two is that of their ends on the unit sphere, sqrt(2 - 2 cos): where they are near it
is taken from their difference, since the cosine has lost it by then.

Pairs are worked on one after the other, so that the n × m similarities of one stay in cache, and memory does not grow
with their number.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32, Num

from probes import blocks, shapes
from probes.errors import InputError
from probes.scaling import raised

TOGETHER = 16  # pairs a call: one program serves any number of them
NEAR = 0.99  # above this cosine, distances are taken from differences
NOTHING = 1e-6  # a distance that float32 cannot tell from 0


class Matches(NamedTuple):
    """For every source patch the target patch nearest to it, and whether the two are thought to be one place."""

    target: Int32[np.ndarray, "p n"]  # its place among the target patches
    similarity: Float[np.ndarray, "p n"]  # cosine
    ratio: Float[np.ndarray, "p n"]  # of the distances of the nearest and of the second nearest
    kept: Bool[np.ndarray, "p n"]


class _Tokens(NamedTuple):
    """Rows and what to multiply them with for length 1: 0 for rows of zeros and rows that do not count."""

    rows: Float[Array, "n d"]
    scale: Float[Array, " n"]
    counted: Bool[Array, " n"]


class _Nearest(NamedTuple):
    place: Int32[Array, " n"]
    similarity: Float[Array, " n"]
    ratio: Float[Array, " n"]


def match(
    source: Num[np.ndarray | Array, "p n d"],
    target: Num[np.ndarray | Array, "p m d"],
    *,
    ratio: float | None = 0.9,
    num_corr: int = 1000,
    mutual: bool = False,
    source_mask: Bool[np.ndarray, "p n"] | None = None,
    target_mask: Bool[np.ndarray, "p m"] | None = None,
) -> Matches:
    """The nearest target patch of every source patch; `kept` are those that pass every test.

    They are nearer than `ratio` times the second nearest (None or 1: no such test), with `mutual` the source patch is
    in turn the one nearest to its match, and they are the `num_corr` of the pair whose ratios are smallest. Of equals
    the lower index comes first, everywhere. A token of zeros is never kept, on either side.

    Where the two nearest are at distance 0 nothing tells them apart: their ratio is 1. Where there is no second one it
    is as if it were infinitely far: the ratio is 0. Patches that a mask leaves out may hold anything, and are neither
    matched nor found; a patch that has nothing to be matched to has the similarity 0 and the ratio 1.
    """
    _check(source, target, ratio, num_corr)
    (p, n), m = source.shape[:2], target.shape[1]
    masks = _checked_mask(source_mask, (p, n), "source"), _checked_mask(target_mask, (p, m), "target")
    limit = np.float32(np.inf if ratio is None or ratio == 1 else ratio)

    def block(start: int) -> list[np.ndarray]:
        part = slice(start, start + TOGETHER)
        rows = [shapes.pad(np.asarray(each[part]), TOGETHER) for each in (source, target, *masks)]
        done = _block(*rows, p - start, limit, num_corr, mutual=mutual, few=num_corr < n)
        return [np.asarray(each) for each in done]

    workers = os.cpu_count() if jax.default_backend() == "cpu" else 1  # what is no product takes one core
    with ThreadPoolExecutor(workers) as pool:
        found = list(pool.map(block, range(0, p, TOGETHER)))
    *matches, finite = (np.concatenate(parts)[:p] for parts in zip(*found, strict=True))
    if not finite.all():
        raise InputError(
            f"the tokens of pair {int(finite.argmin())} hold a value that is not finite; leave that pair out or "
            "extract it again"
        )
    return Matches(*matches)


@jax.jit
def at_points(
    grid: Num[np.ndarray | Array, "p h w d"],
    points: Num[np.ndarray | Array, "p k 2"],
    size: float | int | Num[Array, ""],
) -> Float[Array, "p k d"]:
    """Tokens at points (x, y) of a frame of `size` × `size` pixels, float32.

    Bilinear between the centres of patches, ((j + 0.5) size / w, (i + 0.5) size / h); beyond the outermost ones their
    values go on. A point that is not finite has a token of zeros, which nothing is matched to.
    """
    h, w = grid.shape[1:3]

    def one(pair: tuple[Array, Array]) -> Array:
        tokens, places = pair
        known = jnp.isfinite(places).all(axis=1)
        places = jnp.where(known[:, None], places, 0.0) * jnp.array([w, h]) / size - 0.5
        places = jnp.clip(places, 0, jnp.array([w - 1, h - 1]))
        low = jnp.floor(places).astype(jnp.int32)
        high = jnp.minimum(low + 1, jnp.array([w - 1, h - 1]))
        (x, y), (left, top), (right, bottom) = (places - low).T[..., None], low.T, high.T

        def across(row: Array) -> Array:
            mixed: Array = (1 - x) * raised(tokens[row, left]) + x * raised(tokens[row, right])
            return mixed

        return jnp.where(known[:, None], (1 - y) * across(top) + y * across(bottom), 0.0)

    read: Array = jax.lax.map(one, (jnp.asarray(grid), raised(jnp.asarray(points))))
    return read


@partial(jax.jit, static_argnames=("mutual", "few"))
def _block(
    source: Num[Array, "p n d"],
    target: Num[Array, "p m d"],
    source_mask: Bool[Array, "p n"],
    target_mask: Bool[Array, "p m"],
    count: Num[Array, ""],
    limit: Num[Array, ""],
    num_corr: Num[Array, ""],
    *,
    mutual: bool,
    few: bool,
) -> tuple[Array, ...]:
    """What `Matches` has of a block of pairs, of which the first `count` are real, and whether tokens are finite."""
    n, m = source.shape[1], target.shape[1]
    real_type = jnp.promote_types(raised(source[:1, :1]).dtype, raised(target[:1, :1]).dtype)

    def one(pair: tuple[Array, ...]) -> tuple[Array, ...]:
        here, there = _tokens(pair[1], pair[3]), _tokens(pair[2], pair[4])
        finite = jnp.isfinite(here.scale).all() & jnp.isfinite(there.scale).all()
        return *_matched(here, there, limit, num_corr, mutual, few), finite

    def nothing(pair: tuple[Array, ...]) -> tuple[Array, ...]:
        real = jnp.zeros(n, real_type)
        return jnp.zeros(n, jnp.int32), real, real, jnp.zeros(n, bool), jnp.array(True)

    def each(pair: tuple[Array, ...]) -> tuple[Array, ...]:
        done: tuple[Array, ...] = jax.lax.cond(pair[0] < count, one, nothing, pair)
        return done

    alone = jax.default_backend() == "cpu"
    together = None if alone else max(1, min(TOGETHER, blocks.block_bytes() // (4 * n * m)))
    pairs = (jnp.arange(len(source)), source, target, source_mask, target_mask)
    found: tuple[Array, ...] = jax.lax.map(each, pairs, batch_size=together)
    return found


def _tokens(rows: Array, counted: Array) -> _Tokens:
    half = rows.dtype == jnp.float16  # whose squares no float32 is too small or too large for
    rows = jnp.where(counted[:, None], raised(rows), 0)
    if not half:
        largest = jnp.abs(rows).max(axis=1, keepdims=True)
        rows = rows / jnp.where(largest > 0, largest, 1)
    squared = (rows**2).sum(axis=1)
    scale = jnp.where(squared > 0, 1 / jnp.sqrt(squared), 0)
    return _Tokens(rows, jnp.where(jnp.isfinite(squared), scale, jnp.nan), counted)


def _matched(
    here: _Tokens, there: _Tokens, limit: Array, num_corr: Array, mutual: bool, few: bool
) -> tuple[Array, Array, Array, Array]:
    products = jnp.matmul(there.rows, here.rows.T, precision="highest")
    similarity = products * there.scale[:, None] * here.scale
    nearest = _nearest(similarity, here, there)
    kept = (nearest.ratio < limit) & (here.scale > 0) & (there.scale[nearest.place] > 0)
    if mutual:
        back = _nearest(similarity.T, there, here).place
        kept &= back[nearest.place] == jnp.arange(len(kept))
    if few:
        order = jnp.argsort(jnp.where(kept, nearest.ratio, jnp.inf))  # stable
        kept &= jnp.argsort(order) < num_corr
    return *nearest, kept


def _nearest(similarity: Float[Array, "m n"], here: _Tokens, there: _Tokens) -> _Nearest:
    """For every column the row most similar to it, and how its distance compares with that of the next.

    Columns, since a CPU takes the largest of many of them side by side.
    """
    m = len(similarity)
    rows = jax.lax.broadcasted_iota(jnp.int32, similarity.shape, 0)

    def largest(values: Array) -> tuple[Array, Array]:
        value = values.max(axis=0)
        return value, jnp.where(values == value, rows, m - 1).min(axis=0)

    values = jnp.where(there.counted[:, None], similarity, -jnp.inf)
    first, index = largest(values)
    second, following = largest(jnp.where(rows == index, -jnp.inf, values))

    def by_difference(value: Array, at: Array) -> Array:
        return jnp.where((first > NEAR) & jnp.isfinite(value), _apart(here, there, at), _far(value))

    one, two = jax.lax.cond(
        (first > NEAR).any(),
        lambda: (by_difference(first, index), by_difference(second, following)),
        lambda: (_far(first), _far(second)),
    )
    turned = (two < one) | ((two == one) & jnp.isfinite(two) & (following < index))
    index, similar = jnp.where(turned, following, index), jnp.where(turned, second, first)
    one, two = jnp.where(turned, two, one), jnp.where(turned, one, two)
    ratio = jnp.where((two > 0) & jnp.isfinite(one), one / two, 1)
    similar = jnp.where(similar > NEAR, 1 - one**2 / 2, jnp.maximum(similar, -1))
    return _Nearest(index, jnp.where(there.counted[index], similar, 0), ratio)


def _far(similarity: Array) -> Array:
    return jnp.sqrt(jnp.maximum(2 - 2 * similarity, 0))


def _apart(here: _Tokens, there: _Tokens, index: Array) -> Array:
    """The distance of each token from one of the others."""
    found = there.rows[index] * there.scale[index, None]
    distance = jnp.linalg.norm(here.rows * here.scale[:, None] - found, axis=1)
    return jnp.where(distance > NOTHING, distance, 0)


def _check(source: Any, target: Any, ratio: float | None, num_corr: int) -> None:
    for name, each in (("source", source), ("target", target)):
        if each.ndim != 3 or 0 in each.shape:
            raise InputError(
                f"{name} tokens have shape {each.shape}; wanted (pairs, patches, dims), at least one of each"
            )
        if not jnp.issubdtype(each.dtype, jnp.floating):
            raise InputError(f"{name} tokens are of type {each.dtype}; wanted real numbers, such as float16")
    if (len(source), source.shape[2]) != (len(target), target.shape[2]):
        raise InputError(
            f"source tokens have shape {source.shape} and target tokens {target.shape}; wanted as many pairs and dims "
            "of both"
        )
    if ratio is not None and not 0 < ratio <= 1:
        raise InputError(f"ratio is {ratio}; it is above 0 and at most 1, where nothing is tested")
    if num_corr < 1:
        raise InputError(f"num_corr is {num_corr}; at least one match a pair has to be kept")


def _checked_mask(
    mask: Bool[np.ndarray, "p n"] | None, shape: tuple[int, int], name: str
) -> Bool[np.ndarray, "p n"]:
    if mask is None:
        return np.ones(shape, bool)
    if mask.shape != shape:
        raise InputError(f"{name}_mask has shape {mask.shape}; wanted {shape}, one truth value a patch")
    return mask
