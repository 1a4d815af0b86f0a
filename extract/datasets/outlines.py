"""The outlines of COCO: polygons and run lengths become masks, by the rules of pycocotools (Lin et al. 2014)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from extract.errors import InputError, MissingExtraError
from extract.ids import ID_BYTES

Size = tuple[int, int]
FAR = 1e6  # pixels: no image is as wide, and pycocotools counts in 32 bits


def pycocotools() -> Any:
    """Its module of masks."""
    try:
        from pycocotools import mask
    except ImportError:
        raise MissingExtraError(
            "outlines of COCO are read with pycocotools: pip install 'visbench[boxes]'"
        ) from None
    return mask


def check_outline(outline: Any, size: Size, where: str) -> None:
    """Refuse what is no outline of an image of `size` (height, width)."""
    if isinstance(outline, dict) and {"counts", "size"} <= outline.keys():
        _check_runs(outline["counts"], outline["size"], size, where)
        return
    polygons = outline if isinstance(outline, list) else []
    if not polygons or not all(isinstance(each, list) and len(each) >= 6 for each in polygons):
        raise InputError(
            f"{where} has no outline of polygons or run lengths; `detection` scores boxes alone, or take it out"
        )
    if any(len(each) % 2 for each in polygons):
        raise InputError(f"{where} has a polygon of an odd number of coordinates; it lists x, y, x, y, …")
    strange = next((each for each in polygons if not _numbers(each)), None)
    if strange is not None:
        wrong = next(value for value in strange if not _numbers([value]))
        raise InputError(f"{where} has a polygon with {wrong!r}; it lists x, y, x, y, … in pixels")


def _check_runs(counts: Any, stated: Any, size: Size, where: str) -> None:
    if not isinstance(stated, list) or tuple(stated) != size:
        told = "×".join(map(str, reversed(stated))) if isinstance(stated, list) else repr(stated)
        raise InputError(f"{where}: a mask of {told} on an image of {size[1]}×{size[0]}")
    if isinstance(counts, list):
        runs = [each for each in counts if isinstance(each, int) and each >= 0]
        if len(runs) < len(counts) or sum(runs) != size[0] * size[1]:
            raise InputError(
                f"{where} has run lengths that are not the {size[0] * size[1]:,} pixels of an image of "
                f"{size[1]}×{size[0]}; they are whole numbers that add up to it"
            )
    elif not isinstance(counts, str) or not counts:
        raise InputError(
            f"{where} has the run lengths {counts!r}; they are COCO's text, or a list of numbers"
        )


def _numbers(values: Sequence[Any]) -> bool:
    """Whether all may be pixels; COCO has some fifty million of them."""
    try:
        return math.isfinite(math.fsum(values)) and -FAR < min(values) <= max(values) < FAR
    except (TypeError, ValueError, OverflowError):
        return False


def masks_of(outlines: Sequence[Any], size: Size, where: str) -> Callable[[], np.ndarray]:
    """What gives (b, h, w) bool; several polygons of an object are one mask; `where` is what an error calls them."""

    def draw() -> np.ndarray:
        masks = np.zeros((len(outlines), *size), bool)
        for place, outline in enumerate(outlines):
            try:
                masks[place] = _mask(outline, size)
            except ValueError:
                raise InputError(
                    f"{where}, object {place + 1}: its run lengths are not those of an image of {size[1]}×{size[0]}; "
                    "export the masks again, or take the object out"
                ) from None
        return masks

    return draw


def digest_of(outlines: Sequence[Any]) -> bytes:
    """The same for the same outlines."""
    text = json.dumps(outlines, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.blake2b(text, digest_size=ID_BYTES).digest()


def _mask(outline: Any, size: Size) -> np.ndarray:
    draw = pycocotools()
    height, width = size
    if isinstance(outline, list):
        runs = draw.merge(draw.frPyObjects(outline, height, width))
    elif isinstance(outline["counts"], list):
        runs = draw.frPyObjects(outline, height, width)
    else:
        runs = outline
    return np.asarray(draw.decode(runs)).astype(bool)
