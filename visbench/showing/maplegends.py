"""What the colours of maps mean: classes, scales with their units, directions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from visbench.mapoverlay import palette
from visbench.showing import legends, words
from visbench.showing.mapcolours import DISCRETE, UNITS, Ranges, looks, valid


def legend(
    truths: Sequence[np.ndarray],
    sayings: Sequence[np.ndarray],
    kind: str,
    ranges: Ranges,
    classes: Sequence[str],
    across: int,
    ordinal: bool = False,
) -> list[Image.Image]:
    """What the colours mean."""
    chequers = legends.note("Grey chequers: the map says nothing there, and nothing is scored.", across)
    if kind in DISCRETE:
        occur = np.unique(np.concatenate([each[valid(each, kind)] for each in (*truths, *sayings)]))
        table = palette(max(len(classes), int(occur.max(initial=0)) + 1))
        usual = ("background", "foreground") if kind == "foreground" else ()
        names = dict(enumerate(classes or usual))
        entries = [(names.get(int(each), f"class {each}"), table[each]) for each in occur]
        return [legends.classes([*entries, ("wrong", words.INK)], across), chequers]
    unit = UNITS.get(kind, ("in the map's own units", None))[0]
    if ordinal:
        near = legends.note(
            "Predictions are scores without a unit: dark is near, light is far, each in its own range.",
            across,
        )
        return [legends.scale(*ranges.value, f"target: {unit}", beyond=True), near, chequers]
    if kind == "normals":
        axes = legends.note(
            "Directions as colours: red x, green y, blue z, from −1 (none of it) to 1.", across
        )
        return [axes, legends.scale(0, ranges.error, f"error: {unit}", beyond=True), chequers]
    if kind == "orientation":
        pale = legends.note(
            "The paler target and error, the less coherent the texture, and the less it counts.", across
        )
        bar = legends.scale(0, ranges.error, f"error: {unit}")
        return [_beside([_wheel(), bar]), pale, chequers]
    if kind == "boundaries":
        return [legends.scale(*ranges.value, f"target and prediction: {unit}"), chequers]
    bars = [
        legends.scale(
            *ranges.value, f"target and prediction: {unit}", beyond=True, below=ranges.value[0] != 0
        )
    ]
    bars.append(legends.scale(0, ranges.error, f"error, absolute: {unit}", beyond=True))
    return [_beside(bars), chequers]


def _beside(images: Sequence[Image.Image]) -> Image.Image:
    canvas = Image.new(
        "RGB", (sum(each.width + 30 for each in images), max(each.height for each in images)), words.GROUND
    )
    left = 0
    for each in images:
        canvas.paste(each, (left, 0))
        left += each.width + 30
    return canvas


def _wheel(count: int = 8, side: int = 34) -> Image.Image:
    """Strokes in the colours of their orientations; y is downwards, as in pictures."""
    canvas = Image.new("RGB", (count * (side + 16), side + 40), words.GROUND)
    pen = ImageDraw.Draw(canvas)
    words.write(pen, (0, 0), "direction in which the picture changes most")
    for number in range(count):
        angle = np.pi * number / count
        double = np.array([[[np.cos(2 * angle), np.sin(2 * angle)]]])
        colour = looks(double, "orientation", Ranges(), np.ones((1, 1), bool), 0)[0, 0]
        x, y = number * (side + 16) + side / 2, 20 + side / 2
        dx, dy = np.cos(angle) * side / 2, np.sin(angle) * side / 2
        pen.line((x - dx, y - dy, x + dx, y + dy), tuple(int(part) for part in colour), 6)
    return canvas
