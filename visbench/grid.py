"""A grid of settings: named axes, their product, where the best lies, and what lies beyond an edge."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from visbench.errors import UsageError

Setting = dict[str, Any]
WIDER = 4  # values that an axis grows by at once

ALIASES = {"lr": "learning_rate", "wd": "weight_decay", "layers": "layer", "pooling": "tap"}
# Numbers that are ratios, so that an axis of them has a next value: 0 and whole numbers have none.
GEOMETRIC = frozenset({"learning_rate", "weight_decay", "C", "l2"})
_RANGE = re.compile(r"(?P<low>[^:]+):(?P<high>[^:]+):(?P<kind>log|lin)(?P<count>\d+)", re.IGNORECASE)
_SWITCH = {"on": True, "off": False, "true": True, "false": False, "yes": True, "no": False}


@dataclass(frozen=True)
class Grid:
    """Axes by name, in the order of their settings: the last axis runs fastest."""

    axes: Mapping[str, tuple[Any, ...]]

    def __len__(self) -> int:
        return math.prod(len(values) for values in self.axes.values())

    def settings(self) -> list[Setting]:
        """Every setting of the grid."""
        return [dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values())]

    def best(self, scores: Sequence[float]) -> int:
        """The best setting; of several, which is frequent with few held-out rows, the one amid all that tie.

        A setting at the rim of a tied region is no better and brittle. What is not finite is never the best.
        """
        values = np.asarray(scores, float)
        if not np.isfinite(values).any():
            return 0
        tied = np.flatnonzero(values == np.nanmax(np.where(np.isfinite(values), values, np.nan)))
        places = np.stack(
            np.unravel_index(tied, [len(values) for values in self.axes.values()] or [1]), axis=1
        )
        return int(tied[np.abs(places - places.mean(axis=0)).sum(axis=1).argmin()])

    def edges(self, index: int, scores: Sequence[float], least: float = 0.0) -> list[str]:
        """The axes of a geometric unit at whose end the setting stands, their inner neighbour being worse.

        `least` is the share of the score by which it must be worse for that to be worth a word.
        """
        return [name for name, _ in self._ends(index, scores, least)]

    def beyond(self, index: int, scores: Sequence[float]) -> Grid | None:
        """The settings that a wider grid adds past the first edge of setting `index`; None if it is inside."""
        for name, last in self._ends(index, scores):
            values = self.axes[name]
            inner, end = (values[-2], values[-1]) if last else (values[1], values[0])
            added = _rounded([end * (end / inner) ** step for step in range(1, WIDER + 1)], 9)
            return Grid({**self.axes, name: added if last else added[::-1]})
        return None

    def joined(self, more: Grid) -> Grid:
        """This grid and one that `beyond` gave, as one."""
        (name,) = (name for name in self.axes if more.axes[name] != self.axes[name])
        ours, theirs = self.axes[name], more.axes[name]
        step = ours[1] > ours[0]
        after = (theirs[0] > ours[-1]) == step and theirs[0] != ours[-1]
        return Grid({**self.axes, name: ours + theirs if after else theirs + ours})

    def _ends(self, index: int, scores: Sequence[float], least: float = 0.0) -> list[tuple[str, bool]]:
        """(axis, whether it is the last end) for every edge that `index` stands at."""
        shape = [len(values) for values in self.axes.values()]
        place = np.unravel_index(index, shape) if shape else ()
        table, found = np.asarray(scores, float).reshape(shape), []
        if not np.isfinite(table[place]):
            return []
        for axis, (name, values) in enumerate(self.axes.items()):
            at = int(place[axis])
            if name not in GEOMETRIC or len(values) < 2 or at not in (0, len(values) - 1) or not values[at]:
                continue
            last = at == len(values) - 1
            inner = [*map(int, place)]
            inner[axis] += -1 if last else 1
            here = table[tuple(map(int, place))]
            if values[inner[axis]] and not table[tuple(inner)] >= here - least * abs(here):
                found.append((name, last))
        return found


def parse_axis(text: str) -> tuple[str, tuple[Any, ...]]:
    """An axis as the command line gives it: `lr=1e-4:1e-1:log8`, `weight_decay=0,1e-4`, `standardize=on,off`."""
    name, sign, values = (part.strip() for part in text.partition("="))
    name = ALIASES.get(name, name)
    if not sign or not name or not values:
        raise UsageError(
            f"--grid {text!r} is no axis of a grid; wanted NAME=VALUE,VALUE or NAME=LOW:HIGH:log8 (or lin8)"
        )
    if ":" in values:
        return name, _range(text, values)
    return name, make_axis(name, [_value(item.strip()) for item in values.split(",") if item.strip()])


def make_axis(name: str, values: Any) -> tuple[Any, ...]:
    """The values of an axis, each once, in the order given."""
    if isinstance(values, np.ndarray) or np.isscalar(values):
        values = np.ravel(np.asarray(values)).tolist()
    if not isinstance(values, Iterable):
        raise UsageError(f"the axis {name} of the grid is {values}; give it at least one value")
    listed = list(values)
    listed = [value.item() if isinstance(value, np.generic) else value for value in listed]
    if not listed:
        raise UsageError(f"the axis {name} of the grid is empty; give it at least one value")
    return tuple(dict.fromkeys(listed))


def _range(text: str, values: str) -> tuple[float, ...]:
    found = _RANGE.fullmatch(values)
    try:
        low, high, count = float(found["low"]), float(found["high"]), int(found["count"])  # type: ignore[index]
    except (TypeError, ValueError):
        raise UsageError(
            f"--grid {text!r}: a range is LOW:HIGH:logN or LOW:HIGH:linN, such as 1e-4:1e-1:log8"
        ) from None
    assert found is not None
    logarithmic = found["kind"].lower() == "log"
    if count < 2 or not (math.isfinite(low) and math.isfinite(high)) or low == high:
        raise UsageError(f"--grid {text!r}: a range needs two different ends and at least 2 values")
    if logarithmic and min(low, high) <= 0:
        raise UsageError(
            f"--grid {text!r}: both ends of a log range must be above 0; write 0 apart, as 0,1e-4,…"
        )
    return geometric(low, high, count) if logarithmic else _rounded(np.linspace(low, high, count))


def geometric(low: float, high: float, count: int) -> tuple[float, ...]:
    """`count` values from `low` to `high`, each the same multiple of the one before."""
    return _rounded(np.geomspace(low, high, count))


def _rounded(values: Iterable[float], digits: int = 12) -> tuple[float, ...]:
    return tuple(float(f"{value:.{digits}g}") for value in values)  # 1e-3, not 0.0010000000000000002


def _value(item: str) -> Any:
    """A switch, a whole number, a number or a word."""
    if item.lower() in _SWITCH:
        return _SWITCH[item.lower()]
    for kind in (int, float):
        try:
            return kind(item)
        except ValueError:
            continue
    return item
