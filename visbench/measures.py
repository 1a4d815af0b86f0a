"""The measurements that one call asks of every backbone: a probe each, and each number of shots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from visbench.errors import UsageError
from visbench.options import Options
from visbench.task import Task


def make_measures(
    task: Task, probes: Sequence[str | None], options: Options, shots: Sequence[int | None]
) -> list[Any]:
    """One for each probe and each number of shots; what none of the probes has is refused."""
    if not task.fitted and (options.grid or options.seeds > 1 or any(shots)):
        raise UsageError(
            f"{task.name} learns nothing, so there is nothing to choose by; run it at one --layer after the other"
        )
    make, settings = task.measurement(), dict(options.probe_settings)
    if options.standardize is not None:
        settings["standardize"] = options.standardize
    measures = []
    for name in probes:
        own = _own(settings, name, probes, make.accepts)
        grid = _own(options.grid, name, probes, make.varies) if options.grid else options.grid
        standardize = own.pop("standardize", None)
        for count, each in product(shots, _each(own, getattr(make, "several", ()))):
            given = replace(options, standardize=standardize, probe_settings=each, grid=grid, shots=count)
            measures.append(make(name, given))
    return measures


def _each(settings: Mapping[str, Any], several: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The settings once for every value of those that make a measurement each."""
    axes = {name: settings[name] for name in several if isinstance(settings.get(name), tuple)}
    for name, values in axes.items():
        if not values:
            raise UsageError(f"{name} has no value; give one or several")
    for values in product(*axes.values()):
        yield {**settings, **dict(zip(axes, values, strict=True))}


def _own(
    given: Mapping[str, Any], probe: str | None, probes: Sequence[str | None], has: Callable[[Any], set[str]]
) -> dict[str, Any]:
    """What of `given` the probe has; what none has is left to be refused."""
    elsewhere = set().union(*map(has, probes)) - has(probe)
    return {name: value for name, value in given.items() if name not in elsewhere}
