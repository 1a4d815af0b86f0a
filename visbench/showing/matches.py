"""Correspondence: two views side by side, lines from patches to their matches in the colour of their errors.

Axes: n patches or points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from probes.metrics import correspondence as metrics
from visbench.mapoverlay import ramp
from visbench.paired import Pairs
from visbench.showing import legends
from visbench.showing.choosing import Scores
from visbench.showing.page import Row, Tile, page
from visbench.showing.seen import Seen

VIEW, BETWEEN = 420, 16  # pixels of a view a side, and between the two
LINES = 50  # of a pair: more hide each other


@dataclass(frozen=True)
class Lines:
    """Matches of a pair, in pixels of both frames."""

    first: np.ndarray  # (n, 2)
    found: np.ndarray  # (n, 2) in the second frame
    errors: np.ndarray  # (n,) pixels of the second frame

    def __len__(self) -> int:
        return len(self.errors)

    def some(self, count: int) -> Lines:
        """So many of them, evenly by error."""
        if len(self) <= count:
            return self
        places = np.linspace(0, len(self) - 1, count).round().astype(int)
        kept = np.argsort(self.errors, kind="stable")[places]
        return Lines(self.first[kept], self.found[kept], self.errors[kept])


def scores(seen: Seen) -> Scores:
    """Of each pair."""
    return seen.scores()


def draw(seen: Seen, rows: np.ndarray, found: Scores, shown: str) -> Image.Image:
    """The page."""
    measure = seen.measure
    pairs = seen.rows(measure.taps[0], measure.warp)
    patch = pairs.side / pairs.grid[1]
    unit = 1.0 if measure.units == "pixel" else patch
    high = max(max(measure.pixels), 2 * patch) if measure.units == "pixel" else max(measure.patches) * patch
    listed = []
    for row in rows:
        lines = lines_of(pairs, int(row), measure)
        few = lines.some(LINES)
        image = drawn(*_views(seen, pairs, int(row)), few, side=pairs.side, high=high)
        many = (
            f"{len(few)} of {len(lines)} matches drawn, evenly by error"
            if len(few) < len(lines)
            else f"{len(lines)} matches"
        )
        middle = (
            f", median error {np.median(lines.errors) / unit:.3g} {_unit(measure.units)}"
            if len(lines)
            else ""
        )
        listed.append(
            Row((Tile(image, (many + middle,)),), f"{_named(seen, pairs, int(row))} · {found[int(row)]}")
        )
    said = (
        f"error of a match in {_unit(measure.units)}; a patch is {patch:.3g} px of the {pairs.side} px frame"
    )
    bar = legends.scale(0, high / unit, said, beyond=True)
    return page(seen.heading(shown), listed, [bar])


def drawn(one: Image.Image, two: Image.Image, lines: Lines, *, side: float, high: float) -> Image.Image:
    """Both views, each `side` pixels of the frame; errors of `high` and more have the last colour, large ones below."""
    canvas = Image.new("RGB", (2 * VIEW + BETWEEN, VIEW), (255, 255, 255))
    for left, view in ((0, one), (VIEW + BETWEEN, two)):
        shown = view.resize((VIEW, VIEW), Image.Resampling.BICUBIC)
        grey = Image.blend(shown, shown.convert("L").convert("RGB"), 0.6)
        canvas.paste(Image.blend(grey, Image.new("RGB", grey.size, (255, 255, 255)), 0.35), (left, 0))
    pen, scale = ImageDraw.Draw(canvas), VIEW / side
    colours = ramp(np.clip(lines.errors / high, 0, 1)).tolist() if len(lines) else []
    for place in np.argsort(-lines.errors, kind="stable"):
        (x0, y0), (x1, y1) = lines.first[place] * scale, lines.found[place] * scale
        x1 += VIEW + BETWEEN
        pen.line((x0, y0, x1, y1), (255, 255, 255), 5)
        pen.line((x0, y0, x1, y1), tuple(colours[place]), 3)
        for x, y in ((x0, y0), (x1, y1)):
            pen.ellipse((x - 4, y - 4, x + 4, y + 4), tuple(colours[place]), (255, 255, 255))
    return canvas


def lines_of(pairs: Pairs, row: int, measure: Any) -> Lines:
    """The matches of a pair that are scored."""
    one, two = (view.read(np.array([row])) for view in (pairs.first, pairs.second))
    centres, rows = metrics.centres(*pairs.grid, float(pairs.side)), np.array([row])
    if pairs.marked:
        relation = pairs.groups.truth["relation"][row]
        said, marked = measure.pointed(pairs, rows, one, two, len(relation.visible))
        first, truth, kept = marked.places[0], marked.wanted[0], marked.visible[0]
    else:
        said, truths, scored = measure.matched(pairs, rows, one, two)
        first, truth, kept = centres, truths[0], said.kept[0] & scored[0]
    found = centres[said.target[0]]
    errors = np.asarray(metrics.errors(found[kept], truth[kept]))
    return Lines(first[kept], found[kept], errors)


def _views(seen: Seen, pairs: Pairs, row: int) -> tuple[Image.Image, Image.Image]:
    """Both pictures of a pair; of an image by itself the second is its warped view, as the backbone saw it."""
    members = pairs.groups.members[row]
    one = seen.picture(int(members[0]), VIEW)
    if pairs.warp is None:
        return one, seen.picture(int(members[1]), VIEW)
    views = seen.session.reading.views(seen.source, [seen.measure])
    return one, Image.fromarray(views.images.sources[int(members[0])])


def _named(seen: Seen, pairs: Pairs, row: int) -> str:
    names = [seen.images.names[int(place)] for place in pairs.groups.members[row]]
    return (
        " and ".join(names)
        if len(names) > 1
        else f"{names[0]} and a view warped by {seen.measure.warp.max_warp:g}"
    )


def _unit(units: str) -> str:
    return "px" if units == "pixel" else "patch widths"
