"""A sweep in characters: bars where one axis varies, a shaded grid where two do, its best part beyond."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from visbench import layout
from visbench.figures.axis import Axis
from visbench.figures.characters import Look, ascii_only, shows_blocks
from visbench.figures.grid import Grid, compared, few_shot, grids
from visbench.figures.numbers import decimals, scale
from visbench.figures.panels import over
from visbench.layout import Cell, Column

_MOST_BACKBONES = 4  # each with a table of its own
_NARROWEST = 40
_MOST_ROWS = 40


def text(
    trials: Sequence[Mapping[str, Any]],
    axes: Mapping[str, Sequence[Any]],
    *,
    metric: str = "top1",
    better: str = "higher",
    width: int = 80,
    styled: bool = False,
    unicode: bool | None = None,
) -> str:
    """The scores of `trials` (see `figures.grid`) in `width` columns, the chosen with a star.

    `styled` colours the cells; without `unicode` there is ASCII alone (by default what stdout can show).
    """
    every = grids(trials, axes, better)
    scores = np.concatenate([grid.score.ravel() for grid in every])
    low, high, cut = scale(scores, better)
    look = Look(metric, better, low, high, decimals(scores), max(width, _NARROWEST), styled, cut != "neither")
    lines, bars = list[str](), True
    for grid in every:
        section, shaded = _section(grid, look, [grid.probe] if len(every) > 1 else [])
        lines, bars = lines + section, bars and not shaded
    known = set(scores[~np.isnan(scores)])
    ends = look.ends(bars=bars) if len(known) > 1 else ""
    lines += _footnote(trials, look, ends, starred=any("*" in line for line in lines))
    said = "\n".join(lines)
    return said if (shows_blocks() if unicode is None else unicode) else ascii_only(said)


def _section(grid: Grid, look: Look, heading: Sequence[str]) -> tuple[list[str], bool]:
    """All that is said of one probe, and whether it is shades rather than bars."""
    notes = []
    if "shots" in [axis.name for axis in grid.inner]:
        rest = [axis.name for axis in grid.inner if axis.name != "shots"]
        grid, by_choice = few_shot(grid)
        said = "the setting chosen for it" if by_choice else over(grid, rest)
        notes = look.wrapped(f"each score: {said}") if rest else []
    backbones, inner = grid.axes[0], [axis.name for axis in grid.inner]
    several = len(backbones) > _MOST_BACKBONES
    if not inner:
        return [*look.heading(heading), *_bars(grid, look), *notes], False
    if len(inner) == 1 and several:
        return [*look.heading(heading), *_shaded(grid, look), *notes], True
    if len(inner) <= 2 and not several:
        show: Callable[[Grid, Look], list[str]] = _bars if len(inner) == 1 else _shaded
        lines = []
        for i, name in enumerate(backbones.labels):
            one = grid.at({"backbone": i})
            lines += [*look.heading([*heading, name]), *show(one.keeping(*reversed(inner)), look)]
        return lines + notes, len(inner) == 2
    return _best_part(grid, look, heading), True


def _best_part(grid: Grid, look: Look, heading: Sequence[str]) -> list[str]:
    """The map on which the winner lies, and the best at each value of every other axis."""
    x, y, *others = [axis.name for axis in grid.inner]
    place = grid.winner()
    if place is None:
        return look.heading([*heading, "no setting has a score"])
    around = {name: place[name] for name in ["backbone", *others]}
    said = [grid.axes[grid.axis(name)].said(i) for name, i in around.items()]
    lines = [*look.heading([*heading, *said]), *_shaded(grid.at(around).keeping(y, x), look)]
    outer = [name for name in around if len(grid.axes[grid.axis(name)]) > 1]
    lines += look.wrapped(f"{over(grid, ['all other axes'])}:")
    size = max(map(len, outer)) + 2
    for name in outer:
        best = grid.keeping(name)
        star = place[name] if grid.chosen[tuple(place.values())] else None
        said = [
            f"{label} {look.score(score)}{'*' if i == star else ''}"
            for i, (label, score) in enumerate(zip(best.axes[0].labels, best.score, strict=True))
        ]
        lines += look.listed(said, between="  ", title=f"{name:{size}}")
    return lines


def _bars(grid: Grid, look: Look) -> list[str]:
    """A row for each value of the only axis."""
    (x,) = grid.axes
    known = ~np.isnan(grid.std).all()
    std = [Column("std", "right")] if known else []
    columns = [Column(x.name), Column(look.metric, "right"), *std, Column("")]
    rows: list[list[str | Cell]] = []
    labels = [_fitted(label, look.width // 2) for label in x.labels]
    kept = _thinned(grid)
    shown = [i for i in kept if grid.tried[i]]
    for i in shown:
        score = look.score(grid.score[i]) + ("*" if grid.chosen[i] else " ")
        spread = ["" if np.isnan(grid.std[i]) else look.score(grid.std[i])] if known else []
        rows.append([labels[i], Cell(score, bold=bool(grid.chosen[i])), *spread])
    room = look.width - layout.text_width(layout.text(columns[:-1], rows)) - 3
    for row, i in zip(rows, shown, strict=True):
        row.append(look.bar(float(grid.score[i]), max(room, 1)))
    return [
        *layout.text(columns, rows, styled=look.styled).split("\n"),
        *_left_out(x, len(kept), look, "are shown"),
    ]


def _shaded(grid: Grid, look: Look) -> list[str]:
    """A cell for each (y, x): its number where all fit, else its shade."""
    y, x = grid.axes
    labels = [_fitted(label, look.width // 3) for label in y.labels]
    names = f"{y.name} \\ {x.name}"
    left = max(map(layout.width, labels))
    room = look.width - left - 2
    longest = max(len(look.score(score)) for score in grid.score.ravel())
    size = max(longest + (2 if look.styled else 3), *(len(label) + 1 for label in x.labels))
    numbers = size * len(x) <= room
    size = size if numbers else 2 if 2 * len(x) <= room else 1
    first, last = _window(grid, room // size)
    lines = look.wrapped(names if y.name != "backbone" else x.name)
    lines.append(" " * (left + 2) + _column_labels(x, range(first, last), size, room, right=numbers))
    rows = _thinned(grid)
    for i in reversed(rows) if y.numeric else rows:
        cells = (_cell(grid, look, (i, j), size, numbers) for j in range(first, last))
        blanks = " " * (left - layout.width(labels[i]))
        lines.append(f" {blanks}{labels[i]} {''.join(cells)}".rstrip())
    lines += _left_out(x, last - first, look, "fit")
    return lines + _left_out(y, len(rows), look, "are shown")


def _cell(grid: Grid, look: Look, place: tuple[int, int], size: int, number: bool) -> str:
    score, chosen = float(grid.score[place]), bool(grid.chosen[place])
    if not grid.tried[place]:
        return " " * size
    mark = "*" if chosen else " "
    if number:
        shade = "" if look.styled else look.shade(score)
        said = f"{shade}{look.score(score)}{mark}"
    else:
        shade = look.score(score) if np.isnan(score) else " " if look.styled else look.shade(score)
        said = (shade * (size - 1) + mark) if chosen else shade * size
    return look.coloured(said.rjust(size), score, chosen)


def _column_labels(x: Axis, columns: range, size: int, room: int, *, right: bool) -> str:
    """Labels over their columns, as many as stand apart in `room` places."""
    if right:
        return "".join(f"{x.labels[j]} ".rjust(size) for j in columns).rstrip()
    line = ""
    for start, j in zip(range(0, room, size), columns, strict=False):
        if len(line) <= start and start + len(x.labels[j]) <= room:
            line = line.ljust(start) + x.labels[j] + " "
    return line.rstrip()


def _thinned(grid: Grid) -> list[int]:
    """The values of the first axis that get a row: all, or of many some evenly apart and the winner's."""
    total = len(grid.axes[0])
    if total <= _MOST_ROWS:
        return list(range(total))
    even = np.linspace(0, total - 1, _MOST_ROWS - 1).round().astype(int).tolist()
    return sorted({*even, (grid.winner() or {}).get(grid.axes[0].name, 0)})


def _left_out(axis: Axis, shown: int, look: Look, how: str) -> list[str]:
    return look.wrapped(f"{axis.name}: {shown:,} of {len(axis):,} values {how}") if shown < len(axis) else []


def _window(grid: Grid, count: int) -> tuple[int, int]:
    """The columns to show where only `count` fit: those around the winner."""
    total = len(grid.axes[1])
    place = grid.winner() or {}
    middle = place.get(grid.axes[1].name, 0)
    first = min(max(middle - count // 2, 0), max(total - count, 0))
    return first, min(first + count, total)


def _fitted(label: str, size: int) -> str:
    """A label that leaves room for numbers; its middle is what can be spared."""
    keep = label
    while layout.width(keep) + (keep != label) > size:
        keep = keep[: len(keep) // 2] + keep[len(keep) // 2 + 1 :]
    return label if keep == label else keep[: len(keep) // 2] + "…" + keep[len(keep) // 2 :]


def _footnote(trials: Sequence[Mapping[str, Any]], look: Look, ends: str, *, starred: bool) -> list[str]:
    """What was compared, and what the marks mean."""
    said = [compared(trials, look.metric)]
    said += ["lower is better"] if look.better == "lower" else []
    said += [ends] if ends and not look.styled else []
    said += ["* chosen"] if starred else []
    lines = look.listed(said)
    return [*lines, f" {ends}"] if ends and look.styled else lines
