"""One axis of a sweep: its values, what they are called and where they stand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from visbench.figures.numbers import plain, short
from visbench.record import is_number

_LOG = ("learning_rate", "weight_decay", "C", "l2", "temperature", "shots")
_ORDINAL = ("layer", "k")
_WIDE = 50.0  # any other axis is logarithmic where its largest value is so many times the smallest
_SAID_ALONE = ("backbone", "probe", "tap")  # a value that needs no name before it


@dataclass(frozen=True)
class Axis:
    """One axis of a sweep and the values that occur, numbers in ascending order."""

    name: str
    values: tuple[Any, ...]

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The values in few characters, no two alike."""
        for digits in range(2, 17):
            labels = tuple(short(value, digits) for value in self.values)
            if len(set(labels)) == len(labels):
                break
        return labels

    @cached_property
    def numeric(self) -> bool:
        """Whether all values are numbers, None (none at all) apart."""
        return any(map(is_number, self.values)) and all(
            value is None or is_number(value) for value in self.values
        )

    @cached_property
    def log(self) -> bool:
        """Whether the values are spread by their logarithm; 0 and None have places of their own."""
        positive = self._positive
        negative = any(is_number(value) and value < 0 for value in self.values)
        if not self.numeric or not positive or negative or self.name in _ORDINAL:
            return False
        return self.name in _LOG or max(positive) / min(positive) >= _WIDE

    @cached_property
    def places(self) -> np.ndarray:
        """(n,) where the values stand: log10 on a logarithmic axis, 0 left of it and None or inf right."""
        if not self.log:
            return np.arange(len(self.values), dtype=float)
        positive = self._positive
        first, last = math.log10(min(positive)), math.log10(max(positive))
        gap = max(1.3 * (last - first) / max(len(positive) - 1, 1), (last - first) / 10) or 1.0
        beside = {0: first - gap, None: last + gap, math.inf: last + gap}
        return np.array([beside[v] if v in beside else math.log10(v) for v in self.values])

    @cached_property
    def apart(self) -> np.ndarray:
        """(n,) bool: the values that a logarithmic axis has no room for, and which stand beside it."""
        return np.array([self.log and value not in self._positive for value in self.values])

    @property
    def _positive(self) -> list[float]:
        return [v for v in self.values if is_number(v) and 0 < v < math.inf]

    def said(self, index: int) -> str:
        """`layer 11`, `standardize on`; a backbone or tap by itself."""
        label = self.labels[index]
        return label if self.name in _SAID_ALONE else f"{self.name} {label}"

    def __len__(self) -> int:
        return len(self.values)


def axis_of(name: str, listed: Sequence[Any], trials: Sequence[Mapping[str, Any]]) -> Axis:
    """The values that occur: numbers ascending, words in the order of `listed` and then of the trials."""
    occur = dict.fromkeys(plain(trial.get(name)) for trial in trials)
    values = [value for value in dict.fromkeys(map(plain, listed)) if value in occur]
    values += [value for value in occur if value not in values]
    axis = Axis(name, tuple(values))
    if axis.numeric:
        axis = Axis(name, tuple(sorted(values, key=lambda v: math.inf if v is None else v)))
    return axis
