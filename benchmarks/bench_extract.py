"""Extraction: how near the loop comes to the work itself, and to a plain loop; memory as the set grows.

    python benchmarks/bench_extract.py [--images FOLDER] [--count 512] [--backbone NAME …]

`overlap` is the wall clock of the loop against (CPU of decoding + CPU of the forward pass, each measured
alone on one thread) / cores.  `plain` decodes with Pillow, forwards batches of 32 and saves a file an image;
its answers are compared with ours.  Without --images, JPEGs of 500×375 are cut from scikit-learn's pictures.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from extract import Memo, Request, Store, extract, load, open_dataset
from extract.datasets import ImageSet
from extract.images import read_image
from extract.machine import available_cores, default_batch
from extract.taps import resolve


def backbone_of(name: str):
    pretrained = name.startswith("efficientnet_lite")
    return load(Request(name, pretrained=pretrained))


def make_jpegs(folder: Path, count: int) -> Path:
    from sklearn.datasets import load_sample_images

    pictures, rng = load_sample_images().images, np.random.default_rng(0)
    for number in range(count):
        picture = pictures[number % len(pictures)]
        top, left = rng.integers(0, picture.shape[0] - 375), rng.integers(0, picture.shape[1] - 500)
        crop = Image.fromarray(picture[top : top + 375, left : left + 500])
        crop.save(folder / f"{number:05}.jpg", quality=90)
    return folder


def images_of(folder: Path, count: int) -> ImageSet:
    splits = open_dataset(folder)
    found = splits.get("train") or next(iter(splits.values()))
    return found.subset(range(min(count, len(found))))


def alone(backbone, images: ImageSet) -> tuple[float, float]:
    """CPU seconds of decoding and of the forward pass, one thread each, one after the other."""
    torch.set_num_threads(1)
    began = time.process_time()
    placed = [
        backbone.transform.place(read_image(images.sources[i], name=images.names[i]).pixels)
        for i in range(len(images))
    ]
    decode = time.process_time() - began
    taps = [resolve("default", backbone.spec)]
    size = default_batch(backbone, torch.device("cpu"), len(placed), 1)
    batches = [torch.stack(placed[i : i + size]) for i in range(0, len(placed), size)]
    backbone.features(backbone.transform.normalise(batches[0]), taps)
    began = time.process_time()
    for batch in batches:
        backbone.features(backbone.transform.normalise(batch), taps)
    forward = time.process_time() - began
    torch.set_num_threads(available_cores())
    return decode, forward


def ours(backbone, images: ImageSet) -> tuple[float, np.ndarray, int]:
    with tempfile.TemporaryDirectory() as folder:
        store, memo = Store(folder), Memo(Path(folder) / "memo.sqlite")
        began = time.perf_counter()
        ids = memo.row_ids(images.sources)
        done = extract(backbone, images, ["default"], store=store, memo=memo, ids=ids)
        wall = time.perf_counter() - began
        (identity,) = done.plan.identities.values()
        rows = store.view(identity.digest, ids).read()
        used = sum(
            path.stat().st_size for path in (Path(folder) / identity.digest).rglob("*") if path.is_file()
        )
        return wall, rows, used


def plain(backbone, images: ImageSet) -> tuple[float, np.ndarray, int]:
    """What people write first: Pillow, torchvision transforms, a file an image."""
    from torchvision.transforms import CenterCrop, Compose, InterpolationMode, Normalize, Resize, ToTensor

    ask = backbone.transform
    transform = Compose(
        [
            Resize(ask.size, InterpolationMode(ask.interpolation)),
            CenterCrop(ask.size),
            ToTensor(),
            Normalize(ask.mean, ask.std),
        ]
    )
    tap = resolve("default", backbone.spec)
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        rows = []
        for start in range(0, len(images), 32):
            batch = [
                transform(Image.open(images.sources[i]).convert("RGB"))
                for i in range(start, min(start + 32, len(images)))
            ]
            features = backbone.features(torch.stack(batch), [tap])[tap]
            for offset, row in enumerate(features):
                torch.save(row.clone(), Path(folder) / f"{start + offset}.pt")
            rows.append(features.numpy())
        wall = time.perf_counter() - began
        used = sum(-(-path.stat().st_size // 4096) * 4096 for path in Path(folder).iterdir())
        return wall, np.concatenate(rows), used


def peak_memory(name: str, folder: Path, count: int) -> float:
    """Peak resident MB of a fresh process that extracts `count` images."""
    command = [sys.executable, __file__, "--peak", "--images", str(folder), "--count", str(count)]
    done = subprocess.run([*command, "--backbone", name], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=Path)
    parser.add_argument("--count", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--backbone", nargs="+", default=["efficientnet_lite0", "timm:vit_small_patch16_224"])
    parser.add_argument("--peak", action="store_true", help=argparse.SUPPRESS)
    ask = parser.parse_args()
    if ask.peak:
        ours(backbone_of(ask.backbone[0]), images_of(ask.images, ask.count))
        sys.stdout.write(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}\n")
        return
    with tempfile.TemporaryDirectory() as made:
        folder = ask.images or make_jpegs(Path(made), ask.count)
        images = images_of(folder, ask.count)
        cores = available_cores()
        print(f"{len(images)} images, {cores} cores; medians of {ask.repeats}")
        for name in ask.backbone:
            backbone = backbone_of(name)
            rounds = []
            for _ in range(ask.repeats):  # side by side: a noisy machine is noisy for all
                decode, forward = alone(backbone, images)
                wall, rows, used = ours(backbone, images)
                plain_wall, plain_rows, plain_used = plain(backbone, images)
                rounds.append((wall, wall / ((decode + forward) / cores), plain_wall / wall, decode, forward))
            wall, overlap, faster, decode, forward = (
                statistics.median(column) for column in zip(*rounds, strict=True)
            )
            cosine = np.sum(rows * plain_rows, 1) / (
                np.linalg.norm(rows.astype(np.float32), axis=1) * np.linalg.norm(plain_rows, axis=1)
            )
            print(
                f"{name:28s} {len(images) / wall:6.1f} img/s   overlap {overlap:.2f} ×"
                f"   (decode {decode:.1f} s + forward {forward:.1f} s of CPU)\n"
                f"{'':28s} plain loop {faster:.2f} × slower, {used / plain_used:.2f} × its disk,"
                f" least cosine to it {cosine.min():.4f}"
            )
            half = max(64, len(images) // 4)
            small, large = peak_memory(name, folder, half), peak_memory(name, folder, len(images))
            print(f"{'':28s} peak memory {small:.0f} MB at n = {half}, {large:.0f} MB at n = {len(images)}")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", str(available_cores()))
    main()
