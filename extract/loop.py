"""Images in, features in the store out: decode → forward → parts, overlapped.

On a CPU each core takes whole batches, decoding included, with one intra-op thread: two small batches side
by side beat one batch on two threads.  On a GPU threads decode ahead and one thread feeds the device.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from extract import images as image_reader
from extract import plan as planning
from extract import taps as tap_names
from extract.backbones import Backbone
from extract.datasets import ImageSet
from extract.errors import InputError, UnreadableImageError
from extract.machine import available_cores, default_batch, default_device, one_thread_each, rate_key
from extract.memo import Memo
from extract.plan import Plan
from extract.shares import share
from extract.store import Store
from extract.taps import Tap

AHEAD = 2  # batches decoded beyond those at work

Progress = Callable[[int], None]  # told how many more images are done


@dataclass
class Extraction:
    """What one call of `extract` did."""

    plan: Plan
    computed: int = 0
    seconds: float = 0.0
    unreadable: dict[str, str] = field(default_factory=dict)  # name → reason
    converted: Counter[str] = field(default_factory=Counter)  # kind of conversion → images


class _Batch(NamedTuple):
    positions: list[int]
    pixels: torch.Tensor | None  # None where no image of the batch could be read
    unreadable: dict[int, str]
    converted: Counter[str]


def extract(
    backbone: Backbone,
    images: ImageSet,
    taps: Sequence[Tap | str],
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
    memo = memo or Memo()
    if ids is None:
        ids = memo.row_ids(images.sources)
    plan = planning.make(backbone.spec, taps, ids, store=store, dtype=dtype)
    todo = plan.missing
    if shard is not None:
        mine = np.zeros(len(ids), dtype=bool)
        mine[list(share(len(ids), *shard))] = True
        todo &= mine
    result = Extraction(plan)
    positions = np.flatnonzero(todo)
    if not len(positions):
        return result
    place = torch.device(device or default_device())
    workers = workers or available_cores()
    batch_size = batch_size or default_batch(backbone, place, len(positions), workers)
    reader = _Reader(backbone, images, on_bad, max_pixels)
    policy = image_reader.policy(max_pixels)
    began = time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(one_thread_each(place))
        writers = {
            tap: stack.enter_context(store.writer(which, tap_names.shape(tap, plan.spec), dtype))
            for tap, which in plan.identities.items()
        }
        batches = [positions[i : i + batch_size] for i in range(0, len(positions), batch_size)]
        for batch, features in _forwards(backbone.to(place), list(writers), reader, batches, place, workers):
            for tap, rows in features.items():
                _write(writers[tap], plan.lacking[tap], ids, batch.positions, rows, images, tap)
            result.computed += len(batch.positions)
            result.converted += batch.converted
            for position, reason in batch.unreadable.items():
                result.unreadable[images.names[position]] = reason
                memo.remember_unreadable(ids[position].tobytes(), policy, reason)
            if progress is not None:
                progress(len(batch.positions) + len(batch.unreadable))
    result.seconds = time.monotonic() - began
    _remember_rate(memo, plan, place, result)
    return result


class _Reader:
    """Reads and places the images of one batch; safe to call from several threads."""

    def __init__(self, backbone: Backbone, images: ImageSet, on_bad: str, max_pixels: int | None) -> None:
        self.place = backbone.transform.place
        self.images = images
        self.skip = on_bad == "skip"
        self.options: dict[str, Any] = {"background": backbone.transform.background}
        if max_pixels is not None:
            self.options["max_pixels"] = max_pixels

    def __call__(self, positions: Iterable[int]) -> _Batch:
        kept: list[int] = []
        placed: list[torch.Tensor] = []
        unreadable: dict[int, str] = {}
        converted: Counter[str] = Counter()
        for position in map(int, positions):
            name = self.images.names[position]
            try:
                image = image_reader.read_image(self.images.sources[position], name=name, **self.options)
            except UnreadableImageError as error:
                if not self.skip:
                    way_out = "mend or remove it, or leave such images out with --on-bad skip"
                    raise UnreadableImageError(name, f"{error.reason}; {way_out}") from error
                unreadable[position] = error.reason
                continue
            if image.converted:
                converted[image.converted] += 1
            kept.append(position)
            placed.append(self.place(image.pixels))
        return _Batch(kept, torch.stack(placed) if placed else None, unreadable, converted)


def _forwards(
    backbone: Backbone,
    taps: list[Tap],
    read: Callable[[Iterable[int]], _Batch],
    batches: Sequence[np.ndarray],
    device: torch.device,
    workers: int,
) -> Iterator[tuple[_Batch, Mapping[Tap, np.ndarray]]]:
    """(batch, features) in order; decoding runs ahead of the forward pass, or beside it on a CPU."""

    def forward(batch: _Batch) -> tuple[_Batch, Mapping[Tap, np.ndarray]]:
        if batch.pixels is None:
            return batch, {}
        pixels = batch.pixels
        if device.type == "cuda":
            pixels = pixels.pin_memory().to(device, non_blocking=True)
        features = backbone.features(backbone.transform.normalise(pixels), taps)
        return batch, {tap: rows.float().cpu().numpy() for tap, rows in features.items()}

    beside = device.type == "cpu"
    work = (lambda positions: forward(read(positions))) if beside else read
    pool = ThreadPoolExecutor(workers, "extract", initializer=torch.set_num_threads, initargs=(1,))
    try:
        for done in _ahead(pool, work, batches, workers + AHEAD):
            yield done if beside else forward(done)
    finally:
        pool.shutdown(cancel_futures=True)


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
    writer: Any,
    lacking: np.ndarray,
    ids: np.ndarray,
    positions: list[int],
    rows: np.ndarray,
    images: ImageSet,
    tap: Tap,
) -> None:
    wanted = lacking[positions]
    if not wanted.any():
        return
    kept = np.asarray(positions)[wanted]
    try:
        writer.add(ids[kept], rows[wanted])
    except InputError as error:  # the store knows the position in the batch, we know the image
        position = getattr(error, "position", None)
        if position is None:
            raise
        raise InputError(f"{images.names[kept[position]]}, tap {tap}: {error}") from error


def _remember_rate(memo: Memo, plan: Plan, device: torch.device, result: Extraction) -> None:
    if result.computed >= 64:  # fewer say more about start-up than about the backbone
        rate = result.computed / result.seconds
        memo.remember("rate", rate_key(plan.spec, device.type), {"images_per_second": round(rate, 2)})
