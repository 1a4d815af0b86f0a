"""`visbench check DATA`."""

from __future__ import annotations

import json
from typing import Any

import click

from visbench import console
from visbench.cli import options as shared
from visbench.cli.common import Command, json_option


@click.command(cls=Command)
@shared.apply(shared.data_argument)
@shared.reading_options
@click.option("--workers", type=click.IntRange(1), help="Threads that decode.  [default: all cores]")
@click.option("--max-pixels", type=click.IntRange(1), help="Largest image that is decoded.")
@json_option
@click.pass_context
def check(
    ctx: click.Context,
    /,
    data: str | None,
    data_option: str | None,
    workers: int | None,
    max_pixels: int | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Look through a dataset before anything runs: splits, classes, duplicates, what cannot be read.

    Every image is decoded once. Exit code 1 if a run would refuse the data as they are.

    \b
    visbench check photos/
    visbench check photos.csv --label-column species
    """
    from visbench import checkup

    given = {name: value for name, value in reading.items() if value is not None}
    limit = {} if max_pixels is None else {"max_pixels": max_pixels}
    found = checkup.check(shared.the_data(data, data_option), reading=given, workers=workers, **limit)
    console.result(json.dumps(found.to_dict(), ensure_ascii=False) if as_json else checkup.text(found))
    if found.refused:
        ctx.exit(1)
