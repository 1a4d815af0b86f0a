"""Maps as colours: targets and predictions on one scale, and where the two are apart.

Axes: S pixels of the frame a side, k values a pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from visbench.maplooks import valid as _valid
from visbench.mapoverlay import chequers, palette, ramp
from visbench.showing import words

DISCRETE = ("labels", "foreground")
UNITS = {  # kind → what its numbers are, and the largest error that the scale of errors tells apart
    "depth": ("metres", None),
    "normals": ("degrees between the two directions", 60.0),
    "orientation": ("degrees between the two orientations", 90.0),
    "boundaries": ("share of annotators, or probability", None),
}


@dataclass(frozen=True)
class Ranges:
    """What the ends of the colour scales stand for, on all of a page."""

    value: tuple[float, float] = (0.0, 1.0)
    error: float = 1.0


def ranges_of(
    truths: Sequence[np.ndarray], sayings: Sequence[np.ndarray], kind: str, *, ordinal: bool = False
) -> Ranges:
    """Scales that fit all pictures of a page, so that one colour is one number."""
    if kind in DISCRETE:
        return Ranges()
    fixed = UNITS.get(kind, ("", None))[1]
    if fixed is not None:
        return Ranges(error=fixed)
    known = np.concatenate([each[valid(each, kind)].ravel() for each in truths])
    known = known if len(known) else np.zeros(1)
    if kind == "boundaries":
        return Ranges()
    low, high = float(known.min()), float(np.percentile(known, 99.5))
    low = min(low, 0.0) if kind != "depth" else low
    value = (low, max(high, low + 1e-6))
    if ordinal:
        return Ranges(value)
    apart = [error(a, b, kind)[valid(a, kind)] for a, b in zip(truths, sayings, strict=True)]
    every = np.concatenate([each.ravel() for each in apart])
    return Ranges(value, max(float(np.percentile(every, 98)) if len(every) else 0.0, 1e-6))


def panels_of(
    picture: np.ndarray,
    target: np.ndarray,
    said: np.ndarray,
    kind: str,
    ranges: Ranges,
    *,
    classes: int = 0,
    ordinal: bool = False,
) -> dict[str, np.ndarray]:
    """Panels (S, S, 3) uint8 by what they show; `picture` is (S, S, 3) uint8."""
    good, own = valid(target, kind), np.ones(target.shape[:2], bool)
    panels = {
        "target": looks(target, kind, ranges, good, classes),
        "prediction": looks(said, kind, ranges, own, classes),
    }
    if ordinal:  # a score without a unit: its own range, from near to far
        low, high = (float(np.percentile(said, share)) for share in (1, 99))
        panels["prediction"] = looks(said, "depth", Ranges((low, high)), own, 0)
        return {"target": panels["target"], "prediction (an order alone)": panels["prediction"]}
    if kind in DISCRETE:
        grey = Image.fromarray(picture).convert("L").convert("RGB")
        panels["wrong pixels"] = np.asarray(
            Image.blend(grey, Image.new("RGB", grey.size, words.GROUND), 0.5)
        ).copy()
        panels["wrong pixels"][good & (target != said)] = words.INK
    elif kind != "boundaries":  # there a pixel beside an outline is as good, and probabilities are balanced
        panels["error"] = looks(target, kind, ranges, good, 0)
        panels["error"][good] = ramp(np.clip(error(target, said, kind)[good] / ranges.error, 0, 1))
    if kind == "orientation":
        for name in ("target", "error"):
            panels[name] = _paled(panels[name], target[..., 2])
    return panels


def _paled(pixels: np.ndarray, strength: np.ndarray) -> np.ndarray:
    """The less (S, S) `strength`, 0 … 1, the nearer to white."""
    share = np.clip(strength, 0, 1)[..., None]
    return np.asarray(np.rint(pixels * share + 255 * (1 - share)).astype(np.uint8))


def looks(values: np.ndarray, kind: str, ranges: Ranges, good: np.ndarray, classes: int) -> np.ndarray:
    """(S, S, 3) uint8 of a map; where it says nothing, grey chequers."""
    shown = chequers(good.shape)
    if kind in DISCRETE:
        shown[good] = palette(max(classes, int(values[good].max(initial=0)) + 1))[values[good]]
    elif kind in ("normals", "orientation"):
        flat = values[..., :3] if kind == "normals" else np.dstack([values[..., :2], np.zeros(good.shape)])
        shown[good] = np.clip(np.rint((flat[good] + 1) * 127.5), 0, 255).astype(np.uint8)
    else:
        low, high = ranges.value
        shown[good] = ramp(np.clip((values[good] - low) / (high - low), 0, 1))
    return shown


def error(target: np.ndarray, said: np.ndarray, kind: str) -> np.ndarray:
    """(S, S) how far the two are apart: degrees of directions, else the absolute difference."""
    if kind == "normals":
        cosine = (target * said).sum(axis=-1)
        return np.asarray(np.rad2deg(np.arccos(np.clip(cosine, -1, 1))))
    if kind == "orientation":
        cosine = (target[..., :2] * said[..., :2]).sum(axis=-1)
        return np.asarray(np.rad2deg(np.arccos(np.clip(cosine, -1, 1))) / 2)
    return np.asarray(np.abs(target - said))


def valid(target: np.ndarray, kind: str) -> np.ndarray:
    """(S, S) bool: where a map says something."""
    return np.asarray(target[..., 2] > 0) if kind == "orientation" else _valid(target, kind)
