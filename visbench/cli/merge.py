"""`visbench merge`: results files joined into one."""

from __future__ import annotations

import click

from extract.wording import counted
from visbench import console
from visbench.cli.common import Command


@click.command(cls=Command)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("-o", "--out", required=True, metavar="FILE", help="Where the records go.")
@click.option("--append", is_flag=True, help="Add to an output that exists.")
def merge(files: tuple[str, ...], out: str, append: bool) -> None:
    """Join results files: each record once, oldest first, with the scores of its samples.

    Inputs are left as they are. The rows of a geospatial bench's CSV become records too.

    \b
    visbench merge gpu0.jsonl gpu1.jsonl -o all.jsonl
    """
    from visbench import merging

    merged = merging.merge(files, out, append=append)
    for path, taken in merged.taken.items():
        known = merged.known[path]
        also = f", {known:,} there already" if known else ""
        console.result(f"{path}: {counted(taken, 'record')}{also}")
    console.result(f"{counted(sum(merged.taken.values()), 'record')} written to {out}")
