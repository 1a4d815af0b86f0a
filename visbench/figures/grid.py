"""A sweep as arrays: scores over the axes that vary, and the best over some of them.

A trial is a mapping: its value on every axis, `backbone`, `probe`, `score`, `std` and `chosen`.
Every array of a `Grid` has one axis for each `Axis`, in their order; `backbone` comes first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from extract.wording import counted
from visbench.figures.axis import Axis, axis_of
from visbench.figures.numbers import finite, plain

Trial = Mapping[str, Any]
Axes = Mapping[str, Sequence[Any]]

_FIRST = (
    "learning_rate",
    "weight_decay",
    "C",
    "l2",
    "temperature",
    "k",
)  # the inner axes, best seen as a map


@dataclass(frozen=True)
class Grid:
    """The trials of one probe over the axes that vary."""

    axes: tuple[Axis, ...]
    score: np.ndarray  # NaN where a setting diverged or was not tried
    std: np.ndarray  # NaN where it is not known
    tried: np.ndarray  # bool
    chosen: np.ndarray  # bool
    better: str = "higher"
    probe: str = ""

    @property
    def diverged(self) -> np.ndarray:
        """Bool: tried, and no score came of it."""
        return np.asarray(self.tried & np.isnan(self.score))

    @property
    def inner(self) -> list[Axis]:
        """The axes apart from backbone: first those best seen as a map, then layer, then words."""

        def rank(axis: Axis) -> int:
            if axis.name in _FIRST:
                return _FIRST.index(axis.name)
            return len(_FIRST) + (0 if axis.numeric and axis.name != "layer" else 1 if axis.numeric else 2)

        return sorted(self.axes[1:], key=rank)

    def axis(self, name: str) -> int:
        """The number of the axis called `name`."""
        return [axis.name for axis in self.axes].index(name)

    def at(self, place: Mapping[str, int]) -> Grid:
        """What lies at the given indices of some axes, which are then gone."""
        index = tuple(place.get(axis.name, slice(None)) for axis in self.axes)
        axes = tuple(axis for axis in self.axes if axis.name not in place)
        return self._with(axes, *(array[index] for array in self._arrays))

    def keeping(self, *names: str) -> Grid:
        """The best over all other axes, the kept ones in the order of `names`; chosen if any of them is.

        Of backbones that are thus put together the best choice alone remains one.
        """
        if "backbone" not in names and self.chosen.any():
            self = self._with_winner_alone()
        kept = [self.axis(name) for name in names]
        order = kept + [i for i in range(len(self.axes)) if i not in kept]
        shape = (*(len(self.axes[i]) for i in kept), -1)
        score, std, tried, chosen = (array.transpose(order).reshape(shape) for array in self._arrays)
        worth = score if self.better == "higher" else -score
        best = np.argmax(np.where(np.isnan(worth), -np.inf, worth), axis=-1)[..., None]
        score, std = (np.take_along_axis(array, best, axis=-1)[..., 0] for array in (score, std))
        some = (np.asarray(each.any(-1)) for each in (tried, chosen))
        return self._with(tuple(self.axes[i] for i in kept), score, std, *some)

    def winner(self) -> dict[str, int] | None:
        """Where the best of the chosen trials stands, or the best of all where none is; None without scores."""
        known = ~np.isnan(self.score)
        among = known & self.chosen if (known & self.chosen).any() else known
        if not among.any():
            return None
        worth = self.score if self.better == "higher" else -self.score
        best = int(np.argmax(np.where(among, worth, -np.inf)))
        place = np.unravel_index(best, self.score.shape)
        return {axis.name: int(i) for axis, i in zip(self.axes, place, strict=True)}

    @property
    def _arrays(self) -> tuple[np.ndarray, ...]:
        return self.score, self.std, self.tried, self.chosen

    def _with(self, axes: tuple[Axis, ...], *arrays: np.ndarray) -> Grid:
        score, std, tried, chosen = arrays
        return Grid(axes, score, std, tried, chosen, self.better, self.probe)

    def _with_winner_alone(self) -> Grid:
        chosen = np.zeros_like(self.chosen)
        if place := self.winner():
            winner = tuple(place.values())
            chosen[winner] = self.chosen[winner]
        return replace(self, chosen=chosen)


def grids(trials: Sequence[Trial], axes: Axes, better: str = "higher") -> list[Grid]:
    """One grid for each probe.  An axis with one value is left out, a value that no trial has as well.

    Two trials at one place are refused: `axes` then does not name everything that varies.
    """
    if not trials:
        raise ValueError("there are no trials to show")
    if better not in ("higher", "lower"):
        raise ValueError(f'better is {better!r}; it must be "higher" or "lower"')
    probes = dict.fromkeys(trial.get("probe", "") for trial in trials)
    of = {probe: [trial for trial in trials if trial.get("probe", "") == probe] for probe in probes}
    return [_grid(mine, axes, better, probe) for probe, mine in of.items()]


def compared(trials: Sequence[Trial], metric: str) -> str:
    """`held-out top1, 768 settings, 3 diverged`."""
    count, gone = len(trials), sum(math.isnan(finite(trial.get("score"))) for trial in trials)
    said = f"held-out {metric}, {counted(count, 'setting')}"
    return f"{said}, {gone:,} diverged" if gone else said


def few_shot(grid: Grid) -> tuple[Grid, bool]:
    """Scores over backbone and shots: those of the chosen settings where each has one, else the best.

    The second value tells which; the marks are gone where every point would bear one.
    """
    rest = tuple(i for i, axis in enumerate(grid.axes) if axis.name not in ("backbone", "shots"))
    if np.array_equal(grid.chosen.sum(rest) == 1, grid.tried.any(rest)):
        score = np.where(grid.chosen, grid.score, np.nan)
        picked = replace(grid, score=score, tried=grid.chosen, chosen=np.zeros_like(grid.chosen))
        return picked.keeping("backbone", "shots"), True
    return grid.keeping("backbone", "shots"), False


def places_of(grid: Grid, names: Sequence[str]) -> list[dict[str, int]]:
    """Where along the axes `names` anything was tried, the last running fastest."""
    sizes = [range(len(grid.axes[grid.axis(name)])) for name in names]
    every = (dict(zip(names, place, strict=True)) for place in product(*sizes))
    return [place for place in every if grid.at(place).tried.any()]


def _grid(trials: Sequence[Trial], axes: Axes, better: str, probe: str) -> Grid:
    names = dict.fromkeys(["backbone", *(name for name in axes if name != "probe")])
    every = [axis_of(name, axes.get(name, ()), trials) for name in names]
    varying = tuple(axis for axis in every if len(axis) > 1 or axis.name == "backbone")
    index = [{value: i for i, value in enumerate(axis.values)} for axis in varying]
    shape = tuple(map(len, varying))
    score, std = np.full(shape, np.nan), np.full(shape, np.nan)
    tried, chosen = np.zeros(shape, bool), np.zeros(shape, bool)
    for trial in trials:
        place = tuple(at[plain(trial.get(axis.name))] for axis, at in zip(varying, index, strict=True))
        if tried[place]:
            where = ", ".join(f"{axis.name} {axis.labels[i]}" for axis, i in zip(varying, place, strict=True))
            raise ValueError(f"two trials stand at {where}; axes must name everything that varies")
        tried[place], chosen[place] = True, bool(trial.get("chosen"))
        score[place], std[place] = finite(trial.get("score")), finite(trial.get("std"))
    std[np.isnan(score)] = np.nan
    return Grid(varying, score, std, tried, chosen, better, probe)
