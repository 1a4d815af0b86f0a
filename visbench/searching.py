"""The search through a grid: every setting of every arm on every replicate, then the best.

An arm is what changes the features or the program (a layer, a tap, standardisation); within it the settings of a
grid are one computation.  A replicate is a fold, a draw or a seed.  What a trial is, the caller says: the search
knows neither probes nor features.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np

from visbench.grid import Grid, Setting
from visbench.journal import Journal, trial_row

WIDENINGS = 3  # how often a grid may grow before its edge is accepted

Key = TypeVar("Key", bound=Hashable)
# (arm, settings, replicate) → groups of settings as they are done: their indices and their scores
Measure = Callable[["Arm", Sequence[Setting], Any], Iterator[tuple[np.ndarray, np.ndarray]]]


@dataclass(frozen=True)
class Arm:
    """One value of all that is tried one after the other, and the grid that is tried at once."""

    place: Setting  # what tells it from other arms: {"layer": 11, "standardize": True}
    grid: Grid
    what: Any = None  # what the caller's measure needs to know
    chained: bool = False  # its groups start from one another, so a part of them is not taken up again


def count_settings(arms: Sequence[Arm]) -> int:
    """Of all arms together."""
    return sum(len(arm.grid) for arm in arms)


@dataclass(frozen=True)
class Table:
    """The scores of an arm: (settings, replicates), NaN where a fit diverged."""

    arm: Arm
    scores: np.ndarray
    lower: bool = False  # whether less is better

    @property
    def gains(self) -> np.ndarray:
        """(settings,) the means, turned so that more is better."""
        return -self.means if self.lower else self.means

    @property
    def means(self) -> np.ndarray:
        """(settings,) over replicates."""
        return np.asarray(self.scores.mean(axis=1))

    @property
    def best(self) -> int:
        """The index of the best setting."""
        return self.arm.grid.best(self.gains.tolist())

    @property
    def edges(self) -> list[str]:
        """The axes at whose end the best setting stands."""
        return self.arm.grid.edges(self.best, self.gains.tolist())


@dataclass
class Search(Generic[Key]):
    """Tries `replicates` of all settings; `journal` keeps what is done, `advance` hears of it."""

    measure: Measure
    replicates: Sequence[Key]
    journal: Journal = field(default_factory=Journal)
    advance: Callable[[int], None] = lambda count: None
    lower: bool = False  # whether less is better

    def run(self, arms: Sequence[Arm], *, widen: bool = False) -> Found:
        """All arms, then their wider grids where the best setting of all stands at an edge."""
        found = Found([Table(arm, self._scores(arm), self.lower) for arm in arms], widen)
        for _ in range(WIDENINGS if widen else 0):
            table = found.table
            more = table.arm.grid.beyond(table.best, table.gains.tolist())
            if more is None:
                break
            wider = self._widened(table, more)
            better = np.nanmax(wider.gains) > np.nanmax(table.gains)
            found.tables[found.index] = wider
            if not better:  # a plateau has no edge worth walking to
                break
        return found

    def _widened(self, table: Table, more: Grid) -> Table:
        """The table with the settings of `more` in their places."""
        arm, joined = table.arm, table.arm.grid.joined(more)
        added = self._scores(replace(arm, grid=more))
        known = {
            _frozen(setting): row for setting, row in zip(arm.grid.settings(), table.scores, strict=True)
        }
        known |= {_frozen(setting): row for setting, row in zip(more.settings(), added, strict=True)}
        scores = np.stack([known[_frozen(setting)] for setting in joined.settings()])
        return Table(replace(arm, grid=joined), scores, self.lower)

    def _scores(self, arm: Arm) -> np.ndarray:
        settings = arm.grid.settings()
        scores = np.full((len(settings), len(self.replicates)), np.nan)
        for column, replicate in enumerate(self.replicates):
            scores[:, column] = self._replicate(arm, settings, replicate)
        return scores

    def _replicate(self, arm: Arm, settings: list[Setting], replicate: Key) -> np.ndarray:
        scores = np.full(len(settings), np.nan)
        where = {**arm.place, "replicate": replicate}
        known = [self.journal.get(where, setting) for setting in settings]
        missing = np.array([score is None for score in known])
        scores[~missing] = [score for score in known if score is not None]
        if arm.chained and missing.any():
            missing[:] = True
        self.advance(int((~missing).sum()))
        todo = np.flatnonzero(missing)
        if len(todo):
            for indices, values in self.measure(arm, [settings[index] for index in todo], replicate):
                scores[todo[indices]] = values
                self.journal.add(where, [settings[index] for index in todo[indices]], values.tolist())
                self.advance(len(indices))
        return scores


@dataclass
class Found:
    """The tables of all arms, and the best setting among them."""

    tables: list[Table]
    widened: bool = False  # whether grids were to grow at an edge

    @property
    def index(self) -> int:
        """The arm with the best setting; of several the first."""
        tops = [table.gains[table.best] for table in self.tables]
        return int(np.argmax(np.nan_to_num(tops, nan=-np.inf)))

    @property
    def table(self) -> Table:
        """The table of the best arm."""
        return self.tables[self.index]

    @property
    def chosen(self) -> Setting:
        """The best setting of all."""
        return self.table.arm.grid.settings()[self.table.best]

    @property
    def score(self) -> float:
        """Its mean score over replicates."""
        return float(self.table.means[self.table.best])

    def rows(self) -> list[dict[str, Any]]:
        """A row a setting: its place, its values, `score`, `std` over replicates, and whether it was `chosen`."""
        best = self.index, self.table.best
        return [
            trial_row({**table.arm.place, **setting}, scores, chosen=(number, place) == best)
            for number, table in enumerate(self.tables)
            for place, (setting, scores) in enumerate(
                zip(table.arm.grid.settings(), table.scores, strict=True)
            )
        ]


def _frozen(setting: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(setting.items())
