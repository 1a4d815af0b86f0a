"""Relative pose from pooled features: how the second camera stands to the first, learnt from pairs of images.

Axes: p pairs, r fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from probes.metrics import pose as metric
from visbench import advice
from visbench.arms import KINDS
from visbench.choosing import Fold, Selection, fraction_of, held_rows, parse_selection
from visbench.classifier import summary
from visbench.data import RunData
from visbench.errors import UsageError, did_you_mean
from visbench.options import Options
from visbench.outcome import Outcome
from visbench.pose_reading import Pairs, RowsOf
from visbench.pose_scoring import HEADLINE, errors_of_one, score
from visbench.posing import LEAVES, SETTINGS, HeldOut, Trained, held_out, make_settings, trained_well
from visbench.searching import Arm, Found, Search, count_settings
from visbench.trials import Trials

PROBE = "mlp"


class Read(NamedTuple):
    """What an arm reads."""

    tap: str


class RelativePose:
    """The measurement as a run asks for it: the arms it tries, the fits it scores."""

    name = PROBE

    def __init__(self, probe: str | None, options: Options) -> None:
        self.options = options
        classic = options.protocol == "visbench"
        axes = dict(options.grid or {})
        given = dict(options.probe_settings)
        if options.standardize is not None:
            given["standardize"] = options.standardize
        if options.shots is not None:
            raise UsageError(
                "--shots counts images a class, and relative_pose has pairs; --limit takes fewer pairs"
            )
        _check_axes(axes, given)
        leaves = {name: axes[name] for name in LEAVES if name in axes}
        self.asked = make_settings({**given, **leaves}, classic=classic)
        self.arms = _arms(axes, self.asked, options)
        self.refit = options.refit and not classic
        self.seeds = [options.seed + number for number in range(options.seeds)]

    @staticmethod
    def accepts(probe: str | None) -> set[str]:
        """The settings there are."""
        return set(SETTINGS)

    @staticmethod
    def varies(probe: str | None) -> set[str]:
        """The axes that a grid may have."""
        return {*LEAVES, "tap", "layer"}

    @property
    def taps(self) -> list[str]:
        """The taps it reads, as asked."""
        return list(dict.fromkeys(arm.what.tap for arm in self.arms))

    @property
    def fits(self) -> int:
        """How many fits it makes to choose; 0 where there is nothing to choose."""
        settings = count_settings(self.arms)
        return settings * len(self.seeds) if settings > 1 else 0

    def plan(self, run: RunData) -> dict[str, Any]:
        """What of the record is known before the fit."""
        asked = self.asked
        plan: dict[str, Any] = {
            "probe": PROBE,
            "training": {
                "optimizer": "adamw",
                "epochs": asked.epochs,
                "batch_size": asked.train_batch_size,
                "schedule": "cosine",
            },
            "task_params": {"refit": self.refit, "standardize": asked.standardize, "norm": "layer"},
            "seeds": self.seeds if len(self.seeds) > 1 else None,
            "hyperparameters": {},
            "selection": {},
        }
        if count_settings(self.arms) == 1:
            return plan | {"hyperparameters": self.arms[0].grid.settings()[0]}
        selection = self._selection(run)
        grid = {name: list(values) for name, values in self._axes.items()}
        *others, last = [name for name, values in grid.items() if len(values) > 1]
        varied = f"{', '.join(others)} and {last}" if others else last
        plan["selection"] = {
            "how": f"{varied} chosen on {selection.on(run.splits['val_split'])}",
            "metric": HEADLINE,
            "fraction": fraction_of(selection),
            "grid": grid,
            "widen": self.options.widen,
        }
        return plan

    def __call__(self, rows_of: RowsOf, run: RunData, trials: Trials) -> Outcome:
        """Choose, train, and score once."""
        arms = trials.available(self.arms)
        first = rows_of(arms[0].what.tap)
        _check_linked(first["test"])
        arm, setting = arms[0], arms[0].grid.settings()[0]
        fits = np.arange(len(first["train"]))
        found: Found | None = None
        folds: list[Fold] = []
        if count_settings(arms) > 1:
            selection = self._selection(run)
            folds = [self._fold(selection, first)]
            found = self._search(arms, folds, rows_of, trials)
            arm, setting = found.table.arm, found.chosen
            fits = folds[0].fits
        rows = rows_of(arm.what.tap)
        learnt = _joined(rows) if self.refit else _joined(rows).take(fits)
        trained = [trained_well(learnt, setting, self.asked, seed) for seed in self.seeds]
        outcome = self._outcome(trained, learnt, rows, run)
        outcome.tap = arm.what.tap
        outcome.hyperparameters = {**arm.place, **setting}
        outcome.selection = self.plan(run)["selection"]
        if found is not None:
            outcome.trials = found.rows()
            outcome.selection["outcome"] = summary(found, held_rows(folds), trials.file)
            outcome.warnings += advice.edges(found, of=self._looked_at)
        return outcome

    @property
    def _axes(self) -> dict[str, tuple[Any, ...]]:
        """All axes and their values, over all arms."""
        places: dict[str, dict[Any, None]] = {}
        for arm in self.arms:
            for name, value in arm.place.items():
                places.setdefault(name, {})[value] = None
        return {**{name: tuple(values) for name, values in places.items()}, **self.asked.grid.axes}

    @property
    def _looked_at(self) -> list[str]:
        """The axes whose edge says something; the usual two weight decays are both at one."""
        return [name for name in LEAVES if name == "learning_rate" or name in (self.options.grid or {})]

    def _selection(self, run: RunData) -> Selection:
        selection = parse_selection(self.options.select, has_val="val" in run.sets)
        if selection.kind == "cv":
            raise UsageError(
                f"--select {selection} is not for pairs, which share images: choose on val or on a holdout"
            )
        return selection

    def _fold(self, selection: Selection, rows: Mapping[str, Pairs]) -> Fold:
        train = rows["train"]
        if selection.kind == "val":
            return Fold(np.arange(len(train)), np.arange(len(train), len(train) + len(rows["val"])))
        joined = _joined(rows)
        return held_out(joined.members, joined.images)

    def _search(self, arms: list[Arm], folds: list[Fold], rows_of: RowsOf, trials: Trials) -> Found:
        measure = HeldOut(lambda arm: _joined(rows_of(arm.what.tap)), folds, lambda arm: self.asked)
        replicates = [(0, seed) for seed in self.seeds]
        with trials.progress(count_settings(arms) * len(replicates)) as advance:
            search = Search(measure, replicates, trials.journal, advance, lower=True)
            return search.run(arms, widen=self.options.widen)

    def _outcome(
        self, trained: Sequence[Trained], learnt: Pairs, rows: Mapping[str, Pairs], run: RunData
    ) -> Outcome:
        test = rows["test"]
        outcome = score([next(iter(each.errors(test))) for each in trained], test, seed=self.options.seed)
        groups = run.sets["test"].groups
        assert groups is not None
        outcome.ids, outcome.probe = groups.ids, trained[0]
        own = np.mean([each[HEADLINE] for fit in trained for each in fit.errors(learnt)])
        floor = metric.value(**errors_of_one(metric.mean_pose(learnt.pose), test))
        outcome.context |= {
            f"train_{HEADLINE}": float(own),
            f"floor_{HEADLINE}": float(floor[HEADLINE]),
            "floor_translation_error_m": float(floor["translation_error_m"]),
            "train_pairs": len(learnt),
        }
        losses = [float(np.asarray(each.fits.train_loss)[0]) for each in trained]
        outcome.convergence = {"train_loss": float(np.mean(losses))}
        if outcome.intervals[HEADLINE][1] >= floor[HEADLINE]:
            outcome.warnings.append(
                f"the rotation error is {outcome.metrics[HEADLINE]:.1f}° and that of the mean training pose "
                f"{floor[HEADLINE]:.1f}°: these features say nothing of the pose that can be told from chance"
            )
        self._without_copies(outcome, run, test)
        return outcome

    def _without_copies(self, outcome: Outcome, run: RunData, test: Pairs) -> None:
        """Beside the score, the one without pairs that have a picture which also trained."""
        copies = run.shared_with_training()[test.members].any(axis=1)
        if copies.any():
            outcome.context["duplicates"] = int(copies.sum())
            if not copies.all():
                rest = outcome.per_sample[HEADLINE][~copies]
                outcome.context[f"{HEADLINE}_without_duplicates"] = float(rest.mean())


def _joined(rows: Mapping[str, Pairs]) -> Pairs:
    """The training pairs and, behind them, those of val."""
    return rows["train"].join(rows.get("val"))


def _check_linked(test: Pairs) -> None:
    if len(np.unique(test.members)) < 3:
        raise UsageError(
            "the scored pairs have only two images, which says nothing of a backbone; give more of them"
        )


def _check_axes(axes: Mapping[str, tuple[Any, ...]], given: Mapping[str, Any]) -> None:
    known = (*LEAVES, "tap", "layer")
    for name, values in axes.items():
        if name not in known:
            raise UsageError(
                f'"{name}" is no axis of relative_pose.{did_you_mean(name, known)} Its axes: {", ".join(known)}.'
            )
        if name in given:
            raise UsageError(f"{name} is given twice, as a setting and as an axis of the grid")
        for value in values:
            if name == "tap" and value not in KINDS:
                raise UsageError(
                    f"tap={value} is not one that pooled probes read; they read {', '.join(KINDS)}"
                )
            if name == "layer" and (isinstance(value, bool) or not isinstance(value, int)):
                raise UsageError(
                    f"layer={value} is no layer; they count from 0, or from the end: -1 is the last"
                )


def _arms(axes: Mapping[str, tuple[Any, ...]], asked: Any, options: Options) -> list[Arm]:
    """One for each tap that is tried."""
    found = []
    for kind, layer in product(axes.get("tap", (options.pooling,)), axes.get("layer", (options.one_layer,))):
        place = {name: value for name, value in (("tap", kind), ("layer", layer)) if name in axes}
        found.append(Arm(place, asked.grid, Read(kind if layer == -1 else f"{kind}@{layer}")))
    return found
