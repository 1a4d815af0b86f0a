"""A page of panels: sizes, title, one scale of colours, key and caption.  Imports matplotlib; see `sweep.draw`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec
from matplotlib.layout_engine import ConstrainedLayoutEngine

from visbench.figures import marks
from visbench.figures.grid import Grid
from visbench.figures.marks import FONT, SMALL, broken, extent
from visbench.figures.numbers import decimals, scale
from visbench.figures.panels import Block, Panel, Row

# DejaVu comes with matplotlib, so every machine has it; the others are for what it lacks.
FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Hiragino Sans",
    "PingFang SC",
    "Microsoft YaHei",
)
LOOK = {
    "font.size": FONT,
    "axes.titlesize": FONT,
    "axes.labelsize": FONT,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "hatch.linewidth": 0.7,
    "text.parse_math": False,  # a name with dollars is a name
    "svg.fonttype": "path",
    "svg.hashsalt": "visbench",
    "pdf.fonttype": 42,
}
_LINE = 1.35 / 72  # inches of height a line of text takes, for each point of its size
_EDGE = 0.12  # inches of margin
_TITLE = FONT + 2


def figure(blocks: Sequence[Block], *, metric: str, better: str, title: str, caption: str) -> Figure:
    """The picture, laid out; saving it is the caller's."""
    inside = [_block_size(block) for block in blocks]
    width = max(wide for wide, _ in inside)
    titles = wrap(title, int((width - 2 * _EDGE) / extent("x", _TITLE + 1)))
    notes = wrap(caption, int((width - 2 * _EDGE) / extent("x")))
    maps = [panel.grid for block in blocks if block.kind == "map" for panel in block.panels]
    lines = [panel.grid for block in blocks if block.kind == "curves" for panel in block.panels]
    samples, words = marks.key(maps, lines)
    head = _EDGE + len(titles) * _TITLE * _LINE + (0.1 if titles else 0.0)
    said = _EDGE + len(notes) * SMALL * _LINE
    foot = said + (0.28 if words else 0.1)
    height = head + sum(high for _, high in inside) + foot

    page = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(page)
    rect = (0, foot / height, 1, 1 - (foot + head) / height)
    page.set_layout_engine(ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.05, wspace=0, hspace=0, rect=rect))
    outer = page.add_gridspec(len(blocks), 1, height_ratios=[high for _, high in inside])
    colours = _Colours(maps, better, metric if better == "higher" else f"{metric} (lower is better)")
    for number, block in enumerate(blocks):
        _fill(page, outer[number], block, colours)
    page.draw_without_rendering()
    page.set_layout_engine("none")  # what is added from here on moves nothing
    colours.write_values()
    left = _EDGE / width
    page.text(left, 1 - _EDGE / height, "\n".join(titles), size=_TITLE, weight="bold", va="top")
    page.text(left, _EDGE / height, "\n".join(notes), size=SMALL, color="#555555", va="bottom")
    if words:
        key = page.legend(samples, words, loc="lower left", ncols=len(words), borderaxespad=0, borderpad=0)
        key.set_bbox_to_anchor((left, (said + 0.05) / height), page.transFigure)
    return page


class _Colours:
    """The scale that all maps of a page share; the bar's arrow tells a cut end."""

    def __init__(self, maps: Sequence[Grid], better: str, label: str) -> None:
        self.map = mpl.colormaps["viridis" if better == "higher" else "viridis_r"]
        self.label = label
        scores = np.concatenate([grid.score.ravel() for grid in maps] or [np.zeros(0)])
        self.any, self.digits = not np.isnan(scores).all(), decimals(scores)
        low, high, self.cut = scale(scores, better)
        self.norm = Normalize(low, high)
        self.drawn: list[tuple[Axes, Grid]] = []

    def draw(self, ax: Axes, grid: Grid) -> None:
        """A map in these colours."""
        marks.heat(ax, grid, self.norm, self.map)
        self.drawn.append((ax, grid))

    def bar(self, page: Figure, axes: Sequence[Axes], height: float) -> None:
        """The scale beside `axes`, which are `height` inches high together."""
        if self.any:
            scale = ScalarMappable(self.norm, self.map)
            bar = page.colorbar(
                scale, ax=axes, extend=self.cut, aspect=height / 0.15, pad=0.02, fraction=0.05
            )
            bar.set_label(self.label)
            bar.ax.spines[:].set_visible(False)

    def write_values(self) -> None:
        """Scores in the cells, once the layout stands."""
        for ax, grid in self.drawn:
            marks.cell_values(ax, grid, self.norm, self.map, self.digits)


def _fill(page: Figure, spec: SubplotSpec, block: Block, colours: _Colours) -> None:
    """Draw a block's panels; tick labels stand at the left and lowest ones alone."""
    inner = spec.subgridspec(len(block.rows), block.columns)
    wide, high = _panel_size(block)
    axes: list[Axes] = []
    for i, j, row, panel in _placed(block):
        ax = page.add_subplot(inner[i, j], sharey=axes[0] if axes and block.kind == "curves" else None)
        axes.append(ax)
        if block.kind == "map":
            lowest = all(len(below.panels) <= j for below in block.rows[i + 1 :])
            colours.draw(ax, panel.grid)
            marks.cell_ticks(ax, panel.grid, wide, high, left=j == 0, bottom=lowest)
        else:
            marks.curves(ax, panel.grid, wide, legend=i == 0 and j == len(row.panels) - 1)
            ax.set_ylabel(colours.label if j == 0 else "")
            ax.tick_params(axis="y", labelleft=j == 0)
        _titles(ax, panel.title, row.heading if j == 0 else "", wide)
    if block.kind == "map":
        colours.bar(page, axes, _block_size(block)[1])


def _placed(block: Block) -> Iterator[tuple[int, int, Row, Panel]]:
    for i, row in enumerate(block.rows):
        for j, panel in enumerate(row.panels):
            yield i, j, row, panel


def _titles(ax: Axes, title: str, heading: str, width: float) -> None:
    """The panel's own line, and above it what its row has in common, which may run on over its neighbours."""
    title = _broken_title(title, width)
    ax.set_title(title, x=0.0, ha="left", pad=4)
    if heading:
        blank = "\n" * (title.count("\n") + 1) if title else ""
        ax.set_title(heading + blank, loc="left", weight="bold", pad=4)


def _broken_title(title: str, width: float) -> str:
    return broken(title, max(12, int(width / extent("x", FONT))))


def _panel_size(block: Block) -> tuple[float, float]:
    """Inches of one panel without its labels."""
    first = block.panels[0].grid
    if block.kind == "curves":
        words = 0 if first.axes[-1].numeric else len(first.axes[-1])
        return (max(6.0, 0.25 * words), 3.2) if block.columns == 1 else (3.0, 2.2)
    rows, columns = (max(len(panel.grid.axes[i]) for panel in block.panels) for i in (0, 1))
    if len(block.panels) == 1:
        tallest = 6.0 if first.axes[0].numeric else 40.0  # every word has its line
        return min(max(columns * 0.56, 2.4), 10.5), min(max(rows * 0.36, 0.8), tallest)
    return min(max(columns * 0.46, 1.5), max(1.5, 10.5 / block.columns)), min(max(rows * 0.32, 0.8), 2.4)


def _block_size(block: Block) -> tuple[float, float]:
    """Inches of a block with everything around its panels."""
    wide, high = _panel_size(block)
    grids = [panel.grid for panel in block.panels]
    x = max((extent(label) for grid in grids for label in grid.axes[-1].labels), default=0.0)
    first = grids[0].axes[0]
    names = max(extent(line) for label in first.labels for line in broken(label, 30).split("\n"))
    above = sum(FONT * _LINE * _lines_above(row, wide) + 0.15 for row in block.rows)
    if block.kind == "curves":
        words = any(not grid.axes[-1].numeric for grid in grids)
        legend = names + 0.5 if len(grids[0].axes) == 2 and len(first) > 1 else 0.1
        below = 0.45 + (0.7 * x if words else 0.1)
        return block.columns * (wide + 0.2) + 0.55 + legend, len(block.rows) * (high + below) + above
    turned = x + 0.05 > wide / max(len(grid.axes[-1]) for grid in grids)
    below = 0.4 + (x if turned else 0.12)
    left = max(map(extent, first.labels)) + 0.35
    return block.columns * (wide + 0.14) + left + 0.8, len(block.rows) * high + above + below


def _lines_above(row: Row, width: float) -> int:
    titles = [_broken_title(panel.title, width) for panel in row.panels]
    return bool(row.heading) + max(title.count("\n") + 1 if title else 0 for title in titles)
