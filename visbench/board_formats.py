"""A board for papers, pages and programs: LaTeX, HTML, CSV and JSON.

Columns, numbers and their rounding are those of the board as text, and the best is marked under the same rule: only
where it is separably better than every other.  JSON alone holds the numbers as they are.
"""

from __future__ import annotations

import csv as csvs
import io
import json as jsons
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from visbench import board_text
from visbench.board import Board, Entry
from visbench.board_text import DECIMALS, number
from visbench.layout import Cell, Column, Row, printable

_INTERVAL = "95 % interval"
_LATEX = str.maketrans(
    {char: f"\\{char}" for char in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
    | {"–": "--", "…": r"\dots{}", "·": r"\textperiodcentered{}", "×": r"\texttimes{}"}
)


def latex(board: Board, decimals: int = DECIMALS) -> str:
    r"""A float with its caption; needs \usepackage{booktabs}."""
    columns, rows = board_text.table(board, decimals)
    stands = "".join("r" if column.align == "right" else "l" for column in columns)
    lines = [_latex_row([Cell(column.title) for column in columns]), r"\midrule", *map(_latex_row, rows)]
    said = ". ".join(_latex(each).removesuffix(".") for each in _said(board, decimals))
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{said}.}}",
            rf"\begin{{tabular}}{{{stands}}}",
            r"\toprule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def html(board: Board, decimals: int = DECIMALS) -> str:
    """A `<table class="visbench-board">` without any style: cells are classed by their column, the best is strong."""
    columns, rows = board_text.table(board, decimals)
    kinds = [_kind(column, place) for place, column in enumerate(columns)]
    title, *said = map(_html, _said(board, decimals))
    heads = "".join(
        f'<th scope="col" class="{kind}">{_html(column.title)}</th>'
        for column, kind in zip(columns, kinds, strict=True)
    )
    lines = [
        '<table class="visbench-board">',
        f"<caption>{title}</caption>",
        f"<thead><tr>{heads}</tr></thead>",
        "<tbody>",
        *(_html_row(row, kinds) for row in rows),
        "</tbody>",
    ]
    if said:
        lines.append(f'<tfoot><tr><td colspan="{len(columns)}">{"<br>".join(said)}</td></tr></tfoot>')
    return "\n".join([*lines, "</table>", ""])


def csv(board: Board, decimals: int = DECIMALS) -> str:
    """The rows for a spreadsheet: each end of an interval in a column of its own, nothing where nothing is known."""
    columns, rows = board_text.table(board, decimals)
    heads: list[str] = []
    for column in columns:
        heads += ["low", "high"] if column.title == _INTERVAL else [printable(column.title)]
    text = io.StringIO()
    writer = csvs.writer(text, lineterminator="\n")
    writer.writerow(heads)
    for entry, row in zip(board.entries, rows, strict=True):
        (_, rank), (_, name), *others = (
            (column.title, _cell(cell).text) for column, cell in zip(columns, row, strict=True)
        )
        cells = [rank, name]
        for title, said in others:
            ends = entry.record.intervals.get(board.headline) or (None, None)
            cells += (
                [_machine(number(end, decimals)) for end in ends] if title == _INTERVAL else [_machine(said)]
            )
        writer.writerow(map(printable, cells))
    return text.getvalue()


def json(board: Board, decimals: int = DECIMALS) -> str:
    """All of a board; `decimals` are those of its caption, the scores are not rounded."""
    return jsons.dumps(as_dict(board, decimals), indent=2, ensure_ascii=False)


def drawn(boards: Sequence[Board], form: str, decimals: int = DECIMALS) -> str:
    """Several boards in one of `FORMATS`, one after the other; as JSON they are one list."""
    if form == "json":
        return jsons.dumps([as_dict(board, decimals) for board in boards], indent=2, ensure_ascii=False)
    return "\n".join(FORMATS[form](board, decimals) for board in boards).removesuffix("\n")


def as_dict(board: Board, decimals: int = DECIMALS) -> dict[str, Any]:
    """What `json` writes."""
    return {
        "title": board.title,
        "board": board.key,
        "headline": board.headline,
        "better": board.better,
        "entries": [_entry(entry, best=entry is board.best) for entry in board.entries],
        "superseded": board.superseded,
        "caption": board_text.caption(board, decimals),
        "caution": board_text.caution(board),
    }


def _markdown(board: Board, decimals: int) -> str:
    return board_text.markdown(board, decimals=decimals)


FORMATS: dict[str, Callable[[Board, int], str]] = {
    "md": _markdown,
    "latex": latex,
    "html": html,
    "csv": csv,
    "json": json,
}


def _entry(entry: Entry, best: bool) -> dict[str, Any]:
    record = entry.record
    return {
        "rank": None if entry.ranks is None else list(entry.ranks),
        "best": best,
        "label": entry.label,
        "backbone": record.backbone,
        "control": record.control,
        "metrics": record.metrics,
        "intervals": record.intervals,
        "n": record.n,
        "context": record.context,
        "timestamp": record.timestamp,
    }


def _said(board: Board, decimals: int) -> list[str]:
    said = (board.title, board_text.caption(board, decimals), board_text.caution(board))
    return [each for each in said if each]


def _cell(cell: str | Cell) -> Cell:
    return cell if isinstance(cell, Cell) else Cell(cell)


def _latex_row(row: Row) -> str:
    said = []
    for cell in map(_cell, row):
        text = _latex(cell.text)
        said.append(rf"\textbf{{{text}}}" if cell.bold else text)
    return " & ".join(said) + r" \\"


def _latex(text: str) -> str:
    return printable(text).translate(_LATEX)


def _html_row(row: Row, kinds: Sequence[str]) -> str:
    said = ""
    for cell, kind in zip(map(_cell, row), kinds, strict=True):
        text = _html(cell.text)
        if cell.bold:
            said += f'<td class="{kind} best"><strong>{text}</strong></td>'
        else:
            said += f'<td class="{kind}">{text}</td>'
    return f"<tr>{said}</tr>"


def _html(text: str) -> str:
    return escape(printable(text))


def _kind(column: Column, place: int) -> str:
    """The class of a column's cells."""
    if place < 2:
        return ("rank", "backbone")[place]
    if column.title == _INTERVAL:
        return "interval"
    return "number context" if column.faint else "number"


def _machine(said: str) -> str:
    """A number without what people read it by; nothing where it is undefined."""
    return "" if said == number(None) else said.replace(",", "")
