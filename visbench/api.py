"""Documented calls beside `visbench.run`: a backbone or a probe on its own, and tasks of one's own."""

from __future__ import annotations

from typing import Any

from extract.backbones import Backbone, load
from visbench.options import Options, make_options
from visbench.tasks import TASKS, Task, get_task, probe_name


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


def get_probe(task: str, probe: str | None = None, *, pooling: str = "default", **settings: Any) -> Any:
    """An unfitted probe of `task` with `.fit(features, labels)`, `.predict` and `.evaluate(features, labels)`."""
    row = get_task(task)
    options: Options = make_options(pooling=pooling, **settings)
    if row.name == "retrieval":
        from visbench.retrieval import RetrievalProbe

        return RetrievalProbe(pooling=pooling, **options.probe_settings)
    from visbench.classification import ClassificationProbe

    name = probe_name(row, probe, options)
    given = dict(options.probe_settings)
    if options.standardize is not None:
        given["standardize"] = options.standardize
    return ClassificationProbe(
        name or "logistic", refit=options.refit, widen=options.widen, pooling=pooling, **given
    )


def register_task(task: Task) -> Task:
    """Add a row to the task table, as the built-in ones stand in it; registering again replaces it."""
    TASKS[task.name] = task
    return task
