"""What the findings on images with maps mean: what to look at, and what a run would refuse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from extract.ids import as_bytes
from extract.wording import counted, listed
from visbench.mapcheck_text import SHOWN
from visbench.maplooks import Look

if TYPE_CHECKING:
    from visbench.mapcheck import MapReport

SATURATED = 0.01  # of the valid pixels at the very largest depth look like a mark of holes


def contradictions(
    ids: Mapping[str, np.ndarray], names: Mapping[str, Sequence[str]], looks: Mapping[str, Sequence[Look]]
) -> list[str]:
    """Pictures that occur twice with different maps."""
    known: dict[bytes, list[tuple[str, str, bytes]]] = defaultdict(list)
    for split, rows in ids.items():
        for row, name, seen in zip(as_bytes(rows), names[split], looks[split], strict=True):
            known[row].append((split, name, seen.digest))
    return [
        f"{same[0][0]}: {same[0][1]} = {other[0]}: {other[1]}"
        for same in known.values()
        for other in same[1:]
        if other[2] != same[0][2]
    ]


def notes(reports: Mapping[str, MapReport], kind: str, names: tuple[str, ...]) -> list[str]:
    """What a run would not refuse and a person should look at."""
    told: list[str] = []
    present = {split: set(report.classes) for split, report in reports.items()}
    train = present.get("train", set())
    for split, found in present.items():
        unseen = sorted(found - train, key=lambda name: names.index(name) if name in names else len(names))
        if split != "train" and train and unseen:
            told.append(
                f"{split} has {listed(unseen, SHOWN)}, which no map of train shows: it cannot be learnt"
            )
    nowhere = [name for name in names if not any(name in found for found in present.values())]
    if nowhere and any(present.values()):
        told.append(f"no pixel anywhere of {listed(nowhere, SHOWN)}")
    for split, report in reports.items():
        if kind == "depth" and report.saturated > SATURATED and report.least != report.most:
            told.append(
                f"{100 * report.saturated:.2g} % of the valid pixels of {split} hold the largest value, "
                f"{report.most:g}: if it marks holes, name it (--target-hole)"
            )
        if kind not in ("labels", "foreground") and report.constant:
            told.append(
                f"{split} has {counted(report.constant, 'map')} of one value only: no correlation is defined there"
            )
        if report.suspicion:
            told.append(f"normals of {split}: {report.suspicion}")
    signs = {
        split: "positive" if report.facing > 0.5 else "negative"
        for split, report in reports.items()
        if report.facing is not None and not report.suspicion
    }
    if len(set(signs.values())) > 1:
        which = ", ".join(f"{sign} in {split}" for split, sign in signs.items())
        told.append(f"z of the normals is {which}: two conventions, of which one has to be turned")
    return told


def refusal(reports: Mapping[str, MapReport], kind: str) -> str | None:
    """Why a run with default options would not start."""
    faults = sum(len(report.faults) for report in reports.values())
    if faults:
        return f"{counted(faults, 'image')} or their maps cannot be used: mend or remove them"
    for split, report in reports.items():
        if report.valid == 0:
            return f"no map of {split} has a valid pixel: nothing to learn or score"
    if not reports.keys() & {"test", "val", "all"}:
        return "there is only a training split: nothing to score"
    learnt = reports.get("train") or next(iter(reports.values()))
    if kind in ("labels", "foreground") and len(learnt.classes) < 2:
        return f"every valid pixel to learn from is {next(iter(learnt.classes))}; a score needs two classes"
    return None
