"""How many neighbours can vote: no more than the rows that train, which few shots and a holdout make fewer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from extract.wording import counted
from visbench import console
from visbench.data import RunData
from visbench.errors import UsageError
from visbench.grid import Grid
from visbench.options import Options
from visbench.searching import Arm, count_settings
from visbench.selection import holdout


def enough_voters(arms: list[Arm], run: RunData, options: Options, *, given: bool) -> list[Arm]:
    """The arms, refused where a `given` k is more than there are rows to vote; a default k shrinks and says so."""
    ks = [k for arm in arms for k in arm.grid.axes.get("k", ())]
    if not ks:
        return arms
    bank, aside = _bank(run, options, choosing=count_settings(arms) > 1)
    if max(ks) <= bank:
        return arms
    voters = f"{counted(bank, 'training image')} to vote{aside}"
    if given:
        raise UsageError(f"k is {max(ks)}, but there are {voters}; give smaller ones")
    shrunk = [_within(arm, bank) for arm in arms]
    used = ", ".join(map(str, shrunk[0].grid.axes["k"]))
    console.note(f"knn: {voters}, so k is {used}; --k says otherwise")
    return shrunk


def _bank(run: RunData, options: Options, *, choosing: bool) -> tuple[int, str]:
    """Rows that vote, and what was left aside."""
    labels, aside = run.sets["train"].known_labels, ""
    if choosing and (options.select == "holdout" or "val" not in run.sets):
        held = holdout(run.ids["train"], labels)
        labels, aside = labels[~held], ", those held out to choose k left aside"
    if options.shots is not None:
        return int(
            np.minimum(np.bincount(labels), options.shots).sum()
        ), f" with {counted(options.shots, 'shot')}"
    return len(labels), aside


def _within(arm: Arm, bank: int) -> Arm:
    ks = tuple(dict.fromkeys(min(k, bank) for k in arm.grid.axes["k"]))
    return replace(arm, grid=Grid({**arm.grid.axes, "k": ks}))
