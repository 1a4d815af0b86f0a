"""What is drawn inside one panel.  Imports matplotlib, so only `page` imports it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, Normalize
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FixedFormatter, FixedLocator

from visbench.figures.axis import Axis
from visbench.figures.grid import Grid

FONT = 9.0  # points; tick labels and notes are a little smaller
SMALL = 8.0
_CHAR = 0.62 / 72  # inches of width a character takes, for each point of its size
# Okabe and Ito's colours without their yellow, which is lost on a light ground.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MOST_TICKS = 100
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_HATCH: dict[str, Any] = {"facecolor": "#f2f2f2", "edgecolor": "#8a8a8a", "hatch": "////", "linewidth": 0.0}
_INK = "#222222"


def extent(label: str, size: float = SMALL) -> float:
    """Inches a label is wide, roughly."""
    return len(label) * size * _CHAR


def heat(ax: Axes, grid: Grid, norm: Normalize, colours: Colormap) -> None:
    """Cells over (y, x); the chosen framed, the diverged hatched, the untried left white."""
    y, x = grid.axes
    edges = (np.arange(len(axis) + 1) - 0.5 for axis in (x, y))
    cells = np.ma.masked_invalid(grid.score)
    ax.pcolormesh(*edges, cells, cmap=colours, norm=norm, edgecolors="white", linewidth=0.4)
    for i, j in np.argwhere(grid.diverged):
        ax.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, gid="diverged", **_HATCH))
    for i, j in np.argwhere(grid.chosen):
        for colour, line, gid in (("white", 3.6, None), (_INK, 1.6, "chosen")):
            frame = Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, ec=colour, lw=line, gid=gid)
            frame.set(clip_on=False, zorder=3)
            ax.add_patch(frame)
    ax.set(xlim=(-0.5, len(x) - 0.5), ylim=(-0.5, len(y) - 0.5))
    if not y.numeric:
        ax.invert_yaxis()  # words are read from the top
    ax.tick_params(length=0, pad=2)
    ax.spines[:].set(visible=not grid.tried.all(), color="#cccccc")  # a bound for what was not tried


def cell_ticks(ax: Axes, grid: Grid, width: float, height: float, *, left: bool, bottom: bool) -> None:
    """Labels of rows and columns, as many as fit `width` × `height` inches; on the outer panels alone."""
    y, x = grid.axes
    turned = max(map(extent, x.labels)) + 0.05 > width / len(x)
    every = _every(SMALL / 72 * 1.15 if turned else 0.0, width / len(x))
    _label(ax.xaxis, x, every, shown=bottom)
    _label(ax.yaxis, y, _every(SMALL / 72 * 1.15, height / len(y)), shown=left)
    if turned:
        ax.tick_params(axis="x", labelrotation=90)
    ax.set_xlabel(x.name if bottom else "")
    ax.set_ylabel(y.name if left and y.name != "backbone" else "")


def cell_values(ax: Axes, grid: Grid, norm: Normalize, colours: Colormap, digits: int) -> None:
    """Scores in the cells where they are legible, once the panel has its final size."""
    y, x = grid.axes
    box = ax.get_window_extent().transformed(ax.figure.dpi_scale_trans.inverted())  # inches
    wide, high = box.width / len(x), box.height / len(y)
    known = grid.score[~np.isnan(grid.score)]
    for places in dict.fromkeys((digits, min(digits, 2))):
        longest = max((f"{score:.{places}f}" for score in known), key=len, default="")
        size = min(SMALL, (wide - 0.06) / max(extent(longest, 1.0), 1e-9), (high - 0.04) * 72 / 1.1)
        if size >= 6.5:
            break
    else:
        return
    for i, j in np.argwhere(~np.isnan(grid.score)):
        score = float(grid.score[i, j])
        red, green, blue, _ = colours(norm(score))
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
        weight = "bold" if grid.chosen[i, j] else "normal"
        said = ax.text(float(j), float(i), f"{score:.{places}f}", ha="center", va="center_baseline")
        said.set(size=size, weight=weight, color="white" if dark else "black")


def curves(ax: Axes, grid: Grid, width: float, *, legend: bool) -> None:
    """A line for each backbone with its band of ± std; the chosen starred, the diverged crossed at the foot."""
    x = grid.axes[-1]
    series = grid.axes[0] if len(grid.axes) == 2 else None
    count = len(series) if series else 1
    for number in range(count):
        shift = 0.0 if x.numeric else (number - (count - 1) / 2) * min(0.1, 0.5 / count)
        _curve(ax, grid.at({series.name: number}) if series else grid, x.places + shift, number, width)
    _place_ticks(ax, x, width)
    ax.set_xlabel("" if x.name == "backbone" else x.name)
    ax.margins(x=0.04, y=0.08)
    ax.grid(axis="y", color="#e4e4e4", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("#888888")
    if legend and series and count > 1:
        handles = [Line2D([], [], **_style(number)) for number in range(count)]
        names = [broken(name, 30) for name in series.labels]
        ax.legend(handles, names, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)


def broken(name: str, most: int) -> str:
    """A name on lines of at most `most` characters, broken after its punctuation where it can be."""
    lines = [""]
    for char in name:
        if len(lines[-1]) >= most:
            cut = max(lines[-1].rfind(mark) for mark in " ._-:/·") + 1
            cut = cut if cut > most // 3 else len(lines[-1])
            lines[-1], rest = lines[-1][:cut], lines[-1][cut:]
            lines.append(rest)
        lines[-1] += char
    return "\n".join(line.strip() for line in lines)


def key(maps: Sequence[Grid], lines: Sequence[Grid]) -> tuple[list[Artist], list[str]]:
    """Samples of the marks that occur in maps and curves, and what they mean."""

    def some(grids: Sequence[Grid], what: Callable[[Grid], np.ndarray]) -> bool:
        return any(what(grid).any() for grid in grids)

    star = Line2D([], [], color="#999999", marker="*", ls="", ms=11, mec=_INK, mew=0.8)
    cross = Line2D([], [], color=_INK, marker="x", ls="", ms=5)
    band = Patch(fc="#bbbbbb", ec="none")
    entries: list[tuple[bool, Artist, str]] = [
        (some(maps, lambda grid: grid.chosen), Patch(fc="none", ec=_INK, lw=1.6), "chosen"),
        (some(lines, lambda grid: grid.chosen), star, "chosen"),
        (some(maps, lambda grid: grid.diverged), Patch(**_HATCH), "diverged"),
        (some(lines, lambda grid: grid.diverged), cross, "diverged"),
        (some(maps, lambda grid: ~grid.tried), Patch(fc="white", ec="#bbbbbb", lw=0.6), "not tried"),
        (some(lines, lambda grid: ~np.isnan(grid.std)), band, "± standard deviation"),
    ]
    shown = [(sample, word) for here, sample, word in entries if here]
    return [sample for sample, _ in shown], [word for _, word in shown]


def _curve(ax: Axes, grid: Grid, places: np.ndarray, number: int, width: float) -> None:
    """One backbone's scores.  No line leads to words, which have no order, or to 0, which has no logarithm."""
    (x,) = grid.axes
    style = _style(number)
    line, points = {**style, "marker": ""}, {**style, "ls": ""}
    alone = x.apart if x.numeric else np.ones(len(x), bool)
    joined = ~alone & grid.tried  # what diverged leaves a gap
    at, score, std = places[joined], grid.score[joined], grid.std[joined]
    ax.fill_between(at, score - std, score + std, color=style["color"], alpha=0.16, linewidth=0, gid="band")
    ax.plot(at, score, **line)
    spread = np.nan_to_num(grid.std[alone])
    ax.errorbar(places[alone], grid.score[alone], yerr=spread, ls="", ecolor=style["color"])
    if _closest(x, width) * 72 > style["ms"] / 2:  # markers that hide each other hide the line
        ax.plot(places, grid.score, **points)
    won = grid.chosen & ~np.isnan(grid.score)
    star = {"ls": "", "marker": "*", "ms": 14, "color": style["color"], "mec": _INK, "mew": 0.8, "zorder": 4}
    ax.plot(places[won], grid.score[won], gid="chosen", **star)
    gone, foot = places[grid.diverged], np.full(grid.diverged.sum(), 0.02)
    cross = {"ls": "", "marker": "x", "ms": 5, "color": style["color"], "transform": ax.get_xaxis_transform()}
    ax.plot(gone, foot, gid="diverged", **cross)


def _style(number: int) -> dict[str, Any]:
    kinds = len(_COLOURS)
    return {
        "color": _COLOURS[number % kinds],
        "marker": _MARKERS[number % kinds],
        "ls": "-" if number < kinds else "--",
        "lw": 1.5,
        "ms": 4.5,
    }


def _place_ticks(ax: Axes, x: Axis, width: float) -> None:
    """A tick at every value, with labels as far as they fit; words are turned rather than left out.

    Of very many values those alone have one that have a label.
    """
    closest = _closest(x, width)
    wide = max(map(extent, x.labels)) + 0.08
    _label(ax.xaxis, x, _every(wide, closest) if x.numeric else 1, shown=True, places=x.places)
    for i in np.flatnonzero(x.apart[1:] != x.apart[:-1]):  # where the axis has a gap
        middle = x.places[i : i + 2].mean()
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        foot = ax.get_xaxis_transform()
        ax.text(middle, 0, "//", transform=foot, ha="center", va="center", size=SMALL, bbox=box, gid="break")
    if not x.numeric:
        ax.set_xlim(-0.6, len(x) - 0.4)
        if wide > closest:
            ax.tick_params(axis="x", labelrotation=45)
            for label in ax.get_xticklabels():
                label.set(ha="right", rotation_mode="anchor")


def _closest(x: Axis, width: float) -> float:
    """Inches between the nearest two values on an axis of `width` inches."""
    return width * 0.92 * float(np.diff(x.places).min() / np.ptp(x.places)) if len(x) > 1 else width


def _label(axis: Any, values: Axis, every: int, *, shown: bool, places: np.ndarray | None = None) -> None:
    places = np.arange(len(values)) if places is None else places
    words = [label if i % every == 0 else "" for i, label in enumerate(values.labels)]
    if len(words) > _MOST_TICKS:
        places, words = places[::every], words[::every]
    axis.set_major_locator(FixedLocator(list(places)))
    axis.set_major_formatter(FixedFormatter(words if shown else [""] * len(words)))


def _every(needed: float, given: float) -> int:
    """Every how many-th label is shown where each needs so many inches of those given."""
    return max(1, int(np.ceil(needed / given))) if given > 0 else 1
