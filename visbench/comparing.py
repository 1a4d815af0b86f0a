"""Which rows of a board differ: paired on the same samples, corrected for how many pairs were looked at."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from probes import statistics
from visbench.board import newest
from visbench.pipeline import Result
from visbench.record import Record, board_key

LEVEL = 0.05
RESAMPLES_A_PAIR = 200  # the smallest p that can be seen must stay well below LEVEL / pairs


class Paired:
    """Tells whether two records of one call are separable: paired bootstrap, Holm over the board.

    Records whose scores of every sample are not at hand are left to the intervals.
    """

    def __init__(self, results: Iterable[Result], *, seed: int = 0) -> None:
        self._verdicts: dict[frozenset[int], bool] = {}
        groups: dict[str, list[Result]] = {}
        for result in results:
            if result.record.headline in result.per_sample:
                groups.setdefault(board_key(result.record), []).append(result)
        for group in groups.values():
            self._judge(group, seed)

    def __call__(self, a: Record, b: Record) -> bool | None:
        """True or False, or None where it is not known."""
        return self._verdicts.get(frozenset((id(a), id(b))))

    def _judge(self, group: list[Result], seed: int) -> None:
        kept = {id(record) for record in newest(result.record for result in group)}
        pairs = list(combinations([result for result in group if id(result.record) in kept], 2))
        resamples = max(1000, RESAMPLES_A_PAIR * len(pairs))
        p_values = []
        for a, b in pairs:
            scores = (each.per_sample[str(each.record.headline)] for each in (a, b))
            p_values.append(statistics.paired_bootstrap(*scores, resamples=resamples, seed=seed).p)
        for (a, b), p in zip(pairs, statistics.holm(p_values) if pairs else [], strict=True):
            self._verdicts[frozenset((id(a.record), id(b.record)))] = bool(p < LEVEL)
