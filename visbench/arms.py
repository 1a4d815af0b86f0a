"""From the axes of a grid to arms: what reads other features, what compiles another program, what is vmapped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from itertools import product
from typing import Any, cast

from visbench.classifier import Reading
from visbench.errors import UsageError, did_you_mean
from visbench.grid import geometric
from visbench.searching import Arm
from visbench.settings import make_solver
from visbench.solvers import SOLVERS

READING = ("tap", "layer")  # axes over stored features
KINDS = ("default", "cls", "mean")
# What a sweep tries where neither a grid nor a value is given, for solvers that a run fits with one setting.
USUAL: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "linear": {
        "learning_rate": geometric(1e-4, 1e-1, 8),
        "weight_decay": (0.0, 1e-5, 1e-4, 1e-3),
    }
}


def axes_of(probe: str) -> list[str]:
    """What may be an axis of a sweep of `probe`."""
    return [
        *READING,
        *(each.name for each in fields(cast(Any, SOLVERS[probe])) if each.init and each.name != "seed"),
    ]


def make_arms(
    probe: str, settings: Mapping[str, Any], axes: Mapping[str, tuple[Any, ...]], *, pooling: str, layer: int
) -> list[Arm]:
    """Every arm of a grid; `settings`, `pooling` and `layer` hold where no axis says otherwise."""
    unknown = [name for name in axes if name not in axes_of(probe)]
    if unknown:
        known = axes_of(probe)
        having = [other for other in SOLVERS if unknown[0] in axes_of(other)]
        hint = f" It is one of {' and of '.join(having)}." if having else did_you_mean(unknown[0], known)
        raise UsageError(f'"{unknown[0]}" is no axis of {probe}.{hint} Its axes: {", ".join(known)}.')
    twice = [name for name in axes if name in settings]
    if twice:
        raise UsageError(f"{twice[0]} is given twice, as a setting and as an axis of the grid")
    kind = SOLVERS[probe]
    leaves = {name: values for name, values in axes.items() if name in kind.leaves}
    programs = {
        name: values for name, values in axes.items() if name not in kind.leaves and name not in READING
    }
    _check_reading(axes)
    arms = []
    for tap, number in product(axes.get("tap", (pooling,)), axes.get("layer", (layer,))):
        for values in product(*programs.values()):
            program = dict(zip(programs, values, strict=True))
            place = {name: value for name, value in (("tap", tap), ("layer", number)) if name in axes}
            solver = make_solver(probe, {**settings, **leaves, **program})
            named = tap if number == -1 else f"{tap}@{number}"
            arms.append(Arm({**place, **program}, solver.grid(), Reading(named, solver), kind.chained))
    return arms


def with_usual_grid(
    probe: str, settings: Mapping[str, Any], axes: Mapping[str, tuple[Any, ...]]
) -> Mapping[str, tuple[Any, ...]]:
    """The axes, with the usual ones of a solver whose settings nobody gave."""
    usual = USUAL.get(probe, {})
    return axes if any(name in axes or name in settings for name in usual) else {**axes, **usual}


def grid_of(arms: list[Arm]) -> dict[str, list[Any]]:
    """All axes and their values over all arms, for the record."""
    found: dict[str, dict[Any, None]] = {}
    for arm in arms:
        for name, value in arm.place.items():
            found.setdefault(name, {})[value] = None
        for name, values in arm.grid.axes.items():
            found.setdefault(name, {}).update(dict.fromkeys(values))
    return {name: list(values) for name, values in found.items()}


def agreed(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """What all parts say; where they differ, the list of what they say."""
    together: dict[str, Any] = {}
    for key in dict.fromkeys(key for part in parts for key in part):
        distinct: list[Any] = []
        for value in (part.get(key) for part in parts):
            if value not in distinct:  # values need not hash
                distinct.append(value)
        together[key] = distinct[0] if len(distinct) == 1 else distinct
    return together


def _check_reading(axes: Mapping[str, tuple[Any, ...]]) -> None:
    for name, values in axes.items():
        for value in values if name in READING else ():
            if name == "tap" and value not in KINDS:
                raise UsageError(
                    f"tap={value} is not one that pooled probes read; they read {', '.join(KINDS)}, at any layer"
                )
            if name == "layer" and (not isinstance(value, int) or isinstance(value, bool)):
                raise UsageError(
                    f"layer={value} is no layer; they count from 0, or from the end: -1 is the last"
                )
