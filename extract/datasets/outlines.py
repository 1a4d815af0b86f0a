"""The outlines of COCO: polygons and run lengths become masks, by the rules of pycocotools (Lin et al. 2014)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from extract.errors import InputError, MissingExtraError
from extract.ids import ID_BYTES

Size = tuple[int, int]


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
        if tuple(outline["size"]) != size:
            stated = "×".join(map(str, reversed(outline["size"])))
            raise InputError(f"{where}: a mask of {stated} on an image of {size[1]}×{size[0]}")
        return
    polygons = outline if isinstance(outline, list) else []
    if not polygons or not all(isinstance(each, list) and len(each) >= 6 for each in polygons):
        raise InputError(
            f"{where} has no outline of polygons or run lengths; `detection` scores boxes alone, or take it out"
        )
    if any(len(each) % 2 for each in polygons):
        raise InputError(f"{where} has a polygon of an odd number of coordinates; it lists x, y, x, y, …")


def masks_of(outlines: Sequence[Any], size: Size) -> Callable[[], np.ndarray]:
    """What gives (b, h, w) bool; several polygons of an object are one mask."""

    def draw() -> np.ndarray:
        masks = np.zeros((len(outlines), *size), bool)
        for place, outline in enumerate(outlines):
            masks[place] = _mask(outline, size)
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
