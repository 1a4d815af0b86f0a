"""`visbench export`: records for other programs and pages; nothing is run."""

from __future__ import annotations

from pathlib import Path

import click

from visbench import console
from visbench.board_formats import FORMATS as BOARDS
from visbench.cli.common import Command
from visbench.cli.options import DEFAULT_RESULTS

FORMATS = ("csv", "wide", "parquet", *(form for form in BOARDS if form != "csv"))


@click.command(cls=Command)
@click.option(
    "--results",
    "files",
    multiple=True,
    metavar="FILE",
    help=f"Records of runs; may be repeated.  [default: {DEFAULT_RESULTS}]",
)
@click.option("--format", "form", type=click.Choice(FORMATS), required=True, help="One of the above.")
@click.option("--task", metavar="TASK", help="Only records of this task.")
@click.option("--all", "every", is_flag=True, help="Every record of a backbone, not its newest alone.")
@click.option("-o", "--out", type=click.Path(path_type=Path), metavar="FILE", help="In place of stdout.")
def export(files: tuple[str, ...], form: str, task: str | None, every: bool, out: Path | None) -> None:
    """Give records to spreadsheets, data frames, papers and pages.

    csv is a flattened row a dataset, method, model and configuration, in the columns of geospatial benches; wide and
    parquet have a column for every field and number of a record; latex (needs booktabs), md, html and json are the
    boards, their best in bold only where it is separable from all others.

    \b
    visbench export --format csv -o all_results.csv
    visbench export --format latex --task classification
    """
    from visbench import export as exporting
    from visbench.errors import UsageError
    from visbench.standings import Wanted

    if form == "parquet" and out is None:
        raise UsageError("a Parquet file is no text; name one with -o FILE")
    sources = files or (DEFAULT_RESULTS,)
    content = exporting.export(sources, form, Wanted(task=task, every=every))
    if out is None:
        console.result(str(content).removesuffix("\n"))
    else:
        exporting.write(out, content, sources)
        console.note(f"written to {out}")
