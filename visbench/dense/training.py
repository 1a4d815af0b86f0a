"""Training heads on a stream: every setting of every program in one pass, a batch read once and used by all.

Axes: s settings of one program, n images, b images a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from probes import dense
from probes.dense import Hparams, Maps, Program
from probes.scaling import Scaling
from visbench.dense.streams import Stream

EVALUATED = 16  # images scored at a time


@dataclass
class Run:
    """One program and the settings that it is trained with; `layers` are places among the stream's views."""

    program: Program
    layers: tuple[int, ...]
    hparams: Hparams  # of arrays (s,)
    cls: bool = False  # whether the head also reads the CLS tokens
    standardize: bool = True
    scaling: tuple[Scaling, ...] | None = None
    params: Any = field(default=None, repr=False)  # with a leading axis of settings
    loss: np.ndarray | None = None  # (s,) mean over the steps of the last epoch; not finite where it diverged

    def read(self, maps: Maps) -> Maps:
        """What of a batch its head reads."""
        tokens = (
            tuple(maps.cls[layer] for layer in self.layers) if self.cls and maps.cls is not None else None
        )
        return Maps(tuple(maps.grids[layer] for layer in self.layers), tokens)

    def predict(self, maps: Maps, size: tuple[int, int]) -> np.ndarray:
        """(s, b, H, W, …) of every setting."""
        found = dense.predict(self.params, self.read(maps), self.scaling, program=self.program, size=size)
        return np.asarray(found)


def train(
    stream: Stream,
    runs: Sequence[Run],
    rows: np.ndarray,
    *,
    epochs: int,
    batch: int,
    seed: int,
    advance: Callable[[int], None] = lambda images: None,
) -> None:
    """Train every run on `rows` of the stream; `advance` hears of every image that all have seen."""
    standardise(stream, runs, rows)
    an_epoch = -(-len(rows) // batch)
    steps = an_epoch, an_epoch * epochs
    states: list[Any] = [None] * len(runs)
    taken = 0
    for epoch in range(epochs):
        order = rows[np.random.default_rng([seed, epoch]).permutation(len(rows))]
        seen = 0
        for chunk in stream.chunks(order, batch):
            for place, run in enumerate(runs):
                maps = run.read(chunk.maps)
                if states[place] is None:
                    one = jax.tree.map(lambda each: each[0, :1], maps)
                    key = jax.random.key(seed)
                    states[place] = dense.init(one, run.hparams, key=key, program=run.program)
                states[place] = dense.advance(
                    states[place],
                    maps,
                    chunk.target,
                    run.hparams,
                    run.scaling,
                    taken,
                    chunk.batches,
                    steps,
                    program=run.program,
                )
            jax.block_until_ready(states)  # type: ignore[no-untyped-call]  # the arrays of a chunk go before those of the next but two come
            taken += chunk.batches
            now = min(seen + chunk.batches * batch, len(rows))
            advance(now - seen)
            seen = now
    for run, state in zip(runs, states, strict=True):
        run.params, run.loss = state.params, np.asarray(state.loss) / an_epoch


def evaluate(stream: Stream, runs: Sequence[Run], rows: np.ndarray | None = None) -> list[list[Any]]:
    """The tally of every setting of every run over `rows` (all by default), leaves (n, …) in their order."""
    found: list[list[list[Any]]] = [[[] for _ in range(_settings(run))] for run in runs]
    for chosen, maps, target in stream.blocks(EVALUATED, rows):
        for run, tallies in zip(runs, found, strict=True):
            size = (target.shape[1], target.shape[2])
            for tally, predicted in zip(tallies, run.predict(maps, size), strict=True):
                tally.append(tallied(run.program.task, predicted, target, len(chosen)))
    return [[joined(tally) for tally in tallies] for tallies in found]


def joined(tallies: Sequence[Any]) -> Any:
    """Tallies of some images after those of others."""
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *tallies)


def standardise(stream: Stream, runs: Sequence[Run], rows: np.ndarray) -> None:
    """Give each run the mean and deviation of every channel over all places of the images that train it."""
    wanted = sorted({layer for run in runs if run.standardize for layer in run.layers})
    if not wanted:
        return
    found = {layer: _Moments() for layer in wanted}
    for chosen, maps, _ in stream.blocks(EVALUATED, np.sort(rows)):
        for layer in wanted:
            found[layer].add(np.asarray(maps.grids[layer][: len(chosen)]))
    for run in runs:
        if run.standardize:
            run.scaling = tuple(found[layer].scaling() for layer in run.layers)


class _Moments:
    """Count, mean and squared deviations of channels, merged block by block (Chan, Golub & LeVeque 1983)."""

    count, mean, squares = 0, np.zeros(1), np.zeros(1)

    def add(self, grid: np.ndarray) -> None:
        values = grid.reshape(-1, grid.shape[-1]).astype(np.float32)
        count, mean = len(values), values.mean(axis=0, dtype=np.float64)
        squares = np.square(values - mean.astype(np.float32)).sum(axis=0, dtype=np.float64)
        apart, total = mean - self.mean, self.count + count
        self.squares = self.squares + squares + apart**2 * (self.count * count / total)
        self.mean = self.mean + apart * (count / total)
        self.count = total

    def scaling(self) -> Scaling:
        """A channel that says the same everywhere is left as it is, and so becomes zeros."""
        deviation = np.sqrt(self.squares / self.count)
        still = deviation <= 8 * np.finfo(np.float32).eps * np.abs(self.mean)
        mean, scale = self.mean.astype(np.float32), np.where(still, 1, deviation).astype(np.float32)
        return Scaling(jax.numpy.asarray(mean), jax.numpy.asarray(scale))


def _settings(run: Run) -> int:
    return len(np.atleast_1d(np.asarray(run.hparams.learning_rate)))


def tallied(task: Any, predicted: Any, target: np.ndarray, count: int) -> Any:
    """The tally of the first `count` images, on the host."""
    found = task.tally(jax.numpy.asarray(predicted), jax.numpy.asarray(target))
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:count], found)
