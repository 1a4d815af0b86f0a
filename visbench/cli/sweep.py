"""`visbench sweep TASK DATA`: a grid of settings on stored features; a sub-command a task that fits something."""

from __future__ import annotations

from typing import Any

import click

from visbench.boxes.table import BOXES
from visbench.cli import options as shared
from visbench.cli import settings
from visbench.cli.common import Command, Group
from visbench.cli.run import data_options, probe_options, training_options
from visbench.cli.truth import EXAMPLES, truth_options
from visbench.task import Task
from visbench.tasks import TASKS

_GRID = """\
An axis is NAME=VALUE,VALUE,… or NAME=LOW:HIGH:log8 (lin8), and may be {axes}, tap=cls,mean and layer=2,5,8,11. Layers
and taps read stored features; the settings of a probe are tried side by side in one compiled program. Settings are
chosen on the val split, or on held-out training images (--select), and only the best is scored."""
_ANY = "any setting of the probe (lr, weight_decay, C, l2, k, temperature, standardize=on,off, epochs …)"
_OF_POSES = "lr, weight_decay"


_HEADS = """\
An axis is NAME=VALUE,VALUE,… or NAME=LOW:HIGH:log8 (lin8): lr, weight_decay, head=linear,conv_block, layer=2,5,8,11,
standardize=on,off{more}. All settings are trained in one pass over the stored features: a batch
is read once and used by all. They are compared on the val split, or on held-out training images (--select), and only
the best is scored."""

_SHOTS = shared.apply(
    click.option(
        "--shots", type=shared.Numbers(int), help="Fit on so many training images a class, as 1,2,4,8."
    ),
    click.option("--draws", type=click.IntRange(1), help="Draws of those that are averaged.  [default: 5]"),
    click.option("--allow-fewer", is_flag=True, help="Draw all there are of a class that has fewer shots."),
)


def task_command(task: Task) -> click.Command:
    """The sub-command of one task."""

    @click.command(task.name, cls=Command, help=_help(task), short_help=task.summary)
    @shared.apply(
        shared.data_argument,
        click.option(
            "--grid", "axes", multiple=True, metavar="AXIS", help="An axis of the grid; may be repeated."
        ),
        probe_options(task),
        truth_options(task),
        click.option("--plot", metavar="FILE", help="Draw all scores to a .png, .svg or .pdf."),
        *([_SHOTS] if task.columns else []),
        settings.search_options(task),
        shared.backbone_options,
        shared.split_options,
        shared.train_options,
        training_options(task),
        data_options(task),
        shared.work_options,
    )
    def command(**given: Any) -> None:
        from visbench.cli.sweeping import sweep_task  # brings in numpy and more

        sweep_task(task.name, **given)

    return command


def _help(task: Task) -> str:
    data = EXAMPLES.get(task.name, "photos/")
    if task.dense:
        more = " or hidden_dim" if task.reads == BOXES else ", hidden_dim or loss_stride"
        return (
            f"{task.summary}\n\n{_HEADS.format(more=more)}\n\n{task.layout}\n\n\b\n"
            f"visbench sweep {task.name} {data} --grid lr=1e-3:1e-1:log4 --grid weight_decay=0,1e-2\n"
            f"visbench sweep {task.name} {data} --grid layer=2,5,8,11 --grid head=linear,conv_block --plot heads.png"
        )
    several, chosen = len(task.probes) > 1, " --probe linear" if "linear" in task.probes else ""
    return (
        f"{task.summary}\n\n{_GRID.format(axes=_ANY if several else _OF_POSES)}\n\n{task.layout}\n\n\b\n"
        f"visbench sweep {task.name} {data}{chosen} --grid lr=1e-4:1e-1:log8 --grid weight_decay=0,1e-4\n"
        f"visbench sweep {task.name} {data} --grid layer=2,5,8,11 --grid tap=cls,mean --plot layers.png"
    )


@click.group(cls=Group, noun="task", listing="visbench list tasks")
def sweep() -> None:
    """Try a grid of settings, layers and taps on stored features; choose honestly, score the best.

    Hundreds of settings cost about what a few do: they are fitted side by side. A stopped sweep goes on where it
    was; the score of every setting is kept beside the results.

    \b
    visbench sweep classification photos/ --backbone dinov2_vits14 --grid layer=2,5,8,11 --grid tap=cls,mean
    """


for _task in TASKS.values():
    if _task.fitted:
        sweep.add_command(task_command(_task))
