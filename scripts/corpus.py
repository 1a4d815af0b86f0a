"""Runs the committed corpus of records: small tasks on pictures that scikit-learn and scikit-image ship.

    pip install -e '.[demo]' && python scripts/corpus.py results/corpus/visbench.jsonl

Anybody can run it, offline, in a few minutes; `LEADERBOARD.md` is drawn from it (`scripts/render_tables.py`).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image

import visbench
from visbench import demo

BACKBONES = ("efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2")
WARPS = (0.05, 0.1, 0.2)


def main(results: str) -> None:
    """Each task, each backbone; a record that is there already is not made again."""
    crops, pictures = demo.crops(), [np.asarray(Image.open(path).convert("RGB")) for path in demo.files()]
    common = {"results": results, "resume": True, "store": "memory://corpus"}
    for backbone in (*BACKBONES, "pixels"):
        for probe in ("logistic", "knn"):
            visbench.run(backbone, "classification", crops, probe=probe, dataset_name="grey crops", **common)
        visbench.run(backbone, "retrieval", crops, dataset_name="grey crops", **common)
    for name in BACKBONES:
        for random in (False, True):
            rows = {**common, "pretrained": not random, "layer": demo.FINER}
            visbench.run(name, "correspondence", demo.stereo(), dataset_name="stereo pair", **rows)
            for warp in WARPS:
                visbench.run(name, "correspondence", pictures, dataset_name="pictures", max_warp=warp, **rows)
            for task in ("corner", "orientation"):
                visbench.run(name, task, crops_in_colour(pictures), dataset_name="colour crops", **rows)


def crops_in_colour(
    pictures: list[np.ndarray], side: int = 224, count: int = 6, seed: int = 0
) -> dict[str, list[np.ndarray]]:
    """Crops of the left half of each picture to learn from, and of the right half to be scored on."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[np.ndarray]] = {"train": [], "test": []}
    for picture in pictures:
        half = picture.shape[1] // 2
        for split, part in (("train", picture[:, :half]), ("test", picture[:, half:])):
            size = min(side, *part.shape[:2])
            for _ in range(count if split == "train" else count // 2):
                top, left = (int(rng.integers(0, length - size + 1)) for length in part.shape[:2])
                found[split].append(np.ascontiguousarray(part[top : top + size, left : left + size]))
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2 or Path(sys.argv[1]).suffix != ".jsonl":
        sys.exit("usage: python scripts/corpus.py RESULTS.jsonl")
    main(sys.argv[1])
