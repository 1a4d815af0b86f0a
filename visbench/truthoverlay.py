"""One picture that shows whether boxes lie on their objects, or points of a pair on the same place.  Pillow alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from extract.datasets import ImageSet, Splits
from extract.datasets.objects import PLAIN, Objects
from extract.datasets.relations import Keypoints
from extract.images import read_image
from visbench.errors import UsageError
from visbench.mapcheck import check_writable
from visbench.mapoverlay import palette, ramp

SIDE = 900  # pixels of the longer side of what is drawn
ACROSS, DOWN = 9, 6  # points of a pair that are followed
GREY = (120, 120, 120)


def draw(opened: Splits, path: Path, *, max_pixels: int) -> None:
    """Draw an image of the scored split with its boxes, or a pair with points that belong together."""
    refuse(opened, path)
    images = _shown(opened)
    drawn = _boxes if isinstance(images.targets, Objects) else _pair
    drawn(images, max_pixels).save(path)


def refuse(opened: Splits, path: Path | None = None) -> None:
    """Stop where there is nothing to draw, or no place for it, before anything is read."""
    if path is not None:
        check_writable(path, opened)
    images = _shown(opened)
    paired = images.groups is not None and "relation" in images.groups.truth
    if not paired and not isinstance(images.targets, Objects):
        raise UsageError(f"--overlay draws maps, boxes and pairs, and {images.name} has none; leave it out")


def _shown(opened: Splits) -> ImageSet:
    return next(opened[name] for name in ("test", "val", "all", "train") if name in opened)


def _boxes(images: ImageSet, max_pixels: int) -> Image.Image:
    """The image whose number of objects is in the middle of those that have some."""
    marks, classes = images.objects.marks, images.objects.classes
    full = [row for row in np.argsort([len(each) for each in marks], kind="stable") if len(marks[row])]
    row = int(full[len(full) // 2]) if full else 0
    canvas, scale = _read(images, row, max_pixels)
    pen, font, colours = ImageDraw.Draw(canvas), ImageFont.load_default(14), palette(len(classes))
    for box, label, flag in zip(marks[row].boxes, marks[row].labels, marks[row].flags, strict=True):
        x0, y0, x1, y1 = (box * scale).tolist()
        colour = tuple(colours[label].tolist()) if flag == PLAIN else GREY
        pen.rectangle((x0, y0, max(x1, x0 + 1), max(y1, y0 + 1)), outline=colour, width=2)
        name = classes[label] + ("" if flag == PLAIN else " (not scored)")
        left, top, right, bottom = pen.textbbox((x0 + 2, y0), name, font)
        pen.rectangle((left - 1, top - 1, right + 1, bottom + 1), fill=(255, 255, 255))
        pen.text((x0 + 2, y0), name, (20, 20, 20), font)
    return canvas


def _pair(images: ImageSet, max_pixels: int) -> Image.Image:
    """The first pair: points of one image and, of the same colour, where they lie in the other."""
    assert images.groups is not None
    relation = images.groups.truth["relation"][0]
    (one, first), (two, second) = (_read(images, int(row), max_pixels) for row in images.groups.members[0])
    sizes = [
        (round(each.height / scale), round(each.width / scale))
        for each, scale in ((one, first), (two, second))
    ]
    if isinstance(relation, Keypoints):
        points, moved = relation.first[relation.visible], relation.second[relation.visible]
    else:
        height, width = sizes[0]
        across = (np.arange(ACROSS) + 0.5) * width / ACROSS
        down = (np.arange(DOWN) + 0.5) * height / DOWN
        points = np.stack(np.meshgrid(across, down), axis=-1).reshape(-1, 2)
        moved, known = relation.truth(points, *sizes)
        points, moved = points[known], moved[known]
    canvas = Image.new("RGB", (one.width + two.width, max(one.height, two.height)), (255, 255, 255))
    canvas.paste(one, (0, 0))
    canvas.paste(two, (one.width, 0))
    pen = ImageDraw.Draw(canvas)
    colours = ramp(np.linspace(0, 1, max(len(points), 2)))
    for at, to, colour in zip(points * first, moved * second, colours, strict=False):
        for x, y in (at, to + np.array([one.width, 0])):
            pen.ellipse((x - 5, y - 5, x + 5, y + 5), fill=tuple(colour.tolist()), outline=(255, 255, 255))
    return canvas


def _read(images: ImageSet, row: int, max_pixels: int) -> tuple[Image.Image, float]:
    """An image so large that it can be looked at, and its scale."""
    pixels = read_image(images.sources[row], name=images.names[row], max_pixels=max_pixels).pixels
    scale = SIDE / max(pixels.shape[:2])
    size = max(1, round(pixels.shape[1] * scale)), max(1, round(pixels.shape[0] * scale))
    return Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR), scale
