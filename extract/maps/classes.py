"""Maps of classes and of foreground: (h, w) uint8, where 255 is not scored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from extract.errors import InputError
from extract.maps.base import (
    Reader,
    RefusedMapError,
    as_tuple,
    listed,
    one_plane,
    refuse_channels,
    summary,
    without_alpha,
)
from extract.maps.files import RawMap

VOID = 255
MOST_CLASSES = 255

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class LabelReader(Reader):
    """The class of a pixel is its label minus `offset`; what falls below 0 is void, and so is `ignore_index`.

    ADE-style maps, in which 0 is void and classes count from 1, have offset 1.  `ignore_index` names labels
    as they stand in the file, one or several, or None.  `palette` reads colour-coded maps: the colour of each
    label, from 0.
    """

    kind: ClassVar[str] = "labels"

    num_classes: int | None = None  # None: any that fit; whoever trains has to count them
    ignore_index: int | tuple[int, ...] | None = VOID
    offset: int = 0
    palette: tuple[Colour, ...] | None = None

    def __post_init__(self) -> None:
        if self.num_classes is not None and not 1 <= self.num_classes <= MOST_CLASSES:
            raise InputError(
                f"num_classes is {self.num_classes}; label maps hold 1 to {MOST_CLASSES} classes"
            )
        if self.palette is not None and len(set(self.palette)) != len(self.palette):
            raise InputError("the palette has a colour twice; give each label a colour of its own")

    def _made(self, raw: RawMap, sources: tuple[Any, ...], name: str) -> np.ndarray:
        """(h, w) uint8, 255 where not valid."""
        if self.palette is not None:
            pixels = _uncoloured(raw, self.palette, name)
        else:
            pixels = without_alpha(raw.pixels, name)
            way_out = "give the labels as one channel, or the colour of each class with --palette"
            refuse_channels(pixels, name, way_out)
        if pixels.dtype.kind == "b" or pixels.dtype in (np.uint8, np.uint16):
            values, classes, refused = _table(self, np.dtype(pixels.dtype).itemsize)
            found = pixels.view(np.uint8) if pixels.dtype == bool else pixels
        else:
            values, places = np.unique(_whole(pixels, name), return_inverse=True)
            classes, refused = self._classes(values)
            found = places.reshape(pixels.shape)
        if refused[found].any():
            self._refuse(values[np.unique(found)], name)
        labels: np.ndarray = classes[found]
        return labels

    def _classes(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(v,) uint8 class of each label, and (v,) bool whether there is none."""
        classes = values.astype(np.int64) - self.offset
        void = np.isin(values, as_tuple(self.ignore_index)) | (classes < 0)
        limit = MOST_CLASSES if self.num_classes is None else self.num_classes
        refused = ~void & (classes >= limit)
        return np.where(void | refused, VOID, classes).astype(np.uint8), refused

    def _refuse(self, values: np.ndarray, name: str) -> None:
        beyond = values[self._classes(values)[1]]
        limit = MOST_CLASSES if self.num_classes is None else self.num_classes
        last = limit - 1 + self.offset
        stated = f"{limit} classes end at {last}" if self.num_classes else f"label maps end at {last}"
        raise RefusedMapError(
            f"{name} holds the labels {listed(values)}, but {stated}; count the classes with --num-classes, or name "
            f"what is not to be scored: --ignore-index {beyond[-1]}"
        )


@dataclass(frozen=True)
class ForegroundReader(Reader):
    """1 is foreground, 0 background.  By themselves {0, 1}, {0, 255}, booleans and floats of 0 … 1 are known.

    In {0, 255} 255 is foreground.  All else has to be said: `foreground` names the values of it, `ignore_index`
    those not scored, `above` the number that foreground exceeds (as soft or JPEG masks need).  Floats are
    foreground from 0.5 on, NaN is not scored.  Since maps are read one by one, {0, 1, 255} is asked for too:
    an image of such a set may hold only {0, 255}.  `settled` finds the reader for all the values of a set.
    """

    kind: ClassVar[str] = "foreground"

    foreground: int | tuple[int, ...] | None = None
    ignore_index: int | tuple[int, ...] | None = None
    above: float | None = None

    def __post_init__(self) -> None:
        if self.foreground is not None and self.above is not None:
            raise InputError("foreground and above both say what is foreground; give one of them")

    @property
    def _bears_loss(self) -> bool:
        return self.above is not None

    def _made(self, raw: RawMap, sources: tuple[Any, ...], name: str) -> np.ndarray:
        """(h, w) uint8: 0, 1, or 255 where not valid."""
        pixels = one_plane(raw, name)
        void = np.isin(pixels, as_tuple(self.ignore_index)) if self.ignore_index is not None else None
        if pixels.dtype.kind == "f":
            unknown = np.isnan(pixels)
            void = unknown if void is None else void | unknown
        if self.above is not None:
            shown = pixels > self.above
        elif self.foreground is not None:
            shown = np.isin(pixels, as_tuple(self.foreground))
        else:
            shown = _found(pixels, void, raw.palette, name)
        mask: np.ndarray = shown.view(np.uint8)
        return mask if void is None else np.where(void, np.uint8(VOID), mask)


def settled(values: Iterable[float]) -> ForegroundReader:
    """The reader for masks that hold these values in all, where there is no doubt; else the one that asks."""
    if set(values) == {0, 1, VOID}:
        return ForegroundReader(foreground=1, ignore_index=VOID)
    return ForegroundReader()


def _found(pixels: np.ndarray, void: np.ndarray | None, palette: np.ndarray | None, name: str) -> np.ndarray:
    """(h, w) bool foreground, of values that leave no doubt."""
    if pixels.dtype == bool:
        return pixels
    known = pixels if void is None else pixels[~void]
    if pixels.dtype.kind == "f" and known.min(initial=0) >= 0 and known.max(initial=0) <= 1:
        return pixels >= 0.5
    values = _present(known)
    if palette is not None:
        _check_dark(values, palette, name)
    if set(values.tolist()) <= {0, 1} or set(values.tolist()) <= {0, VOID}:
        return pixels > 0
    if set(values.tolist()) <= {0, 1, VOID}:
        way_out = "--foreground 1 --ignore-index 255 if 255 is not to be scored, else --foreground 1,255"
    else:
        way_out = "name its values, as --foreground 1,2, or what they exceed, as --foreground-above 127"
    raise RefusedMapError(
        f"{name} holds {summary(pixels)}, the values {listed(values)}, and which are foreground is not said: {way_out}"
    )


def _check_dark(values: np.ndarray, palette: np.ndarray, name: str) -> None:
    """A palette may be in any order: where 0 is the lightest of the colours used, it is hardly the background."""
    used = values[values < len(palette)].astype(int)
    light = palette[used].sum(axis=1, dtype=int)
    if len(used) > 1 and used[0] == 0 and light[0] > light[1:].min():
        colour = tuple(palette[0].tolist())
        raise RefusedMapError(
            f"{name} is an indexed picture whose index 0 is shown as {colour}, lighter than its others, so which is "
            f"foreground is not clear: name the indices of it, as --foreground {used[-1]}"
        )


def _present(pixels: np.ndarray) -> np.ndarray:
    """The values that occur, ascending."""
    if pixels.dtype == np.uint8:
        return np.flatnonzero(np.bincount(pixels.ravel(), minlength=256))
    return np.unique(pixels)


@lru_cache(maxsize=32)
def _table(reader: LabelReader, itemsize: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every label of so many bytes, its class, and whether it has none."""
    values = np.arange(256**itemsize)
    return values, *reader._classes(values)


def _whole(pixels: np.ndarray, name: str) -> np.ndarray:
    """Labels as integers."""
    if pixels.dtype.kind != "f":
        return pixels
    if not (np.isfinite(pixels).all() and (pixels == np.floor(pixels)).all()):
        raise RefusedMapError(
            f"{name} holds {summary(pixels)}, which are no labels; give whole numbers, and a label of its own to "
            "what is not to be scored"
        )
    return pixels.astype(np.int64)


def _uncoloured(raw: RawMap, palette: tuple[Colour, ...], name: str) -> np.ndarray:
    """(h, w) labels of a colour-coded map; an indexed one is looked up by its colours."""
    pixels = without_alpha(raw.pixels, name)
    if raw.palette is not None and pixels.ndim == 2:
        pixels = np.pad(raw.palette, ((0, 256 - len(raw.palette)), (0, 0)))[pixels]
    if pixels.ndim != 3 or pixels.dtype != np.uint8:
        raise RefusedMapError(f"{name} holds {summary(pixels)} and no 8-bit colours; leave --palette out")
    codes = _codes(pixels)
    known = _codes(np.array(palette, np.uint8))
    order = np.argsort(known)
    places = np.minimum(np.searchsorted(known[order], codes), len(known) - 1)
    labels: np.ndarray = order[places]
    strange = known[labels] != codes
    if strange.any():
        colours = np.unique(codes[strange])
        first = ", ".join(str((code >> 16, code >> 8 & 255, code & 255)) for code in colours[:5].tolist())
        raise RefusedMapError(
            f"{name} has {len(colours):,} colours that the palette lacks, such as {first}; add them to --palette, "
            "void ones too, and name these labels with --ignore-index"
        )
    return labels.astype(np.uint16)


def _codes(colours: np.ndarray) -> np.ndarray:
    """(…, 3) uint8 as one number each."""
    red, green, blue = (colours[..., channel].astype(np.int32) for channel in range(3))
    return red << 16 | green << 8 | blue
