"""What a reader should be told beside a dense score: a head that took a way out of learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from probes import dense
from probes.maps.normals import Normals
from visbench.dense.streams import Stream
from visbench.dense.training import EVALUATED, Run

MOST = 0.5  # of the pixels may say that they know nothing


def collapse(task: Any, run: Run, stream: Stream, rows: np.ndarray) -> list[str]:
    """Of normals with a concentration: whether most pixels ended without any, which makes the loss easy and flat."""
    if not isinstance(task, Normals) or not task.uncertainty:
        return []
    total: Any = None
    for chosen, maps, target in stream.blocks(EVALUATED, rows):
        given = dense.raw(run.params, run.read(maps), run.scaling, program=run.program)[0]
        sums = task.sums(given[: len(chosen)], jax.numpy.asarray(target)[: len(chosen)])
        total = sums if total is None else jax.tree.map(jax.numpy.add, total, sums)
    share = float(task.kappa_share(total))
    if share <= MOST:
        return []
    return [
        f"the concentration of {share:.0%} of the pixels fell to its least: the head learnt to say that it knows "
        "nothing, so its angles are poor; --no-uncertainty trains on angles alone"
    ]


def idle(context: Mapping[str, Any], headline: str, loss: float, *, lower: bool) -> list[str]:
    """Whether the head says no more of the very images that trained it than one value everywhere says of the others."""
    own, constant = context.get(f"train_{headline}"), context.get(f"constant_{headline}")
    if own is None or constant is None or (own < constant if lower else own > constant):
        return []
    return [
        f"of its own training images the head knows no more ({headline} {own:.3f}) than one value everywhere would "
        f"({constant:.3f}), and its loss ended at {loss:.3g}: it did not learn, so try another learning rate (--lr)"
    ]
