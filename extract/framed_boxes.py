"""Marked objects in the square frame of a backbone (`extract.geometry`).

Axes: b objects, s the frame's side.  A row of an object is x0, y0, x1, y1 in frame pixels (the left edge of the first
is 0, x1 and y1 are edges), its label and its flag (`extract.datasets.objects`).
"""

from __future__ import annotations

import numpy as np

from extract.datasets.objects import IGNORED, PLAIN, Marks
from extract.errors import InputError
from extract.geometry import axes
from extract.images import Header
from extract.maps.frame import Frame

EXISTS = 3
"""The flag of a row that says no more than that there is an image, though nothing is marked on it."""

THINNEST = 1.0  # frame pixels: of what is thinner nothing is left to find
LEEWAY = 2.0  # image pixels by which a box of any size may stick out; a box on another scale does by far more
BINS = 14  # of a side of an object's mask, as of the features that it is predicted from

Size = tuple[int, int]


def check_marks(marks: Marks, image: Header, name: str) -> None:
    """Refuse marks that do not lie on their image, or of which that cannot be told; `name` is the image's.

    Where an EXIF orientation turns the image, only a stated size of another shape tells whether it was marked as
    seen or as stored.
    """
    size = (image.height, image.width)
    if image.orientation != 1 and len(marks):
        told = image.orientation >= 5 and image.height != image.width and marks.size is not None
        if told and marks.size == (image.width, image.height):
            raise InputError(
                f"{name} is {_said(size)}, turned by its EXIF orientation {image.orientation}, and its objects were "
                f"marked on {_said((image.width, image.height))}, the image as it is stored; save the image without "
                "EXIF orientation, as it was marked"
            )
        if not told:
            raise InputError(
                f"{name} has EXIF orientation {image.orientation}: whether its objects were marked on the image as "
                "seen or as stored cannot be told; save the image without EXIF orientation, as it was marked"
            )
    _check(marks, size, name)


def framed(marks: Marks, size: Size, side: int, *, name: str = "an image") -> np.ndarray:
    """(k, 6) float32: a row for each of the objects that the frame shows some of, in their order.

    `size` is the image's own (height, width), upright.  Boxes are clipped to the image and to the frame.  An object
    whose centre lies outside the frame, or of which less than a pixel's breadth is left, is flagged IGNORED: half of
    it, or none, could be found.  Marks made on an image of another size are refused, and so is a box of which
    less than half lies in the image; `name` is what the error calls it.
    """
    return _placed(marks, size, side, name)[1]


def framed_masks(marks: Marks, size: Size, side: int, *, name: str = "an image") -> np.ndarray:
    """(k, s, s) bool: the masks of the objects that `framed` gives, at the centres of the frame's pixels."""
    kept, _ = _placed(marks, size, side, name)
    if marks.masks is None:
        raise InputError(f"the objects of {name} have boxes but no outlines; detection can be scored on them")
    if not kept.size:
        return np.zeros((0, side, side), bool)
    whole = marks.masks()
    if whole.shape != (len(marks), *size):
        raise InputError(
            f"{name} is {_said(size)} and has {len(marks)} objects, and their masks have the shape {whole.shape}; "
            "a mask has to lie on its image, pixel for pixel"
        )
    frame = Frame(size=side)
    return np.stack([frame.place(whole[each]) for each in kept])


def seen(rows: np.ndarray, masks: np.ndarray, *, name: str = "an image") -> np.ndarray:
    """(k, 6): the rows of `framed`, an object IGNORED of whose mask (k, s, s) no pixel is left to find.

    A mask that lies beside the box it belongs to is refused: the two are of different objects, or sizes of the image.
    """
    flags = rows[:, 5].copy()
    for place, (row, mask) in enumerate(zip(rows, masks, strict=True)):
        down, across = np.nonzero(mask)
        if not len(down):
            flags[place] = IGNORED if flags[place] == PLAIN else flags[place]
            continue
        x0, y0, x1, y1 = row[:4] + np.array([-LEEWAY, -LEEWAY, LEEWAY, LEEWAY], np.float32)
        within = (across + 0.5 >= x0) & (across + 0.5 <= x1) & (down + 0.5 >= y0) & (down + 0.5 <= y1)
        if within.mean() < 0.5:
            raise InputError(
                f"{name}: more than half of the outline of its object {place + 1} lies outside that object's box; the "
                "two have to belong together, so mend the annotation or take the object out"
            )
    return np.column_stack([rows[:, :5], flags])


def sampled(mask: np.ndarray, box: np.ndarray, bins: int = BINS) -> np.ndarray:
    """(bins, bins) bool of a mask (s, s): what lies under the centres of equal bins of `box` (frame pixels)."""
    height, width = mask.shape
    x0, y0, x1, y1 = np.asarray(box, np.float64)[:4].tolist()
    centres = (np.arange(bins) + 0.5) / bins
    columns, rows = (
        np.clip(np.floor(first + (last - first) * centres).astype(np.int64), 0, length - 1)
        for first, last, length in ((x0, x1, width), (y0, y1, height))
    )
    return np.asarray(mask[rows[:, None], columns[None]])


def padded(rows: np.ndarray, room: int) -> np.ndarray:
    """(room, 6) float32: the rows of an image and −1 behind them.

    The first row of an image without objects is −1 but for the flag EXISTS: an image has been there, and whatever is
    found on it counts.
    """
    if room < max(len(rows), 1):
        raise InputError(f"there is room for {room} rows, and {max(len(rows), 1)} are needed")
    full = np.full((room, 6), -1, np.float32)
    full[: len(rows)] = rows
    if not len(rows):
        full[0, 5] = EXISTS
    return full


def back(boxes: np.ndarray, size: Size, side: int) -> np.ndarray:
    """(b, 4) float64: boxes of a frame in pixels of the upright image, clipped to it."""
    height, width = size
    rows, columns = axes(height, width, side)
    told = np.asarray(boxes, np.float64).reshape(-1, 4)
    found = np.empty_like(told)
    found[:, 0::2] = np.clip(columns.out_of(told[:, 0::2]), 0, width)
    found[:, 1::2] = np.clip(rows.out_of(told[:, 1::2]), 0, height)
    return found


def _placed(marks: Marks, size: Size, side: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The objects that are seen, and their (k, 6)."""
    _check(marks, size, name)
    height, width = size
    rows, columns = axes(height, width, side)
    shown = _within(marks.boxes, width, height)
    moved = np.empty_like(shown)
    moved[:, 0::2], moved[:, 1::2] = columns.into(shown[:, 0::2]), rows.into(shown[:, 1::2])
    clipped = _within(moved, side, side)
    centres = (moved[:, :2] + moved[:, 2:]) / 2
    breadth = (clipped[:, 2:] - clipped[:, :2]).min(axis=1, initial=np.inf)
    unfit = (centres < 0).any(axis=1) | (centres > side).any(axis=1) | (breadth < THINNEST)
    flags = np.where(unfit & (marks.flags == PLAIN), IGNORED, marks.flags)
    kept = np.flatnonzero(breadth > 0)
    told = np.column_stack([clipped, marks.labels, flags])[kept].astype(np.float32)
    return kept, told


def _check(marks: Marks, size: Size, name: str) -> None:
    height, width = size
    if marks.size is not None and marks.size != size:
        turned = (
            "; the two look turned against each other, so save the image as it was marked"
            if marks.size == size[::-1]
            else "; use the images on which the boxes were drawn"
        )
        raise InputError(
            f"{name} is {_said(size)}, and its objects were marked on {_said(marks.size)}{turned}"
        )
    shown = _within(marks.boxes, width, height)
    beyond = np.abs(shown - marks.boxes).max(axis=1) > LEEWAY
    beside = beyond & (_area(shown) < _area(marks.boxes) / 2)
    if beside.any():
        place = int(beside.argmax())
        x0, y0, x1, y1 = marks.boxes[place].tolist()
        raise InputError(
            f"{name} is {_said(size)}, and more than half of its object {place + 1} lies outside, from ({x0:g}, "
            f"{y0:g}) to ({x1:g}, {y1:g}); boxes are in pixels of the image as it is there, so scale them, or clip "
            "the box to it"
        )


def _within(boxes: np.ndarray, width: float, height: float) -> np.ndarray:
    """Boxes clipped to 0 … width and 0 … height."""
    limits = np.array([width, height, width, height], np.float64)
    return np.asarray(np.clip(boxes, 0, limits))


def _area(boxes: np.ndarray) -> np.ndarray:
    sides = boxes[:, 2:] - boxes[:, :2]
    return np.asarray(sides[:, 0] * sides[:, 1])


def _said(size: Size) -> str:
    return f"{size[1]}×{size[0]}"
