"""From scores and boxes of cells to few detections.  Axes: n cells or rows, c classes, K detections.

Written for one image, for vmap.  Shapes stand still: what is not there has the label −1.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from probes.boxes.geometry import iou


class Limits(NamedTuple):
    """How many detections become of how many scores."""

    score_threshold: float = 0.05  # scores above it count
    nms_iou: float = 0.5  # of two boxes of a class that overlap more, the better stays
    max_detections: int = 100
    candidates: int = 1000  # the best are looked at


def decode(
    scores: Float[Array, "n c"], boxes: Float[Array, "n 4"], size: float | int, limits: Limits
) -> Float[Array, "K 6"]:
    """Each class of each cell is a detection; of these the best, in the frame, without the repetitions.

    Of equal scores the earlier cell comes first, and in it the smaller class.
    """
    count = scores.shape[1]
    enough = jnp.where(scores > limits.score_threshold, scores, -1).reshape(-1)
    score, place = jax.lax.top_k(enough, min(limits.candidates, enough.size))
    found = jnp.clip(boxes, 0, size)[place // count]
    label = jnp.where(score >= 0, place % count, -1)
    kept = nms(found, label, limits.nms_iou, limits.max_detections)
    return rows(found, score, label, kept)


def nms(
    boxes: Float[Array, "n 4"], labels: Int[Array, " n"], threshold: float, most: int
) -> Int[Array, " K"]:
    """Places of the rows that stay, at most so many, in their order; −1 where there are no more.

    Rows stand by falling score.  Each that is left drops those further down that have its label and overlap it by more
    than `threshold`: greedy non-maximum suppression.  It goes from one row that stays to the next, so the time
    depends on how many stay, and no table of all pairs is made.
    """
    count = len(boxes)
    places = jnp.arange(count)

    def first(alive: Array) -> Array:
        found: Array = jnp.where(alive, places, count).min(initial=count)
        return found

    def step(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        alive, kept, number, best = state
        chosen = jnp.minimum(best, count - 1)
        near = (labels == labels[chosen]) & (iou(boxes[chosen], boxes) > threshold)
        alive = alive & ~near & (places != chosen)
        kept = jnp.where(jnp.arange(most) == number, best, kept)
        return alive, kept, number + 1, first(alive)

    def more(state: tuple[Array, Array, Array, Array]) -> Array:
        return (state[2] < most) & (state[3] < count)

    there = labels >= 0
    start = there, jnp.full(most, -1, places.dtype), jnp.zeros((), places.dtype), first(there)
    kept: Array = jax.lax.while_loop(more, step, start)[1]
    return kept


def rows(
    boxes: Float[Array, "n 4"], scores: Float[Array, " n"], labels: Int[Array, " n"], kept: Int[Array, " K"]
) -> Float[Array, "K 6"]:
    """Detections as rows, padded where there is nothing."""
    every = jnp.concatenate([boxes, scores[:, None], labels[:, None].astype(boxes.dtype)], -1)
    nothing = jnp.array([0, 0, 0, 0, 0, -1], boxes.dtype)
    return jnp.where((kept >= 0)[:, None], every[kept], nothing)
