"""Comparisons as text: two rows as a board has them, their difference, and what it amounts to."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

import click

from extract.wording import counted
from visbench import layout
from visbench.board_text import number
from visbench.comparing import Comparison
from visbench.layout import Cell, Column

SMALLEST = 0.001  # p below it is said to be below it


def text(comparisons: Sequence[Comparison], *, width: int | None = None, styled: bool = False) -> str:
    """A block for each board."""
    return "\n\n".join(_block(each, len(comparisons), width, styled) for each in comparisons)


def _block(found: Comparison, boards: int, width: int | None, styled: bool) -> str:
    columns = [
        Column(""),
        Column("backbone"),
        Column(found.metric, "right"),
        Column("95 % interval"),
        Column("p"),
        Column("record", faint=True),
    ]
    rows: list[list[str | Cell]] = [
        ["A", found.a, Cell(number(found.score_a), bold=found.winner == "a"), "", "", found.key_a],
        ["B", found.b, Cell(number(found.score_b), bold=found.winner == "b"), "", "", found.key_b],
        ["A − B", "", _signed(found.difference), _interval(found), _probability(found), ""],
    ]
    title = layout.printable(found.title)
    said = wrap(_caption(found, boards), (width or 10_000) - 1, break_long_words=False)
    faint = [" " + (click.style(line, dim=True) if styled else line) for line in said]
    heading = click.style(title, bold=True) if styled else title
    return "\n".join([heading, layout.text(columns, rows, styled=styled), *faint])


def _caption(found: Comparison, boards: int) -> str:
    whole = found.n == found.n_a == found.n_b
    paired = counted(found.n, "paired sample") + ("" if whole else f" of {found.n_a:,} and {found.n_b:,}")
    test = "permutation test" if found.test == "permutation" else "paired bootstrap"
    corrected = [f"p corrected for {boards} boards (Holm)"] if boards > 1 else []
    lower = [f"lower {found.metric} is better"] if found.better == "lower" else []
    said = [found.verdict, paired, f"{test}, {found.resamples:,} resamples", *corrected, *lower, *found.notes]
    return layout.printable(" · ".join(said))


def _interval(found: Comparison) -> str:
    if found.n < 2:  # one sample says nothing of another
        return "–"
    return f"{_signed(found.low)} … {_signed(found.high)}"


def _signed(value: float) -> str:
    said = number(abs(value))
    if float(said) == 0:
        return said
    return f"{'+' if value > 0 else '−'}{said}"


def _probability(found: Comparison) -> str:
    if found.n < 2:
        return "–"
    p = found.p_holm
    return f"<{SMALLEST}" if p < SMALLEST else number(p)
