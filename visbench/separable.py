"""Which rows of a board differ: paired on the same samples, corrected for how many pairs were looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probes import statistics
from visbench import samples
from visbench.board import newest
from visbench.errors import UsageError
from visbench.record import Record, board_key

if TYPE_CHECKING:
    from visbench.pipeline import Result

LEVEL = 0.05

Load = Callable[[], tuple[str, Any] | None]  # (a name of the samples in their order, (n,) headline scores)


class _Scored(NamedTuple):
    record: Record
    load: Load


class Paired:
    """Tells whether two records are separable: paired bootstrap, Holm over the newest rows of their board.

    Made of the results of one call, or of records whose scores lie beside them.  Records without scores, or whose
    headline is no mean of them, are left to the intervals.  A board is looked at when it is first asked about; its
    headline scores, (n, rows), are then in memory, and those of no other.
    """

    def __init__(
        self,
        results: Iterable[Result] = (),
        *,
        stored: str | Path | None = None,
        metric: str | None = None,
        seed: int = 0,
    ) -> None:
        """`stored` is the file that the results went to, for records that answered in place of runs (--resume).

        Compared are headlines, or `metric`.
        """
        self._seed, self._metric = seed, metric
        self._boards: dict[str, list[_Scored]] = {}
        self._board_of: dict[int, str] = {}
        self._verdicts: dict[str, dict[frozenset[int], bool]] = {}
        for result in results:
            self._add(result.record, _of_result(result, stored, metric))

    @classmethod
    def from_results(
        cls, records: Iterable[Record], results: str | Path, *, metric: str | None = None, seed: int = 0
    ) -> Paired:
        """Of the very `records` that were read from `results` and that boards are drawn of."""
        return cls.from_files([(record, results) for record in records], metric=metric, seed=seed)

    @classmethod
    def from_files(
        cls, read: Iterable[tuple[Record, str | Path]], *, metric: str | None = None, seed: int = 0
    ) -> Paired:
        """Of records, each with the file that it was read from."""
        paired = cls(metric=metric, seed=seed)
        for record, results in read:
            paired._add(record, _stored(record, results, metric))
        return paired

    def __call__(self, a: Record, b: Record) -> bool | None:
        """True or False, or None where it is not known."""
        board = self._board_of.get(id(a))
        if board is None or board != self._board_of.get(id(b)):
            return None
        if board not in self._verdicts:
            self._verdicts[board] = self._judge(self._boards[board])
        return self._verdicts[board].get(frozenset((id(a), id(b))))

    def _add(self, record: Record, load: Load) -> None:
        board = self._board_of[id(record)] = board_key(record)
        self._boards.setdefault(board, []).append(_Scored(record, load))

    def _judge(self, board: Sequence[_Scored]) -> dict[frozenset[int], bool]:
        kept = {id(record) for record in newest(row.record for row in board)}
        same: dict[
            str, list[tuple[int, np.ndarray]]
        ] = {}  # rows that scored the same samples in the same order
        for record, load in board:
            found = load() if id(record) in kept else None
            metric = self._metric or str(record.headline)
            if found is not None and samples.mean_is_recorded(record, metric, found[1]):
                same.setdefault(f"{found[0]} {len(found[1])}", []).append((id(record), found[1]))
        p_values: dict[frozenset[int], float] = {}
        for rows in same.values():
            p_values |= _p_values(rows, self._seed)
        adjusted = statistics.holm([*p_values.values()])
        return {pair: bool(p < LEVEL) for pair, p in zip(p_values, adjusted, strict=True)}


def _p_values(rows: Sequence[tuple[int, np.ndarray]], seed: int) -> dict[frozenset[int], float]:
    """p of every pair, over the samples that have a score under every row."""
    table = np.stack([np.asarray(scores, np.float64) for _, scores in rows], axis=1)
    table = table[~np.isnan(table).any(axis=1)]
    if len(rows) < 2 or not len(table):
        return {}
    p = statistics.pairwise_bootstrap(table, seed=seed)
    return {frozenset((rows[i][0], rows[j][0])): float(p[i, j]) for i in range(len(rows)) for j in range(i)}


def _of_result(result: Result, stored: str | Path | None, metric: str | None) -> Load:
    """Its stored scores, which tell of which samples they are, or those at hand."""

    def load() -> tuple[str, Any] | None:
        found = _stored(result.record, stored, metric)() if stored is not None else None
        scores = result.per_sample.get(metric or str(result.record.headline))
        return found if found or scores is None else ("", scores)

    return load


def _stored(record: Record, results: str | Path, metric: str | None) -> Load:
    def load() -> tuple[str, Any] | None:
        try:
            kept = samples.read(results, record)
        except UsageError:  # made before they were kept, or moved without them
            return None
        scores = kept.scores.get(metric or str(record.headline))
        return None if scores is None else (kept.ids_digest, scores)

    return load
