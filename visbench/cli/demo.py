"""`visbench demo`."""

from __future__ import annotations

import click

from visbench import console
from visbench.cli.common import Command, json_option


@click.command(cls=Command)
@click.option("--noise", is_flag=True, help="Replace every picture by noise: scores fall to chance.")
@json_option
def demo(noise: bool, as_json: bool) -> None:
    """Two real backbones on real pictures, offline, in about a minute.

    \b
    visbench demo
    visbench demo --noise
    """
    from visbench import demo as show
    from visbench.cli.running import show as boards

    console.note(show.introduction(noise))
    results = show.run(noise=noise)
    if as_json:
        for result in results:
            console.result(result.record.to_json())
    else:
        boards(results)
    console.note(show.farewell(noise))
