"""`visbench check DATA`."""

from __future__ import annotations

import json
from typing import Any

import click

from visbench import console
from visbench.cli import options as shared
from visbench.cli import truth
from visbench.cli.common import Command, json_option


@click.command(cls=Command)
@shared.apply(shared.data_argument)
@shared.reading_options
@click.option("--workers", type=click.IntRange(1), help="Threads that decode.  [default: all cores]")
@click.option("--max-pixels", type=click.IntRange(1), help="Largest image that is decoded.")
@click.option("--task", metavar="TASK", help="What the data are for, where that is not classes: depth, …")
@truth.every_truth_option
@click.option("--overlay", metavar="FILE", help="Draw an image with its map on it to a .png.")
@json_option
@click.pass_context
def check(ctx: click.Context, /, as_json: bool, **given: Any) -> None:
    """Look through a dataset before anything runs: splits, classes, duplicates, what cannot be read.

    Every image is decoded once, and every map under --task: ranges, classes present, what is void, what does not
    lie on its image. Exit code 1 if a run would refuse the data as they are.

    \b
    visbench check photos/
    visbench check photos.csv --label-column species
    visbench check streets/ --task semantic_segmentation --overlay look.png
    """
    from visbench.cli.checking import look  # brings in numpy and more

    found, text = look(shared.the_data(given.pop("data"), given.pop("data_option")), **given)
    console.result(json.dumps(found.to_dict(), ensure_ascii=False) if as_json else text)
    if found.refused:
        ctx.exit(1)
