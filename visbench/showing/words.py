"""Text on pictures: a font that has the letters, lines that fit, names cut in the middle.  Pillow alone."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from PIL import ImageDraw, ImageFont

from visbench.layout import printable

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

INK, FAINT, GROUND, LINE = (20, 20, 20), (95, 95, 95), (255, 255, 255), (200, 200, 200)
SMALL, PLAIN, LARGE = 12, 14, 18  # pixels
_WIDER = ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "Arial Unicode.ttf", "arial.ttf")
_CJK = ("NotoSansCJK-Regular.ttc", "wqy-zenhei.ttc", "Arial Unicode.ttf", "msyh.ttc")
_UNKNOWN = "\ue123"  # no font has it
_PLAINER = str.maketrans("–—→≥≤×", "--->>x")


@lru_cache(maxsize=32)
def _named(name: str | None, size: int) -> Font | None:
    if name is None:
        return ImageFont.load_default(size)
    try:
        return ImageFont.truetype(name, size)
    except OSError:
        return None


@lru_cache(maxsize=2048)
def _has(name: str | None, letter: str) -> bool:
    font = _named(name, PLAIN)
    if font is None:
        return False
    return letter.isspace() or bytes(font.getmask(letter)) != bytes(font.getmask(_UNKNOWN))


def fitting(text: str, size: int = PLAIN) -> tuple[str, Font]:
    """The text, and a font that has all its letters; where there is none, in letters that Pillow's own has."""
    text = printable(text)
    for name in (None, *_WIDER, *_CJK):
        if all(_has(name, letter) for letter in set(text)):
            font = _named(name, size)
            assert font is not None
            return text, font
    plainer = unicodedata.normalize("NFKD", text.translate(_PLAINER))
    kept = [letter for letter in plainer if not unicodedata.combining(letter)]
    font = _named(None, size)
    assert font is not None
    return "".join(letter if _has(None, letter) else "?" for letter in kept), font


def width(text: str, size: int = PLAIN) -> int:
    """Pixels across."""
    said, font = fitting(text, size)
    return round(font.getlength(said))


def height(size: int) -> int:
    """Of a line of text, with the space below it."""
    return size + 5


def cut(text: str, room: int, size: int = PLAIN) -> str:
    """The text, or as much of both its ends as `room` pixels hold."""
    if width(text, size) <= room:
        return text
    for kept in range(len(text) - 1, 1, -1):
        shorter = f"{text[: kept // 3]}…{text[len(text) - (kept - kept // 3) :]}"
        if width(shorter, size) <= room:
            return shorter
    return "…"


def wrapped(text: str, room: int, size: int = PLAIN) -> list[str]:
    """Lines of at most `room` pixels, broken between words; a word that is longer is cut."""
    lines: list[str] = []
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width(longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(cut(word, room, size))
    return lines


def write(
    pen: ImageDraw.ImageDraw,
    at: tuple[float, float],
    text: str,
    size: int = PLAIN,
    colour: tuple[int, ...] = INK,
    anchor: str = "la",
) -> None:
    """One line."""
    said, font = fitting(text, size)
    pen.text(at, said, colour, font, anchor=anchor if isinstance(font, ImageFont.FreeTypeFont) else None)


def block(
    pen: ImageDraw.ImageDraw,
    at: tuple[float, float],
    lines: Sequence[str],
    room: int,
    size: int = PLAIN,
    colour: tuple[int, ...] = INK,
) -> None:
    """Lines below each other, each cut to `room`."""
    for number, line in enumerate(lines):
        write(pen, (at[0], at[1] + number * height(size)), cut(line, room, size), size, colour)
