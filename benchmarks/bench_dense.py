"""The linear segmentation probe beside the same loop in PyTorch; streaming; many settings in one pass; metrics.

    python benchmarks/bench_dense.py [--images 256] [--dims 384] [--repeats 5] [--only torch stream settings metrics]

Grids of 16 × 16 cells and maps of 224 × 224 pixels with 21 classes and some void, of which the features tell a part;
batches of 8, AdamW, the same start, order and schedule for both. PyTorch keeps everything in memory: a 1 × 1
convolution, bilinear interpolation, cross-entropy. Weights are compared after the epoch. At 56 px only ours changes:
it looks at every fourth row and column of pixels, PyTorch at all. What is compared takes turns; medians. CPU seconds
stand beside wall seconds: where other programs run, compare those.
"""

import argparse
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import jax
import numpy as np
import torch
from bench_fit import seconds

from extract.spec import Identity, digest_json
from extract.store import Store
from probes import dense
from probes.heads import make_head
from probes.maps.segmentation import Segmentation
from visbench.dense import training
from visbench.dense.kinds import KINDS
from visbench.dense.streams import Stream
from visbench.dense.training import Run

GRID, SIZE, CLASSES, BATCH = 16, 224, 21, 8
TASK = Segmentation(CLASSES)


def write(store: Store, n: int, dims: int) -> tuple[str, str, np.ndarray]:
    """Features and maps in the store, and the ids of their rows."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 256, (n, 16), dtype=np.uint8)
    centres = rng.standard_normal((CLASSES, dims)).astype(np.float32)
    identities = []
    for name, shape, dtype in (("features", (GRID, GRID, dims), "float16"), ("maps", (SIZE, SIZE), "uint8")):
        plain = {"benchmark": name, "n": n, "dims": dims}
        identities.append(Identity(digest_json(plain), plain))
        with store.writer(identities[-1], shape, dtype) as writer:
            draw = np.random.default_rng(1)  # the same cells for both
            for start in range(0, n, 128):
                rows = slice(start, start + 128)
                cells = draw.integers(0, CLASSES, (len(ids[rows]), GRID, GRID)).astype(np.uint8)
                noise = np.random.default_rng(start).standard_normal((*cells.shape, dims), dtype=np.float32)
                if name == "features":
                    writer.add(ids[rows], (centres[cells] / 4 + noise).astype(np.float16))
                else:
                    maps = np.repeat(np.repeat(cells, SIZE // GRID, 1), SIZE // GRID, 2)
                    maps[:, ::50] = 255
                    writer.add(ids[rows], maps)
    return identities[0].digest, identities[1].digest, ids


def stream_of(store: Store, stored: tuple[str, str, np.ndarray], *, held: bool) -> Stream:
    features, maps, ids = stored
    return Stream([store.view(features, ids)], [], store.view(maps, ids), KINDS["labels"], held=held)


def run_of(stride: int, rates: tuple[float, ...] = (1e-3,)) -> Run:
    program = dense.Program(make_head("linear", channels=CLASSES), TASK, stride)
    values = np.array(rates, np.float32)
    return Run(program, (0,), dense.Hparams(values, np.full_like(values, 1e-4)), standardize=False)


def trained(stream: Stream, *runs: Run, epochs: int = 1) -> list[Run]:
    training.train(stream, runs, np.arange(len(stream)), epochs=epochs, batch=BATCH, seed=0)
    jax.block_until_ready([run.params for run in runs])
    return list(runs)


def torch_epoch(stream: Stream, first: Any) -> Callable[[], np.ndarray]:
    """The usual loop, from the same start."""
    maps, target = stream.views[0].read(), stream.target.read()
    grids = (
        torch.from_numpy(maps.astype(np.float32))
        .permute(0, 3, 1, 2)
        .contiguous(memory_format=torch.channels_last)
    )
    labels = torch.from_numpy(target).long()
    steps = -(-len(grids) // BATCH)
    order = torch.from_numpy(np.random.default_rng([0, 0]).permutation(len(grids)))

    def work() -> np.ndarray:
        layer = torch.nn.Conv2d(maps.shape[-1], CLASSES, 1)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(first["kernel"].T.copy())[:, :, None, None])
            layer.bias.copy_(torch.from_numpy(first["bias"].copy()))
        optimiser = torch.optim.AdamW(layer.parameters(), lr=1e-3, weight_decay=1e-4, fused=True)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda step: float(dense.schedule(step, steps, steps))
        )
        for chosen in order.split(BATCH):
            logits = torch.nn.functional.interpolate(
                layer(grids[chosen]), (SIZE, SIZE), mode="bilinear", align_corners=False
            )
            loss = torch.nn.functional.cross_entropy(logits, labels[chosen], ignore_index=255)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
        return layer.weight.detach().numpy()[:, :, 0, 0].T

    return work


def turns(works: dict[str, Callable[[], Any]], repeats: int) -> dict[str, np.ndarray]:
    """Name → median (wall, CPU) seconds; each was done once before."""
    for work in works.values():
        work()
    taken: dict[str, list[np.ndarray]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            taken[name].append(seconds(work)[0])
    return {name: np.median(each, axis=0) for name, each in taken.items()}


def said(name: str, taken: np.ndarray, beside: np.ndarray | None = None) -> None:
    ratio = (
        "" if beside is None else f"   {beside[0] / taken[0]:5.2f} × wall  {beside[1] / taken[1]:5.2f} × CPU"
    )
    print(f"{name:44s} {taken[0]:7.3f} s wall  {taken[1]:7.3f} s CPU{ratio}")


def kernel(run: Run) -> dict[str, np.ndarray]:
    (layer,) = run.params.values()
    return {name: np.asarray(leaf)[0] for name, leaf in layer.items()}


def bench_torch(store: Store, stored: Any, repeats: int) -> None:
    stream = stream_of(store, stored, held=True)
    maps = dense.Maps((stream.views[0].read(np.arange(1)),))
    probe = run_of(1)
    (layer,) = dense.init(maps, probe.hparams, key=jax.random.key(0), program=probe.program).params.values()
    loop = torch_epoch(stream, {name: np.asarray(leaf)[0] for name, leaf in layer.items()})
    taken = turns(
        {
            "torch": loop,
            "full": lambda: trained(stream, run_of(1)),
            "quarter": lambda: trained(stream, run_of(4)),
        },
        repeats,
    )
    said("one epoch, PyTorch, 224 px", taken["torch"])
    said("one epoch, 224 px", taken["full"], taken["torch"])
    said("one epoch, 56 px", taken["quarter"], taken["torch"])
    ours, theirs = kernel(trained(stream, run_of(1))[0])["kernel"], loop()
    apart = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    print(f"weights after the epoch differ by {apart:.1e} of the largest")
    assert apart < 1e-3


def bench_stream(store: Store, stored: Any, repeats: int) -> None:
    held, streamed = (stream_of(store, stored, held=each) for each in (True, False))
    for stride, pixels in ((1, 224), (4, 56)):
        taken = turns(
            {
                "held": lambda s=stride: trained(held, run_of(s)),
                "streamed": lambda s=stride: trained(streamed, run_of(s)),
            },
            repeats,
        )
        said(f"one epoch, {pixels} px, features in memory", taken["held"])
        said(f"one epoch, {pixels} px, from the store", taken["streamed"])
        print(f"  the store takes {taken['streamed'][0] / taken['held'][0]:.2f} × the time")
    ours, theirs = (kernel(trained(each, run_of(4))[0])["kernel"] for each in (held, streamed))
    assert (ours == theirs).all()


def bench_settings(store: Store, stored: Any, repeats: int) -> None:
    rates = tuple(np.geomspace(1e-4, 1e-2, 8))
    for stride, pixels in ((1, 224), (4, 56)):
        single = stream_of(store, stored, held=False)
        together = stream_of(store, stored, held=False)
        taken = turns(
            {
                "eight": lambda s=stride, on=single: [trained(on, run_of(s, (rate,))) for rate in rates],
                "one": lambda s=stride, on=together: trained(on, run_of(s, rates)),
            },
            repeats,
        )
        said(f"8 settings one by one, {pixels} px", taken["eight"])
        said(f"8 settings in one pass, {pixels} px", taken["one"], taken["eight"])
        print(f"  one pass takes {taken['one'][0] / taken['eight'][0]:.2f} × the time")
        assert together.reads * 8 == single.reads


def bench_metrics(store: Store, stored: Any, repeats: int) -> None:
    stream = stream_of(store, stored, held=True)
    (run,) = trained(stream, run_of(1))
    target = stream.target.read()
    predicted = np.concatenate([run.predict(maps, (SIZE, SIZE))[0] for _, maps, _ in stream.blocks(16)])[
        : len(stream)
    ]
    taken = turns(
        {
            "full": lambda: trained(stream, run_of(1)),
            "quarter": lambda: trained(stream, run_of(4)),
            "evaluate": lambda: training.evaluate(stream, [run]),
            "tally": lambda: TASK.pooled(
                jax.tree.map(lambda leaf: leaf.sum(0), TASK.tally(predicted, target))
            ),
        },
        repeats,
    )
    said("metrics of full-resolution predictions", taken["tally"])
    said("predictions and metrics", taken["evaluate"])
    for name, pixels in (("full", 224), ("quarter", 56)):
        share = taken["tally"][0] / taken[name][0]
        print(f"  metrics take {share:.1%} of an epoch at {pixels} px")


def peak_memory(images: tuple[int, ...], dims: int) -> None:
    """Resident memory of a process that streams one epoch over ever more images."""
    for n in images:
        with tempfile.TemporaryDirectory() as folder:
            stored = write(Store(Path(folder)), n, dims)
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                before, peak = pool.submit(_peak, folder, stored).result()
        size = n * GRID * GRID * dims * 2 / 2**20
        print(
            f"{n:5} images, {size:4.0f} MB of features: peak {peak:.0f} MB, after one batch {before:.0f} MB"
        )


def _peak(folder: str, stored: tuple[str, str, np.ndarray]) -> tuple[float, float]:
    features, maps, ids = stored
    peaks = []
    for rows in (ids[:BATCH], ids):
        trained(stream_of(Store(folder), (features, maps, rows), held=False), run_of(4))
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        peaks.append(int(status["VmHWM"].split()[0]) / 2**10)  # ru_maxrss would be the parent's
    return peaks[0], peaks[1]


BENCHES = {"torch": bench_torch, "stream": bench_stream, "settings": bench_settings, "metrics": bench_metrics}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--dims", type=int, default=384)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=[*BENCHES, "memory"], default=list(BENCHES))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "store")
        stored = write(store, args.images, args.dims)
        for name in args.only:
            if name in BENCHES:
                BENCHES[name](store, stored, args.repeats)
    if "memory" in args.only:
        peak_memory((512, 2048, 8192), args.dims)


if __name__ == "__main__":
    main()
