"""One picture that shows whether maps lie on their images: image, map, and both, with a legend.

Classes get colours far apart to the eye, quantities a ramp whose lightness rises evenly; what is not valid is a
grey chequerboard.  Drawn with Pillow alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from extract.wording import counted
from visbench.maplooks import valid

PANEL = 480  # pixels at most, on either side of a panel
GAP = 12
LINE = 20
_TEXT, _GROUND, _VOID = (20, 20, 20), (255, 255, 255), (225, 225, 225)
_MOST = 40  # classes in the legend, those with most pixels

# Okabe and Ito's colours, told apart by colour-blind eyes; black is left to the ground.
_FIRST = (
    (0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (86, 180, 233), (213, 94, 0), (240, 228, 66),
)  # fmt: skip
# Viridis at nine even steps.
_RAMP = np.array([
    (68, 1, 84), (71, 44, 122), (59, 81, 139), (44, 113, 142), (33, 144, 141), (39, 173, 129), (92, 200, 99),
    (170, 220, 50), (253, 231, 37),
])  # fmt: skip


@lru_cache(maxsize=8)
def palette(size: int) -> np.ndarray:
    """(size, 3) uint8 colours: a few well-known ones, then whichever is farthest from all before it to the eye."""
    steps = np.linspace(0, 255, 9).astype(np.uint8)
    candidates = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(-1, 3)
    places = _oklab(candidates)
    candidates = candidates[(places[:, 0] > 0.3) & (places[:, 0] < 0.93)]  # dark and light enough to be told
    places = _oklab(candidates)
    chosen = [np.array(colour, np.uint8) for colour in _FIRST]
    nearest = np.full(len(candidates), np.inf)
    for taken in (*_FIRST, _TEXT, _GROUND, _VOID):
        nearest = np.minimum(nearest, _distances(places, taken))
    while len(chosen) < size:
        chosen.append(candidates[int(nearest.argmax())])
        nearest = np.minimum(nearest, _distances(places, chosen[-1]))
    return np.stack(chosen[: max(size, 1)])


def colours(target: np.ndarray, kind: str, classes: int = 0) -> np.ndarray:
    """(h, w, 3) uint8: what a map looks like."""
    good = valid(target, kind)
    shown = chequers(good.shape)
    if not good.any():
        return shown
    if kind in ("labels", "foreground"):
        shown[good] = palette(max(classes, int(target[good].max()) + 1))[target[good]]
    elif kind == "normals":
        shown[good] = np.clip(np.rint((target[good] + 1) * 127.5), 0, 255).astype(np.uint8)
    else:
        low, high = _range(target, good)
        shown[good] = ramp((target[good] - low) / max(high - low, 1e-12))
    return shown


def chequers(shape: Sequence[int]) -> np.ndarray:
    """(h, w, 3) uint8: what stands where a map says nothing."""
    rows, columns = np.indices(shape) // 4
    found: np.ndarray = (
        np.where(((rows + columns) % 2 == 0)[..., None], 235, 215).astype(np.uint8).repeat(3, axis=-1)
    )
    return found


def ramp(share: np.ndarray) -> np.ndarray:
    """(n, 3) uint8 of (n,) shares of the range."""
    steps = np.arange(len(_RAMP)) / (len(_RAMP) - 1)
    channels = [np.interp(share, steps, _RAMP[:, channel]) for channel in range(3)]
    colours: np.ndarray = np.rint(np.stack(channels, axis=-1)).astype(np.uint8)
    return colours


def draw(
    pixels: np.ndarray, target: np.ndarray, kind: str, *, classes: Sequence[str] = (), title: str = ""
) -> Image.Image:
    """(h, w, 3) uint8 and its map, side by side and one over the other."""
    height, width = target.shape[:2]
    shrink = PANEL / max(height, width)
    size = max(round(width * shrink), 1), max(round(height * shrink), 1)
    image = Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR)
    rows = (np.arange(size[1]) * 2 + 1) * height // (2 * size[1])
    columns = (np.arange(size[0]) * 2 + 1) * width // (2 * size[0])
    small = target[rows[:, None], columns]
    looks = Image.fromarray(colours(small, kind, len(classes)))
    over = Image.blend(image.convert("L").convert("RGB"), looks, 0.55)
    over.paste(image, mask=Image.fromarray(~valid(small, kind)))
    entries = _entries(target, kind, classes)
    across = 3 * size[0] + 4 * GAP
    per_row = max(across // 190, 1)
    legend = LINE * (math.ceil(len(entries) / per_row) if entries else 2)
    canvas = Image.new("RGB", (across, size[1] + legend + 2 * LINE + 3 * GAP), _GROUND)
    pen, font = ImageDraw.Draw(canvas), ImageFont.load_default(13)
    pen.text((GAP, GAP // 2), title, _TEXT, font)
    for i, (panel, what) in enumerate(((image, "image"), (looks, "map"), (over, "both"))):
        left = GAP + i * (size[0] + GAP)
        canvas.paste(panel, (left, LINE + GAP))
        pen.text((left, LINE + GAP + size[1] + 2), what, _TEXT, font)
    top = size[1] + 2 * LINE + 2 * GAP
    if entries:
        _swatches(pen, font, entries, top, across, per_row)
    elif kind == "normals":
        pen.text(
            (GAP, top),
            "red: first channel, green: second, blue: third; grey chequers: not valid",
            _TEXT,
            font,
        )
    else:
        _scale(canvas, pen, font, target, kind, top)
    return canvas


def _entries(target: np.ndarray, kind: str, classes: Sequence[str]) -> list[tuple[str, tuple[int, ...]]]:
    """What a legend of classes says: name and share of the map, the largest first."""
    if kind not in ("labels", "foreground"):
        return []
    counts = np.bincount(target[valid(target, kind)].ravel(), minlength=len(classes))
    table = palette(max(len(counts), 1))
    order = [int(each) for each in np.argsort(-counts, kind="stable") if counts[each]]
    names = [classes[each] if each < len(classes) else str(each) for each in order]
    found = [
        (f"{name}  {100 * counts[each] / target.size:.3g} %", tuple(int(part) for part in table[each]))
        for name, each in zip(names, order, strict=True)
    ]
    void = 1 - counts.sum() / target.size
    kept = found[:_MOST]
    if len(found) > _MOST:
        kept.append((f"and {counted(len(found) - _MOST, 'class')} more", _GROUND))
    return [*kept, (f"not valid  {100 * void:.3g} %", _VOID)]


def _swatches(
    pen: ImageDraw.ImageDraw,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
    entries: Sequence[tuple[str, tuple[int, ...]]],
    top: int,
    across: int,
    per_row: int,
) -> None:
    for i, (text, colour) in enumerate(entries):
        left = GAP + (i % per_row) * ((across - GAP) // per_row)
        upper = top + LINE * (i // per_row)
        pen.rectangle((left, upper + 2, left + 14, upper + 14), colour)
        pen.text((left + 20, upper), text[:24], _TEXT, font)


def _scale(
    canvas: Image.Image,
    pen: ImageDraw.ImageDraw,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
    target: np.ndarray,
    kind: str,
    top: int,
) -> None:
    good = valid(target, kind)
    if not good.any():
        pen.text((GAP, top), "no valid pixel", _TEXT, font)
        return
    low, high = _range(target, good)
    bar = ramp(np.linspace(0, 1, 256))[None].repeat(14, axis=0)
    canvas.paste(Image.fromarray(bar), (GAP, top + 2))
    pen.text((GAP, top + 17), f"{low:.4g}", _TEXT, font)
    pen.text((GAP + 256, top + 17), f"{high:.4g}", _TEXT, font, anchor="ra")
    pen.text(
        (GAP + 270, top), f"{kind}; grey chequers: not valid, {100 * (1 - good.mean()):.3g} %", _TEXT, font
    )


def _range(target: np.ndarray, good: np.ndarray) -> tuple[float, float]:
    return float(target[good].min()), float(target[good].max())


def _distances(places: np.ndarray, colour: Sequence[int] | np.ndarray) -> np.ndarray:
    """(n,) how far (n, 3) places in OKLab are from a colour."""
    found: np.ndarray = np.linalg.norm(places - _oklab(np.array([colour])), axis=1)
    return found


def _oklab(rgb: np.ndarray) -> np.ndarray:
    """(n, 3) sRGB bytes as OKLab (Ottosson 2020), where equal distances look equal: lightness and two axes of hue."""
    encoded = rgb / 255
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    to_cones = np.array([
        (0.4122214708, 0.5363325363, 0.0514459929),
        (0.2119034982, 0.6806995451, 0.1073969566),
        (0.0883024619, 0.2817188376, 0.6299787005),
    ])  # fmt: skip
    to_lab = np.array([
        (0.2104542553, 0.7936177850, -0.0040720468),
        (1.9779984951, -2.4285922050, 0.4505937099),
        (0.0259040371, 0.7827717662, -0.8086757660),
    ])  # fmt: skip
    lab: np.ndarray = np.cbrt(linear @ to_cones.T) @ to_lab.T
    return lab
