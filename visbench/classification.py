"""The classification task: one probe's measurement as a run or a sweep asks for it, with what a reader should know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from visbench import advice
from visbench import arms as arming
from visbench.choosing import (
    Fold,
    Selection,
    draw_shots,
    fraction_of,
    held_rows,
    make_folds,
    parse_selection,
)
from visbench.classifier import ClassificationProbe, HeldOut, check_trainable, score_probes, summary
from visbench.data import RunData
from visbench.errors import UsageError
from visbench.options import Options
from visbench.outcome import Outcome, Rows
from visbench.searching import Arm, Found, Search, count_settings
from visbench.settings import settings_of
from visbench.trials import Trials
from visbench.voters import enough_shots, enough_voters

RowsOf = Callable[[str], Mapping[str, Rows]]  # tap → the rows of each role


class Classification:
    """One probe's measurement: the arms it tries, the fits it scores."""

    def __init__(self, probe: str, options: Options) -> None:
        self.name, self.options = probe, options
        settings = dict(options.probe_settings)
        classic = options.protocol == "visbench"
        axes = options.grid if options.grid is not None else {}
        if options.standardize is not None:
            settings["standardize"] = options.standardize
        elif classic and probe != "knn" and "standardize" not in axes:
            settings["standardize"] = False
        if probe == "linear":
            settings["seed"] = options.seed
        if options.grid is not None:
            axes = arming.with_usual_grid(probe, settings, axes)
        self.settings, self.axes = settings, axes
        self.arms = arming.make_arms(probe, settings, axes, pooling=options.pooling, layer=options.one_layer)
        self.refit = options.refit and not classic and options.shots is None
        self.widen = options.widen and probe != "knn"
        self.seeds = [options.seed + number for number in range(options.seeds if self._solver.random else 1)]

    @staticmethod
    def accepts(probe: str) -> set[str]:
        """The settings that `probe` has."""
        return settings_of(probe)

    @staticmethod
    def varies(probe: str) -> set[str]:
        """The axes that a grid of `probe` may have."""
        return set(arming.axes_of(probe))

    @property
    def taps(self) -> list[str]:
        """The taps it reads, as asked."""
        return list(dict.fromkeys(arm.what.tap for arm in self.arms))

    @property
    def probe(self) -> ClassificationProbe:
        """A probe of the first arm, not fitted yet."""
        return ClassificationProbe(
            self.name,
            refit=self.refit,
            widen=self.widen,
            select=self.options.select,
            pooling=self.options.pooling,
            **self.settings,
        )

    @property
    def _solver(self) -> Any:
        return self.arms[0].what.solver

    @property
    def fits(self) -> int:
        """How many fits it makes to choose, the backbone having every tap; 0 where there is nothing to choose."""
        settings = count_settings(self.arms)
        folds = parse_selection(self.options.select, has_val=True).folds or 1
        draws = self.options.draws if self.options.shots is not None else 1
        return settings * folds * draws * len(self.seeds) if settings > 1 else 0

    def plan(self, run: RunData) -> dict[str, Any]:
        """What of the record is known before the fit."""
        self.arms = enough_voters(self.arms, run, self.options, given="k" in {*self.settings, *self.axes})
        size = len(run.sets["train"]) + (len(run.sets["val"]) if self.refit and "val" in run.sets else 0)
        solvers = [arm.what.solver for arm in self.arms]
        shared = arming.agreed([{"standardize": each.standardize, **each.fixed()} for each in solvers])
        task_params = {"refit": self.refit, **shared}
        if self.options.shots is not None:
            task_params |= {"shots": self.options.shots, "draws": self.options.draws}
            if fewer := enough_shots(run, self.options, choosing=count_settings(self.arms) > 1):
                task_params["fewer"] = fewer
        plan: dict[str, Any] = {
            "probe": self.name,
            "training": arming.agreed([each.training() or {} for each in solvers]) or None,
            "task_params": task_params,
            "seeds": self.seeds if len(self.seeds) > 1 else None,
            "hyperparameters": {},
            "selection": {},
        }
        if count_settings(self.arms) == 1:
            return plan | {"hyperparameters": self._solver.complete(self.arms[0].grid.settings()[0], size)}
        selection, grid = self._selection(run), arming.grid_of(self.arms)
        *others, last = [name for name, values in grid.items() if len(values) > 1]
        varied = f"{', '.join(others)} and {last}" if others else last
        on = selection.on(run.splits["val_split"])
        return plan | {
            "selection": {
                "how": f"{varied} chosen on {on}",
                "metric": "top1",
                "fraction": fraction_of(selection),
                "grid": grid,
                "widen": self.widen,
            }
        }

    def __call__(self, rows_of: RowsOf, run: RunData, trials: Trials) -> Outcome:
        """Choose, fit, and score once."""
        arms, num_classes = trials.available(self.arms), len(run.classes)
        first = rows_of(arms[0].what.tap)
        check_trainable(first["train"], first.get("val"))
        selection = self._selection(run)
        folds = self._folds(selection, first, searching=count_settings(self.arms) > 1)
        found: Found | None = None
        arm, chosen = arms[0], 0
        if count_settings(arms) > 1:
            found = self._search(arms, folds, rows_of, num_classes, trials)
            arm, chosen = found.table.arm, found.table.best
        rows = rows_of(arm.what.tap)
        joined, fitted = rows["train"].join(rows.get("val")), self._fitted(rows, folds, selection)
        probes = [
            self._probe(arm, seed, run).fit_setting(joined.take(chosen_rows), arm.grid, chosen, num_classes)
            for chosen_rows in fitted
            for seed in self.seeds
        ]
        outcome = self._outcome(probes, rows, run)
        outcome.tap = arm.what.tap
        outcome.hyperparameters = {**arm.place, **probes[0].hyperparameters}
        # as asked, though one setting alone may be left of it
        outcome.selection = self.plan(run)["selection"]
        if found is not None:
            outcome.trials = found.rows()
            outcome.selection["outcome"] = summary(found, held_rows(folds), trials.file)
        outcome.warnings = advice.warnings(probes, found) + advice.near_copies(outcome, rows, run)
        if self.options.shots is not None:
            outcome.warnings += advice.few_to_draw(joined.labels[fitted[0]], self.options.shots)
        return outcome

    def _search(
        self, arms: list[Arm], folds: list[Fold], rows_of: RowsOf, num_classes: int, trials: Trials
    ) -> Found:
        @lru_cache(maxsize=1)
        def joined(tap: str) -> Rows:
            rows = rows_of(tap)
            check_trainable(rows["train"], rows.get("val"))
            return rows["train"].join(rows.get("val"))

        replicates = [(fold, seed) for fold in range(len(folds)) for seed in self.seeds]
        measure = HeldOut(joined, folds, num_classes)
        fits = count_settings(arms) * len(replicates)
        with trials.progress(fits) as advance:
            return Search(measure, replicates, trials.journal, advance).run(arms, widen=self.widen)

    def _folds(self, selection: Selection, rows: Mapping[str, Rows], *, searching: bool) -> list[Fold]:
        """How settings are compared; with few shots every draw is a fold."""
        train, val, shots = rows["train"], rows.get("val"), self.options.shots
        if not searching and shots is None:
            return []
        if not searching:
            folds = [Fold(np.arange(len(train)), np.empty(0, int))]
        else:
            folds = make_folds(selection, train, val, seed=self.options.seed)
        if shots is None:
            return folds
        (fold,) = folds
        drawn = draw_shots(train.join(val), fold.fits, shots, self.options.draws, seed=self.options.seed)
        return [Fold(own, fold.held) for own in drawn]

    def _fitted(self, rows: Mapping[str, Rows], folds: list[Fold], selection: Selection) -> list[np.ndarray]:
        """The rows of every fit that is scored: all of them, the training ones, or each draw."""
        train, val = rows["train"], rows.get("val")
        if self.options.shots is not None:
            return [fold.fits for fold in folds]
        if self.refit:
            return [np.arange(len(train) + (len(val) if val is not None else 0))]
        if folds and selection.kind != "cv":
            return [folds[0].fits]
        return [np.arange(len(train))]

    def _probe(self, arm: Arm, seed: int, run: RunData) -> ClassificationProbe:
        probe = self.probe
        probe.solver = arm.what.solver.seeded(seed)
        probe.classes_ = np.array(run.classes)
        return probe

    def _outcome(self, probes: list[ClassificationProbe], rows: Mapping[str, Rows], run: RunData) -> Outcome:
        outcome = score_probes(probes, rows["test"])
        outcome.probe = probes[0]
        outcome.convergence = advice.worst([probe.convergence for probe in probes])
        if np.isfinite(probes[0].train_top1):
            outcome.context["train_top1"] = float(np.mean([probe.train_top1 for probe in probes]))
            outcome.convergence["train_loss"] = float(np.mean([probe.train_loss for probe in probes]))
        copies = run.shared_with_training()
        if copies.any():  # beside the score, the one without the pictures that also trained
            outcome.context["duplicates"] = int(copies.sum())
            if not copies.all():
                rest = score_probes(probes, rows["test"].take(~copies))
                outcome.context["top1_without_duplicates"] = rest.metrics["top1"]
        return outcome

    def _selection(self, run: RunData) -> Selection:
        selection = parse_selection(self.options.select, has_val="val" in run.sets)
        if selection.kind == "cv" and (self.options.shots is not None or not self.refit):
            why = "few shots" if self.options.shots is not None else "--no-refit"
            raise UsageError(f"--select {selection} does not go with {why}: choose on val or on a holdout")
        return selection
