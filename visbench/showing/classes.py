"""Classification and zero-shot: scored pictures with the true class and the class that was said, and who is taken for
whom.

Axes: n images, c classes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from probes.metrics import classification
from visbench.mapoverlay import ramp
from visbench.showing import legends, words
from visbench.showing.choosing import Scores
from visbench.showing.page import Row, Tile, grid, page
from visbench.showing.seen import Seen

TILE, ACROSS = 190, 4
CELL, MOST = 34, 40  # pixels of a cell, and classes that a matrix has room for


def answers(seen: Seen) -> tuple[np.ndarray, str]:
    """(n, c) what was said of each class, and what the numbers are."""
    found = seen.rows(seen.measure.taps[0])
    probe = seen.result.probe
    if seen.session.task.name == "zeroshot":
        return probe.similarity(found.rows["test"].features), "cosine"
    logits = np.asarray(probe.logits(found["test"].features), np.float64)
    if probe.name == "knn":
        return logits, "share of votes"
    if probe.name not in ("logistic", "linear"):
        return logits, "score"
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True), "probability"


def scores(seen: Seen) -> Scores:
    """Of each image; of two that are wrong the worse is the one that is surer of it."""
    said, labels = answers(seen)[0], seen.images.known_labels
    return seen.scores("top1", wrongness(said, labels))


def wrongness(said: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(n,) what was said of the best other class, less what was said of the true one."""
    rows = np.arange(len(said))
    others = said.astype(np.float64).copy()
    others[rows, labels] = -np.inf
    return np.asarray(others.max(axis=1) - said[rows, labels])


def draw(seen: Seen, rows: np.ndarray, found: Scores, shown: str) -> Image.Image:
    """The page."""
    (said, unit), labels = answers(seen), seen.images.known_labels
    tiles = []
    for row in map(int, rows):
        best, true = int(said[row].argmax()), int(labels[row])
        right = best == true
        lines = [f"said {seen.classes[best]}  {said[row, best]:.2f}"]
        lines.append(f"true {seen.classes[true]}" + ("" if right else f"  {said[row, true]:.2f}"))
        tiles.append(Tile(seen.picture(row, TILE), (*lines, seen.images.names[row]), right))
    legend = legends.answers("said the true class", "said another")
    note = legends.note(f"Numbers: {unit}.", ACROSS * TILE)
    return page(seen.heading(shown), grid(tiles, ACROSS), [legend, note])


def confusion(seen: Seen, shown: str) -> Image.Image:
    """The page of who is taken for whom, over all scored images."""
    said, labels = answers(seen)[0], seen.images.known_labels
    counts = counted(labels, said.argmax(axis=1), len(seen.classes))
    kept = np.argsort(-(counts.sum(1) + counts.sum(0)), kind="stable")[:MOST]
    kept = np.sort(kept)
    image = matrix(counts[np.ix_(kept, kept)], [seen.classes[place] for place in kept], counts.sum(1)[kept])
    left_out = len(seen.classes) - len(kept)
    more = [legends.note(f"{left_out} rarer classes are not drawn.", 500)] if left_out else []
    bar = legends.scale(0, 1, "share of the images of the true class")
    return page(seen.heading(f"{shown}; numbers are images"), [Row((Tile(image),))], [bar, *more])


def counted(labels: np.ndarray, said: np.ndarray, classes: int) -> np.ndarray:
    """(c, c) images by true class (rows) and by the class that was said (columns)."""
    return classification.confusion(np.asarray(labels), np.asarray(said), num_classes=classes)


def matrix(counts: np.ndarray, names: Sequence[str], totals: np.ndarray) -> Image.Image:
    """Cells in the colour of their share of their row, with counts in them; `totals` (c,) images of each class."""
    side = max(words.width(name, words.SMALL) for name in names)
    side = min(side, 170)
    left, top = side + 60, side + 34
    canvas = Image.new("RGB", (left + CELL * len(names) + 10, top + CELL * len(names) + 6), words.GROUND)
    pen = ImageDraw.Draw(canvas)
    shares = counts / np.maximum(totals, 1)[:, None]
    colours = ramp(shares.ravel()).reshape(*shares.shape, 3)
    words.write(pen, (left, 0), "said", words.PLAIN)
    words.write(pen, (0, top - words.height(words.PLAIN)), "true", words.PLAIN)
    for place, name in enumerate(names):
        short = words.cut(name, side, words.SMALL)
        y = top + CELL * place + CELL / 2
        words.write(pen, (side, y), short, words.SMALL, anchor="rm")
        words.write(pen, (left - 8, y), f"{int(totals[place]):,}", words.SMALL, words.FAINT, "rm")
        _upright(canvas, short, (left + CELL * place, top - 6), side)
    for i, j in np.ndindex(counts.shape):
        x, y = left + CELL * j, top + CELL * i
        colour = tuple(int(part) for part in colours[i, j])
        pen.rectangle((x, y, x + CELL - 2, y + CELL - 2), colour)
        if counts[i, j]:
            ink = words.INK if sum(colour) > 330 else words.GROUND
            words.write(
                pen, (x + CELL / 2 - 1, y + CELL / 2 - 1), str(int(counts[i, j])), words.SMALL, ink, "mm"
            )
    return canvas


def _upright(canvas: Image.Image, text: str, at: tuple[int, int], room: int) -> None:
    """A name that reads upwards, its beginning at `at`."""
    strip = Image.new("RGB", (room, CELL), words.GROUND)
    words.write(ImageDraw.Draw(strip), (0, CELL / 2), text, words.SMALL, anchor="lm")
    canvas.paste(strip.rotate(90, expand=True), (at[0], at[1] - room))
