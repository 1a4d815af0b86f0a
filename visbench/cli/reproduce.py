"""`visbench reproduce KEY`: a record run again."""

from __future__ import annotations

import click

from visbench import console
from visbench.cli.common import Command, json_option, store_option
from visbench.cli.options import DEFAULT_RESULTS


@click.command(cls=Command)
@click.argument("key", metavar="RECORD")
@click.argument("told", nargs=-1, metavar="[-- OPTIONS]")
@click.option("--data", metavar="DATA", help="Where the data lie now: a record keeps a digest of them alone.")
@click.option(
    "--results", metavar="FILE", default=DEFAULT_RESULTS, show_default=True, help="Where the record stands."
)
@store_option
@click.option("--device", metavar="DEVICE", help="cuda, cpu …  [default: the best there is]")
@json_option
@click.pass_context
def reproduce(
    ctx: click.Context,
    /,
    key: str,
    told: tuple[str, ...],
    data: str | None,
    results: str,
    store: str | None,
    device: str | None,
    as_json: bool,
) -> None:
    """Run a record again with its own options, and say whether its headline still holds.

    RECORD is the first digits of its key, as `visbench compare` prints them. What differs from then is named first:
    versions, device, backbone, data. What a record does not keep (a checkpoint, files of names or stems) is told
    after --, as options of `visbench run`. Nothing is written to the results.

    Exit code 0: the new headline lies within the interval of the record; 1: it differs; 2: it cannot be run again,
    as that of a module of your own.

    \b
    visbench reproduce 3f2a91c0 --data photos/
    visbench reproduce 77aa0132 --data photos/ -- --checkpoint w.pth
    """
    import json

    from visbench import reproducing

    done = reproducing.reproduce(reproducing.find(key, results), data, told, store=store, device=device)
    console.result(json.dumps(done.to_dict(), ensure_ascii=False) if as_json else done.text)
    if not done.agrees:
        ctx.exit(1)
