"""Whether there are rows enough: for neighbours to vote, for shots to be drawn; a holdout makes them fewer."""

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


def enough_shots(run: RunData, options: Options, *, choosing: bool) -> dict[str, int]:
    """How many images may train of the classes that have fewer than the shots asked for; refused unless allowed."""
    if options.shots is None:
        return {}
    labels, aside = _may_train(run, options, choosing=choosing)
    counts = np.bincount(labels, minlength=len(run.classes)).tolist()
    fewer = {
        name: count for name, count in zip(run.classes, counts, strict=True) if 0 < count < options.shots
    }
    if fewer and not options.allow_fewer:
        name, count = min(fewer.items(), key=lambda item: item[1])
        others = counted(len(fewer) - 1, "other class", "other classes")
        more = f" ({others} too few too)" if len(fewer) > 1 else ""
        raise UsageError(
            f'class "{name}" has {counted(count, "image")} that may train{aside}{more}, fewer '
            f"than {options.shots} shots; ask for fewer, or draw all there are with --allow-fewer"
        )
    return fewer


def _bank(run: RunData, options: Options, *, choosing: bool) -> tuple[int, str]:
    """Rows that vote, and what was left aside."""
    labels, aside = _may_train(run, options, choosing=choosing)
    if options.shots is not None:
        drawn = np.minimum(np.bincount(labels), options.shots).sum()
        return int(drawn), f" with {counted(options.shots, 'shot')}"
    return len(labels), aside


def _may_train(run: RunData, options: Options, *, choosing: bool) -> tuple[np.ndarray, str]:
    """Labels of the rows that fit while settings are chosen, and what was left aside."""
    labels = run.sets["train"].known_labels
    if choosing and (options.select == "holdout" or "val" not in run.sets):
        held = holdout(run.ids["train"], labels)
        return labels[~held], ", those held out to choose left aside"
    return labels, ""


def _within(arm: Arm, bank: int) -> Arm:
    ks = tuple(dict.fromkeys(min(k, bank) for k in arm.grid.axes["k"]))
    return replace(arm, grid=Grid({**arm.grid.axes, "k": ks}))
