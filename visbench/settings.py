"""The settings of solvers as people give them: which there are, and what a value must be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast

import numpy as np

from visbench.errors import UsageError, did_you_mean
from visbench.solvers import SOLVERS, Solver

WORDS = {"optimizer": ("adamw", "sgd"), "schedule": ("constant", "cosine")}
_COUNTS = ("k", "epochs", "train_batch_size", "max_steps", "seed")


def settings_of(name: str) -> set[str]:
    """What may be set of a solver."""
    return {each.name for each in fields(cast(Any, SOLVERS[name])) if each.init}


def make_solver(name: str, settings: Mapping[str, Any]) -> Solver:
    """The solver called `name` with some settings fixed; a setting it does not have is refused.

    A single number fixes what a grid would otherwise choose.
    """
    if name not in SOLVERS:
        raise UsageError(
            f'there is no probe "{name}".{did_you_mean(name, SOLVERS)} There are {", ".join(SOLVERS)}.'
        )
    kind: Any = SOLVERS[name]
    known = {each.name: each for each in fields(kind) if each.init}
    unknown = [key for key in settings if key not in known]
    if unknown:
        having = [other for other in SOLVERS if unknown[0] in settings_of(other)]
        hint = f"; it is a setting of {' and of '.join(having)}" if having else ""
        raise UsageError(f"{name} has no setting {unknown[0]}{hint}. Its settings: {', '.join(known)}.")
    if {"C", "l2"} <= settings.keys():
        raise UsageError("C and l2 are one penalty in two units; give one of them")
    values = {key: _value(key, value, known[key].default) for key, value in settings.items()}
    return cast(Solver, kind(**values))


def _value(key: str, value: Any, default: Any) -> Any:
    """A setting in the type it has by default, so that 1 and 1.0 are one setting; a grid ascends, each value once."""
    if isinstance(default, bool):
        if value not in (True, False):
            raise UsageError(f"{key} is {value!r}; it is on or off (True or False)")
        return bool(value)
    if isinstance(default, str):
        if value not in WORDS[key]:
            raise UsageError(f"{key} is {value!r}; it is {' or '.join(WORDS[key])}")
        return value
    given = list(dict.fromkeys(np.ravel(value).tolist()))
    if not given:
        raise UsageError(f"{key} is empty; give at least one number")
    numbers = [_number(key, each) for each in given]
    if isinstance(default, tuple):
        return tuple(sorted(numbers, key=lambda each: math.inf if each is None else each))
    if len(numbers) > 1:
        raise UsageError(f"{key} is {given}; it takes one number")
    return numbers[0]


def _number(key: str, each: Any) -> Any:
    """Refuse what is no number, not finite, not whole where it counts, or not positive where it must be."""
    if key == "temperature" and each in (None, math.inf):
        return None
    if not isinstance(each, int | float) or isinstance(each, bool):
        raise UsageError(f"{key} is {each!r}; it must be a number")
    may_be_zero = key in ("weight_decay", "seed")
    if not math.isfinite(each) or each < 0 or (each == 0 and not may_be_zero):
        wanted = "0 or more" if may_be_zero else "greater than 0"
        raise UsageError(f"{key} is {each}; it must be finite and {wanted}")
    if key not in _COUNTS:
        return float(each)
    if each != int(each):
        raise UsageError(f"{key} is {each}; it counts, so it must be a whole number")
    return int(each)
