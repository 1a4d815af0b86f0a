"""The feature store beside plain numpy files.

    python benchmarks/bench_store.py [--quick] [--folder DIR]

Pooled rows, 20,000 × 768 float16: written, read whole in the order of writing, in an order shuffled batch by
batch (as parallel extraction leaves it) and in a random order, all beside `np.save` and `np.load` of one file.
Grids, 1,000 × 16 × 16 × 384 float16: 64 of them at random, beside one file an image and beside a memory map.
The store syncs every file and keeps digests and checksums; numpy's files have none, and only the big one is
synced here. Every answer is compared with what was written. Times are the best of several runs, with the files
in the page cache.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from extract.store import Store

BATCH = 64


def seconds(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The best time, and the answer."""
    best, answer = float("inf"), None
    for _ in range(repeats):
        start = time.perf_counter()
        answer = work()
        best = min(best, time.perf_counter() - start)
    return best, answer


def report(name: str, ours: float, peer: str, theirs: float, megabytes: float) -> None:
    rate = megabytes / ours
    print(
        f"{name:49s} {1e3 * ours:8.1f} ms {rate:7.0f} MB/s   {1e3 * theirs:8.1f} ms {peer:18s} ×{ours / theirs:.2f}"
    )


def fill(folder: Path, rows: np.ndarray, ids: np.ndarray) -> tuple[Store, SimpleNamespace]:
    store, identity = Store(folder), SimpleNamespace(digest=f"{rows.ndim:032x}", plain={"rows": rows.ndim})
    with store.writer(identity, rows.shape[1:]) as writer:
        for start in range(0, len(rows), BATCH):
            writer.add(ids[start : start + BATCH], rows[start : start + BATCH])
    return store, identity


def disk(folder: Path) -> int:
    """Bytes that the folder's files occupy, in whole blocks."""
    return sum(512 * path.stat().st_blocks for path in folder.rglob("*") if path.is_file())


def pooled(folder: Path, n: int, repeats: int) -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, 768), np.float32).astype(np.float16)
    ids, megabytes = rng.integers(0, 256, (n, 16), np.uint8), rows.nbytes / 1e6
    file = folder / "rows.npy"

    def save() -> None:
        with file.open("wb") as opened:
            np.save(opened, rows)
            os.fsync(opened.fileno())

    theirs, _ = seconds(save, repeats)
    ours, (store, identity) = seconds(lambda: fill(folder / f"pooled{time.time_ns()}", rows, ids), repeats)
    report(f"pooled {n} × 768, write", ours, "np.save, fsync", theirs, megabytes)
    theirs, _ = seconds(lambda: np.load(file), repeats)
    batches = rng.permutation(n // BATCH)[:, None] * BATCH + np.arange(BATCH)
    orders = {"": np.arange(n), ", batches shuffled": batches.ravel(), ", shuffled": rng.permutation(n)}
    for name, order in orders.items():
        fresh = lambda order=order: Store(store.url).view(identity.digest, ids[order]).read()  # noqa: E731
        ours, answer = seconds(fresh, repeats)
        assert (answer == rows[order]).all()
        report(f"pooled {n} × 768, open, read{name}", ours, "np.load", theirs, megabytes)
    some = rng.permutation(n)[:256]
    view = store.view(identity.digest, ids)
    ours, answer = seconds(lambda: view.read(some), repeats)
    assert (answer == rows[some]).all()
    mapped = np.load(file, mmap_mode="r")
    theirs, _ = seconds(lambda: mapped[some], repeats)
    report("pooled, 256 at random", ours, "memory map", theirs, rows[some].nbytes / 1e6)
    print(f"bytes on disk / bytes of the numbers: {disk(Path(store.url)) / rows.nbytes:.3f}\n")


def grids(folder: Path, n: int, repeats: int) -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((n, 16, 16, 384), np.float32).astype(np.float16)
    ids, megabytes = rng.integers(0, 256, (n, 16), np.uint8), rows.nbytes / 1e6
    (folder / "images").mkdir()

    def one_file_an_image() -> None:
        for i, row in enumerate(rows):
            np.save(folder / "images" / f"{i}.npy", row)

    theirs, _ = seconds(one_file_an_image, 1)
    ours, (store, identity) = seconds(lambda: fill(folder / f"grids{time.time_ns()}", rows, ids), 1)
    report(f"grids {n} × 16 × 16 × 384, write", ours, "a file an image", theirs, megabytes)
    np.save(folder / "grids.npy", rows)
    mapped, view = np.load(folder / "grids.npy", mmap_mode="r"), store.view(identity.digest, ids)
    some = rng.permutation(n)[:64]
    megabytes = rows[some].nbytes / 1e6
    theirs, _ = seconds(lambda: np.stack([np.load(folder / "images" / f"{i}.npy") for i in some]), repeats)
    for name, read in {"view.read": view.read, "view.array": lambda i: view.array[i].read().result()}.items():
        ours, answer = seconds(lambda read=read: read(some), repeats)
        assert (answer == rows[some]).all()
        report(f"grids, 64 at random, {name}", ours, "a file an image", theirs, megabytes)
    theirs, _ = seconds(lambda: mapped[some], repeats)
    report("grids, 64 at random, view.array", ours, "memory map", theirs, megabytes)
    print(f"bytes on disk / bytes of the numbers: {disk(Path(store.url)) / rows.nbytes:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, fewer runs")
    parser.add_argument(
        "--folder", type=Path, help="where to write  [default: the system's temporary folder]"
    )
    options = parser.parse_args()
    shrink, repeats = (10, 2) if options.quick else (1, 5)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        pooled(Path(folder), 20_000 // shrink, repeats)
        grids(Path(folder), 1_000 // shrink, repeats)


if __name__ == "__main__":
    main()
