"""`visbench run TASK DATA`: features and probes; a sub-command a task, with only its own options."""

from __future__ import annotations

from typing import Any

import click

from visbench.cli import dense, settings
from visbench.cli import options as shared
from visbench.cli.common import Command, Group
from visbench.cli.truth import EXAMPLES, truth_options, usual_backbones
from visbench.task import Task
from visbench.tasks import TASKS

_SUMMARY = "Extract what is missing, then probe: {}"


def task_command(task: Task, *, probe_only: bool = False) -> click.Command:
    """The sub-command of one task; `probe_only` never extracts."""
    mine = [shared.split_options]
    mine += [probe_options(task), truth_options(task)]
    if task.fitted:
        mine += [shared.train_options, training_options(task), settings.search_options(task)]
    else:
        mine += [settings.settings_options(task), settings.control_option(task)]

    @click.command(task.name, cls=Command, help=_help(task, probe_only), short_help=task.summary)
    @shared.apply(
        shared.data_argument,
        shared.backbone_option(usual_backbones(task)[0]),
        shared.weights_options,
        *mine,
        data_options(task),
        shared.work_options,
    )
    def command(**given: Any) -> None:
        from visbench.cli.running import run_task  # brings in numpy and more

        run_task(task.name, extract=not probe_only, **given)

    return command


def probe_options(task: Task) -> Any:
    """What reads the features and where: a head and its layers, or a probe and what it is given of an image."""
    if task.dense:
        return dense.head_options(task)
    named = click.option("--probe", "probes", multiple=True, metavar="NAME", help=_probes(task))
    where = shared.pooling_options if task.pooled else shared.layer_option
    return shared.apply(*([named] if task.probes else []), where)


def training_options(task: Task) -> Any:
    """The settings of what is fitted."""
    if task.dense:
        return dense.training_options(task)
    scaled = settings.scaling_options("features", but="; knn never" if "knn" in task.probes else "")
    return shared.apply(settings.settings_options(task), scaled)


def _probes(task: Task) -> str:
    """Which there are, and which runs where none is named."""
    if len(task.probes) == 1:
        return f"The only one is {task.default_probe}."
    usual = f"[default: {task.default_probe}"
    if "linear" in task.probes:  # see `visbench.tasks.probe_name`
        usual += "; linear where --lr, --weight-decay, --epochs, --optimizer, --schedule or --protocol visbench stands"
    return f"{', '.join(task.probes)}; may be repeated.  {usual}]"


def data_options(task: Task) -> Any:
    """How much of the data, and which columns of a table."""
    limit = shared.limit_option(task.limit)
    return shared.apply(limit, shared.reading_options) if task.columns else limit


def _help(task: Task, probe_only: bool) -> str:
    does = "Never extracts: features that are not stored are refused." if probe_only else ""
    verb = "probe" if probe_only else "run"
    data = EXAMPLES.get(task.name, "photos/")
    named = " ".join(f"--backbone {each}" for each in usual_backbones(task))
    return f"{task.summary} {does}\n\n{task.layout}\n\n\b\nvisbench {verb} {task.name} {data} {named}"


@click.group(cls=Group, noun="task", listing="visbench list tasks")
def run() -> None:
    """Extract the features that are missing, then probe them: one task, any backbones.

    Every image is extracted once for a backbone, whichever task, split or subset asks; a second run reads the
    store and starts no PyTorch.

    \b
    visbench run classification photos/ --backbone dinov2_vits14 --backbone resnet50
    visbench run classification photos/ --probe logistic --probe knn --dry-run
    """


for _task in TASKS.values():
    run.add_command(task_command(_task))
