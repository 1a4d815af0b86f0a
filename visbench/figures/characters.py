"""Scores as characters: numbers, bars, shades and colours on one scale."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap

import click
import numpy as np

_SHADES = "░▒▓█"
_EIGHTHS = " ▏▎▍▌▋▊▉"
_ASCII = str.maketrans("░▒▓█▏▎▍▌▋▊▉–…·≤≥", ".:+#   ####-~|<>")
# Viridis in the 256 colours of a terminal, the brightness rising evenly; the first need light letters.
_COLOURS = (53, 54, 24, 30, 36, 71, 77, 148, 226)
_DARK = 5


@dataclass(frozen=True)
class Look:
    """How the scores of one sweep are shown: the same scale and digits throughout."""

    metric: str
    better: str
    low: float
    high: float
    digits: int
    width: int
    styled: bool
    cut: bool = False  # whether scores lie beyond the bad end of the scale

    def score(self, value: float) -> str:
        """A dash where there is none."""
        return "–" if np.isnan(value) else f"{value:.{self.digits}f}"

    def share(self, value: float) -> float:
        """Where a score stands on the scale, 0 … 1, the best at 1."""
        place = min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)
        return place if self.better == "higher" else 1.0 - place

    def shade(self, value: float) -> str:
        """One of four blocks; a blank where there is no score."""
        return " " if np.isnan(value) else _SHADES[min(int(self.share(value) * 4), 3)]

    def bar(self, value: float, size: int) -> str:
        """At most `size` places long; the least is an eighth."""
        if np.isnan(value):
            return ""
        whole, rest = divmod(max(round(self.share(value) * size * 8), 1), 8)
        return "█" * whole + _EIGHTHS[rest].strip()

    def ends(self, *, bars: bool) -> str:
        """What the worst and the best look like; all that is worse than the scale looks like its worst."""
        ends = (self.low, self.high) if self.better == "higher" else (self.high, self.low)
        worst, best = map(self.score, ends)
        if self.cut:
            worst = f"{'≤' if self.better == 'higher' else '≥'} {worst}"
        if bars:
            return f"bars: {worst} … {best}"
        if not self.styled:
            return f"{_SHADES[0]} {worst} … {_SHADES[-1]} {best}"
        return f"{worst} {''.join(click.style('  ', bg=colour) for colour in _COLOURS)} {best}"

    def coloured(self, cell: str, value: float, chosen: bool) -> str:
        """A cell on the colour of its score."""
        if not self.styled or np.isnan(value):
            return cell
        level = min(int(self.share(value) * len(_COLOURS)), len(_COLOURS) - 1)
        return click.style(cell, fg=231 if level < _DARK else 16, bg=_COLOURS[level], bold=chosen or None)

    def heading(self, words: Sequence[str]) -> list[str]:
        """Bold lines."""
        lines = self.listed([word for word in words if word])
        return [click.style(line, bold=True) if self.styled else line for line in lines]

    def listed(self, parts: Sequence[str], *, between: str = " · ", title: str = "") -> list[str]:
        """Lines of parts that are not broken; those after the first stand under what follows `title`."""
        words = title + between.join(part.replace(" ", "\0") for part in parts)
        return [line.replace("\0", " ") for line in self.wrapped(words, " " * len(title))]

    def wrapped(self, words: str, indent: str = "") -> list[str]:
        """Lines that fit, a blank before each."""
        return [f" {line}" for line in wrap(words, self.width - 1, subsequent_indent=indent)]


def shows_blocks() -> bool:
    """Whether what stdout is encoded in has the characters of a picture."""
    try:
        (_SHADES + _EIGHTHS + "–…·≤≥").encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def ascii_only(said: str) -> str:
    """The same without blocks and dashes, column by column."""
    return said.translate(_ASCII)
