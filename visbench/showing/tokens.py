"""Patch features themselves: their first three principal components as colours, or how alike each is to one of them.

Axes: n images, h w grid, d dims.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from extract.datasets import ImageSet
from extract.geometry import axes
from extract.images import MAX_PIXELS, header
from extract.memo import Memo
from extract.store import Store
from visbench import sources
from visbench.dense.predicting import Sight
from visbench.dense.settings import tap_name
from visbench.errors import UsageError
from visbench.frames import frame_side
from visbench.mapoverlay import ramp
from visbench.opening import open_splits
from visbench.options import Options
from visbench.showing import legends
from visbench.showing.choosing import Scores, Wanted, chosen
from visbench.showing.page import Heading, Row, Tile, page
from visbench.showing.seen import enlarged, look
from visbench.sources import Source

TILE, ACROSS = 240, 2  # pixels; pictures in a row, each beside its features
PART = 0.01  # of the tokens at either end of a component that the colours leave out


@dataclass(frozen=True)
class Tokens:
    """The patch features of some pictures."""

    images: ImageSet
    grids: np.ndarray  # (n, h, w, d)
    source: Source
    options: Options
    tap: str
    shown: str


def picture(
    data: Any, backbone: Any, options: Options, want: Wanted, patch: tuple[float, float] | None = None
) -> Image.Image:
    """The page: components of all pictures together, or cosines to the patch at a pixel of the first."""
    seen = read(data, backbone, options, want)
    return components(seen) if patch is None else likeness(seen, patch)


def read(data: Any, backbone: Any, options: Options, want: Wanted) -> Tokens:
    """Choose pictures and look at them; what is not stored is computed and not kept."""
    store = options.store if isinstance(options.store, Store) else Store(options.store)
    opened = open_splits(data, options, store, name=options.dataset_name)
    if options.split is not None and options.split not in opened:
        raise UsageError(f'{opened.name} has no split "{options.split}"; it has {", ".join(opened)}')
    usual = (options.split,) if options.split else ("test", "val", "all", *opened)
    images = opened[next(split for split in usual if split in opened)]
    if want.how == "best" or (want.how == "worst" and want != Wanted() and not want.frames):
        raise UsageError("features have no score, so none are best or worst; take random, or name frames")
    nothing = Scores("score", np.zeros(len(images)), lower=False)
    how = Wanted("random", want.count) if not want.frames else want
    rows = chosen(how, nothing, [[name] for name in images.names], seed=options.seed, what="image")
    if not len(rows):
        raise UsageError(f"{images.name} has no image to show")
    tap = tap_name("patches", options.one_layer)
    memo = Memo()
    (source,) = sources.find_all([backbone], [tap], options, memo)
    part = images.subset(rows)
    grids = [found[0] for _, found in Sight(source, options, store).parts(part, [tap])]
    split = f" of {images.split}" if images.split else ""
    named = "by name" if want.frames else "at random"
    shown = f"{len(rows)} images {named}, of {len(images):,}{split}"
    return Tokens(part, np.concatenate(grids).astype(np.float32), source, options, tap, shown)


def components(seen: Tokens) -> Image.Image:
    """Pictures beside the colours of their patches."""
    colours, shares = as_colours(seen.grids)
    said = ", ".join(f"{share:.0%}" for share in shares)
    note = (
        f"Red, green and blue are the first three principal components of the patch features of all {len(seen.images)} "
        f"pictures together ({said} of their variance); like colours are like features."
    )
    tiles = [[_tile(seen, row), Tile(enlarged(colours[row], TILE))] for row in range(len(seen.images))]
    return page(
        _heading(seen, "principal components of patch features"), _rows(tiles), [legends.note(note, 4 * TILE)]
    )


def likeness(seen: Tokens, patch: tuple[float, float]) -> Image.Image:
    """Pictures beside the cosines of their patches to the one at a pixel of the first picture."""
    row, column = place_of(seen, patch)
    cosines = cosines_to(seen.grids, row, column)
    low, high = float(cosines.min()), float(cosines.max())
    tiles = []
    for number, each in enumerate(cosines):
        heat = ramp(np.clip((each - low) / max(high - low, 1e-12), 0, 1).reshape(-1)).reshape(*each.shape, 3)
        shown = _tile(seen, number)
        if number == 0:
            marked = [
                _marked(image, (row, column), each.shape) for image in (shown.image, enlarged(heat, TILE))
            ]
            tiles.append([Tile(marked[0], (*shown.lines, "")), Tile(marked[1], ("the patch is outlined",))])
        else:
            tiles.append([shown, Tile(enlarged(heat, TILE))])
    title = f"likeness to the patch at {patch[0]:g},{patch[1]:g} of {seen.images.names[0]}"
    return page(_heading(seen, title), _rows(tiles), [legends.scale(low, high, "cosine to that patch")])


def as_colours(grids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, h, w, 3) uint8 and the (3,) shares of variance of the first components of all patches together.

    A component points to where its largest weight is positive, so that signs are not left to chance.
    """
    tokens = grids.reshape(-1, grids.shape[-1]).astype(np.float64)
    centred = tokens - tokens.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    first = vectors[:, ::-1][:, :3]
    first = first * np.sign(first[np.abs(first).argmax(axis=0), np.arange(first.shape[1])])
    said = centred @ first
    said = np.pad(said, ((0, 0), (0, 3 - said.shape[1])))
    low, high = np.quantile(said, [PART, 1 - PART], axis=0)
    flat = high - low <= 1e-9 * max(float(np.abs(said).max()), 1e-30)
    scaled = np.where(flat, 0.5, np.clip((said - low) / np.where(flat, 1, high - low), 0, 1))
    shares = np.pad(values[::-1][:3].clip(min=0), (0, max(3 - len(values), 0)))
    total = max(float(values.clip(min=0).sum()), 1e-30)
    return np.rint(scaled * 255).astype(np.uint8).reshape(*grids.shape[:3], 3), shares / total


def cosines_to(grids: np.ndarray, row: int, column: int) -> np.ndarray:
    """(n, h, w) cosine of every patch to the one of the first picture; 0 with features of zeros."""
    length = np.linalg.norm(grids, axis=-1, keepdims=True)
    unit = grids / np.where(length > 0, length, 1)
    return np.asarray(unit @ unit[0, row, column])


def place_of(seen: Tokens, patch: tuple[float, float]) -> tuple[int, int]:
    """Row and column of the patch at a pixel (x, y) of the first picture, counted from its upper left."""
    side, limit = frame_side(seen.source), seen.options.max_pixels or MAX_PIXELS
    name = seen.images.names[0]
    shown = header(seen.images.sources[0], name=name, max_pixels=limit)
    down, across = axes(shown.height, shown.width, side)
    x, y = float(across.into(patch[0] + 0.5)), float(down.into(patch[1] + 0.5))
    if not (0 <= x < side and 0 <= y < side):
        ends = [(axis.out_of(0), axis.out_of(side)) for axis in (across, down)]
        raise UsageError(
            f"the pixel {patch[0]:g},{patch[1]:g} of {name} ({shown.width} × {shown.height}) lies outside of what the "
            f"backbone sees: x {ends[0][0]:.0f} … {ends[0][1] - 1:.0f} and y {ends[1][0]:.0f} … {ends[1][1] - 1:.0f}"
        )
    return int(y * seen.grids.shape[1] / side), int(x * seen.grids.shape[2] / side)


def _tile(seen: Tokens, row: int) -> Tile:
    framed = "interpolation" in seen.source.spec.transform
    return Tile(look(seen.images, row, TILE, framed=framed, options=seen.options), (seen.images.names[row],))


def _marked(image: Image.Image, at: tuple[int, int], grid: Sequence[int]) -> Image.Image:
    """With an outline around a patch."""
    marked, (high, wide) = image.copy(), (TILE / grid[0], TILE / grid[1])
    box = at[1] * wide, at[0] * high, (at[1] + 1) * wide - 1, (at[0] + 1) * high - 1
    pen = ImageDraw.Draw(marked)
    pen.rectangle(box, outline=(0, 0, 0), width=3)
    pen.rectangle((box[0] + 1, box[1] + 1, box[2] - 1, box[3] - 1), outline=(255, 255, 255), width=1)
    return marked


def _rows(tiles: Sequence[Sequence[Tile]]) -> list[Row]:
    flat = [tile for pair in tiles for tile in pair]
    return [Row(tuple(flat[start : start + 2 * ACROSS])) for start in range(0, len(flat), 2 * ACROSS)]


def _heading(seen: Tokens, what: str) -> Heading:
    grid = f"{seen.grids.shape[1]} by {seen.grids.shape[2]} patches of {seen.grids.shape[3]:,} dims"
    lines = (f"{what} · {seen.tap}, {grid}", seen.shown)
    return Heading(
        f"{seen.images.name} · features · {seen.source.asked}", lines, ("no record: nothing was scored",)
    )
