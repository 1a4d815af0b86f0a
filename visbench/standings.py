"""The boards of results files: which records are wanted, what ranks them, and which of their rows are separable."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from extract.wording import listed
from visbench import opponents, results
from visbench.board import Board, boards
from visbench.errors import UsageError, did_you_mean
from visbench.record import DIGITS, Json, Record, protocol_part
from visbench.separable import Paired
from visbench.tasks import better

MANY = 8  # names that a message lists


@dataclass(frozen=True)
class Wanted:
    """Which records boards are drawn of, and how; None asks for all."""

    task: str | None = None
    dataset: str | None = None
    probe: str | None = None
    protocol: str | None = None
    backbones: tuple[str, ...] = ()
    board: str | None = None  # the first digits of its digest
    by: str | None = None  # the metric that ranks
    every: bool = False  # all records of a backbone, not its newest
    controls: bool = True

    def takes(self, record: Record) -> bool:
        """Whether a record is wanted."""
        asked = ((self.task, record.task), (self.dataset, record.dataset), (self.probe, record.probe))
        return (
            all(want in (None, has) for want, has in (*asked, (self.protocol, record.protocol)))
            and (not self.backbones or record.backbone in self.backbones)
            and (self.controls or not record.control)
        )


def standings(files: Sequence[str | Path], wanted: Wanted = Wanted()) -> list[Board]:
    """The boards of the records in `files` that are wanted; refused where there is none."""
    return judged(files, wanted)[0]


def judged(files: Sequence[str | Path], wanted: Wanted = Wanted()) -> tuple[list[Board], Paired]:
    """The same, with what tells their rows apart."""
    taken = taken_of(files, wanted)
    by = {} if wanted.by is None else _directions([record for record, _ in taken], wanted.by)
    if wanted.by is not None:
        taken = [(record, path) for record, path in taken if record.metrics.get(wanted.by) is not None]
    paired = Paired.from_files(taken, metric=wanted.by)
    found = boards([record for record, _ in taken], by=by, separable=paired, every=wanted.every)
    named = [each for each in found if each.key.startswith(wanted.board or "")]
    if not named:
        keys = ", ".join(f"{each.key[:DIGITS]} {each.title}" for each in found[:MANY])
        raise UsageError(f"there is no board {wanted.board}; there are {keys}")
    return named, paired


def taken_of(files: Sequence[str | Path], wanted: Wanted) -> list[tuple[Record, Path]]:
    """The records that are wanted, each with its file; refused, with what there is instead, where there is none."""
    read = [(record, path) for path in dict.fromkeys(map(Path, files)) for record in results.read(path)]
    taken = [(record, path) for record, path in read if wanted.takes(record)]
    if not taken:
        raise UsageError(_nothing([record for record, _ in read], files, wanted))
    return taken


def single(found: Sequence[Board]) -> Board:
    """The one board of several records; refused, with the fields that keep them apart, where they make more."""
    if len(found) == 1:
        return found[0]

    def apart_in(pair: tuple[Board, Board]) -> dict[str, Any]:
        return opponents.differing(_protocol(pair[0]), _protocol(pair[1]))

    first, second = nearest = min(combinations(found, 2), key=lambda pair: len(apart_in(pair)))
    raise UsageError(
        f"these records make {len(found)} boards, and may not stand on one: {first.key[:DIGITS]} ({first.title}) "
        f"and {second.key[:DIGITS]} ({second.title}) differ in {opponents.in_words(apart_in(nearest))}; choose one, as "
        f"with board={first.key[:DIGITS]}"
    )


def _protocol(board: Board) -> Json:
    return protocol_part(board.entries[0].record)


def _directions(records: Sequence[Record], metric: str) -> dict[str, tuple[str, str]]:
    """Task → (metric, which way is better); refused where no record has it, or nobody says which way."""
    has = [record for record in records if record.metrics.get(metric) is not None]
    if not has:
        known = dict.fromkeys(name for record in records for name in record.metrics)
        raise UsageError(
            f'no record has a metric "{metric}".{did_you_mean(metric, known)} There are {listed(list(known), MANY)}.'
        )
    found = {}
    for record in has:
        way = better(record, metric)
        if way is None:
            raise UsageError(
                f"nobody says whether a higher {metric} of {record.task} is better; choose another metric"
            )
        found[record.task] = (metric, way)
    left = dict.fromkeys(record.task for record in records if record.task not in found)
    if left:
        warnings.warn(f"left out, having no {metric}: {', '.join(left)}", stacklevel=3)
    return found


def _nothing(records: Sequence[Record], files: Sequence[str | Path], wanted: Wanted) -> str:
    """That no record is wanted, and what there is instead of the first thing asked for that is not there."""
    where = " and ".join(map(str, files))
    if not records:
        return f"there is no record in {where}"
    for field in ("task", "dataset", "probe", "protocol", "backbone"):
        given = getattr(wanted, field, None)
        there = list(dict.fromkeys(str(getattr(record, field)) for record in records))
        for asked in wanted.backbones if field == "backbone" else [given] if given else []:
            if asked not in there:
                near = did_you_mean(asked, there)
                return f'there is no record of the {field} "{asked}" in {where}.{near} There are {listed(there, MANY)}.'
    return f"no record in {where} is all of that at once"
