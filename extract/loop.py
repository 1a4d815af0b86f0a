"""Images in, features in the store out: decode → forward → parts, overlapped.

On a CPU each core takes whole batches, decoding included, with one intra-op thread: two small batches side
by side beat one batch on two threads.  On a GPU threads decode ahead and one thread feeds the device.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from extract import images as image_reader
from extract import plan as planning
from extract import taps as tap_names
from extract.backbones import Backbone
from extract.datasets import ImageSet
from extract.errors import InputError, UnreadableImageError
from extract.freezing import Forward, fastest
from extract.machine import available_cores, default_batch, find_device, one_thread_each, rate_key
from extract.memo import Memo
from extract.plan import Plan
from extract.reading import WAY_OUT, Batch, Reader
from extract.shares import share
from extract.store import PartWriter, RefusedRowError, Store
from extract.taps import Tap
from extract.wording import counted

AHEAD = 2  # batches under way beyond those at work

Features = Mapping[Tap, np.ndarray]  # (b, …) float32 of one batch
Progress = Callable[[int], None]  # told how many more images are done


@dataclass
class Extraction:
    """What one call of `extract` did."""

    plan: Plan
    computed: int = 0
    seconds: float = 0.0
    unreadable: dict[str, str] = field(default_factory=dict)  # name → reason, of every image left out
    converted: Counter[str] = field(default_factory=Counter)  # kind of conversion → images


def extract(
    backbone: Backbone,
    images: ImageSet,
    taps: str | Sequence[Tap | str],
    *,
    store: Store,
    memo: Memo | None = None,
    ids: np.ndarray | None = None,
    dtype: str = "float16",
    batch_size: int | None = None,
    workers: int | None = None,
    device: str | None = None,
    on_bad: str = "refuse",
    max_pixels: int | None = None,
    shard: tuple[int, int] | None = None,
    progress: Progress | None = None,
) -> Extraction:
    """Run `backbone` once over the images whose rows `store` lacks, for all `taps` together.

    `on_bad` says what an unreadable image does: "refuse" stops, naming it; "skip" leaves its row out and
    lists it.  `ids` are the images' row ids where the caller has them already.  `shard` (index, of) takes
    that share of the whole set.  What was committed when a run is interrupted is not computed again.
    """
    _check(images, ids, on_bad, batch_size=batch_size, workers=workers, max_pixels=max_pixels)
    memo, policy = memo or Memo(), image_reader.policy(max_pixels)
    failed: dict[int, str] = {}
    if ids is None:
        ids = memo.row_ids(images.sources, unreadable=failed)
    if on_bad == "skip":
        failed |= memo.remarks("unreadable", ids, policy)
    elif failed:
        position, reason = next(iter(failed.items()))
        raise UnreadableImageError(images.names[position], f"{reason}; {WAY_OUT}")
    plan = planning.make(backbone.spec, taps, ids, store=store, dtype=dtype)
    result = Extraction(plan, unreadable={images.names[each]: reason for each, reason in failed.items()})
    positions = _todo(plan, failed, shard)
    if not len(positions):
        return result

    place = find_device(device)
    workers = workers or available_cores()
    batch_size = batch_size or default_batch(backbone, place, len(positions), workers)
    batches = [positions[i : i + batch_size] for i in range(0, len(positions), batch_size)]
    reader = Reader(images, backbone.transform, skip=on_bad == "skip", max_pixels=max_pixels)
    began = time.monotonic()
    features_of = fastest(backbone.to(place), list(plan.identities), place, len(positions))
    work = _forwards(backbone, features_of, reader, batches, place, workers)
    with ExitStack() as stack:  # is left in reverse: rows are committed before anything else is waited for
        stack.enter_context(one_thread_each(place))
        stack.enter_context(closing(work))
        writers = {
            tap: stack.enter_context(store.writer(which, tap_names.shape(tap, plan.spec), dtype))
            for tap, which in plan.identities.items()
        }
        for batch, features in work:
            for tap, rows in features.items():
                _write(writers[tap], tap, plan, batch.positions, rows, images)
            for position, error in batch.unreadable.items():
                result.unreadable |= {images.names[twin]: error.reason for twin in _twins(ids, position)}
                if error.lasting:
                    memo.remark("unreadable", policy, {ids[position].tobytes(): error.reason})
            memo.remark(
                "converted", policy, {ids[each].tobytes(): kind for each, kind in batch.converted.items()}
            )
            result.computed += len(batch.positions)
            result.converted.update(batch.converted.values())
            if progress is not None:
                progress(len(batch.positions) + len(batch.unreadable))
    result.seconds = time.monotonic() - began
    _remember_rate(memo, plan, place, result)
    return result


def _check(images: ImageSet, ids: np.ndarray | None, on_bad: str, **counts: int | None) -> None:
    """Refuse settings that would go wrong later, or silently."""
    if on_bad not in ("refuse", "skip"):
        raise InputError(f'on_bad is "{on_bad}"; an unreadable image can be met with refuse or skip')
    if ids is not None and len(ids) != len(images):
        raise InputError(f"{counted(len(ids), 'id')} for {counted(len(images), 'image')}; each image has one")
    for name, count in counts.items():
        if count is not None and count < 1:
            raise InputError(f"{name} is {count}; it must be at least 1")


def _todo(plan: Plan, failed: Mapping[int, str], shard: tuple[int, int] | None) -> np.ndarray:
    """Positions of the images to run: what is missing of our share, without what cannot be read."""
    todo = plan.missing
    todo[list(failed)] = False
    ours = range(len(todo)) if shard is None else share(len(todo), *shard)
    return np.flatnonzero(todo[ours.start : ours.stop]) + ours.start


def _twins(ids: np.ndarray, position: int) -> np.ndarray:
    """Positions at which the image at `position` stands, this one among them."""
    return np.flatnonzero((ids == ids[position]).all(axis=1))


def _forwards(
    backbone: Backbone,
    features_of: Forward,
    read: Reader,
    batches: Sequence[np.ndarray],
    device: torch.device,
    workers: int,
) -> Generator[tuple[Batch, Features], None, None]:
    """(batch, features) in order; decoding runs ahead of the forward pass, or beside it on a CPU."""

    def forward(batch: Batch) -> tuple[Batch, Features]:
        read.check()
        return batch, {} if batch.pixels is None else _features(backbone, features_of, batch.pixels, device)

    beside = device.type == "cpu"
    work = (lambda positions: forward(read(positions))) if beside else read
    pool = ThreadPoolExecutor(workers, "extract", initializer=torch.set_num_threads, initargs=(1,))
    try:
        for done in _ahead(pool, work, batches, workers + AHEAD):
            yield done if beside else forward(done)
    finally:
        read.stop()
        pool.shutdown(cancel_futures=True)


def _features(
    backbone: Backbone, features_of: Forward, pixels: torch.Tensor, device: torch.device
) -> Features:
    if device.type == "cuda":
        pixels = pixels.pin_memory()
    try:
        pixels = pixels.to(device, non_blocking=True)
        features = features_of(backbone.transform.normalise(pixels))
        return {tap: rows.float().cpu().numpy() for tap, rows in features.items()}
    except torch.OutOfMemoryError as error:
        raise InputError(
            f"{device} has no room for {counted(len(pixels), 'image')} at once; take fewer with --batch-size"
        ) from error


def _ahead(
    pool: ThreadPoolExecutor, work: Callable[[Any], Any], items: Iterable[Any], depth: int
) -> Iterator[Any]:
    """`work` of each item, in order, with at most `depth` of them under way: memory stays flat."""
    pending: deque[Any] = deque()
    for item in items:
        pending.append(pool.submit(work, item))
        if len(pending) >= depth:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def _write(
    writer: PartWriter, tap: Tap, plan: Plan, positions: list[int], rows: np.ndarray, images: ImageSet
) -> None:
    """Hand over those rows of a batch that the store lacks under `tap`."""
    wanted = plan.lacking[tap][positions]
    if not wanted.any():
        return
    kept = np.asarray(positions)[wanted]
    try:
        writer.add(plan.ids[kept], rows[wanted])
    except RefusedRowError as error:  # the store knows the position in the batch, we know the image
        raise InputError(f"{images.names[kept[error.position]]}, tap {tap}: {error}") from error


def _remember_rate(memo: Memo, plan: Plan, device: torch.device, result: Extraction) -> None:
    if result.computed >= 64:  # fewer say more about start-up than about the backbone
        rate = result.computed / result.seconds
        memo.remember("rate", rate_key(plan.spec, device.type), {"images_per_second": round(rate, 2)})
