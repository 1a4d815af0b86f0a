"""A page of tiles: a title, rows of pictures with captions, what the colours mean, where the numbers come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw

from visbench.mapoverlay import palette
from visbench.showing import words
from visbench.showing.words import FAINT, GROUND, INK, LARGE, LINE, PLAIN, SMALL

MARGIN, GAP, EDGE, MARK = 20, 14, 5, 22
NARROWEST = 560  # a page with one small tile still has room for its title

RIGHT, WRONG = (tuple(int(part) for part in palette(6)[place]) for place in (2, 5))
"""Bluish green and vermilion of Okabe and Ito, told apart by colour-blind eyes; a tick or a cross stands beside."""


@dataclass(frozen=True)
class Tile:
    """A picture, what is said below it, and whether it is an answer that is right."""

    image: Image.Image
    lines: tuple[str, ...] = ()
    right: bool | None = None

    @property
    def size(self) -> tuple[int, int]:
        """With its frame."""
        rim = 0 if self.right is None else 2 * EDGE
        return self.image.width + rim, self.image.height + rim


@dataclass(frozen=True)
class Row:
    """Tiles beside each other, and what is said above them."""

    tiles: tuple[Tile, ...]
    title: str = ""


@dataclass(frozen=True)
class Heading:
    """What stands above and below all rows."""

    title: str
    lines: tuple[str, ...] = ()
    foot: tuple[str, ...] = ()


def page(heading: Heading, rows: Sequence[Row], legends: Sequence[Image.Image] = ()) -> Image.Image:
    """Columns are as wide as their widest tile; captions are cut to their tile, titles are wrapped."""
    columns = _columns(rows)
    across = sum(columns) + GAP * max(len(columns) - 1, 0)
    across = max([NARROWEST, across, *(legend.width for legend in legends)])
    above = words.wrapped(heading.title, across, LARGE)
    lines = [part for line in heading.lines for part in words.wrapped(line, across)]
    foot = [part for line in heading.foot for part in words.wrapped(line, across, SMALL)]
    tall = [_height(row) for row in rows]
    total = 2 * MARGIN + len(above) * words.height(LARGE) + len(lines) * words.height(PLAIN) + GAP
    total += sum(each + GAP for each in tall) + sum(each.height + GAP for each in legends)
    total += len(foot) * words.height(SMALL)
    canvas = Image.new("RGB", (across + 2 * MARGIN, total), GROUND)
    pen, top = ImageDraw.Draw(canvas), MARGIN
    words.block(pen, (MARGIN, top), above, across, LARGE)
    top += len(above) * words.height(LARGE)
    words.block(pen, (MARGIN, top), lines, across, colour=FAINT)
    top += len(lines) * words.height(PLAIN) + GAP
    for row, high in zip(rows, tall, strict=True):
        _row(canvas, pen, row, columns, top, across)
        top += high + GAP
    for legend in legends:
        canvas.paste(legend, (MARGIN, top))
        top += legend.height + GAP
    words.block(pen, (MARGIN, top), foot, across, SMALL, FAINT)
    return canvas


def grid(tiles: Sequence[Tile], across: int) -> list[Row]:
    """Tiles in rows of so many."""
    return [Row(tuple(tiles[start : start + across])) for start in range(0, len(tiles), across)]


def tick(pen: ImageDraw.ImageDraw, at: tuple[float, float], side: float, right: bool) -> None:
    """A tick or a cross on a disc of its colour; `at` is the upper left corner."""
    x, y = at
    pen.ellipse((x, y, x + side, y + side), RIGHT if right else WRONG, GROUND)
    strokes = [((0.26, 0.52), (0.44, 0.70)), ((0.44, 0.70), (0.76, 0.32))]
    if not right:
        strokes = [((0.31, 0.31), (0.69, 0.69)), ((0.31, 0.69), (0.69, 0.31))]
    for stroke in strokes:
        pen.line([(x + a * side, y + b * side) for a, b in stroke], GROUND, max(1, round(side / 9)))


def framed(tile: Tile) -> Image.Image:
    """The picture in a frame of its colour, with a tick or a cross in the corner, where it is an answer."""
    if tile.right is None:
        return tile.image
    canvas = Image.new("RGB", tile.size, RIGHT if tile.right else WRONG)
    canvas.paste(tile.image, (EDGE, EDGE))
    tick(ImageDraw.Draw(canvas), (EDGE + 4, EDGE + 4), MARK, tile.right)
    return canvas


def _columns(rows: Sequence[Row]) -> list[int]:
    most = max((len(row.tiles) for row in rows), default=0)
    return [max(row.tiles[place].size[0] for row in rows if place < len(row.tiles)) for place in range(most)]


def _height(row: Row) -> int:
    captions = max((len(tile.lines) for tile in row.tiles), default=0)
    title = words.height(PLAIN) + 9 if row.title else 0
    return title + max((tile.size[1] for tile in row.tiles), default=0) + 4 + captions * words.height(SMALL)


def _row(
    canvas: Image.Image, pen: ImageDraw.ImageDraw, row: Row, columns: Sequence[int], top: int, across: int
) -> None:
    if row.title:
        pen.line((MARGIN, top, MARGIN + across, top), LINE)
        words.write(pen, (MARGIN, top + 6), words.cut(row.title, across), PLAIN, INK)
        top += words.height(PLAIN) + 9
    left = MARGIN
    deepest = max((tile.size[1] for tile in row.tiles), default=0)
    rim = EDGE if any(tile.right is not None for tile in row.tiles) else 0  # so that pictures stand in line
    for tile, wide in zip(row.tiles, columns, strict=False):
        inset = rim if tile.right is None else 0
        canvas.paste(framed(tile), (left + inset, top + inset))
        words.block(pen, (left, top + deepest + 4), tile.lines, wide, SMALL)
        left += wide + GAP
