"""What colours mean: a scale with its unit, a list of classes, ticks and crosses."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from visbench.mapoverlay import ramp
from visbench.showing import words
from visbench.showing.page import tick
from visbench.showing.words import GROUND, LINE, PLAIN, SMALL

BAR, HIGH = 300, 14  # pixels of a scale
MARKS = 4  # steps between the numbers of a scale
MOST = 40  # classes in a list


def scale(low: float, high: float, label: str, *, beyond: bool = False, below: bool = False) -> Image.Image:
    """A colour bar with round numbers below it; `beyond` and `below`: its ends stand for all past them too."""
    room = BAR + 90
    wide = max(room, words.width(label) + 10)
    canvas = Image.new("RGB", (wide, words.height(PLAIN) + HIGH + words.height(SMALL) + 4), GROUND)
    pen, top = ImageDraw.Draw(canvas), words.height(PLAIN)
    words.write(pen, (0, 0), label)
    colours = ramp(np.linspace(0, 1, BAR))[None].repeat(HIGH, axis=0)
    canvas.paste(Image.fromarray(colours), (0, top))
    for number in range(MARKS + 1):
        share = number / MARKS
        if below and number == 1:
            continue  # there stands what is said of the end
        value = _short(low + share * (high - low), high - low)
        if beyond and number == MARKS:
            value = f"{value} and more"
        if below and number == 0:
            value = f"{value} and less"
        x = round(share * (BAR - 1))
        pen.line((x, top + HIGH, x, top + HIGH + 3), words.INK)
        anchor = "la" if number == 0 or (beyond and number == MARKS) else "ra" if number == MARKS else "ma"
        words.write(pen, (x, top + HIGH + 4), value, SMALL, anchor=anchor)
    return canvas


def _short(value: float, span: float) -> str:
    """As many digits as tell places of a scale apart."""
    digits = max(0, 2 - math.floor(math.log10(span))) if span > 0 else 2
    text = f"{value:.{min(digits, 9)}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def classes(entries: Sequence[tuple[str, Sequence[int]]], across: int) -> Image.Image:
    """Names beside their colours, in columns."""
    shown = list(entries[:MOST])
    if len(entries) > MOST:
        shown.append((f"and {len(entries) - MOST} more", GROUND))
    wide = min(max((words.width(name, SMALL) for name, _ in shown), default=0) + 34, 240)
    columns = max(across // wide, 1)
    line = words.height(SMALL) + 3
    rows = -(-len(shown) // columns) if shown else 1
    canvas = Image.new("RGB", (wide * min(columns, max(len(shown), 1)), line * rows), GROUND)
    pen = ImageDraw.Draw(canvas)
    for number, (name, colour) in enumerate(shown):
        x, y = wide * (number % columns), line * (number // columns)
        pen.rectangle((x, y + 1, x + 14, y + 15), tuple(int(part) for part in colour), LINE)
        words.write(pen, (x + 20, y + 1), words.cut(name, wide - 28, SMALL), SMALL)
    return canvas


def answers(right: str, wrong: str) -> Image.Image:
    """What a tick and a cross say."""
    gap = 28
    wide = 24 + words.width(right) + gap + 24 + words.width(wrong) + 4
    canvas = Image.new("RGB", (wide, 22), GROUND)
    pen = ImageDraw.Draw(canvas)
    for x, said, good in ((0, right, True), (24 + words.width(right) + gap, wrong, False)):
        tick(pen, (x, 1), 18, good)
        words.write(pen, (x + 24, 2), said)
    return canvas


def note(text: str, across: int) -> Image.Image:
    """Plain words, wrapped."""
    lines = words.wrapped(text, across, SMALL)
    canvas = Image.new("RGB", (across, words.height(SMALL) * len(lines)), GROUND)
    words.block(ImageDraw.Draw(canvas), (0, 0), lines, across, SMALL)
    return canvas
