"""The read-outs of classification behind one face: fit every setting of a grid, group by group.

A grid runs from the strongest regularisation to the weakest.
Axes: n samples, d dims, c classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self

import jax
import jax.numpy as jnp
import numpy as np

from probes import linear, logistic, ridge
from probes.checks import check_k
from visbench.fits import Fits, Neighbours, Stacked
from visbench.grid import Grid, Setting, geometric

# What is scored is solved to its optimum in float32; what is only compared, nearly: a row or two may fall otherwise.
FINAL: dict[str, Any] = {"tol": 3e-6}
CHOOSING: dict[str, Any] = {"tol": 1e-4, "saturated": 1e-3}

SIDE = 32  # penalties of a ridge at least; more are a power of two

Groups = Iterator[tuple[np.ndarray, Fits]]  # indices of settings, and their read-outs


class Solver(Protocol):
    """A way to fit, with the grid it is tried over."""

    leaves: ClassVar[
        frozenset[str]
    ]  # what one program varies; another value of anything else is another program
    random: ClassVar[bool]  # whether another seed gives another fit
    chained: ClassVar[bool]  # whether a group of settings starts from the one before it

    @property
    def standardize(self) -> bool:
        """Whether features are standardised first, by the rows that are fitted."""

    def grid(self) -> Grid:
        """The settings to choose from; one if there is nothing to choose."""

    def groups(self, x: np.ndarray, y: np.ndarray, settings: Sequence[Setting], num_classes: int) -> Groups:
        """Fit all settings on the same rows, only to compare them."""

    def fit(self, x: np.ndarray, y: np.ndarray, settings: Sequence[Setting], num_classes: int) -> Fits:
        """Fit some settings to be scored."""

    def seeded(self, seed: int) -> Self:
        """The same with another seed, where that changes anything."""

    def training(self) -> dict[str, Any] | None:
        """Settings of an iterative fit that every row of a board must share."""

    def fixed(self) -> dict[str, Any]:
        """What else changes a number and is never chosen, standardisation apart."""

    def complete(self, setting: Setting, n: int) -> Setting:
        """The setting in every unit it is known by, for a fit on n rows."""


@dataclass(frozen=True)
class _Deterministic:
    random: ClassVar[bool] = False
    chained: ClassVar[bool] = False

    def seeded(self, seed: int) -> Self:
        return self

    def training(self) -> dict[str, Any] | None:
        return None

    def fixed(self) -> dict[str, Any]:
        return {}

    def complete(self, setting: Setting, n: int) -> Setting:
        return setting


@dataclass(frozen=True)
class Logistic(_Deterministic):
    """Multinomial logistic regression at its optimum, for all C together."""

    leaves: ClassVar[frozenset[str]] = frozenset({"C", "l2"})
    chained: ClassVar[bool] = True

    C: tuple[float, ...] = geometric(1e-6, 1e4, 21)
    l2: tuple[float, ...] = ()  # per sample; in place of C where it is given
    standardize: bool = True
    max_steps: int = 1000

    def grid(self) -> Grid:
        return Grid({"l2": tuple(sorted(self.l2, reverse=True))} if self.l2 else {"C": tuple(sorted(self.C))})

    def groups(self, x: np.ndarray, y: np.ndarray, settings: Sequence[Setting], num_classes: int) -> Groups:
        for indices, fits in self._solve(x, y, settings, num_classes, **CHOOSING):
            yield indices, Stacked(fits)

    def fit(self, x: np.ndarray, y: np.ndarray, settings: Sequence[Setting], num_classes: int) -> Fits:
        ((_, fits),) = self._solve(x, y, settings, num_classes, **FINAL)
        return Stacked(fits)

    def _solve(
        self, x: np.ndarray, y: np.ndarray, settings: Sequence[Setting], num_classes: int, **how: Any
    ) -> Any:
        l2s = np.array([self.complete(setting, len(x))["l2"] for setting in settings])
        return logistic.groups(x, y, l2s, num_classes=num_classes, max_steps=self.max_steps, **how)

    def fixed(self) -> dict[str, Any]:
        fixed = {"max_steps": self.max_steps, **FINAL}
        return fixed if len(self.grid()) == 1 else {**fixed, "choosing": CHOOSING}

    def complete(self, setting: Setting, n: int) -> Setting:
        if "C" in setting:
            return {**setting, "l2": float(logistic.l2_from_C(setting["C"], n))}
        return {**setting, "C": float(logistic.C_from_l2(setting["l2"], n))}


@dataclass(frozen=True)
class Ridge(_Deterministic):
    """Least squares on one-hot targets, all penalties from one eigendecomposition."""

    leaves: ClassVar[frozenset[str]] = frozenset({"l2"})

    l2: tuple[float, ...] = geometric(1e4, 1e-6, 21)  # per sample
    standardize: bool = True

    def grid(self) -> Grid:
        return Grid({"l2": tuple(sorted(self.l2, reverse=True))})

    def groups(self, x: np.ndarray, y: np.ndarray, settings: Sequence[Setting], num_classes: int) -> Groups:
        yield np.arange(len(settings)), self.fit(x, y, settings, num_classes)

    def fit(self, x: np.ndarray, y: np.ndarray, settings: Sequence[Setting], num_classes: int) -> Fits:
        l2s = np.array([setting["l2"] for setting in settings], np.float32)
        size = len(l2s) if len(l2s) == 1 else max(SIDE, 1 << (len(l2s) - 1).bit_length())  # few programs
        path = ridge.path(x, y, np.pad(l2s, (0, size - len(l2s)), mode="edge"), num_classes=num_classes)
        return Stacked(jax.tree.map(lambda leaf: np.asarray(leaf)[: len(l2s)], path))


@dataclass(frozen=True)
class Linear:
    """The classic linear probe: one affine layer, a fixed number of epochs of AdamW or SGD."""

    leaves: ClassVar[frozenset[str]] = frozenset({"learning_rate", "weight_decay"})
    random: ClassVar[bool] = True
    chained: ClassVar[bool] = False

    learning_rate: tuple[float, ...] = (1e-2,)
    weight_decay: tuple[float, ...] = (1e-4,)
    epochs: int = 200
    train_batch_size: int = 256
    optimizer: str = "adamw"
    schedule: str = "constant"
    seed: int = 0
    standardize: bool = True

    def grid(self) -> Grid:
        return Grid({"learning_rate": self.learning_rate, "weight_decay": self.weight_decay})

    def groups(self, x: np.ndarray, y: np.ndarray, settings: Sequence[Setting], num_classes: int) -> Groups:
        values = [np.array([setting[name] for setting in settings]) for name in linear.Hparams._fields]
        for indices, fits in linear.groups(
            x,
            y,
            linear.Hparams(*map(jnp.asarray, values)),
            num_classes=num_classes,
            key=jax.random.key(self.seed),
            epochs=self.epochs,
            batch_size=self.train_batch_size,
            optimizer=self.optimizer,
            schedule=self.schedule,
        ):
            yield indices, Stacked(jax.tree.map(np.asarray, fits))

    def fit(self, x: np.ndarray, y: np.ndarray, settings: Sequence[Setting], num_classes: int) -> Fits:
        ((_, fits),) = self.groups(x, y, settings, num_classes)
        return fits

    def seeded(self, seed: int) -> Self:
        return replace(self, seed=seed)

    def training(self) -> dict[str, Any]:
        return {
            "optimizer": self.optimizer,
            "epochs": self.epochs,
            "batch_size": self.train_batch_size,
            "schedule": self.schedule,
        }

    def fixed(self) -> dict[str, Any]:
        return {}

    def complete(self, setting: Setting, n: int) -> Setting:
        return setting


@dataclass(frozen=True)
class Knn(_Deterministic):
    """Votes of the nearest training rows; every k and temperature from one search."""

    leaves: ClassVar[frozenset[str]] = frozenset({"k", "temperature"})

    k: tuple[int, ...] = (20, 5)  # more neighbours smooth more, so they come first
    temperature: tuple[float | None, ...] = (0.07,)  # None, or inf where it is given: a plain majority
    standardize: bool = field(default=False, init=False)  # cosine similarity has its own unit

    def grid(self) -> Grid:
        return Grid({"k": tuple(sorted(self.k, reverse=True)), "temperature": self.temperature})

    def groups(self, x: np.ndarray, y: np.ndarray, settings: Sequence[Setting], num_classes: int) -> Groups:
        yield np.arange(len(settings)), self.fit(x, y, settings, num_classes)

    def fit(self, x: np.ndarray, y: np.ndarray, settings: Sequence[Setting], num_classes: int) -> Fits:
        pairs = [(setting["k"], setting["temperature"]) for setting in settings]
        check_k(max(k for k, _ in pairs), len(x))
        return Neighbours(x, y, pairs, num_classes)


SOLVERS: Mapping[str, type[Solver]] = {"logistic": Logistic, "linear": Linear, "ridge": Ridge, "knn": Knn}
