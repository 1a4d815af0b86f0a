"""The read-outs of classification behind one face: fit every setting of a grid, then give logits a setting.

A grid runs from the strongest regularisation to the weakest.
Axes: n samples, d dims, c classes, s settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from probes import knn, linear, logistic, ridge
from probes.checks import check_k

Setting = dict[str, Any]
# What is scored is solved to its optimum in float32; what is only compared, to 1e-4 of the objective.
FINAL: dict[str, Any] = {"tol": 3e-6}
CHOOSING: dict[str, Any] = {"tol": 1e-3, "saturated": 1e-3}
SPARE = 8  # neighbours beyond the largest k, so that ties at the last place are seen


class Fits(Protocol):
    """The read-outs of all settings."""

    def logits(self, features: np.ndarray) -> Iterator[np.ndarray]:
        """(n, c) for each setting, in the grid's order."""

    def convergence(self, index: int) -> dict[str, Any]:
        """How well the optimiser did; empty where nothing is optimised."""


class Solver(Protocol):
    """A way to fit, with the grid it is tried over."""

    @property
    def standardize(self) -> bool:
        """Whether features are standardised first, by the rows that are fitted."""

    def grid(self) -> list[Setting]:
        """The settings to choose from; one if there is nothing to choose."""

    def fit(self, x: np.ndarray, y: np.ndarray, grid: Sequence[Setting], num_classes: int) -> Fits:
        """Fit them all on the same rows."""

    def training(self) -> dict[str, Any] | None:
        """Settings of an iterative fit that every row of a board must share."""

    def fixed(self) -> dict[str, Any]:
        """What else changes a number and is never chosen, standardisation apart."""

    def complete(self, setting: Setting, n: int) -> Setting:
        """The setting in every unit it is known by, for a fit on n rows."""


@dataclass(frozen=True)
class _Stacked:
    """Fits of one probe module whose leaves have a leading axis of settings."""

    module: Any
    fits: Any
    size: int

    def logits(self, features: np.ndarray) -> Iterator[np.ndarray]:
        for index in range(self.size):
            yield np.asarray(self.module.predict(self._one(index), features))

    def convergence(self, index: int) -> dict[str, Any]:
        fit = self._one(index)
        names = ("converged", "grad_norm", "steps")
        return {name: np.asarray(getattr(fit, name)).item() for name in names if hasattr(fit, name)}

    def _one(self, index: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[index], self.fits)


@dataclass(frozen=True)
class Logistic:
    """Multinomial logistic regression at its optimum, for all C together."""

    C: tuple[float, ...] = tuple(np.logspace(-6, 4, 21))
    l2: tuple[float, ...] = ()  # per sample; in place of C where it is given
    standardize: bool = True
    max_steps: int = 1000

    def grid(self) -> list[Setting]:
        if self.l2:
            return [{"l2": value} for value in sorted(self.l2, reverse=True)]
        return [{"C": float(value)} for value in sorted(self.C)]

    def fit(self, x: np.ndarray, y: np.ndarray, grid: Sequence[Setting], num_classes: int) -> Fits:
        l2s = np.array([self.complete(setting, len(x))["l2"] for setting in grid])
        precision = FINAL if len(grid) == 1 else CHOOSING
        fits = logistic.path(x, y, l2s, num_classes=num_classes, max_steps=self.max_steps, **precision)
        return _Stacked(logistic, jax.tree.map(np.asarray, fits), len(grid))

    def training(self) -> None:
        return None

    def fixed(self) -> dict[str, Any]:
        fixed = {"max_steps": self.max_steps, **FINAL}
        return fixed if len(self.grid()) == 1 else {**fixed, "choosing": CHOOSING}

    def complete(self, setting: Setting, n: int) -> Setting:
        if "C" in setting:
            return {**setting, "l2": float(logistic.l2_from_C(setting["C"], n))}
        return {**setting, "C": float(logistic.C_from_l2(setting["l2"], n))}


@dataclass(frozen=True)
class Ridge:
    """Least squares on one-hot targets, all penalties from one eigendecomposition."""

    l2: tuple[float, ...] = tuple(np.logspace(4, -6, 21))  # per sample
    standardize: bool = True

    def grid(self) -> list[Setting]:
        return [{"l2": float(value)} for value in sorted(self.l2, reverse=True)]

    def fit(self, x: np.ndarray, y: np.ndarray, grid: Sequence[Setting], num_classes: int) -> Fits:
        l2s = np.array([setting["l2"] for setting in grid], np.float32)
        return _Stacked(ridge, ridge.path(x, y, l2s, num_classes=num_classes), len(grid))

    def training(self) -> None:
        return None

    def fixed(self) -> dict[str, Any]:
        return {}

    def complete(self, setting: Setting, n: int) -> Setting:
        return setting


@dataclass(frozen=True)
class Linear:
    """The classic linear probe: one affine layer, AdamW, a fixed number of epochs."""

    learning_rate: float = 1e-2
    weight_decay: float = 1e-4
    epochs: int = 200
    train_batch_size: int = 256
    seed: int = 0
    standardize: bool = True

    def grid(self) -> list[Setting]:
        return [{"learning_rate": self.learning_rate, "weight_decay": self.weight_decay}]

    def fit(self, x: np.ndarray, y: np.ndarray, grid: Sequence[Setting], num_classes: int) -> Fits:
        hparams = linear.Hparams(
            *(jnp.array([setting[name] for setting in grid]) for name in linear.Hparams._fields)
        )
        fit = partial(
            linear.fit,
            num_classes=num_classes,
            key=jax.random.key(self.seed),
            epochs=self.epochs,
            batch_size=self.train_batch_size,
        )
        fits = jax.vmap(fit, in_axes=(None, None, 0))(x, y, hparams)
        return _Stacked(linear, jax.tree.map(np.asarray, fits), len(grid))

    def training(self) -> dict[str, Any]:
        return {
            "optimizer": "adamw",
            "epochs": self.epochs,
            "batch_size": self.train_batch_size,
            "schedule": "constant",
        }

    def fixed(self) -> dict[str, Any]:
        return {}

    def complete(self, setting: Setting, n: int) -> Setting:
        return setting


@dataclass(frozen=True)
class Knn:
    """Votes of the nearest training rows; every k from one search."""

    k: tuple[int, ...] = (20, 5)  # more neighbours smooth more, so they come first
    temperature: float | None = 0.07  # None, or inf where it is given: a plain majority
    standardize: bool = field(default=False, init=False)  # cosine similarity has its own unit

    def grid(self) -> list[Setting]:
        return [{"k": k} for k in sorted(self.k, reverse=True)]

    def fit(self, x: np.ndarray, y: np.ndarray, grid: Sequence[Setting], num_classes: int) -> Fits:
        ks = [setting["k"] for setting in grid]
        check_k(max(ks), len(x))
        return _Neighbours(x, y, ks, self.temperature, num_classes)

    def training(self) -> None:
        return None

    def fixed(self) -> dict[str, Any]:
        return {"temperature": self.temperature}

    def complete(self, setting: Setting, n: int) -> Setting:
        return {**setting, "temperature": self.temperature}


@dataclass(frozen=True)
class _Neighbours:
    bank: np.ndarray
    labels: np.ndarray
    ks: list[int]
    temperature: float | None
    num_classes: int

    def logits(self, features: np.ndarray) -> Iterator[np.ndarray]:
        """Shares of the votes; the winner of a tie is lifted by less than votes can differ, so argmax finds it."""
        k = min(max(self.ks) + SPARE, len(self.bank))
        similarity, index = knn.search(features, self.bank, k=k)
        votes = knn.predict(
            similarity,
            self.labels[index],
            ks=tuple(self.ks),
            temperature=self.temperature,
            num_classes=self.num_classes,
        )
        for share, label in zip(np.array(votes.share), np.asarray(votes.label), strict=True):
            share[np.arange(len(share)), label] += 2e-6
            yield share

    def convergence(self, index: int) -> dict[str, Any]:
        return {}


SOLVERS: Mapping[str, type[Solver]] = {"logistic": Logistic, "linear": Linear, "ridge": Ridge, "knn": Knn}
