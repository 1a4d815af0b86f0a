"""The options of tasks whose targets are maps: heads and layers, and how they are trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from visbench.cli.options import Numbers, apply
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


training_options = apply(
    click.option("--lr", "learning_rate", type=float, help="Fix it.  [default: the best of 5e-4 … 0.1]"),
    click.option("--weight-decay", type=float, help="Fix it.  [default: the better of 1e-4 and 1e-2]"),
    click.option("--epochs", type=click.IntRange(1), help="[default: 10, and 500 steps at least]"),
    click.option("--train-batch-size", type=click.IntRange(1), help="[default: 8]"),
    click.option("--hidden-dim", type=click.IntRange(1), help="Channels inside conv_block, fpn and dpt."),
    click.option("--cls-token/--no-cls-token", default=None, help="dpt: read the CLS tokens as well."),
    click.option(
        "--loss-stride",
        type=click.IntRange(1),
        help="Train on every n-th row and column of pixels; all are scored.  [default: 4]",
    ),
    click.option(
        "--standardize/--no-standardize", default=None, help="Scale channels by training images first."
    ),
    click.option("--widen", is_flag=True, help="Try beyond a grid whose edge is best."),
)
