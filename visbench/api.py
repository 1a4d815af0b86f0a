"""Documented calls beside `visbench.run`: a backbone or a probe on its own, and tasks of one's own."""

from __future__ import annotations

from typing import Any

from extract.backbones import Backbone, load
from visbench.errors import UsageError
from visbench.options import SETTINGS, make_options
from visbench.task import Task
from visbench.tasks import TASKS, get_task, probe_name


def get_backbone(
    name: str, checkpoint: str | None = None, *, use_projection: bool | None = None, **options: Any
) -> Backbone:
    """A frozen backbone in eval mode; `options` are those of `extract.load`.

    `use_projection` is the older name of `projection`.
    """
    if use_projection is not None:
        options["projection"] = use_projection
    if checkpoint is not None:
        options["checkpoint"] = checkpoint
    return load(name, **options)


_OF_A_PROBE = {
    *SETTINGS,
    "lr",
    "layer",
    "layers",
    "standardize",
    "refit",
    "select",
    "widen",
    "seed",
    "protocol",
}


def get_probe(task: str, probe: str | None = None, *, pooling: str = "default", **settings: Any) -> Any:
    """An unfitted probe of `task` with `.fit(features, labels)`, `.predict` and `.evaluate(features, labels)`.

    `settings` are those of the probe, with `standardize`, `refit`, `widen`, `seed` and `protocol` as in a run.
    """
    row = get_task(task)
    options = make_options(pooling=pooling, **settings)
    foreign = [name for name in settings if name not in _OF_A_PROBE]
    if foreign:
        raise UsageError(f"a probe on its own has no {', '.join(foreign)}; that is an option of visbench.run")
    return row.measurement()(probe_name(row, probe, options), options).probe


def register_task(task: Task) -> Task:
    """Add a row to the task table, as the built-in ones stand in it; registering again replaces it."""
    TASKS[task.name] = task
    return task
