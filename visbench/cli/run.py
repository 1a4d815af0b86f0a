"""`visbench run TASK DATA`: features and probes; a sub-command a task, with only its own options."""

from __future__ import annotations

from typing import Any

import click

from visbench.cli import dense
from visbench.cli import options as shared
from visbench.cli.common import Command, Group
from visbench.task import Task
from visbench.tasks import TASKS

_SUMMARY = "Extract what is missing, then probe: {}"


def task_command(task: Task, *, probe_only: bool = False) -> click.Command:
    """The sub-command of one task; `probe_only` never extracts."""
    mine = [shared.split_options]
    if task.dense:
        mine += [dense.head_options(task), dense.map_options(task), shared.train_options]
        mine += [dense.training_options, shared.search_options]
    elif task.fitted:
        mine.append(shared.train_options)
        mine.append(probe_option(task))
        mine.append(shared.fitted_options)
        mine.append(shared.search_options)
    else:
        mine.append(shared.ranking_options)
        mine.append(shared.control_option)

    @click.command(task.name, cls=Command, help=_help(task, probe_only), short_help=task.summary)
    @shared.apply(
        shared.data_argument,
        shared.backbone_options,
        *([] if task.dense else [shared.pooling_options]),
        *mine,
        shared.maps_running_options if task.dense else shared.running_options,
    )
    def command(**given: Any) -> None:
        from visbench.cli.running import run_task  # brings in numpy and more

        run_task(task.name, extract=not probe_only, **given)

    return command


def probe_option(task: Task) -> Any:
    """`--probe`, with the names there are."""
    return click.option(
        "--probe",
        "probes",
        multiple=True,
        metavar="NAME",
        help=f"{', '.join(task.probes)}; may be repeated.  [default: {task.default_probe}]",
    )


def _help(task: Task, probe_only: bool) -> str:
    does = "Never extracts: features that are not stored are refused." if probe_only else ""
    verb = "probe" if probe_only else "run"
    data = dense.EXAMPLES.get(task.name, "photos/")
    return (
        f"{task.summary} {does}\n\n{task.layout}\n\n\b\n"
        f"visbench {verb} {task.name} {data} --backbone dinov2_vits14 --backbone resnet50"
    )


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
