"""Pictures whose colours say everything, a backbone that sees 48 × 48 of them as mean colours of 4 × 4."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

# Programs here run for milliseconds and compile for seconds.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

SIDE = 48
FIT = {"learning_rate": 0.05, "weight_decay": 0.0, "epochs": 30, "workers": 1}
QUICK = {"learning_rate": 3e-3, "weight_decay": 1e-4, "epochs": 4}


@pytest.fixture(scope="session")
def fine(tiny_backbone) -> Iterator[str]:
    """Its name on the command line."""
    from extract.backbones.registry import REGISTERED, register_backbone

    register_backbone("fine")(lambda **options: tiny_backbone(SIDE, 4, name="fine"))
    yield "fine"
    REGISTERED.pop("fine", None)


@pytest.fixture(scope="session")
def streets(tmp_path_factory) -> Path:
    """Halves of red, green or blue, and label maps that say which; a strip at the left of each map is void."""
    root: Path = tmp_path_factory.mktemp("maps") / "streets"
    rng = np.random.default_rng(0)
    for split, count in (("train", 8), ("test", 4)):
        for folder in ("images", "labels"):
            (root / split / folder).mkdir(parents=True)
        for number in range(count):
            labels = np.full((SIDE, SIDE), number % 3, np.uint8)
            labels[:, SIDE // 2 :] = (number + 1) % 3
            pixels = rng.integers(0, 40, (SIDE, SIDE, 3), np.uint8)
            pixels[np.indices(labels.shape)[0], np.indices(labels.shape)[1], labels] += 200
            Image.fromarray(pixels).save(root / split / "images" / f"{number}.png")
            labels[:, :4] = 255
            Image.fromarray(labels).save(root / split / "labels" / f"{number}.png")
    return root


@pytest.fixture(scope="session")
def things(tmp_path_factory) -> Path:
    """COCO's layout: a red square in each grey picture, its mask the square without a corner."""
    import json

    from pycocotools import mask

    root: Path = tmp_path_factory.mktemp("boxes") / "things"
    (root / "annotations").mkdir(parents=True)
    rng = np.random.default_rng(1)
    for split, count in (("train", 8), ("val", 3)):
        images, marks = [], []
        (root / f"{split}2017").mkdir()
        for number in range(count):
            pixels = rng.integers(110, 140, (SIDE, SIDE, 3), np.uint8)
            x, y = (int(each) for each in rng.integers(2, 24, 2))
            outline = np.zeros((SIDE, SIDE), np.uint8)
            outline[y : y + 20, x : x + 20] = 1
            outline[y : y + 6, x : x + 6] = 0
            pixels[outline == 1] = (220, 30, 30)
            Image.fromarray(pixels).save(root / f"{split}2017" / f"{number}.png")
            images.append({"id": number, "file_name": f"{number}.png", "width": SIDE, "height": SIDE})
            runs = mask.encode(np.asfortranarray(outline))
            marks.append(
                {
                    "id": number + 1,
                    "image_id": number,
                    "category_id": 1,
                    "bbox": [x, y, 20, 20],
                    "area": int(outline.sum()),
                    "iscrowd": 0,
                    "segmentation": {"size": runs["size"], "counts": runs["counts"].decode()},
                }
            )
        said = {"images": images, "annotations": marks, "categories": [{"id": 1, "name": "square"}]}
        (root / "annotations" / f"instances_{split}2017.json").write_text(json.dumps(said))
    return root


@pytest.fixture
def posed(tmp_path) -> Path:
    """A table of pictures whose red says how far the camera was turned about y."""
    rng = np.random.default_rng(0)
    lines = ["path,scene,qw,qx,qy,qz,tx,ty,tz,split"]
    for number in range(24):
        angle = rng.uniform(0, 1.8)
        pixels = np.full((32, 32, 3), [140 * angle, rng.integers(255), 90]).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
        pose = f"{np.cos(angle / 2)},0,{np.sin(angle / 2)},0,{rng.uniform()},0,0"
        lines.append(f"{number}.png,s{number % 2},{pose},{'test' if number % 3 == 2 else 'train'}")
    table = tmp_path / "posed.csv"
    table.write_text("\n".join(lines))
    return table
