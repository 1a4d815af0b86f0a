"""A classifier on pooled features: settings chosen on held-out rows, then a refit on all of them.

Takes arrays; `classification` is what a run calls.  Axes: n samples, d dims, c classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from probes import checks, scaling, statistics
from visbench.choosing import Fold, held_rows, make_folds, parse_selection
from visbench.errors import UsageError
from visbench.grid import Grid, Setting
from visbench.outcome import Outcome, Rows
from visbench.scoring import quick, score
from visbench.searching import Arm, Found, Search
from visbench.selection import content_ids
from visbench.settings import make_solver
from visbench.solvers import Solver


class Reading(NamedTuple):
    """What an arm of a classification is: the features it reads, and the solver that reads them."""

    tap: str
    solver: Solver


@dataclass(frozen=True)
class HeldOut:
    """Compares settings by their accuracy on held-out rows; a replicate is (fold, seed)."""

    rows: Callable[[str], Rows]  # tap → the training rows and, behind them, those of val
    folds: Sequence[Fold]
    num_classes: int

    def __call__(
        self, arm: Arm, settings: Sequence[Setting], replicate: tuple[int, int]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Groups of settings as they are done: their indices and accuracies."""
        reading: Reading = arm.what
        rows, fold = self.rows(reading.tap), self.folds[replicate[0]]
        fitted, held = rows.take(fold.fits), rows.take(fold.held)
        scaler = scaling.fit(fitted.features) if reading.solver.standardize else None
        x, y = _scaled(scaler, fitted.features), _scaled(scaler, held.features)
        solver = reading.solver.seeded(replicate[1])
        for indices, fits in solver.groups(x, fitted.labels, settings, self.num_classes):
            yield indices, fits.top1(y, held.labels)


class ClassificationProbe:
    """A read-out of classes from pooled features.

    `fit` chooses among the settings of `probe` where there are several, on `val` if given, else on a fifth of
    each class drawn by content, or as `select` says; with `refit` the chosen setting is then fitted on all rows.
    """

    def __init__(
        self,
        probe: str = "logistic",
        *,
        refit: bool = True,
        widen: bool = False,
        select: str | None = None,
        pooling: str = "default",
        layers: tuple[int, ...] | None = None,
        **settings: Any,
    ) -> None:
        self.name = probe
        self.solver = make_solver(probe, settings)
        self.refit, self.widen, self.select = refit, widen, select
        self.pooling, self.layers = pooling, layers
        self.hyperparameters: Setting = {}
        self.selection: dict[str, Any] = {}
        self.convergence: dict[str, Any] = {}
        self.train_top1 = self.train_loss = float("nan")

    def fit(self, features: Any, labels: Any, *, val: tuple[Any, Any] | None = None) -> Self:
        """Fit on (n, d) features and (n,) labels of any kind; `predict` gives labels of that kind."""
        features, labels = _aligned(features, labels, "training")
        self.classes_, encoded = np.unique(labels, return_inverse=True)
        train = Rows(features, encoded, content_ids(features))
        other = None if val is None else self._rows(*val, "val")
        return self.fit_rows(train, other, len(self.classes_))

    def fit_rows(self, train: Rows, val: Rows | None, num_classes: int) -> Self:
        """The same on labels 0 … num_classes − 1 with known content digests."""
        check_trainable(train, val)
        rows, grid = train.join(val), self.solver.grid()
        fitted, chosen = np.arange(len(rows if self.refit else train)), 0
        if len(grid) > 1:
            selection = parse_selection(self.select, has_val=val is not None)
            folds = make_folds(selection, train, val)
            measure = HeldOut(lambda tap: rows, folds, num_classes)
            arm = Arm({}, grid, Reading("", self.solver), self.solver.chained)
            seed = getattr(self.solver, "seed", 0)
            found = Search(measure, [(fold, seed) for fold in range(len(folds))]).run([arm], widen=self.widen)
            grid, chosen = found.table.arm.grid, found.table.best
            self.selection = summary(found, held_rows(folds))
            if not self.refit and len(folds) == 1:
                fitted = folds[0].fits
        return self.fit_setting(rows.take(fitted), grid, chosen, num_classes)

    def fit_setting(self, rows: Rows, grid: Grid, chosen: int, num_classes: int) -> Self:
        """Fit one setting of `grid` on all `rows`, to be scored."""
        if not hasattr(self, "classes_"):
            self.classes_ = np.arange(num_classes)
        settings = grid.settings()
        # a vote for every k costs one search, so all of them stay; a solver fits the winner alone
        self.settings = settings if self.name == "knn" else [settings[chosen]]
        self.index = chosen if self.name == "knn" else 0
        self.num_classes, self.dims = num_classes, rows.features.shape[1]
        self.scaler = scaling.fit(rows.features) if self.solver.standardize else None
        scaled = _scaled(self.scaler, rows.features)
        self.fits = self.solver.fit(scaled, rows.labels, self.settings, num_classes)
        self.convergence = self.fits.convergence(self.index)
        self.hyperparameters = self.solver.complete(settings[chosen], len(rows))
        if self.name != "knn":  # a row is its own nearest neighbour: the score would say nothing
            self._score_training(rows)
        return self

    def logits(self, features: Any) -> np.ndarray:
        """(n, c) scores of the chosen setting; a vote's shares where the probe votes."""
        return self.every_logits(features)[self.index]

    def every_logits(self, features: Any) -> list[np.ndarray]:
        """The same for each setting that is kept: all k of a vote, elsewhere the chosen one alone."""
        self._check_fitted()
        features = checks.check_features(features)
        if features.shape[1] != self.dims:
            raise UsageError(f"features have {features.shape[1]} dims; the probe was fitted on {self.dims}")
        return list(self.fits.logits(_scaled(self.scaler, features)))

    def predict(self, features: Any) -> np.ndarray:
        """(n,) labels, of the kind that `fit` was given."""
        chosen = self.logits(features).argmax(axis=1)
        labels: np.ndarray = self.classes_[chosen]
        return labels

    def evaluate(self, features: Any, labels: Any) -> dict[str, Any]:
        """The metrics on other rows."""
        self._check_fitted()
        return score_probes([self], self._rows(features, labels, "scored")).metrics

    def _score_training(self, rows: Rows) -> None:
        logits = self.logits(rows.features)
        if not np.isfinite(logits).all():
            given = ", ".join(f"{key} {value:.3g}" for key, value in self.settings[self.index].items())
            raise UsageError(f"the {self.name} fit diverged with {given}; try a smaller learning rate (--lr)")
        self.train_top1, self.train_loss = quick(logits, rows.labels)

    def _check_fitted(self) -> None:
        if not hasattr(self, "fits"):
            raise UsageError("the probe is not fitted; call fit(features, labels) first")

    def _rows(self, features: Any, labels: Any, what: str) -> Rows:
        features, labels = _aligned(features, labels, what)
        return Rows(features, self._encode(labels), content_ids(features))

    def _encode(self, labels: np.ndarray) -> np.ndarray:
        index = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)
        unknown = self.classes_[index] != labels
        if unknown.any():
            raise UsageError(
                f"label {labels[unknown][0].item()!r} does not occur in training; "
                f"its classes are {self.classes_[:8].tolist()}"
            )
        return index


def score_probes(probes: Sequence[ClassificationProbe], rows: Rows) -> Outcome:
    """Metrics and their 95 % intervals on rows with labels 0 … c − 1: the mean of several fits of one setting."""
    every = [probe.every_logits(rows.features) for probe in probes]
    votes = probes[0].name == "knn"
    outcome = score(
        [logits[probe.index] for logits, probe in zip(every, probes, strict=True)], rows.labels, votes=votes
    )
    for place, setting in enumerate(probes[0].settings if votes and len(probes) == 1 else []):
        if setting["temperature"] == probes[0].settings[probes[0].index]["temperature"]:
            hits = int((every[0][place].argmax(axis=1) == rows.labels).sum())
            name = f"knn{setting['k']}_top1"
            outcome.metrics[name] = hits / len(rows)
            outcome.intervals[name] = statistics.wilson(hits, len(rows))
            outcome.n[name] = len(rows)
    return outcome


def check_trainable(train: Rows, val: Rows | None) -> None:
    """Refuse features that cannot be fitted: not finite, of other dims, or all of one class."""
    checks.check_features(train.features, "training features")
    if val is not None:
        checks.check_features(val.features, "val features")
        checks.check_dims(train.features, val.features, "training and val features")
    if len(np.unique(train.labels)) < 2:
        raise UsageError("the training rows are all of one class; a probe needs at least two to tell apart")


INLINE = 256  # settings whose scores a record itself holds; those of more are in the file that it names


def summary(found: Found, val_size: int, scores_file: str | None = None) -> dict[str, Any]:
    """What a search found, for the record."""
    rows = found.rows()
    plain = [
        {key: value for key, value in row.items() if key not in ("score", "std", "chosen")} for row in rows
    ]
    said: dict[str, Any] = {
        "chosen": {**found.table.arm.place, **found.chosen},
        "score": found.score,
        "trials": len(rows),
        "val_size": val_size,
        "edge": found.table.edges,
    }
    if len(rows) <= INLINE:
        return said | {"settings": plain, "scores": [row["score"] for row in rows]}
    return said | {"scores_file": scores_file}


def _aligned(features: Any, labels: Any, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Both as arrays, row for row; labels of any kind that names classes."""
    rows, labels = checks.check_features(features, f"{what} features"), np.asarray(labels)
    checks.check_together(rows, labels, f"{what} features and labels")
    if labels.ndim != 1:
        raise UsageError(f"{what} labels have shape {labels.shape}; wanted one class a row")
    if labels.dtype.kind == "f" and (labels != np.round(labels)).any():  # NaN is not itself
        raise UsageError(f"{what} labels are fractions or NaN; classes are integers or text")
    return rows, labels


def _scaled(scaler: Any, features: np.ndarray) -> np.ndarray:
    return features if scaler is None else np.asarray(scaling.apply(scaler, features))
