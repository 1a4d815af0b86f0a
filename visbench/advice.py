"""What a reader should be told beside a score: copies, fits that stopped early, choices at an edge."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from visbench import near_copies as copies
from visbench.classifier import ClassificationProbe
from visbench.data import RunData
from visbench.outcome import Outcome, Rows
from visbench.searching import Found


def worst(each: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The convergence of several fits as one: the fit that ended furthest from its optimum."""
    return sorted(each, key=lambda one: float(one.get("grad_norm", 0)))[-1]


def near_copies(outcome: Outcome, rows: Mapping[str, Rows], run: RunData) -> list[str]:
    """Count pictures that nearly copy a training one, and name the first."""
    pairs = copies.near_copies(rows["test"], rows["train"])
    if not len(pairs):
        return []
    outcome.context["near_duplicates"] = len(pairs)
    scored, trained = (
        run.sets[role].names[row] for role, row in zip(("test", "train"), pairs[0], strict=True)
    )
    more = f" (and {len(pairs) - 1} more such)" if len(pairs) > 1 else ""
    return [f"{scored} looks like a copy of {trained}{more}, by their features"]


def few_to_draw(labels: np.ndarray, shots: int) -> list[str]:
    """Say of how many classes fewer images than `shots` train; `labels` are those of a draw."""
    counts = np.bincount(labels)
    fewer, all_of_them = int((counts[counts > 0] < shots).sum()), int((counts > 0).sum())
    if not fewer:
        return []
    have = "has" if fewer == 1 else "have"
    return [
        f"{fewer} of {all_of_them} classes {have} fewer than {shots:,} images that may train: all of theirs do"
    ]


def warnings(probes: list[ClassificationProbe], found: Found | None) -> list[str]:
    """A fit that did not converge, a choice at the edge of its grid."""
    said = []
    convergence = worst([probe.convergence for probe in probes])
    if convergence.get("converged") is False:
        said.append(
            f"the solver stopped after {convergence['steps']} steps at gradient norm "
            f"{convergence['grad_norm']:.2g} without converging; the score may be too low"
        )
    return said + (edges(found) if found is not None else [])


def edges(found: Found, of: Collection[str] | None = None, least: float = 0.0) -> list[str]:
    """A choice at the edge of its grid, for a gain of at least this share; `of` are the axes to look at."""
    table = found.table
    names = table.arm.grid.edges(table.best, table.gains.tolist(), least)
    at = ", ".join(f"{key} {value}" for key, value in found.table.arm.place.items())
    way_out = "give it a wider --grid" if found.widened else "--widen tries beyond"
    return [
        f"{name} {found.chosen[name]:.3g}{at and f' at {at}'} is at the edge of its grid: {way_out}"
        for name in names
        if of is None or name in of
    ]
