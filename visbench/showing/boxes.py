"""Objects: the truth and the detections, with class and score; of instances their masks too.

Axes: n images, K detections, M objects, S pixels a side.  Boxes are in shares of the frame's side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from extract.datasets.objects import PLAIN
from probes.metrics import detection as metric
from visbench.mapoverlay import palette
from visbench.showing import legends, words
from visbench.showing.choosing import Scores
from visbench.showing.page import Row, Tile, page, tick
from visbench.showing.seen import Seen
from visbench.truthoverlay import GREY

TILE = 440
OVERLAP = 0.5  # intersection over union from which a detection is right


@dataclass(frozen=True)
class Judged:
    """One image: its objects, the detections above a score, and which belong together."""

    objects: np.ndarray  # (m, 6): box, label, flag
    found: np.ndarray  # (k, 6): box, score, label
    right: np.ndarray  # (k,) bool
    met: np.ndarray  # (m,) bool: objects that a detection found
    ignored: np.ndarray  # (k,) bool: detections of what is not scored, neither right nor wrong


def scores(seen: Seen) -> Scores:
    """Each image's part in the headline."""
    return seen.scores(part=True)


def draw(seen: Seen, rows: np.ndarray, found: Scores, shown: str) -> Image.Image:
    """The page."""
    stream, probe = seen.rows(["test"], seen.measure.taps), seen.result.probe
    said, true = [], []
    for chosen, maps, target in stream.blocks(8):
        predicted = probe.predict(*maps.grids, cls=maps.cls if maps.cls else None)
        said += [each[each[:, 5] >= 0] for each in predicted[: len(chosen)]]
        true += [each[each[:, 4] >= 0] for each in np.asarray(target)[: len(chosen)]]
    least = operating_point([each[:, :6] for each in said], [each[:, :6] for each in true])
    masked = hasattr(probe, "masks")
    table, listed = palette(len(seen.classes)), []
    for row in map(int, rows):
        kept = said[row][said[row][:, 4] >= least]
        judged = judge(kept[:, :6], true[row][:, :6])
        picture = seen.picture(row, TILE)
        masks: tuple[np.ndarray | None, np.ndarray | None] = (None, None)
        if masked:
            pixels = kept.copy()
            pixels[:, :4] *= TILE
            masks = _resized(stream.original(row)), probe.masks(pixels, TILE, TILE)
        truth = draw_truth(picture, judged, seen.classes, table, masks[0])
        detections = draw_found(picture, judged, seen.classes, table, masks[1])
        met, scored = int(judged.met.sum()), int((judged.objects[:, 5] == PLAIN).sum())
        wrong = int((~judged.right & ~judged.ignored).sum())
        lines = f"{met} of {scored} found, {wrong} wrong"
        tiles = (Tile(truth, ("truth",)), Tile(detections, (f"detections: {lines}",)))
        listed.append(Row(tiles, f"{seen.images.names[row]} · {lines} · {found[row]}"))
    colours = legends.classes(list(zip(seen.classes, table, strict=True)), 2 * TILE)
    marks = legends.answers(
        f"its box is one of its class (IoU {OVERLAP:g})", "it is not, or one found before (dashed)"
    )
    note = (
        f"Detections of score {least:.2f} and more are drawn, where F1 over all scored images is best. In the truth "
        "dashes are objects that were not found, grey what is not scored. Colours are classes."
    )
    return page(seen.heading(shown), listed, [colours, marks, legends.note(note, 2 * TILE)])


def judge(found: np.ndarray, objects: np.ndarray, overlap: float = OVERLAP) -> Judged:
    """Match detections (k, 6), best first, to objects (m, 6) of their class, each object once."""
    ious = box_ious(found[:, :4], objects[:, :4])
    right, ignored = np.zeros(len(found), bool), np.zeros(len(found), bool)
    met, plain = np.zeros(len(objects), bool), objects[:, 5] == PLAIN
    for place in np.argsort(-found[:, 4], kind="stable"):
        alike = (objects[:, 4] == found[place, 5]) & (ious[place] >= overlap)
        free = np.flatnonzero(alike & plain & ~met)
        if len(free):
            met[free[ious[place][free].argmax()]] = right[place] = True
        else:
            ignored[place] = bool((alike & ~plain).any())
    return Judged(objects, found, right, met, ignored)


def operating_point(found: Sequence[np.ndarray], objects: Sequence[np.ndarray]) -> float:
    """The score from which detections give the best F1 over all images; 0 where there are none."""
    judged = [judge(one, two) for one, two in zip(found, objects, strict=True)]
    values = np.concatenate([each.found[~each.ignored, 4] for each in judged])
    right = np.concatenate([each.right[~each.ignored] for each in judged])
    wanted = sum(int((each.objects[:, 5] == PLAIN).sum()) for each in judged)
    if not len(values):
        return 0.0
    order = np.argsort(-values, kind="stable")
    hits = right[order].cumsum()
    f1 = 2 * hits / (np.arange(1, len(order) + 1) + wanted)
    return float(values[order][int(f1.argmax())])


def box_ious(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(k, m) intersection over union."""
    said, true = (
        np.pad(each[:, :4], ((0, 0), (0, 2))) for each in (first, second)
    )  # as plain rows of one class
    return np.asarray(metric.box_overlaps(said[None], true[None])[0])


def draw_truth(
    picture: Image.Image,
    judged: Judged,
    classes: Sequence[str],
    table: np.ndarray,
    masks: np.ndarray | None = None,
) -> Image.Image:
    """The objects; those that were missed are dashed, and grey those that are not scored."""
    flags, labels = judged.objects[:, 5], judged.objects[:, 4].astype(int)
    inks = [_ink(table[label]) if flag == PLAIN else GREY for label, flag in zip(labels, flags, strict=True)]
    canvas = _washed(picture, masks, inks)
    pen = ImageDraw.Draw(canvas)
    for box, ink, met, flag in zip(judged.objects[:, :4], inks, judged.met, flags, strict=True):
        outline(pen, box * canvas.width, ink, dashed=flag == PLAIN and not met)
    for box, label in zip(judged.objects[:, :4], labels, strict=True):
        _label(canvas, box * canvas.width, classes[label], None)
    return canvas


def draw_found(
    picture: Image.Image,
    judged: Judged,
    classes: Sequence[str],
    table: np.ndarray,
    masks: np.ndarray | None = None,
) -> Image.Image:
    """The detections with class and score, a tick or a cross each; the surest lie above the others."""
    labels = judged.found[:, 5].astype(int)
    inks = [_ink(table[label]) for label in labels]
    canvas = _washed(picture, masks, inks)
    pen = ImageDraw.Draw(canvas)
    order = np.argsort(judged.found[:, 4], kind="stable")
    for place in order:
        wrong = not judged.right[place] and not judged.ignored[place]
        outline(pen, judged.found[place, :4] * canvas.width, inks[place], dashed=bool(wrong))
    for place in order:
        text = f"{classes[labels[place]]} {judged.found[place, 4]:.2f}"
        mark = None if judged.ignored[place] else bool(judged.right[place])
        _label(canvas, judged.found[place, :4] * canvas.width, text, mark)
    return canvas


def outline(pen: ImageDraw.ImageDraw, box: np.ndarray, ink: tuple[int, ...], *, dashed: bool) -> None:
    """A box x0, y0, x1, y1 in pixels: its edges lie where the object ends."""
    x0, y0, x1, y1 = (round(float(each)) for each in box)
    x1, y1 = max(x1 - 1, x0), max(y1 - 1, y0)
    if not dashed:
        pen.rectangle((x0, y0, x1, y1), outline=ink, width=2)
        return
    for x in range(x0, x1 + 1, 9):
        for y in (y0, y1 - 1):
            pen.rectangle((x, y, min(x + 4, x1), y + 1), ink)
    for y in range(y0, y1 + 1, 9):
        for x in (x0, x1 - 1):
            pen.rectangle((x, y, x + 1, min(y + 4, y1)), ink)


def _washed(picture: Image.Image, masks: np.ndarray | None, inks: Sequence[tuple[int, ...]]) -> Image.Image:
    """The picture with (m, S, S) masks laid over it, half transparent, each with its rim."""
    pixels = np.asarray(picture.convert("RGB"), np.float32).copy()
    for mask, ink in zip([] if masks is None else masks, inks, strict=False):
        inner = mask.copy()
        inner[1:-1, 1:-1] &= mask[:-2, 1:-1] & mask[2:, 1:-1] & mask[1:-1, :-2] & mask[1:-1, 2:]
        pixels[mask] = 0.55 * pixels[mask] + 0.45 * np.array(ink, np.float32)
        pixels[mask & ~inner] = ink
    return Image.fromarray(np.rint(pixels).astype(np.uint8))


def _label(canvas: Image.Image, box: np.ndarray, text: str, right: bool | None) -> None:
    """A tag at the upper edge of a box, inside the picture."""
    pen, mark = ImageDraw.Draw(canvas), 0 if right is None else 15
    wide = words.width(text, words.SMALL) + mark + 6
    x = min(max(round(float(box[0])), 0), max(canvas.width - wide, 0))
    y = max(round(float(box[1])) - 17, 0)
    pen.rectangle((x, y, x + wide, y + 16), words.GROUND)
    if right is not None:
        tick(pen, (x + 1, y + 1), 14, right)
    words.write(pen, (x + mark + 3, y + 1), text, words.SMALL)


def _resized(masks: np.ndarray) -> np.ndarray:
    """(m, s, s) bool at the size that is drawn, each pixel that under its centre."""
    places = (np.arange(TILE) * 2 + 1) * masks.shape[1] // (2 * TILE)
    return np.asarray(masks[:, places[:, None], places[None]])


def _ink(colour: np.ndarray) -> tuple[int, ...]:
    return tuple(int(part) for part in colour)
