"""Which panels show a sweep: curves where one axis varies, maps where two do, small multiples beyond."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from visbench.figures.grid import Grid, few_shot, places_of

MOST_PANELS = 24  # beyond, the panels' axes are reduced to their best
MOST_SERIES = 10  # curves that can be told apart, and maps beside each other
_MOST_COLUMNS = 8


@dataclass(frozen=True)
class Panel:
    """A map over axes (y, x), or curves over (backbone, x) or (x,) alone."""

    title: str
    grid: Grid


@dataclass(frozen=True)
class Row:
    """Panels beside each other and what is said above them."""

    heading: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Block:
    """Rows of panels of one size."""

    kind: Literal["map", "curves"]
    rows: tuple[Row, ...]

    @property
    def columns(self) -> int:
        """Panels in the longest row."""
        return max(len(row.panels) for row in self.rows)

    @property
    def panels(self) -> list[Panel]:
        """All panels, row by row."""
        return [panel for row in self.rows for panel in row.panels]


def arrange(grid: Grid, *, several: bool = False) -> tuple[list[Block], list[str]]:
    """The blocks for one probe, and what their caption must say; `several`: other probes are shown beside."""
    backbones, inner = grid.axes[0], [axis.name for axis in grid.inner]
    heading = [
        *([grid.probe] if several and grid.probe else []),
        *(backbones.labels if len(backbones) == 1 else ()),
    ]
    top = " · ".join(heading)
    if "shots" in inner and len(backbones) <= MOST_SERIES:
        curves, by_choice = few_shot(grid)
        rest = [name for name in inner if name != "shots"]
        said = "each point: the setting chosen for it" if by_choice else f"each point: {over(grid, rest)}"
        return [_single("curves", top, curves)], [said] if rest else []
    if len(inner) == 0:
        return [_single("curves", top, grid)], []
    if len(inner) == 1:
        kind: Literal["map", "curves"] = "curves" if len(backbones) <= MOST_SERIES else "map"
        return [_single(kind, top, grid)], []
    x, y, *others = inner
    outer = [*(["backbone"] if len(backbones) > 1 else []), *others]
    if len(places_of(grid, outer)) > MOST_PANELS:
        return _reduced(grid, y, x, outer, top)
    return [_multiples(grid, y, x, outer, heading)], []


def over(grid: Grid, names: Sequence[str]) -> str:
    """`maximum over layer, tap`."""
    return f"{'maximum' if grid.better == 'higher' else 'minimum'} over {', '.join(names)}"


def _single(kind: Literal["map", "curves"], heading: str, grid: Grid) -> Block:
    return Block(kind, (Row(heading, (Panel("", grid),)),))


def _multiples(grid: Grid, y: str, x: str, outer: Sequence[str], heading: Sequence[str]) -> Block:
    """A map at each place of the outer axes: one axis wrapped, of more the longest along the rows."""

    def panel(place: dict[str, int], names: Sequence[str]) -> Panel:
        return Panel(_said(grid, {name: place[name] for name in names}), grid.at(place).keeping(y, x))

    places = places_of(grid, outer)
    top = " · ".join(heading)
    if len(outer) < 2:
        panels = [panel(place, outer) for place in places]
        return Block("map", _wrapped(top, panels))
    sizes = {name: len(grid.axes[grid.axis(name)]) for name in outer}
    fitting = [name for name in outer if sizes[name] <= _MOST_COLUMNS] or [min(outer, key=sizes.__getitem__)]
    across = max(reversed(fitting), key=sizes.__getitem__)
    rows: dict[str, list[Panel]] = {}
    for place in places:
        others = {name: place[name] for name in outer if name != across}
        rows.setdefault(" · ".join([*heading, _said(grid, others)]), []).append(panel(place, [across]))
    return Block("map", tuple(Row(name, tuple(panels)) for name, panels in rows.items()))


def _reduced(grid: Grid, y: str, x: str, outer: Sequence[str], heading: str) -> tuple[list[Block], list[str]]:
    """A map for each backbone over the best of the outer axes, and the best at each value of those.

    More backbones than can be told apart become the rows of one further map.
    """
    count = len(grid.axes[0])
    series = ["backbone"] if count <= MOST_SERIES else []
    gone = [name for name in outer if name not in series]
    best = grid.keeping(*series, y, x)
    if 1 < count <= MOST_SERIES:
        panels = [Panel(label, best.at({"backbone": i})) for i, label in enumerate(grid.axes[0].labels)]
    else:
        panels = [Panel("", best.keeping(y, x))]
    blocks = [Block("map", _wrapped(heading, panels))]
    if not series:
        blocks.append(_single("map", "", grid.keeping("backbone", x)))
    curves = [Panel("", grid.keeping(*series, name)) for name in gone if name != "backbone"]
    if curves:
        blocks.append(Block("curves", _wrapped("", curves, most=3)))
    rest = over(grid, ["all other axes"])
    return blocks, [f"maps: {over(grid, gone)}", f"curves: {rest}"] if series else [rest]


def _wrapped(heading: str, panels: Sequence[Panel], most: int = 5) -> tuple[Row, ...]:
    """Rows of nearly equal length."""
    columns = math.ceil(len(panels) / math.ceil(len(panels) / most))
    rows = [Row("", tuple(panels[i : i + columns])) for i in range(0, len(panels), columns)]
    return (replace(rows[0], heading=heading), *rows[1:])


def _said(grid: Grid, place: dict[str, int]) -> str:
    return " · ".join(grid.axes[grid.axis(name)].said(i) for name, i in place.items())
