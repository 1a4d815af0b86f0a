"""Boards: groups of comparable records, the newest of each backbone, ranked as ranges.

A rank is 1 + the number of rows significantly better … n − the number significantly worse, since not being
separable is not transitive.  Two rows are told apart by a paired test where the caller has one (it needs
the scores of every sample), otherwise only where their 95 % intervals do not overlap; a board says which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, compress
from operator import not_

from visbench.board_names import labels, titles
from visbench.record import Record, board_key, row_key, written

Separable = Callable[[Record, Record], bool | None]  # None: not known for this pair


@dataclass(frozen=True)
class Entry:
    """One row: a backbone's newest record and the ranks it may have; None where its headline is undefined."""

    label: str
    record: Record
    ranks: tuple[int, int] | None

    @property
    def rank(self) -> str:
        """`1–2`, `3`, or a dash."""
        if self.ranks is None:
            return "–"
        first, last = self.ranks
        return str(first) if first == last else f"{first}–{last}"


@dataclass(frozen=True)
class Board:
    """Comparable rows, best first."""

    title: str
    headline: str
    better: str  # "higher" or "lower"
    entries: tuple[Entry, ...]
    rule: str  # what sharing a rank means here; empty for a single row
    superseded: int = 0  # older records of the same backbones
    key: str = ""  # digest of what its records agree on

    @property
    def best(self) -> Entry | None:
        """The row that is separably better than every other."""
        ranked = [entry for entry in self.entries if entry.ranks]
        return ranked[0] if len(ranked) > 1 and ranked[0].ranks == (1, 1) else None


def boards(
    records: Iterable[Record],
    *,
    headlines: Mapping[str, tuple[str, str]] | None = None,
    by: Mapping[str, tuple[str, str]] | None = None,
    separable: Separable | None = None,
    test: str = "paired bootstrap, Holm",
    every: bool = False,
) -> list[Board]:
    """One board for each protocol, in the order the protocols first appear.

    `headlines` gives (metric, "higher" or "lower") by task for records that do not name theirs, `by` what ranks in
    place of those they name; `separable` tells whether two records of a board differ significantly, by what `test`
    names.  Of several records of one backbone the newest stands, or `every` one of them.
    """
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(board_key(record), []).append(record)
    named = titles([group[0] for group in groups.values()])
    return [
        _board(
            key,
            group,
            title,
            lambda record: _headline(record, headlines or {}, by or {}),
            separable,
            test,
            every,
        )
        for (key, group), title in zip(groups.items(), named, strict=True)
    ]


def newest(records: Iterable[Record]) -> list[Record]:
    """The latest record of each backbone; of equal timestamps the one further down the file."""
    return list({row_key(record): record for record in sorted(records, key=written)}.values())


def ranks(count: int, beats: Callable[[int, int], bool]) -> list[tuple[int, int]]:
    """The range of ranks of each of `count` rows, given who is significantly better than whom."""
    rows = range(count)
    better = [sum(beats(other, row) for other in rows if other != row) for row in rows]
    worse = [sum(beats(row, other) for other in rows if other != row) for row in rows]
    return [(1 + ahead, count - behind) for ahead, behind in zip(better, worse, strict=True)]


def _board(
    key: str,
    group: Sequence[Record],
    title: str,
    headline_of: Callable[[Record], tuple[str, str]],
    separable: Separable | None,
    test: str,
    every: bool,
) -> Board:
    records = list(group) if every else newest(group)
    headline, better = headline_of(records[-1])
    sign = -1 if better == "higher" else 1
    defined = [record.metrics.get(headline) is not None for record in records]
    scored = sorted(
        compress(records, defined), key=lambda each: (sign * each.metrics[headline], each.backbone)
    )
    unscored = sorted(compress(records, map(not_, defined)), key=lambda each: each.backbone)
    verdicts = {
        (i, j): _verdict(scored[i], scored[j], headline, separable)
        for i, j in combinations(range(len(scored)), 2)
    }
    ranges = ranks(len(scored), lambda i, j: i < j and verdicts[i, j][0])
    rows = [*scored, *unscored]
    spans = [*ranges, *[None] * len(unscored)]
    entries = tuple(map(Entry, labels(rows, every=every), rows, spans))
    older = len(group) - len(records)
    return Board(title, headline, better, entries, _rule(verdicts.values(), test), older, key)


def _headline(
    record: Record, headlines: Mapping[str, tuple[str, str]], by: Mapping[str, tuple[str, str]]
) -> tuple[str, str]:
    if record.task in by:
        return by[record.task]
    if record.headline:
        return record.headline, record.better
    return headlines.get(record.task) or (next(iter(record.metrics), "score"), record.better)


def _verdict(a: Record, b: Record, headline: str, separable: Separable | None) -> tuple[bool, str]:
    """Whether `a`, the better of the two, is significantly so, and by which evidence."""
    tested = separable(a, b) if separable else None
    if tested is not None:
        return tested, "test"
    first, second = a.intervals.get(headline), b.intervals.get(headline)
    if not first or not second:
        return False, "nothing"
    return first[0] > second[1] or second[0] > first[1], "intervals"


def _rule(verdicts: Iterable[tuple[bool, str]], test: str) -> str:
    evidence = {kind for _, kind in verdicts}
    ways = {
        "test": test,
        "intervals": "overlap of their 95 % intervals",
        "nothing": "some have no interval to tell them apart",
    }
    said = "; ".join(way for kind, way in ways.items() if kind in evidence)
    return f"rows that share a rank are not separable ({said})" if said else ""
