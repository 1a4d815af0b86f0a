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


def get_probe(
    task: str, probe: str | None = None, *, head: str | None = None, pooling: str = "default", **settings: Any
) -> Any:
    """An unfitted probe of `task` with `.fit(features, labels)`, `.predict` and `.evaluate(features, labels)`.

    `settings` are those of the probe, with `standardize`, `refit`, `select`, `widen`, `seed` and `protocol` as in a
    run.  A task of maps takes a `head` for a probe, `layers` where it reads several, and what its answer has to be
    told (`num_classes`, `n_bins`, `max_depth`, `uncertainty`); see `visbench.dense.probe.DenseProbe`.
    """
    row = get_task(task)
    if head is not None:
        if not row.dense:
            raise UsageError(f"{task} has probes and no heads; its probes: {', '.join(row.probes) or 'none'}")
        if probe not in (None, head):
            raise UsageError(
                f"a head {head!r} and a probe {probe!r} came, which for {task} are one thing; give one"
            )
        probe = head
    options = make_options(pooling=pooling, **settings)
    allowed = _OF_A_PROBE | set(row.truth)
    if task == "detection":  # whose data tell a run how many there are
        allowed |= {"num_classes"}
    foreign = [name for name in settings if name not in allowed]
    if foreign:
        raise UsageError(f"a probe on its own has no {', '.join(foreign)}; that is an option of visbench.run")
    name = probe_name(row, probe, options)
    if row.dense:
        from visbench.dense.probe import DenseProbe

        return DenseProbe(row, str(name), options)
    return row.measurement()(name, options).probe


def register_task(task: Task) -> Task:
    """Add a row to the task table, as the built-in ones stand in it; registering again replaces it."""
    TASKS[task.name] = task
    return task
