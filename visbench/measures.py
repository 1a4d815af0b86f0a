"""The measurements that one call asks of every backbone: a probe each, and each number of shots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from visbench.errors import UsageError
from visbench.options import Options
from visbench.tasks import Task


def make_measures(
    task: Task, probes: Sequence[str | None], options: Options, shots: Sequence[int | None]
) -> list[Any]:
    """One for each probe and each number of shots; a setting that none of the probes has is refused."""
    if not task.fitted and (options.grid or options.seeds > 1 or any(shots)):
        raise UsageError(
            f"{task.name} learns nothing, so there is nothing to choose by; run it at one --layer after the other"
        )
    make, settings = task.measurement(), dict(options.probe_settings)
    if options.standardize is not None:
        settings["standardize"] = options.standardize
    homeless = {key for key in settings if not any(key in make.accepts(name) for name in probes)}
    measures = []
    for name in probes:
        own = {key: value for key, value in settings.items() if key in make.accepts(name) | homeless}
        standardize = own.pop("standardize", None)
        for count in shots:
            given = replace(options, standardize=standardize, probe_settings=own, shots=count)
            measures.append(make(name, given))
    return measures
