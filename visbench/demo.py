"""`visbench demo`: the whole way on pictures that scikit-learn ships, offline, in about a minute.

Two pretrained EfficientNet-Lites and the pixel control look at 600 handwritten digits; the code is the one
that every run uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from extract.store import Store
from visbench import console
from visbench.errors import UsageError
from visbench.options import Options
from visbench.pipeline import Result, Session

BACKBONES = ("efficientnet_lite0", "efficientnet_lite1", "pixels")
PER_CLASS, TEST_PER_CLASS = 60, 18


def digits(*, noise: bool = False, seed: int = 0) -> dict[str, tuple[list[np.ndarray], list[str]]]:
    """420 training and 180 test images (32, 32) uint8 with their labels; `noise` replaces every picture."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise UsageError("the demo needs its extra: pip install 'visbench[demo]'") from None
    bunch = load_digits()
    pixels = np.clip(bunch.images * 16, 0, 255).astype(np.uint8).repeat(4, axis=1).repeat(4, axis=2)
    if noise:
        pixels = np.random.default_rng(seed).integers(0, 256, pixels.shape, np.uint8)
    rows: dict[str, list[int]] = {"train": [], "test": []}
    for label in range(10):
        mine = np.flatnonzero(bunch.target == label)[:PER_CLASS].tolist()
        rows["test"] += mine[:TEST_PER_CLASS]
        rows["train"] += mine[TEST_PER_CLASS:]
    return {
        split: ([pixels[i] for i in chosen], [str(bunch.target[i]) for i in chosen])
        for split, chosen in rows.items()
    }


def run(*, noise: bool = False, backbones: Sequence[str] = BACKBONES) -> list[Result]:
    """Classification by logistic regression and by neighbours, then retrieval; nothing is left on the disk."""
    data = digits(noise=noise)
    store = Store(f"memory://demo-{'noise' if noise else 'digits'}")
    results: list[Result] = []
    for task, probes in (("classification", ("logistic", "knn")), ("retrieval", (None,))):
        options = Options(store=store, dataset_name="noise" if noise else "digits", caller="cli")
        session = Session(task, data, options)
        results += session.run(backbones, probes)
    return results


def introduction(noise: bool) -> str:
    """What the reader is about to see."""
    what = "noise in place of every picture" if noise else "600 handwritten digits that scikit-learn ships"
    return (
        f"Two pretrained EfficientNets and the pixel control on {what}.\n"
        "Features stay in memory; nothing is downloaded.\n"
    )


def farewell(results: Sequence[Any], noise: bool) -> None:
    """What to make of it, and what to try next."""
    if noise:
        console.note("Nothing to see in noise: every score is near its chance.")
        return
    console.note("Sanity check: visbench demo --noise")
    console.note("Next: visbench run classification YOUR_FOLDER --backbone efficientnet_lite0")
