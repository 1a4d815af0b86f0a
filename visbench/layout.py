"""Tables as text: aligned columns for people, Markdown for pages.  One place decides widths and escapes."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Literal, NamedTuple

import click


class Column(NamedTuple):
    """A heading and how its cells stand."""

    title: str
    align: Literal["left", "right"] = "left"
    faint: bool = False  # context, in grey


class Cell(NamedTuple):
    """What stands in one place; bold marks the best."""

    text: str
    bold: bool = False


Row = Sequence[str | Cell]


def text(columns: Sequence[Column], rows: Sequence[Row], *, styled: bool = False) -> str:
    """Columns two blanks apart, headings faint; without `styled` nothing but characters."""
    cells = [[_cell(cell) for cell in row] for row in rows]
    widths = [
        max([width(column.title), *(width(row[i].text) for row in cells)]) for i, column in enumerate(columns)
    ]
    lines: list[str] = []
    for row in [[Cell(column.title) for column in columns], *cells]:
        line = ""
        for cell, column, size in zip(row, columns, widths, strict=True):
            padded = _pad(cell.text, size, column.align)
            line += "  " + (_ansi(padded, cell.bold, column.faint or not lines) if styled else padded)
        lines.append(line[1:].rstrip())
    return "\n".join(lines)


def markdown(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """The same table for GitHub and its like."""
    lines = [
        [escaped(column.title) for column in columns],
        ["---:" if column.align == "right" else "---" for column in columns],
    ]
    for row in rows:
        cells = [_cell(cell) for cell in row]
        lines.append([f"**{escaped(cell.text)}**" if cell.bold else escaped(cell.text) for cell in cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def escaped(line: str) -> str:
    """`line` on a Markdown page, saying what it says."""
    line = printable(line)
    for char, safe in (("\\", "\\\\"), ("|", "\\|"), ("<", "&lt;"), ("*", "\\*")):
        line = line.replace(char, safe)
    return line


def text_width(lines: str) -> int:
    """Places the longest line takes."""
    return max(map(width, lines.split("\n")))


def width(line: str) -> int:
    """Places a line takes on a terminal: two for a wide character, none for a combining one."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in line
    )


def printable(name: str) -> str:
    """A file or model name on one line: control characters and lone surrogates are shown by their escape."""
    odd = {"Cc", "Cs", "Zl", "Zp"}
    return "".join(repr(char)[1:-1] if unicodedata.category(char) in odd else char for char in name)


def _cell(cell: str | Cell) -> Cell:
    cell = cell if isinstance(cell, Cell) else Cell(cell)
    return cell._replace(text=printable(cell.text))


def _pad(line: str, size: int, align: str) -> str:
    blanks = " " * (size - width(line))
    return blanks + line if align == "right" else line + blanks


def _ansi(line: str, bold: bool, faint: bool) -> str:
    return click.style(line, bold=bold or None, dim=faint or None) if bold or faint else line
