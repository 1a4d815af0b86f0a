"""What records cost: all boards of many, with and without scores of samples, and eight processes that append.

    OMP_NUM_THREADS=2 python benchmarks/bench_records.py [--quick]

10,000 records are 500 boards (50 datasets, ten layers of one task) of ten backbones with a superseded record each,
every record as long as a real one. Scores of samples are 500 hits a record, those of one board on the same images.
Each writer appends 1,000 records, one call each; nothing is lost, torn or out of its order, in the CSV neither.
Medians; CPU seconds stand beside wall seconds.
"""

import argparse
import csv
import json
import multiprocessing
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from bench_statistics import seconds

from visbench import results, samples
from visbench.board import boards
from visbench.record import Record
from visbench.separable import Paired
from visbench.standings import Wanted, standings

N, WRITERS = 500, 8


def record(dataset: int, layer: int, backbone: int, turn: int, top1: float, reference: str | None) -> Record:
    grid = [10 ** (each / 2) for each in range(-12, 9)]
    return Record(
        timestamp=f"2026-01-0{turn + 1}T00:00:00Z",
        task="classification",
        level="high",
        probe="logistic",
        dataset=f"set{dataset}",
        split="test",
        train_split="train",
        val_split="val",
        dataset_size=N,
        dataset_fingerprint=f"{dataset:032x}",
        dataset_params={"limit": 60},
        counts={"train": 600, "val": 320, "test": N, "classes": 10},
        backbone=f"model{backbone}",
        backbone_key=f"{backbone:032x}",
        backbone_spec={
            "name": f"timm:model{backbone}",
            "architecture": f"model{backbone}",
            "transform": {"size": 224, "mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic"},
            "layer_dims": [384] * 12,
            "layer_grids": [[16, 16]] * 12,
            "options": {},
        },
        image_size=224,
        taps=[f"cls@{layer}"],
        taps_resolved=[f"cls@{layer}"],
        pooling="cls",
        pooling_requested="cls",
        feature_mode="pooled",
        layer=layer,
        feature_dtype="float16",
        task_params={"refit": True, "standardize": True, "max_steps": 1000, "tol": 3e-06},
        hyperparameters={"C": 0.01, "l2": 0.1},
        selection={
            "how": "C chosen on the val split",
            "metric": "top1",
            "grid": {"C": grid},
            "outcome": {"scores": [0.5] * len(grid), "settings": [{"C": each} for each in grid]},
        },
        seed=0,
        headline="top1",
        metrics={"top1": top1, "top5": 1.0, "balanced_accuracy": top1, "macro_f1": top1},
        intervals={key: [top1 - 0.02, top1 + 0.02] for key in ("top1", "balanced_accuracy", "macro_f1")},
        n=dict.fromkeys(("top1", "top5", "balanced_accuracy", "macro_f1"), N),
        samples=reference,
        context={"chance": 0.1, "classes_scored": 10, "train_top1": 1.0},
        versions={"visbench": "0.1.0", "torch": "2.14.1", "jax": "0.10.2", "numpy": "2.4.6"},
    )


def corpus(path: Path, datasets: int, layers: int, backbones: int, scored: bool) -> list[Record]:
    """Records of every dataset, layer and backbone, each made twice."""
    rng = np.random.default_rng(0)
    made = []
    for dataset in range(datasets):
        ids = np.frombuffer(rng.bytes(16 * N), np.uint8).reshape(N, 16)
        for layer in range(layers):
            for backbone in range(backbones):
                for turn in range(2):
                    hits = rng.random(N) < 0.5 + 0.04 * backbone
                    reference = samples.write(path, {"top1": hits}, ids) if scored else None
                    made.append(record(dataset, layer, backbone, turn, float(hits.mean()), reference))
    results.append(path, made)
    return made


def bench_boards(path: Path, sizes: tuple[int, int, int], repeats: int, limit: float) -> None:
    wanted = corpus(path, *sizes, scored=False)
    size = f"{len(wanted):,} records ({path.stat().st_size / 1e6:.0f} MB)"
    wall, cpu, read = seconds(lambda: results.read(path), repeats)
    print(f"{size} read: {wall:.2f} s ({cpu:.2f} CPU)")
    assert read == wanted
    wall, cpu, found = seconds(lambda: boards(read), repeats)
    print(f"their {len(found)} boards: {wall:.2f} s ({cpu:.2f} CPU), wanted ≤ {limit} s")
    assert len(found) == sizes[0] * sizes[1]
    assert sum(len(board.entries) + board.superseded for board in found) == len(wanted)


def bench_paired(path: Path, sizes: tuple[int, int, int], limit: float) -> None:
    made = corpus(path, *sizes, scored=True)
    read = results.read(path)
    wall, cpu, found = seconds(lambda: boards(read, separable=Paired.from_results(read, path)), 1)
    print(
        f"{len(made):,} records, paired over stored scores: {wall:.2f} s ({cpu:.2f} CPU), wanted ≤ {limit} s"
    )
    assert all("paired" in board.rule for board in found)
    wall, cpu, _ = seconds(lambda: standings([path], Wanted()), 1)
    print(f"the same from the file: {wall:.2f} s ({cpu:.2f} CPU)")


def writer(path: Path, who: int, times: int) -> None:
    for turn in range(times):
        results.append(path, [record(who, 0, 0, 0, turn / times, None)])


def bench_writers(path: Path, times: int) -> None:
    context = multiprocessing.get_context("spawn")
    start = time.perf_counter()
    writers = [context.Process(target=writer, args=(path, who, times)) for who in range(WRITERS)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    wall = time.perf_counter() - start
    assert [each.exitcode for each in writers] == [0] * WRITERS
    lines = [json.loads(line) for line in results.log_of(path).read_text().splitlines()]
    seen = [(line["dataset"], line["metrics"]["top1"]) for line in lines]
    expected = {f"set{who}": [turn / times for turn in range(times)] for who in range(WRITERS)}
    assert {who: [top1 for whose, top1 in seen if whose == who] for who in expected} == expected
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            rows = [(row["dataset"], float(row["metric_value"])) for row in csv.DictReader(file)]
        assert rows == seen
    print(f"{WRITERS} processes × {times:,} appended to {path.suffix}: {wall:.1f} s, nothing lost or torn")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="A hundredth of it.")
    quick = parser.parse_args().quick
    sizes = (5, 2, 5) if quick else (50, 10, 10)
    with TemporaryDirectory() as folder:
        place = Path(folder)
        bench_boards(place / "plain.jsonl", sizes, 1 if quick else 3, 2.0)
        bench_paired(place / "scored.jsonl", sizes, 2.0)
        for suffix in ("jsonl", "csv"):
            bench_writers(place / f"appended_{suffix}.{suffix}", 10 if quick else 1000)


if __name__ == "__main__":
    main()
