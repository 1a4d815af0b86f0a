"""Relative pose: pairs of pictures, how far the second camera is turned, and how far the probe says.  Axes: p pairs."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from probes.metrics import pose as metric
from visbench.pose_scoring import HEADLINE
from visbench.showing import words
from visbench.showing.choosing import Scores
from visbench.showing.page import RIGHT, WRONG, Row, Tile, page
from visbench.showing.seen import Seen

TILE, DIAL = 200, 120
_STILL = np.array([[1.0, 0, 0, 0]])


def scores(seen: Seen) -> Scores:
    """The rotation error of each pair."""
    return seen.scores(HEADLINE)


def draw(seen: Seen, rows: np.ndarray, found: Scores, shown: str) -> Image.Image:
    """The page."""
    pairs = seen.rows(seen.measure.taps[0])["test"]
    (said,) = seen.result.probe.predict(pairs.take(rows))
    true = pairs.pose[rows]
    turned, claimed = (
        metric.angle_deg(np.repeat(_STILL, len(rows), 0), each[:, :4]) for each in (true, said)
    )
    errors = metric.errors(said, true)
    groups = seen.images.groups
    assert groups is not None
    listed = []
    for place, row in enumerate(map(int, rows)):
        one, two = (int(each) for each in groups.members[row])
        lines = (
            f"true turn {turned[place]:.1f}°",
            f"said turn {claimed[place]:.1f}°",
            f"between the two {errors[HEADLINE][place]:.1f}°",
            f"translation off by {errors['translation_error_m'][place]:.3g} m",
        )
        tiles = (
            Tile(seen.picture(one, TILE), (seen.images.names[one],)),
            Tile(seen.picture(two, TILE), (seen.images.names[two],)),
            Tile(dial(float(turned[place]), float(claimed[place])), lines),
        )
        listed.append(Row(tiles, f"{groups.names[row]} · {found[row].replace('_', ' ')}"))
    return page(seen.heading(shown), listed)


def dial(true: float, said: float) -> Image.Image:
    """Two hands from upright: how far the second camera is turned, and how far it is said to be, in degrees."""
    canvas = Image.new("RGB", (TILE, TILE), words.GROUND)
    pen = ImageDraw.Draw(canvas)
    x, y, reach = TILE / 2, TILE / 2 - 12, DIAL / 2
    pen.ellipse((x - reach, y - reach, x + reach, y + reach), None, words.LINE, 2)
    pen.line((x, y - reach - 5, x, y - reach + 5), words.FAINT, 2)
    for angle, colour, wide in ((said, WRONG, 4), (true, RIGHT, 8)):
        turn = np.deg2rad(angle)
        end = (x + reach * np.sin(turn), y - reach * np.cos(turn))
        pen.line((x, y, *end), colour, wide)
    for left, colour, wide, text in ((14, RIGHT, 8, "true"), (110, WRONG, 4, "said")):
        pen.line((left, TILE - 16, left + 24, TILE - 16), colour, wide)
        words.write(pen, (left + 30, TILE - 16), text, words.SMALL, anchor="lm")
    return canvas
