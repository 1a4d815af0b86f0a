"""Read-outs of several settings side by side: their logits, and how often each is right.

Axes: n samples, d dims, c classes, s settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from probes import affine, knn

SPARE = 8  # neighbours beyond the largest k, so that ties at the last place are seen


class Fits(Protocol):
    """The read-outs of all settings."""

    def logits(self, features: np.ndarray) -> Iterator[np.ndarray]:
        """(n, c) for each setting, in the grid's order."""

    def top1(self, features: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """(s,) the share of rows that each setting gets right; NaN where its logits are not finite."""

    def convergence(self, index: int) -> dict[str, Any]:
        """How well the optimiser did; empty where nothing is optimised."""


@dataclass(frozen=True)
class Stacked:
    """Fits of one probe module, a weight and a bias each, whose leaves have a leading axis of settings."""

    fits: Any

    def logits(self, features: np.ndarray) -> Iterator[np.ndarray]:
        for index in range(len(self.fits.bias)):
            yield np.asarray(affine.predict(self._one(index), features))

    def top1(self, features: np.ndarray, labels: np.ndarray) -> np.ndarray:
        rows, true = jnp.asarray(features), jnp.asarray(labels)
        hits = np.array(
            [_hits(*fit, rows, true) for fit in zip(self.fits.weight, self.fits.bias, strict=True)], float
        )
        return np.where(hits < 0, np.nan, hits / len(labels))

    def convergence(self, index: int) -> dict[str, Any]:
        fit = self._one(index)
        names = ("converged", "grad_norm", "steps")
        return {name: np.asarray(getattr(fit, name)).item() for name in names if hasattr(fit, name)}

    def _one(self, index: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[index], self.fits)


@jax.jit
def _hits(weight: Array, bias: Array, features: Array, labels: Array) -> Array:
    """How many rows one setting gets right, −1 where logits are not finite: one program, however long the grid."""
    logits = features @ weight + bias
    return jnp.where(jnp.isfinite(logits).all(), (logits.argmax(1) == labels).sum(), -1)


@dataclass(frozen=True)
class Neighbours:
    """Votes of the nearest rows of a bank, for every pair of k and temperature from one search."""

    bank: np.ndarray
    labels: np.ndarray
    settings: Sequence[tuple[int, float | None]]
    num_classes: int

    def logits(self, features: np.ndarray) -> Iterator[np.ndarray]:
        """Shares of the votes; the winner of a tie is lifted by less than votes can differ, so argmax finds it."""
        k = min(max(k for k, _ in self.settings) + SPARE, len(self.bank))
        similarity, index = knn.search(features, self.bank, k=k)
        vote = partial(knn.predict, similarity, self.labels[index], num_classes=self.num_classes)
        found: dict[tuple[int, float | None], np.ndarray] = {}
        for temperature in dict.fromkeys(temperature for _, temperature in self.settings):
            ks = tuple(k for k, given in self.settings if given == temperature)
            votes = vote(ks=ks, temperature=temperature)
            for k, share, label in zip(ks, np.array(votes.share), np.asarray(votes.label), strict=True):
                share[np.arange(len(share)), label] += 2e-6
                found[k, temperature] = share
        yield from (found[setting] for setting in self.settings)

    def top1(self, features: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return np.array([(each.argmax(axis=1) == labels).mean() for each in self.logits(features)])

    def convergence(self, index: int) -> dict[str, Any]:
        return {}
