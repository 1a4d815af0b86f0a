"""How the predictions of a dense task are judged: map by map in the frame, or against the original annotations."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

import jax
import numpy as np

from probes import resizing
from probes.dense import Maps
from probes.metrics import boundaries
from visbench import console
from visbench.dense.streams import Stream
from visbench.dense.training import EVALUATED, Run, joined, tallied

Says = Callable[[Maps, np.ndarray], Any]  # features and targets of some images → (b, S, S, …) predictions


def of_run(run: Run) -> Says:
    """What the first setting of a trained run says."""
    return lambda maps, target: run.predict(maps, (target.shape[1], target.shape[2]))[0]


def of_guess(guess: np.ndarray) -> Says:
    """One map, said of every image."""
    return lambda maps, target: np.broadcast_to(guess, (len(target), *guess.shape))


def of_targets(task: Any, grid: tuple[int, int]) -> Says:
    """What a grid that knew the targets would say."""
    ceiling = jax.jit(task.ceiling, static_argnums=1)
    return lambda maps, target: ceiling(target, grid)


@dataclass(frozen=True)
class InFrame:
    """Predictions beside targets in the frame of the backbone, by the task's own metrics."""

    task: Any

    @property
    def metric(self) -> Any:
        """What turns tallies into values."""
        return self.task

    def tally(
        self, stream: Stream, says: Says, *, rows: np.ndarray | None = None, quick: bool = False
    ) -> Any:
        """Of every image of the stream, in its order."""
        tallies = []
        for chosen, maps, target in stream.blocks(EVALUATED, rows):
            tallies.append(tallied(self.task, says(maps, target), target, len(chosen)))
        return joined(tallies)

    def context(self, stream: Stream) -> dict[str, float]:
        """Nothing more is to be said."""
        return {}


@dataclass(frozen=True)
class Outlines:
    """Boundaries beside what people drew, in the pixels of the original image that the frame covers."""

    task: Any
    processes: bool = False  # side by side; only where this program is known to bear being imported again

    @property
    def metric(self) -> Any:
        """What turns tallies into values."""
        return boundaries

    def tally(
        self, stream: Stream, says: Says, *, rows: np.ndarray | None = None, quick: bool = False
    ) -> Any:
        """Of every image of the stream; `quick` looks at a third of the thresholds, which moves ODS by 0.001."""
        levels = boundaries.thresholds(33 if quick else boundaries.THRESHOLDS)
        judge = partial(_judged, levels=levels)
        with self._pool() as pool, console.progress("matching", stream.name, total=len(stream)) as advance:
            found = []
            for tally in _mapped(pool, judge, self._pairs(stream, says)):
                found.append(boundaries.Tally(*(leaf[None] for leaf in tally)))
                advance(1)
        return joined(found)

    def context(self, stream: Stream) -> dict[str, float]:
        """How far the people agree with each other, on the same pixels."""
        truths = (_truth(stream, row)[:2] for row in range(len(stream)))
        with self._pool() as pool:
            found = list(_mapped(pool, _agreed, truths))
        summed = boundaries.Tally(*(np.sum(leaves, axis=0) for leaves in zip(*found, strict=True)))
        return {"human_ods": float(boundaries.pooled(summed)["ods"])}

    def _pairs(self, stream: Stream, says: Says) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
        """Prediction and annotations of each image in its original pixels, and how far matches may lie apart."""
        for chosen, maps, target in stream.blocks(EVALUATED):
            for row, predicted in zip(chosen, np.asarray(says(maps, target)), strict=False):
                marks, distance, box = _truth(stream, row)
                down = resizing.at(box.row_positions, len(predicted))
                across = resizing.at(box.column_positions, predicted.shape[1])
                yield down @ predicted @ across.T, marks, distance

    @contextmanager
    def _pool(self) -> Iterator[Executor | None]:
        if not self.processes:
            yield None
            return
        with ProcessPoolExecutor(mp_context=get_context("forkserver")) as pool:
            yield pool


def _mapped(pool: Executor | None, function: Callable[[Any], Any], items: Iterator[Any]) -> Iterator[Any]:
    """`map`, side by side where there is a pool; only so many items are made ahead as are at work."""
    if pool is None:
        yield from map(function, items)
        return
    under_way: deque[Future[Any]] = deque()
    for item in items:
        under_way.append(pool.submit(function, item))
        if len(under_way) > 2 * (os.cpu_count() or 1):
            yield under_way.popleft().result()
    while under_way:
        yield under_way.popleft().result()


def _truth(stream: Stream, row: int) -> tuple[np.ndarray, float, Any]:
    """What people drew where the frame looks, how far off is still right, and where the frame looks."""
    assert stream.original is not None
    marks = stream.original(row)
    box = stream.frame.crop_box(*marks.shape[:2])
    return marks[box.rows, box.columns], boundaries.max_distance((marks.shape[0], marks.shape[1])), box


def _judged(pair: tuple[np.ndarray, np.ndarray, float], *, levels: np.ndarray) -> boundaries.Tally:
    said, marks, distance = pair
    return boundaries.evaluate(said, marks, max_distance=distance, levels=levels)


def _agreed(pair: tuple[np.ndarray, float]) -> boundaries.Tally:
    return boundaries.agreement(pair[0], max_distance=pair[1])
