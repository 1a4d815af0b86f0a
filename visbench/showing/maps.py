"""Maps: the picture, what its map says, what the head says, and how far the two are apart.

Axes: S pixels of the frame a side, k values a pixel.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

from visbench.showing.choosing import Scores
from visbench.showing.mapcolours import panels_of, ranges_of
from visbench.showing.maplegends import legend
from visbench.showing.page import Row, Tile, page
from visbench.showing.seen import Seen, enlarged

TILE = 240
METRICS = {"semantic_segmentation": "miou_per_image"}  # where a picture has none of the headline


def scores(seen: Seen) -> Scores:
    """Of each picture."""
    name = seen.session.task.name
    return seen.scores(METRICS.get(name), part=name == "boundaries")


def draw(seen: Seen, rows: np.ndarray, found: Scores, shown: str) -> Image.Image:
    """The page."""
    stream = seen.rows(["test"], seen.measure.taps)
    kind, ordinal = stream.kind.name, seen.session.task.name == "relative_depth"
    truths, sayings = [], []
    for _, maps, target in stream.blocks(len(rows), rows):
        cls = maps.cls if maps.cls else None
        sayings += list(seen.result.probe.predict(*maps.grids, cls=cls))
        truths += list(target)
    if kind == "foreground":
        sayings = [(each >= 0.5).astype(np.uint8) for each in sayings]
    ranges = ranges_of(truths, sayings, kind, ordinal=ordinal)
    lines = []
    for row, target, said in zip(rows, truths, sayings, strict=True):
        picture = np.asarray(seen.picture(int(row), len(target)))
        name = seen.images.names[row]
        panels = panels_of(picture, target, said, kind, ranges, classes=len(seen.classes), ordinal=ordinal)
        tiles = [Tile(seen.picture(int(row), TILE), ("picture",))]
        tiles += [Tile(enlarged(pixels, TILE), (what,)) for what, pixels in panels.items()]
        lines.append(Row(tuple(tiles), f"{name} · {found[row]}"))
    across = 4 * (TILE + 14)
    return page(
        seen.heading(shown), lines, legend(truths, sayings, kind, ranges, seen.classes, across, ordinal)
    )
