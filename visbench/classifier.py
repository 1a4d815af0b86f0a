"""A classifier on pooled features: settings chosen on held-out rows, then a refit on all of them.

Takes arrays; `classification` is what a run calls.  Axes: n samples, d dims, c classes.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from probes import checks, scaling, statistics
from visbench.errors import UsageError
from visbench.outcome import Outcome, Rows
from visbench.scoring import quick, score
from visbench.selection import content_ids, holdout
from visbench.settings import make_solver
from visbench.solvers import Fits, Setting

WIDENINGS = 3  # how often a grid may grow before its edge is accepted


class ClassificationProbe:
    """A read-out of classes from pooled features.

    `fit` chooses among the settings of `probe` where there are several, on `val` if given, else on a fifth of
    each class drawn by content; with `refit` the chosen setting is then fitted on all rows.
    """

    def __init__(
        self,
        probe: str = "logistic",
        *,
        refit: bool = True,
        widen: bool = False,
        pooling: str = "default",
        layers: tuple[int, ...] | None = None,
        **settings: Any,
    ) -> None:
        self.name = probe
        self.solver = make_solver(probe, settings)
        self.refit, self.widen = refit, widen and probe != "knn"  # a grid of k has no edge to walk past
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
        checks.check_features(train.features, "training features")
        if val is not None:
            checks.check_features(val.features, "val features")
            checks.check_dims(train.features, val.features, "training and val features")
        if not hasattr(self, "classes_"):
            self.classes_ = np.arange(num_classes)
        if len(np.unique(train.labels)) < 2:
            raise UsageError(
                "the training rows are all of one class; a probe needs at least two to tell apart"
            )
        grid = self.solver.grid()
        everything = train.join(val)
        if len(grid) > 1:
            if val is None:
                held = holdout(train.ids, train.labels)
                if not held.any():
                    raise UsageError(
                        "no class has two different training images, so none can be held out to choose settings; "
                        "give a val split, or fix the setting (for example --C 1)"
                    )
                train, val = train.take(~held), train.take(held)
            grid, chosen = self._choose(grid, train, val, num_classes)
        else:
            chosen = 0
        final = everything if self.refit else train
        # a vote for every k costs one search, so all of them stay; a solver refits the winner alone
        self.settings = grid if self.name == "knn" else [grid[chosen]]
        self.index = chosen if self.name == "knn" else 0
        self._fit_final(final, num_classes)
        self.hyperparameters = self.solver.complete(grid[chosen], len(final))
        return self

    def logits(self, features: Any) -> np.ndarray:
        """(n, c) scores of the chosen setting; a vote's shares where the probe votes."""
        every: list[np.ndarray] = list(self._all_logits(features))
        return every[self.index]

    def predict(self, features: Any) -> np.ndarray:
        """(n,) labels, of the kind that `fit` was given."""
        chosen = self.logits(features).argmax(axis=1)
        labels: np.ndarray = self.classes_[chosen]
        return labels

    def evaluate(self, features: Any, labels: Any) -> dict[str, Any]:
        """The metrics on other rows."""
        self._check_fitted()
        return self.score_rows(self._rows(features, labels, "scored")).metrics

    def score_rows(self, rows: Rows) -> Outcome:
        """Metrics and their 95 % intervals on rows with labels 0 … c − 1."""
        every = list(self._all_logits(rows.features))
        outcome = score(every[self.index], rows.labels, votes=self.name == "knn")
        if self.name == "knn":
            for setting, logits in zip(self.settings, every, strict=True):
                hits = int((logits.argmax(axis=1) == rows.labels).sum())
                name = f"knn{setting['k']}_top1"
                outcome.metrics[name] = hits / len(rows)
                outcome.intervals[name] = statistics.wilson(hits, len(rows))
                outcome.n[name] = len(rows)
        return outcome

    def _choose(
        self, grid: list[Setting], train: Rows, val: Rows, num_classes: int
    ) -> tuple[list[Setting], int]:
        """The grid, widened where asked, and the index of the best setting."""
        scores = self._held_out(grid, train, val, num_classes)
        for _ in range(WIDENINGS if self.widen else 0):
            best = _best(scores)
            more = _beyond(grid, best)
            added = self._held_out(more, train, val, num_classes) if more else []
            if not added or max(added) <= max(scores):  # a plateau has no edge worth walking to
                break
            grid, scores = (more + grid, added + scores) if best == 0 else (grid + more, scores + added)
        chosen = _best(scores)
        self.selection = {"scores": scores, "chosen": grid[chosen], "settings": grid, "val_size": len(val)}
        self.selection["edge"] = self.name != "knn" and chosen in (0, len(grid) - 1)
        return grid, chosen

    def _held_out(self, grid: list[Setting], train: Rows, val: Rows, num_classes: int) -> list[float]:
        fits, scaler = self._fit(train, grid, num_classes)
        logits = fits.logits(_scaled(scaler, val.features))
        return [float((each.argmax(axis=1) == val.labels).mean()) for each in logits]

    def _fit(self, rows: Rows, grid: list[Setting], num_classes: int) -> tuple[Fits, Any]:
        scaler = scaling.fit(rows.features) if self.solver.standardize else None
        return self.solver.fit(_scaled(scaler, rows.features), rows.labels, grid, num_classes), scaler

    def _fit_final(self, rows: Rows, num_classes: int) -> None:
        self.fits, self.scaler = self._fit(rows, self.settings, num_classes)
        self.num_classes, self.dims = num_classes, rows.features.shape[1]
        self.convergence = self.fits.convergence(self.index)
        if self.name != "knn":  # a row is its own nearest neighbour: the score would say nothing
            logits = self.logits(rows.features)
            if not np.isfinite(logits).all():
                given = ", ".join(f"{key} {value:.3g}" for key, value in self.settings[self.index].items())
                raise UsageError(
                    f"the {self.name} fit diverged with {given}; try a smaller learning rate (--lr)"
                )
            self.train_top1, self.train_loss = quick(logits, rows.labels)

    def _all_logits(self, features: Any) -> Any:
        self._check_fitted()
        features = checks.check_features(features)
        if features.shape[1] != self.dims:
            raise UsageError(f"features have {features.shape[1]} dims; the probe was fitted on {self.dims}")
        return self.fits.logits(_scaled(self.scaler, features))

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


def _aligned(features: Any, labels: Any, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Both as arrays, row for row; labels of any kind that names classes."""
    rows, labels = checks.check_features(features, f"{what} features"), np.asarray(labels)
    checks.check_together(rows, labels, f"{what} features and labels")
    if labels.ndim != 1:
        raise UsageError(f"{what} labels have shape {labels.shape}; wanted one class a row")
    if labels.dtype.kind == "f" and (labels != np.round(labels)).any():  # NaN is not itself
        raise UsageError(f"{what} labels are fractions or NaN; classes are integers or text")
    return rows, labels


def _best(scores: list[float]) -> int:
    """The best setting; of several, which is frequent with few held-out rows, the middle one, far from any edge."""
    tied = np.flatnonzero(np.asarray(scores) == max(scores))
    return int(tied[(len(tied) - 1) // 2])


def _beyond(grid: list[Setting], chosen: int) -> list[Setting]:
    """Four more settings past the end of a geometric grid that `chosen` stands at, in the grid's order."""
    (unit,) = grid[0]
    values = [setting[unit] for setting in grid]
    if chosen not in (0, len(grid) - 1) or len(grid) < 2:
        return []
    inner = 1 if chosen == 0 else -2
    ratio = values[chosen] / values[inner]
    added = [{unit: values[chosen] * ratio**step} for step in range(1, 5)]
    return added[::-1] if chosen == 0 else added


def _scaled(scaler: Any, features: np.ndarray) -> np.ndarray:
    return features if scaler is None else np.asarray(scaling.apply(scaler, features))
