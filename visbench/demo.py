"""`visbench demo`: the whole way on pictures that scikit-learn and scikit-image ship, offline, in about a minute.

The first task is to tell from a small grey crop which of fifteen pictures it was cut from.  Training crops come from
the left half of each picture and test crops from the right, so that none overlaps another split's; colours are
taken away, which would give most of them away.  The second is to find the places of a stereo pair's left picture in
its right one.  The code is the one that every run uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

from extract.datasets.relations import Disparity
from extract.store import Store
from visbench.errors import UsageError
from visbench.options import Options
from visbench.pipeline import Result, Session

BACKBONES = ("efficientnet_lite0", "efficientnet_lite1", "pixels")
CROP = 64  # pixels a side
COUNTS = {"train": 28, "test": 12}  # crops of each picture
PICTURES = {
    "skimage/data": [
        *("astronaut.png", "brick.png", "chelsea.png", "coffee.png", "coins.png", "grass.png", "gravel.png"),
        *("hubble_deep_field.jpg", "ihc.png", "moon.png", "motorcycle_left.png", "page.png", "rocket.jpg"),
    ],
    "sklearn/datasets/images": ["china.jpg", "flower.jpg"],
}

STEREO = ("motorcycle_left.png", "motorcycle_right.png", "motorcycle_disp.npz")
FINER = -3  # the layer whose grid of 28 × 28 patches is matched

Crops = dict[str, tuple[list[np.ndarray], list[str]]]


def crops(*, noise: bool = False, seed: int = 0) -> Crops:
    """420 training and 180 test crops (64, 64) uint8 with their labels; `noise` replaces every pixel."""
    rng = np.random.default_rng(seed)
    found: Crops = {split: ([], []) for split in COUNTS}
    for path in files():
        picture = np.asarray(Image.open(path).convert("L"))
        half = picture.shape[1] // 2
        for split, side in (("train", picture[:, :half]), ("test", picture[:, half:])):
            for _ in range(COUNTS[split]):
                top, left = (int(rng.integers(0, size - CROP + 1)) for size in side.shape)
                crop = side[top : top + CROP, left : left + CROP]
                if noise:
                    crop = rng.integers(0, 256, crop.shape, np.uint8)
                found[split][0].append(np.ascontiguousarray(crop))
                found[split][1].append(path.stem)
    return found


def run(*, noise: bool = False, backbones: Sequence[str] = BACKBONES) -> list[Result]:
    """Classification by logistic regression and by neighbours, retrieval, correspondence; no record is written."""
    data = crops(noise=noise)
    name = "noise" if noise else "grey crops"
    options = Options(store=Store(f"memory://demo-{name.split()[-1]}"), dataset_name=name, caller="cli")
    results: list[Result] = []
    for task, probes in (("classification", ("logistic", "knn")), ("retrieval", (None,))):
        results += Session(task, data, options, backbones, probes).run()
    patched = [name for name in backbones if name != "pixels"]
    named = replace(options, dataset_name="stereo noise" if noise else "stereo pair", layer=FINER)
    results += Session("correspondence", stereo(noise=noise), named, patched).run()
    return results


def stereo(*, noise: bool = False, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray, Disparity]]:
    """Both pictures and how far each place of the left one is shifted in the right; `noise` replaces every pixel."""
    left, right, disparity = (_find("skimage/data", name) for name in STEREO)
    pictures = [np.asarray(Image.open(path).convert("RGB")) for path in (left, right)]
    if noise:
        rng = np.random.default_rng(seed)
        pictures = [rng.integers(0, 256, each.shape, np.uint8) for each in pictures]
    return [(pictures[0], pictures[1], Disparity(np.load(disparity)["arr_0"]))]


def introduction(noise: bool) -> str:
    """What the reader is about to see."""
    what = "600 crops of pure noise" if noise else "600 small grey crops of fifteen pictures"
    asked = "the labels mean nothing" if noise else "the question is which picture a crop was cut from"
    pair = "Two pictures of noise" if noise else "The two pictures of a stereo pair"
    return (
        f"Two pretrained EfficientNets and the pixel control on {what}: {asked}.\n"
        f"{pair}, and where the places of one are in the other.\n"
        "Features stay in memory; nothing is downloaded.\n"
    )


def farewell(noise: bool) -> str:
    """What to make of it, and what to try next."""
    if noise:
        return "There is nothing to see in noise: every score is near its chance."
    return (
        "A control that sees 8 × 8 cells shows what brightness alone is worth; visbench demo --noise, what luck is.\n"
        "Next: visbench check YOUR_FOLDER\n"
        "      visbench run classification YOUR_FOLDER --backbone efficientnet_lite0"
    )


def files() -> list[Path]:
    """The fifteen pictures."""
    return [_find(folder, name) for folder, names in PICTURES.items() for name in names]


def _find(folder: str, name: str) -> Path:
    """A file of a package."""
    package, _, inside = folder.partition("/")
    spec = find_spec(package)  # found, not imported: that takes seconds
    if spec is None or not spec.submodule_search_locations:
        raise UsageError("the demo needs its extra: pip install -e '.[demo]'")
    path = Path(spec.submodule_search_locations[0]) / inside / name
    if not path.exists():
        raise UsageError(f"the installed scikit-image lacks {name}: pip install -e '.[demo]'")
    return path
