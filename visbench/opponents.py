"""Which records a comparison is of: two names become pairs of rows that may be compared.

A name is a backbone as a board shows it, the beginning of a record's key (`visbench compare` prints keys), or a
results file, whose backbones are then compared with the same ones of another file.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from extract.wording import listed
from visbench import results
from visbench.board import Board, boards, newest
from visbench.errors import UsageError, did_you_mean
from visbench.record import (
    DIGITS,
    Json,
    Record,
    backbone_part,
    board_key,
    digest,
    protocol_part,
    row_key,
    run_key,
)

LONG, MANY = 40, 12  # characters of a value, names of a list that a message shows
_DATA = ("data", "dataset_params")  # what may differ where only shared samples are compared
# What may differ between two records of one backbone: how its features are read, not what they are asked.
_READING = {"probe", "training", "hyperparameters", "selection", "taps", "pooling_requested", "feature_mode"}
_READING_TASK = "task_params"  # and settings of the read-out, where the probes differ


@dataclass(frozen=True)
class Row:
    """A record as a row of its board."""

    label: str
    board: Board
    record: Record
    results: Path

    @property
    def key(self) -> str:
        """What a user may name the record by."""
        return run_key(self.record)[:DIGITS]


Pair = tuple[Row, Row]


class Lineup:
    """The rows of some results files."""

    def __init__(self, files: Sequence[str | Path], task: str | None = None) -> None:
        paths = list(dict.fromkeys(map(Path, files)))
        self.said = " and ".join(map(str, paths))
        found = [(record, path) for path in paths for record in results.read(path)]
        self.records = [record for record, _ in found if task in (None, record.task)]
        if not self.records:
            tasks = ", ".join(dict.fromkeys(record.task for record, _ in found)) or "no record at all"
            raise UsageError(f"there is no record of {task or 'any task'} in {self.said}; it has {tasks}")
        self._files = {id(record): file for record, file in found}
        self._boards = dict(
            zip(dict.fromkeys(map(board_key, self.records)), boards(self.records), strict=True)
        )
        self.rows = [
            self._row(entry.record, board) for board in self._boards.values() for entry in board.entries
        ]

    def named(self, name: str) -> list[Row]:
        """The rows of a backbone, one a board; or the row of the record with this key."""
        rows = [row for board in self._boards.values() for row in self._on(board, name)]
        if rows:
            return rows
        record = of_key(self.records, name)
        if record is not None:
            return [self._row(record, self._boards[board_key(record)])]
        names = list(dict.fromkeys(row.record.backbone for row in self.rows))
        raise UsageError(
            f'there is no "{name}" in {self.said}.{did_you_mean(name, names)} It has records of {listed(names, MANY)}.'
        )

    def _on(self, board: Board, name: str) -> list[Row]:
        entries = [entry for entry in board.entries if entry.label == name]
        entries = entries or [entry for entry in board.entries if entry.record.backbone == name]
        if len(entries) > 1:
            listed = "; ".join(f"{run_key(each.record)[:DIGITS]} {each.label}" for each in entries)
            raise UsageError(f"{name} is {len(entries)} rows of {board.title}; name one by its key: {listed}")
        return [self._row(entry.record, board) for entry in entries]

    def _row(self, record: Record, board: Board) -> Row:
        labels = {row_key(entry.record): entry.label for entry in board.entries}
        label = labels.get(row_key(record), record.backbone)
        return Row(label, board, record, self._files[id(record)])


def pairs(
    a: str, b: str, files: Sequence[str | Path], *, task: str | None = None, common: bool = False
) -> list[Pair]:
    """The rows of `a` and of `b` on every board that both stand on; `common` lets their data differ.

    Refused with the fields that differ, where there is none.
    """
    if is_file(a) or is_file(b):
        return _of_files(a, b, files, task, common)
    if not files:
        raise UsageError(
            "no results are named; give the file that a run wrote, such as results/visbench.jsonl"
        )
    lineup = Lineup(files, task)
    first, second = lineup.named(a), lineup.named(b)
    found = _together(first, second, common)
    if found and all(one.record is other.record for one, other in found):
        listed = "; ".join(f"{row.key} {row.board.title}" for row in first)
        warnings.warn(
            f"{a} is compared with itself; two of its probes or layers are compared by their keys: {listed}",
            stacklevel=3,
        )
    if not found and len(first) == len(second) == 1 and _read_otherwise(first[0], second[0]):
        return [(first[0], second[0])]
    return found or _refuse(first, second)


def differing(first: Mapping[str, Any], second: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted name → (value, value) of whatever two mappings hold that is not the same."""
    found: dict[str, Any] = {}
    for key in dict.fromkeys([*first, *second]):
        one, other = first.get(key), second.get(key)
        if isinstance(one, dict) and isinstance(other, dict):
            found |= differing(one, other, f"{prefix}{key}.")
        elif one != other:
            found[prefix + key] = (one, other)
    return found


def settings(record: Record, *, versions: bool = False) -> Json:
    """All that a record's number depends on but its data, to say in what two records differ."""
    part = {**protocol_part(record), **backbone_part(record), "layer": record.layer, "seed": record.seed}
    return part | ({"versions": record.versions} if versions else {})


def in_words(fields: Mapping[str, Any]) -> str:
    """`probe logistic against knn, layer 11 against 5`."""
    return ", ".join(f"{name} {_short(a)} against {_short(b)}" for name, (a, b) in fields.items())


def _of_files(a: str, b: str, files: Sequence[str | Path], task: str | None, common: bool) -> list[Pair]:
    if not (is_file(a) and is_file(b)):
        raise UsageError(f"{a} against {b} is a results file against a name; give two files, or two names")
    if files:
        raise UsageError(f"{a} and {b} are results files, so --results would not be used; leave it out")
    first, second = Lineup([a], task).rows, Lineup([b], task).rows
    found = []
    for label in dict.fromkeys(row.label for row in first):
        ours, theirs = ([row for row in rows if row.label == label] for rows in (first, second))
        found += _together(ours, theirs, common)
    if found:
        return found
    both = {row.record.backbone for row in first} & {row.record.backbone for row in second}
    if not both:
        raise UsageError(f"{a} and {b} have no backbone in common")
    ours, theirs = ([row for row in rows if row.record.backbone in both] for rows in (first, second))
    return _refuse(ours, theirs)


def _together(first: Iterable[Row], second: Iterable[Row], common: bool) -> list[Pair]:
    exact = {board_key(row.record): row for row in second}
    loose = {_but_data(row.record): row for row in second} if common else {}
    found = []
    for row in first:
        other = exact.get(board_key(row.record)) or loose.get(_but_data(row.record))
        if other is not None:
            found.append((row, other))
    return found


def _but_data(record: Record) -> str:
    part = {name: value for name, value in protocol_part(record).items() if name not in _DATA}
    return digest([part, record.dataset])


def _read_otherwise(first: Row, second: Row) -> bool:
    """Whether two records are two read-outs of the same features of the same samples."""
    parts = [protocol_part(row.record) for row in (first, second)]
    apart = {name for name in parts[0] if parts[0][name] != parts[1][name]}
    allowed = _READING | ({_READING_TASK} if "probe" in apart else set())
    return row_key(first.record) == row_key(second.record) and apart <= allowed


def _refuse(first: Sequence[Row], second: Sequence[Row]) -> list[Pair]:
    fields, a, b = min(
        (
            (differing(protocol_part(x.record), protocol_part(y.record)), x, y)
            for x, y in product(first, second)
        ),
        key=lambda each: len(each[0]),
    )
    if not fields:
        raise UsageError(
            f"{a.label} and {b.label} are not the only rows of their name on {a.board.title}; name records by key"
        )
    way_out = (
        "--common compares the samples that both scored"
        if {name.partition(".")[0] for name in fields} <= {*_DATA}
        else "run both in the same way"
    )
    raise UsageError(
        f"{a.label} ({a.key}) and {b.label} ({b.key}) may not be compared, they differ in {in_words(fields)}; {way_out}"
    )


def is_file(name: str) -> bool:
    """Whether a name means a results file."""
    return name.endswith((".jsonl", ".csv"))


def is_key(name: str) -> bool:
    """Whether a name can be the beginning of a record's key."""
    return re.fullmatch("[0-9a-f]{4,32}", name) is not None


def of_key(records: Iterable[Record], name: str) -> Record | None:
    """The newest record whose key begins with `name`; refused where these are several keys."""
    found = [record for record in records if is_key(name) and run_key(record).startswith(name)]
    if len({run_key(record) for record in found}) > 1:
        keys = ", ".join(sorted({run_key(record)[: len(name) + 4] for record in found}))
        raise UsageError(f"several records have a key that begins with {name}: {keys}")
    return newest(found)[0] if found else None


def _short(value: Any) -> str:
    said = "nothing" if value in (None, {}, []) else str(value)
    if re.fullmatch("[0-9a-f]{32}", said):  # a digest
        return said[:DIGITS]
    return said if len(said) <= LONG else f"{said[: LONG // 2]}…"
