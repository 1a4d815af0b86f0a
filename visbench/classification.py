"""Classification on pooled features: settings chosen on held-out rows, a refit on all, one look at the test.

`ClassificationProbe` takes arrays; `Classification` is what a run calls.  Axes: n samples, d dims, c classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from probes import checks, scaling, statistics
from visbench.data import RunData
from visbench.errors import UsageError
from visbench.near_copies import near_copies
from visbench.options import Options
from visbench.outcome import Outcome, Rows
from visbench.scoring import quick, score
from visbench.selection import HOLDOUT, content_ids, holdout
from visbench.solvers import Fits, Setting, make_solver, settings_of

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


class Classification:
    """One probe's measurement as a run asks for it."""

    def __init__(self, probe: str, options: Options) -> None:
        self.name = probe
        settings = dict(options.probe_settings)
        classic = options.protocol == "visbench"
        if options.standardize is not None:
            settings["standardize"] = options.standardize
        elif classic and probe != "knn":
            settings["standardize"] = False
        if probe == "linear":
            settings["seed"] = options.seed
        self.settings = settings
        self.solver, self.pooling = make_solver(probe, settings), options.pooling
        self.refit, self.widen = options.refit and not classic, options.widen and probe != "knn"

    @staticmethod
    def accepts(probe: str) -> set[str]:
        """The settings that `probe` has."""
        return settings_of(probe)

    @property
    def probe(self) -> ClassificationProbe:
        """The probe, not fitted yet."""
        return ClassificationProbe(
            self.name, refit=self.refit, widen=self.widen, pooling=self.pooling, **self.settings
        )

    def plan(self, run: RunData) -> dict[str, Any]:
        """What of the record is known before the fit."""
        grid = self.solver.grid()
        size = len(run.sets["train"])
        self._check_bank(grid, run)
        if self.refit or len(grid) == 1:
            size += len(run.sets["val"]) if self.refit and "val" in run.sets else 0
        plan: dict[str, Any] = {
            "probe": self.name,
            "training": self.solver.training(),
            "task_params": {
                "standardize": self.solver.standardize,
                "refit": self.refit,
                **self.solver.fixed(),
            },
            "hyperparameters": {},
            "selection": {},
        }
        if len(grid) == 1:
            return plan | {"hyperparameters": self.solver.complete(grid[0], size)}
        unit = next(iter(grid[0]))
        on = f"the {run.splits['val_split']} split" if "val" in run.sets else "held-out training data"
        return plan | {
            "selection": {
                "how": f"{unit} chosen on {on}",
                "metric": "top1",
                "fraction": None if "val" in run.sets else HOLDOUT,
                "grid": {unit: [setting[unit] for setting in grid]},
                "widen": self.widen,
            }
        }

    def _check_bank(self, grid: list[Setting], run: RunData) -> None:
        """Refuse more neighbours than there are rows to vote, before anything is extracted."""
        if self.name != "knn":
            return
        bank, k = len(run.sets["train"]), max(setting["k"] for setting in grid)
        aside = ""
        if len(grid) > 1 and "val" not in run.sets:
            bank -= int(holdout(run.ids["train"], run.sets["train"].known_labels).sum())
            aside = ", those held out to choose k left aside"
        if k > bank:
            raise UsageError(
                f"k is {k}, but there are {bank} training images to vote{aside}; give smaller ones with --k"
            )

    def __call__(self, rows: Mapping[str, Rows], run: RunData) -> Outcome:
        """Choose, fit, and score once."""
        probe = self.probe
        probe.classes_ = np.array(run.classes)
        probe.fit_rows(rows["train"], rows.get("val"), len(run.classes))
        outcome = probe.score_rows(rows["test"])
        outcome.probe = probe
        outcome.hyperparameters, outcome.convergence = probe.hyperparameters, dict(probe.convergence)
        plan = self.plan(run)
        if plan["selection"]:
            outcome.selection = {**plan["selection"], "outcome": probe.selection}
        if np.isfinite(probe.train_top1):
            outcome.context["train_top1"] = probe.train_top1
            outcome.convergence["train_loss"] = probe.train_loss
        self._without_duplicates(outcome, probe, rows["test"], run)
        outcome.warnings = _warnings(probe) + _near_copies(outcome, rows, run)
        return outcome

    def _without_duplicates(
        self, outcome: Outcome, probe: ClassificationProbe, test: Rows, run: RunData
    ) -> None:
        """Beside the score, the one without the pictures that also trained."""
        copies = run.shared_with_training()
        if copies.any():
            outcome.context["duplicates"] = int(copies.sum())
            if not copies.all():
                rest = probe.score_rows(test.take(~copies))
                outcome.context["top1_without_duplicates"] = rest.metrics["top1"]


def _near_copies(outcome: Outcome, rows: Mapping[str, Rows], run: RunData) -> list[str]:
    """Count pictures that nearly copy a training one, and name the first."""
    pairs = near_copies(rows["test"], rows["train"])
    if not len(pairs):
        return []
    outcome.context["near_duplicates"] = len(pairs)
    scored, trained = (
        run.sets[role].names[row] for role, row in zip(("test", "train"), pairs[0], strict=True)
    )
    more = f" (and {len(pairs) - 1} more pairs)" if len(pairs) > 1 else ""
    return [f"{scored} looks like a copy of {trained}{more}, by their features"]


def _warnings(probe: ClassificationProbe) -> list[str]:
    said = []
    if probe.convergence.get("converged") is False:
        said.append(
            f"the solver stopped after {probe.convergence['steps']} steps at gradient norm "
            f"{probe.convergence['grad_norm']:.2g} without converging; the score may be too low"
        )
    if probe.selection.get("edge"):
        chosen = ", ".join(f"{key} {value:.3g}" for key, value in probe.selection["chosen"].items())
        said.append(f"{chosen} is at the edge of its grid: --widen tries beyond")
    return said


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
