"""The classification task: one probe's measurement as a run asks for it, with what a reader should be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from visbench.classifier import ClassificationProbe
from visbench.data import RunData
from visbench.errors import UsageError
from visbench.near_copies import near_copies
from visbench.options import Options
from visbench.outcome import Outcome, Rows
from visbench.selection import HOLDOUT, holdout
from visbench.settings import make_solver, settings_of
from visbench.solvers import Setting


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
    more = f" (and {len(pairs) - 1} more such)" if len(pairs) > 1 else ""
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
