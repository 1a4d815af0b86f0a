"""Average precision of detections against pycocotools, the same numbers wanted, and what its interval costs.

    OMP_NUM_THREADS=1 python benchmarks/bench_map.py [--images 1000] [--detections 100] [--resamples 1000]

Pictures with about 7 objects of 20 classes, a few difficult ones and crowds among them; detections are objects moved
and scaled a little, several of one object, and boxes that mean nothing.  pycocotools' time is `evaluate` and
`accumulate` for all areas and up to 100 detections alone, without building its index; ours is `tally` and all metrics
of `value`, half of which it has not.  Nothing is compiled.  CPU seconds, the least of three of ours.
"""

import argparse
import contextlib
import io
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from probes.metrics import detection

SIDE, CLASSES, OBJECTS = 224.0, 20, 7
BEYOND = 1e11  # an area outside «all», by which pycocotools ignores an object that is no crowd


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    answer = work()
    return time.process_time() - start, answer


def pictures(rng: np.random.Generator, images: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """(n, most, 6) detections and (n, m, 6) objects, padded."""
    counts = np.minimum(rng.poisson(OBJECTS, images), 3 * OBJECTS)
    truths = np.full((images, max(counts.max(), 1), 6), -1, np.float32)
    detections = np.full((images, most, 6), -1, np.float32)
    detections[..., 4] = 0
    for image, count in enumerate(counts):
        sides = rng.uniform(10, 120, (count, 2))
        corner = rng.uniform(0, SIDE - sides)
        flags = rng.choice(3, count, p=(0.9, 0.07, 0.03))
        classes = rng.integers(0, CLASSES, count)
        truths[image, :count] = np.column_stack([corner, corner + sides, classes, flags])
        number = min(most, rng.poisson(0.95 * most))
        found = np.empty((number, 6))
        meant = np.full(number, -1) if not count else rng.choice(count, number)
        meant[rng.random(number) < 0.6] = -1
        blind = meant < 0
        at = rng.uniform(0, SIDE - 60, (number, 2))
        found[:, :2], found[:, 2:4] = at, at + rng.uniform(10, 60, (number, 2))
        found[:, 4], found[:, 5] = rng.beta(1, 4, number), rng.integers(0, CLASSES, number)
        sharp = rng.gamma(2, 0.05, (number, 1)) * rng.standard_normal((number, 4))
        boxes = truths[image, meant, :4]
        wide = np.tile(boxes[:, 2:] - boxes[:, :2], 2)
        found[~blind, :4] = (boxes + sharp * wide)[~blind]
        found[~blind, 4] = np.clip(rng.beta(3, 3, number) - np.abs(sharp).mean(1), 0.01, 1)[~blind]
        found[~blind, 5] = truths[image, meant, 4][~blind]
        found[:, 2:4] = np.maximum(found[:, 2:4], found[:, :2] + 1)
        detections[image, :number] = found[np.argsort(-found[:, 4], kind="stable")]
    return detections, truths


def coco(detections: np.ndarray, truths: np.ndarray, classes: int) -> COCOeval:
    """pycocotools' evaluation of the same, all areas and 100 detections."""

    def box(row: np.ndarray) -> list[float]:
        x0, y0, x1, y1 = row[:4].astype(float).tolist()
        return [x0, y0, x1 - x0, y1 - y0]

    marked, said = [], []
    for image in range(len(truths)):
        for row in truths[image][truths[image, :, 4] >= 0]:
            entry = {"id": len(marked) + 1, "image_id": image, "category_id": int(row[4]), "bbox": box(row)}
            area = BEYOND if row[5] == 1 else entry["bbox"][2] * entry["bbox"][3]
            marked.append({**entry, "iscrowd": int(row[5] == 2), "area": area})
        for row in detections[image][detections[image, :, 5] >= 0]:
            entry = {"id": len(said) + 1, "image_id": image, "category_id": int(row[5]), "bbox": box(row)}
            area = entry["bbox"][2] * entry["bbox"][3]
            said.append({**entry, "score": float(row[4]), "iscrowd": 0, "area": area})
    images = [{"id": image} for image in range(len(truths))]
    categories = [{"id": each} for each in range(classes)]
    indices = []
    with contextlib.redirect_stdout(io.StringIO()):
        for annotations in (marked, said):
            index = COCO()
            index.dataset = {"images": images, "categories": categories, "annotations": annotations}
            index.createIndex()
            indices.append(index)
        evaluation = COCOeval(*indices, "bbox")
    evaluation.params.areaRng, evaluation.params.areaRngLbl = [[0.0, 1e10]], ["all"]
    evaluation.params.maxDets = [100]
    return evaluation


def run(evaluation: COCOeval) -> dict[str, float]:
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation.evaluate()
        evaluation.accumulate()

    def mean(values: np.ndarray) -> float:
        return float(values[values > -1].mean()) if (values > -1).any() else float("nan")

    precision, recall = evaluation.eval["precision"], evaluation.eval["recall"]
    return {
        "coco_map": mean(precision),
        "coco_map_50": mean(precision[0]),
        "coco_map_75": mean(precision[5]),
        "coco_ar_100": mean(recall),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--detections", type=int, default=100)
    parser.add_argument("--resamples", type=int, default=1000)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    detections, truths = pictures(rng, options.images, options.detections)
    objects = int((truths[..., 4] >= 0).sum())
    print(f"{options.images} images, {int((detections[..., 5] >= 0).sum())} detections, {objects} objects")

    evaluation = coco(detections, truths, CLASSES)
    theirs, wanted = seconds(lambda: run(evaluation))
    detection.value(detection.tally(detections[:2], truths[:2], num_classes=CLASSES))  # imports
    taken = []
    for _ in range(3):
        matching, tally = seconds(lambda: detection.tally(detections, truths, num_classes=CLASSES))
        reading, found = seconds(lambda tally=tally: detection.value(tally))
        taken.append((matching + reading, matching, reading))
    ours, matching, reading = min(taken)
    far = max(abs(found[name] - each) for name, each in wanted.items())
    assert far <= 1e-12, (found, wanted)
    print(f"pycocotools {theirs:.2f} s; ours {ours:.2f} s ({matching:.2f} s matching): ×{theirs / ours:.1f}")
    print(f"the largest difference of {', '.join(wanted)}: {far:.1e}")
    print({name: round(each, 4) for name, each in found.items()})

    times = rng.multinomial(options.images, np.full(options.images, 1 / options.images), options.resamples)
    for names in (("map_50",), detection.NAMES):
        spent, _ = seconds(lambda names=names: detection.weighted(tally, times, names))
        print(f"{options.resamples} resamples of {', '.join(names)}: {spent:.1f} s")
    spent, _ = seconds(lambda: detection.influence(tally))
    print(f"influence of every image: {spent:.2f} s")


if __name__ == "__main__":
    main()
