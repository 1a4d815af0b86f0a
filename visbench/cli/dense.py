"""The options of tasks whose targets are maps: heads and layers, and how they are trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from visbench.boxes.table import BOXES
from visbench.cli.options import Numbers, apply
from visbench.cli.settings import scaling_options, settings_options
from visbench.task import Task


class Layers(Numbers):
    """One layer, or several for a head that reads several."""

    def __init__(self) -> None:
        super().__init__(int)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A number, or a tuple of them."""
        if isinstance(value, int):
            return value
        numbers = super().convert(value, param, ctx)
        return numbers if len(numbers) > 1 else numbers[0]


def head_options(task: Task) -> Callable[[Any], Any]:
    """`--head` and `--layers`."""
    return apply(
        click.option(
            "--head",
            "--probe",
            "probes",
            multiple=True,
            metavar="NAME",
            help=f"{', '.join(task.probes)}; may be repeated.  [default: {task.default_probe}]",
        ),
        click.option(
            "--layers",
            "--layer",
            "layer",
            type=Layers(),
            default=-1,
            show_default=True,
            help="From 0, or from the end; fpn and dpt read several, as 2,5,8,11.",
        ),
    )


_training = apply(
    click.option(
        "--lr", "learning_rate", type=float, help="Fix it.  [default: the best of 5e-4, 3e-3, 2e-2, 0.1]"
    ),
    click.option("--weight-decay", type=float, help="Fix it.  [default: the better of 1e-4 and 1e-2]"),
    click.option("--epochs", type=click.IntRange(1), help="[default: 10, or as many as make 500 steps]"),
    click.option("--train-batch-size", type=click.IntRange(1), help="Images.  [default: 8]"),
    click.option(
        "--hidden-dim",
        type=click.IntRange(1),
        help="Channels inside conv_block, fpn and dpt.  [default: 128; dpt 64]",
    ),
    click.option("--cls-token/--no-cls-token", default=None, help="dpt: read the CLS tokens as well."),
)

_loss_stride = click.option(
    "--loss-stride",
    type=click.IntRange(1),
    help="Train on every n-th row and column of pixels; all are scored.  "
    "[default: 4; 1 under --protocol visbench]",
)


def training_options(task: Task) -> Callable[[Any], Any]:
    """How heads are trained; boxes are asked of every cell, so that no pixels could be passed over."""
    stride = [] if task.reads == BOXES else [_loss_stride]
    scaled = scaling_options("channels")
    return apply(_training, *stride, scaled, settings_options(task))
