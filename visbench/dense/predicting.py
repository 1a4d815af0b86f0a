"""What a trained head says: of features of whatever number, and of pictures, in the frame or in their own pixels.

Axes: n images, S pixels of the frame a side, H W pixels of an image, k values a pixel or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from PIL import Image

from extract import plan as planning
from extract.datasets import ImageSet
from extract.datasets.memory import open_arrays
from extract.images import MAX_PIXELS, header
from extract.maps.frame import CropBox, Frame
from extract.memo import Memo
from extract.store import Store
from probes import resizing
from probes.dense import Maps
from visbench import features
from visbench.dense.settings import tap_name
from visbench.dense.streams import Stream
from visbench.dense.training import EVALUATED, Run
from visbench.errors import UsageError
from visbench.options import Options
from visbench.sources import Source

AT = ("frame", "image")
HELD_BYTES = 1 << 26  # of features of pictures, at a time
_UNIT = ("normals", "orientation")  # kinds whose values are directions


@dataclass
class Sight:
    """The backbone of a run, to look at other pictures with."""

    source: Source
    options: Options
    store: Store

    @property
    def max_pixels(self) -> int:
        """Of a picture; a larger one is refused."""
        return self.options.max_pixels or MAX_PIXELS

    @cached_property
    def memo(self) -> Memo:
        """Which pictures were met before."""
        return Memo()

    def parts(self, images: ImageSet, taps: list[str]) -> Iterator[tuple[ImageSet, list[np.ndarray]]]:
        """Some pictures at a time, with their features at each tap."""
        none = np.zeros((0, 16), np.uint8)
        plan = planning.make(self.source.spec, taps, none, store=self.store, dtype=self.options.dtype)
        at_once = max(EVALUATED, HELD_BYTES // sum(map(plan.row_bytes, plan.identities)))
        for start in range(0, len(images), at_once):
            part = images.subset(range(start, min(start + at_once, len(images))))
            yield part, self._features(part, taps)

    def _features(self, images: ImageSet, taps: list[str]) -> list[np.ndarray]:
        """What is stored is read; what is not goes through the backbone and is kept no longer than needed."""
        ids, options = self.memo.row_ids(images.sources), replace(self.options, extract=True, on_bad="refuse")
        plan = planning.make(self.source.spec, taps, ids, store=self.store, dtype=options.dtype)
        store = self.store if not plan.passes else Store(f"memory://{uuid4().hex}")
        try:
            plan, _ = features.ensure(self.source, images, ids, taps, options, store=store, memo=self.memo)
            return [features.read(plan, tap, ids, store) for tap in taps]
        finally:
            if store is not self.store:
                store.clear()


class DensePredictor:
    """A trained head: `predict` takes features as they are stored, `predict_images` pictures.

    What it says of a pixel is a class (uint8), the probability of foreground or of a boundary, metres, a score that
    is lower where nearer, a unit normal, a response, or cos 2a and sin 2a of an orientation.
    """

    where = "frame"  # that pictures are answered in, unless it is said
    alike = True  # whether all pictures get answers of one shape there

    def __init__(self, run: Run, layers: tuple[int, ...], task: Any, trained_on: Stream) -> None:
        self.dims = tuple(trained_on.views[place].shape[-1] for place in run.layers)
        self.run = replace(run, layers=tuple(range(len(layers))))  # of what it is given, not of what was read
        self.layers, self.task, self.kind = layers, task, trained_on.kind
        self.size = int(getattr(task, "size", trained_on.target.shape[1]))  # of the frame
        self.sight: Sight | None = None
        self.train_loss = float(np.atleast_1d(run.loss)[0]) if run.loss is not None else float("nan")

    @property
    def taps(self) -> list[str]:
        """What it reads of a backbone, as asked for."""
        kinds = ("patches", "cls") if self.run.cls else ("patches",)
        return [tap_name(kind, layer) for kind in kinds for layer in self.layers]

    def remember(self, source: Source, options: Options, store: Store) -> None:
        """The backbone whose features it was fitted on, so that it can be asked of pictures.

        One that has a name is loaded again when it is needed: the results of a sweep are not to keep all of them.
        """
        kept = source if source.request is None else replace(source, loaded=None)
        self.sight = Sight(kept, options, store)

    def predict(self, *grids: Any, cls: Any = None, size: tuple[int, int] | None = None) -> np.ndarray:
        """(n, H, W[, k]) for the (n, h, w, d) features of each layer the head reads; `size` is the frame's if None.

        `cls` are the (n, d) CLS tokens of each layer, for a head that reads them.
        """
        maps, size = self._maps(grids, cls), _checked_size(size) or (self.size, self.size)
        count = len(maps.grids[0])
        found = [self._block(maps, start, count, size) for start in range(0, count, EVALUATED)]
        return np.concatenate(found)

    def predict_images(
        self, images: Any, at: str | None = None, *, fill: float | None = None
    ) -> np.ndarray | list[np.ndarray]:
        """What it says of pictures: paths, arrays or PIL images, in a list, or one array (n, H, W, 3).

        At the "frame" (n, S, S[, k]): the square in the middle that the backbone sees. At the "image" a list of
        (H, W[, k]), in the upright pixels of each; what lies outside the square is `fill`, by default what says
        nothing in target maps of this kind (255 for labels and foreground, −1 for responses, else 0). There classes
        are those of the nearest pixel of the frame, and all else is interpolated between its four neighbours.
        """
        found = list(self.each_image(images, at, fill=fill))
        return found if (at or self.where) == "image" or not self.alike else np.stack(found)

    def each_image(
        self, images: Any, at: str | None = None, *, fill: float | None = None
    ) -> Iterator[np.ndarray]:
        """The same, one after the other: memory holds some features, and no more than one large map."""
        at = at or self.where
        if at not in AT:
            raise UsageError(f"at is {at!r}; maps are given at the {' or at the '.join(AT)}")
        if self.sight is None:
            raise UsageError(
                "this probe was fitted on features and knows no backbone; extract those of the images and call predict"
            )
        alone = isinstance(images, str | bytes | Path | Image.Image)
        (opened,) = open_arrays([images] if alone else images).values()
        return self._each(opened, at, self.kind.void if fill is None else fill, self.sight)

    def _each(self, images: ImageSet, at: str, fill: float, sight: Sight) -> Iterator[np.ndarray]:
        for row, said in enumerate(self._said(images, sight)):
            yield said if at == "frame" else self._placed(said, images, row, fill, sight.max_pixels)

    def _said(self, images: ImageSet, sight: Sight) -> Iterator[np.ndarray]:
        """What it says of each picture in the frame."""
        for part, found in sight.parts(images, self.taps):
            grids, tokens = found[: len(self.layers)], found[len(self.layers) :]
            maps = self._maps(tuple(grids), tokens or None)
            for start in range(0, len(part), EVALUATED):
                yield from self._block(maps, start, len(part), (self.size, self.size))

    def _placed(
        self, said: np.ndarray, images: ImageSet, row: int, fill: float, max_pixels: int
    ) -> np.ndarray:
        """(H, W[, k]) of a map in the frame."""
        shown = header(images.sources[row], name=images.names[row], max_pixels=max_pixels)
        box = Frame(self.size).crop_box(shown.height, shown.width)
        placed = np.full((shown.height, shown.width, *said.shape[2:]), fill, said.dtype)
        placed[box.rows, box.columns] = _looked_up(said, box, unit=self.kind.name in _UNIT)
        return placed

    def _block(self, maps: Maps, start: int, count: int, size: tuple[int, int]) -> np.ndarray:
        """Of the rows from `start`; all blocks but a lone one have one shape, so that one program serves them."""
        stop = min(start + EVALUATED, count)
        rows = np.arange(start, start + EVALUATED if count > EVALUATED else stop).clip(max=count - 1)
        cls = None if maps.cls is None else tuple(tokens[rows] for tokens in maps.cls)
        block = Maps(tuple(grid[rows] for grid in maps.grids), cls)
        found: np.ndarray = self.run.predict(block, size)[0][: stop - start]
        return found

    def _maps(self, grids: tuple[Any, ...], cls: Any) -> Maps:
        arrays = tuple(map(np.asarray, grids))
        if tuple(grid.shape[-1] if grid.ndim == 4 else None for grid in arrays) != self.dims:
            came = " and ".join(str(grid.shape) for grid in arrays) or "none"
            wanted = " and ".join(f"(n, h, w, {dims})" for dims in self.dims)
            raise UsageError(f"features of shape {came} came; this probe reads {wanted}, a layer each")
        if (cls is not None) != self.run.cls:
            raise UsageError(
                "this probe reads CLS tokens: give cls=, (n, d) a layer"
                if self.run.cls
                else "this probe reads no CLS tokens; leave cls out"
            )
        tokens = None if cls is None else tuple(map(np.asarray, cls))
        counts = {len(each) for each in (*arrays, *(tokens or ()))}
        if len(counts) > 1 or 0 in counts:
            raise UsageError(f"features of {sorted(counts)} images came; wanted the same ones at each layer")
        return Maps(arrays, tokens)


def _looked_up(said: np.ndarray, box: CropBox, *, unit: bool) -> np.ndarray:
    """The values of a map (S, S[, k]) at the pixels of a box."""
    if said.dtype.kind != "f":
        rows, columns = (
            np.floor(places + 0.5).astype(int).clip(0, len(said) - 1)
            for places in (box.row_positions, box.column_positions)
        )
        return np.asarray(said[rows[:, None], columns[None]])
    down, across = (resizing.at(places, len(said)) for places in (box.row_positions, box.column_positions))
    planes = [down @ plane @ across.T for plane in np.moveaxis(said.reshape(*said.shape[:2], -1), -1, 0)]
    found = np.stack(planes, axis=-1)
    if unit:
        length = np.linalg.norm(found, axis=-1, keepdims=True)
        found = found / np.where(length > 0, length, 1)
    return found.reshape(*found.shape[:2], *said.shape[2:])


def _checked_size(size: Any) -> tuple[int, int] | None:
    if size is None:
        return None
    sides = tuple(size) if np.ndim(size) == 1 else ()
    if len(sides) != 2 or any(side != int(side) or side < 1 for side in sides):
        raise UsageError(f"size is {size!r}; it is (height, width) in pixels, such as (224, 224)")
    return int(sides[0]), int(sides[1])
