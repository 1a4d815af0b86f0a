"""Who beats whom: a board as a matrix of differences, those that a paired test separates marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from visbench import layout
from visbench.board import Board
from visbench.board_text import number
from visbench.layout import Cell, Column
from visbench.separable import Paired

WINS, LOSES = "+", "−"


def matrix(board: Board, paired: Paired) -> list[dict[str, Any]]:
    """Every ordered pair of rows that have a score: how far the first is ahead, and whether they are separable."""
    ranked = [entry for entry in board.entries if entry.ranks]
    sign = 1 if board.better == "higher" else -1
    return [
        {
            "a": one.label,
            "b": other.label,
            "ahead": sign * (one.record.metrics[board.headline] - other.record.metrics[board.headline]),
            "separable": paired(one.record, other.record),
        }
        for one in ranked
        for other in ranked
        if one is not other
    ]


def text(boards: Sequence[Board], paired: Paired, *, styled: bool = False) -> str:
    """A matrix a board, rows and columns in its order; one row alone has nobody to beat."""
    return "\n\n".join(
        _block(board, matrix(board, paired), styled) for board in boards if len(board.entries) > 1
    )


def _block(board: Board, pairs: Sequence[dict[str, Any]], styled: bool) -> str:
    names = list(dict.fromkeys(pair["a"] for pair in pairs))
    cells = {(pair["a"], pair["b"]): _cell(pair) for pair in pairs}
    columns = [
        Column(""),
        Column("backbone"),
        *(Column(str(place + 1), "right") for place in range(len(names))),
    ]
    rows: list[list[str | Cell]] = [
        [str(place + 1), name, *(cells.get((name, other), "") for other in names)]
        for place, name in enumerate(names)
    ]
    title = layout.printable(f"{board.title} · {board.headline}")
    unknown = any(pair["separable"] is None for pair in pairs)
    said = " how far the row is ahead of the column; * separable (paired bootstrap, Holm over the board)"
    said += "; ? without scores of single samples that could tell" if unknown else ""
    return "\n".join(
        [
            click.style(title, bold=True) if styled else title,
            layout.text(columns, rows, styled=styled),
            click.style(said, dim=True) if styled else said,
        ]
    )


def _cell(pair: dict[str, Any]) -> Cell:
    said = number(abs(pair["ahead"]))
    signed = said if float(said.replace(",", "")) == 0 else f"{WINS if pair['ahead'] > 0 else LOSES}{said}"
    mark = {True: "*", False: " ", None: "?"}[pair["separable"]]
    return Cell(signed + mark, bold=bool(pair["separable"]) and pair["ahead"] > 0)
