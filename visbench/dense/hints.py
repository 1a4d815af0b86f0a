"""What a reader should be told beside a dense score: a head that took a way out of learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from extract.wording import listed
from probes import dense
from probes.maps.normals import Normals
from visbench.dense.kinds import KINDS
from visbench.dense.streams import Stream
from visbench.dense.training import EVALUATED, Run

FINDS = 0.02  # of a mean average precision: less is found by luck
NAMED = 5  # classes; the rest is counted
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


def idle(
    own: Mapping[str, float], constant: Mapping[str, float], headline: str, loss: float, *, lower: bool
) -> list[str]:
    """Whether the head says no more of the images that trained it than one value everywhere says of the scored ones.

    `own` and `constant` are metrics; where either is not defined, as correlations of a constant are not, nothing is
    said.
    """
    ours, other = own.get(headline, np.nan), constant.get(headline, np.nan)
    if not np.isfinite([ours, other]).all() or (ours < other if lower else ours > other):
        return []
    return [
        f"the head's {headline} on the images that trained it is {ours:.3f}, and one value everywhere scores "
        f"{other:.3f} on the others; its loss ended at {loss:.3g}: it did not learn, so try another --lr"
    ]


def blind(own: Mapping[str, float], chosen_by: str, loss: float) -> list[str]:
    """Of detection, which has no constant to be compared with: whether the head finds nothing it was shown."""
    if not own[chosen_by] < FINDS:
        return []
    return [
        f"the head finds next to nothing on the images that trained it ({chosen_by} {own[chosen_by]:.3f}, its loss "
        f"ended at {loss:.3g}): it did not learn, so try another --lr, or more --epochs"
    ]


def astray(task: Any, found: Mapping[str, float], constant: Mapping[str, float]) -> list[str]:
    """Of normals: whether the angles are worse than those of one direction everywhere, which `d1` may not show."""
    if not isinstance(task, Normals) or not found["mean"] > constant["mean"]:
        return []
    way_out = "; --no-uncertainty trains on angles alone" if task.uncertainty else ""
    return [
        f"the mean angle of {found['mean']:.1f}° is larger than that of one direction everywhere, "
        f"{constant['mean']:.1f}°{way_out}"
    ]


def unseen(learnt: Stream, rows: np.ndarray, scored: Stream, classes: Sequence[str]) -> list[str]:
    """Of boxes: classes that are scored and no image trained; a head cannot find what it was never shown."""
    if learnt.kind is not KINDS["boxes"]:
        return []
    shown, asked = _marked(learnt, rows), _marked(scored, np.arange(len(scored)))
    names = [classes[label] for label in sorted(asked - shown)]
    if not names:
        return []
    return [
        f"no training image shows {listed(names, NAMED)}, which the scored split has: the head cannot "
        "find what it never saw"
    ]


def _marked(stream: Stream, rows: np.ndarray) -> set[int]:
    """The labels of all objects that are scored."""
    found: set[int] = set()
    for start in range(0, len(rows), EVALUATED):
        known = stream.target.read(rows[start : start + EVALUATED])[..., 4:6]
        found |= set(known[known[..., 1] == 0][:, 0].astype(int).tolist())
    return found - {-1}
