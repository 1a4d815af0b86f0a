"""`visbench board` and `visbench overview`: what records say, drawn anew; nothing is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from visbench import console
from visbench.board_formats import FORMATS as BOARDS
from visbench.cli.common import Command
from visbench.cli.options import DEFAULT_RESULTS, apply
from visbench.errors import UsageError

FORMATS = ("terminal", *BOARDS)

_records = apply(
    click.option(
        "--results",
        "--records",
        "files",
        multiple=True,
        metavar="FILE",
        help=f"Records of runs; may be repeated.  [default: {DEFAULT_RESULTS}]",
    ),
    click.option("--dataset", metavar="NAME", help="Only boards of this dataset."),
    click.option("--probe", metavar="NAME", help="Only boards of this probe or head."),
    click.option("--protocol", metavar="NAME", help="Only boards of this protocol."),
    click.option(
        "--backbone", "backbones", multiple=True, metavar="NAME", help="Only this row; may be repeated."
    ),
)


@click.command(cls=Command)
@click.argument("task", required=False)
@_records
@click.option("--board", metavar="DIGITS", help="Only the board whose digest begins so.")
@click.option("--by", metavar="METRIC", help="What ranks.  [default: the headline of each board]")
@click.option("--all", "every", is_flag=True, help="Every record of a backbone, not its newest alone.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="terminal", show_default=True)
@click.option("--write", metavar="FILE.md", help="Draw the marked blocks of a page anew.")
@click.option("--check", metavar="FILE.md", help="Exit code 1 if marked blocks differ from their records.")
@click.pass_context
def board(
    ctx: click.Context,
    /,
    files: tuple[str, ...],
    form: str,
    write: str | None,
    check: str | None,
    **given: Any,
) -> None:
    """Draw the boards of records: comparable rows together, ranks that tie where rows are not separable.

    TASK keeps to the boards of one task. Records whose protocol, split, image size or data differ never share a
    board; its digest, the last thing of a caption, names what its rows agree on.

    A Markdown page may hold boards between <!-- visbench:board task=TASK --> and <!-- /visbench:board -->, each on a
    line of its own, with records=FILE (relative to the page), dataset=, probe=, board= or by= where they are needed.

    \b
    visbench board classification
    visbench board correspondence --by recall@1p --format md
    visbench board --check README.md
    """
    from visbench import published
    from visbench.standings import Wanted, standings

    files = files or (DEFAULT_RESULTS,)
    if write and check:
        raise UsageError("--write changes a page and --check only looks at it; give one of them")
    if write:
        changed = published.write(Path(write), files)
        console.note(f"{write} {'is drawn anew' if changed else 'says what its records say already'}")
        return
    if check:
        if said := published.drift(Path(check), files):
            console.result(said.rstrip())
            console.error(f"{check} differs from its records; `visbench board --write {check}` draws it anew")
            ctx.exit(1)
        console.note(f"{check} says what its records say")
        return
    console.result(_drawn(standings(files, Wanted(**given)), form))


def _drawn(found: list[Any], form: str) -> str:
    """Boards in one of the formats."""
    from visbench import board_text

    if form == "terminal":
        return board_text.texts(found, width=console.width(), styled=console.styled_out(), keyed=True)
    from visbench import board_formats
    from visbench.standings import single

    if form == "csv":  # whose columns are those of one board
        found = [single(found)]
    return board_formats.drawn(found, form)


@click.command(cls=Command)
@_records
@click.option("--task", metavar="TASK", help="Only boards of this task.")
@click.option("--controls", is_flag=True, help="With pixels, random weights and shuffled labels as rows.")
@click.option(
    "--format", "form", type=click.Choice(("terminal", "md", "json")), default="terminal", show_default=True
)
def overview(files: tuple[str, ...], form: str, **given: Any) -> None:
    """Backbones × boards: every headline, and mean ranks over the boards that all of them stand on.

    \b
    visbench overview
    visbench overview --backbone dinov2_vits14 --backbone resnet50
    """
    from visbench import overview as drawing
    from visbench.standings import Wanted, standings

    found = drawing.of(standings(files or (DEFAULT_RESULTS,), Wanted(**given)))
    if form == "json":
        console.result(json.dumps(found.to_dict(), ensure_ascii=False))
    elif form == "md":
        console.result(drawing.markdown(found).rstrip())
    else:
        console.result(drawing.text(found, width=console.width(), styled=console.styled_out()))
