"""`visbench demo`."""

from __future__ import annotations

from pathlib import Path

import click

from visbench import console
from visbench.cli.common import Command, json_option


@click.command(cls=Command)
@click.option("--noise", is_flag=True, help="Replace every crop by noise: scores fall to chance.")
@click.option(
    "--svg", type=click.Path(path_type=Path, dir_okay=False), help="Also draw the boards as a picture."
)
@json_option
def demo(noise: bool, svg: Path | None, as_json: bool) -> None:
    """Two real backbones on real pictures, offline, in about a minute.

    \b
    visbench demo
    visbench demo --noise
    """
    from visbench import demo as show
    from visbench.cli.running import boards_of

    console.note(show.introduction(noise))
    results = show.run(noise=noise)
    if as_json:
        console.result("\n".join(result.record.to_json() for result in results))
    else:
        console.result(boards_of(results, width=console.width(), styled=console.styled_out()))
    if svg is not None:
        text = boards_of(results, width=WIDTH - 6, styled=True)
        svg.write_text(_picture(f"$ visbench demo{' --noise' if noise else ''}\n\n{text}"), encoding="utf-8")
    console.note(show.farewell(noise))


WIDTH = 118  # columns of the picture


def _picture(text: str) -> str:
    """A terminal that shows `text`, as SVG; fonts are the reader's own, nothing is fetched."""
    import re

    from rich._export_format import CONSOLE_SVG_FORMAT
    from rich.console import Console
    from rich.text import Text

    with Path("/dev/null").open("w") as nowhere:
        page = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True)
        page.print(Text.from_ansi(text))
    plain = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return page.export_svg(title="visbench", code_format=plain, unique_id="demo")
