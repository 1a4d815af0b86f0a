"""Choosing among the settings of a head and training the best: what a run and a probe on arrays have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from extract.wording import counted
from probes.dense import Hparams, Program
from probes.heads import make_head
from probes.heads.table import HEADS
from visbench import console
from visbench.choosing import Fold, Selection, make_folds, parse_selection
from visbench.dense import scoring, training
from visbench.dense.settings import HIDDEN, LEAVES, Plan, has, held_out, tap_name
from visbench.dense.streams import Stream
from visbench.dense.training import Run
from visbench.errors import UsageError
from visbench.grid import Grid, Setting
from visbench.options import Options
from visbench.outcome import Rows
from visbench.searching import Arm, Found, Search
from visbench.trials import Trials

SLOPED = (
    "semantic_segmentation",
    "generic_segmentation",
    "detection",
    "instance_segmentation",
)  # losses that have a slope at zeros


class Roles(Protocol):
    """What is to be known of images to choose on them: those that train and, if there are such, those of val."""

    @property
    def ids(self) -> Mapping[str, np.ndarray]:
        """Role → (n, 16) digests of content, in the order of the stream."""


@dataclass(frozen=True)
class Learnt:
    """The fits that are to be scored, and how their setting was chosen."""

    runs: list[Run]  # one a seed
    chosen: Setting
    rows: np.ndarray  # of the stream, that trained them
    found: Found | None  # None where there was nothing to choose
    folds: list[Fold]


@dataclass(frozen=True)
class Learner:
    """Everything that a training needs to know but the data."""

    task: str  # its name
    chosen_by: str  # the metric that settings are compared by
    lower: bool  # whether less of it is better
    asked: Plan
    options: Options
    refit: bool
    seeds: Sequence[int]

    def learn(self, task: Any, stream: Stream, roles: Roles, trials: Trials) -> Learnt:
        """Choose among the settings where there are several, then train; what is scored is not looked at."""
        grid = self._available(trials)
        work = _Work(self, task, self.taps(trials), stream)
        rows, chosen = np.arange(len(roles.ids["train"])), grid.settings()[0]
        found: Found | None = None
        folds: list[Fold] = []
        if len(grid) > 1:
            selection = self.selection(roles)
            folds = self._folds(selection, roles)
            found = self._search(work, grid, folds, trials)
            chosen = found.chosen
            rows = rows if selection.kind != "holdout" else folds[0].fits
        if self.refit:
            rows = np.arange(len(stream))
        runs = [work.trained([chosen], rows, seed)[0][0] for seed in self.seeds]
        losses = [float(np.atleast_1d(each.loss)[0]) for each in runs if each.loss is not None]
        if not np.isfinite(losses).all():
            raise UsageError("the head diverged; try a smaller learning rate (--lr)")
        return Learnt(runs, chosen, rows, found, folds)

    def taps(self, trials: Trials) -> list[str]:
        """Those that the backbone has."""
        return [tap for tap in self.asked.taps if tap in trials.taps]

    def _available(self, trials: Trials) -> Grid:
        """The grid without the layers that the backbone lacks."""
        axes = dict(self.asked.grid.axes)
        if "layer" in axes:
            axes["layer"] = tuple(each for each in axes["layer"] if tap_name("patches", each) in trials.taps)
        return Grid(axes)

    def _search(self, work: _Work, grid: Grid, folds: Sequence[Fold], trials: Trials) -> Found:
        replicates = [(fold, seed) for fold in range(len(folds)) for seed in self.seeds]

        def measure(
            arm: Arm, settings: Sequence[Setting], replicate: tuple[int, int]
        ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
            fold = folds[replicate[0]]
            runs = work.trained(settings, fold.fits, replicate[1])
            tallies = training.evaluate(work.stream, [each for each, _ in runs], fold.held)
            for (_, places), each in zip(runs, tallies, strict=True):
                scores = [scoring.values(work.task, tally)[self.chosen_by] for tally in each]
                yield places, np.array(scores)

        search = Search(measure, replicates, trials.journal, lower=self.lower)
        return search.run([Arm({}, grid)], widen=self.options.widen)

    def _folds(self, selection: Selection, run: Roles) -> list[Fold]:
        def rows(role: str) -> Rows | None:
            if role not in run.ids:
                return None
            ids = run.ids[role]
            return Rows(np.empty((len(ids), 0)), np.zeros(len(ids), int), ids)

        train = rows("train")
        assert train is not None
        return make_folds(
            selection, train, rows("val"), seed=self.options.seed, fraction=held_out(len(train))
        )

    def selection(self, run: Roles) -> Selection:
        """Which images settings are compared on."""
        selection = parse_selection(self.options.select, has_val="val" in run.ids)
        if selection.kind == "cv" and not self.refit:
            raise UsageError(
                f"--select {selection} does not go with --no-refit: choose on val or on a holdout"
            )
        return selection

    def start(self, head: str) -> str | None:
        """How the last layer of a head starts: from zeros where that takes the seed's noise away and does no harm."""
        if self.options.protocol == "visbench":
            return "torch"
        return "zeros" if head == "linear" and self.task in SLOPED else None


@dataclass(frozen=True)
class _Work:
    """What trainings of one measurement share."""

    learner: Learner
    task: Any
    taps: Sequence[str]
    stream: Stream

    def trained(
        self, settings: Sequence[Setting], rows: np.ndarray, seed: int
    ) -> list[tuple[Run, np.ndarray]]:
        """Every setting trained in one pass: runs, and the places of their settings."""
        groups: dict[tuple[Any, ...], list[int]] = {}
        for place, setting in enumerate(settings):
            key = tuple(value for name, value in setting.items() if name not in LEAVES)
            groups.setdefault(key, []).append(place)
        runs = [
            (self._run([settings[place] for place in places]), np.array(places)) for places in groups.values()
        ]
        asked = self.learner.asked
        epochs = asked.epochs_of(len(rows))
        said = f"{self.stream.name}  {counted(len(settings), 'setting')}".strip()
        with console.progress("training", said, total=epochs * len(rows)) as advance:
            training.train(
                self.stream,
                [run for run, _ in runs],
                rows,
                epochs=epochs,
                batch=asked.batch,
                seed=seed,
                advance=advance,
            )
        return runs

    def _run(self, settings: Sequence[Setting]) -> Run:
        """The run of settings that differ in numbers alone."""
        asked = self.learner.asked
        first = asked.whole(settings[0])
        layers = asked.layers_of(first)
        head = make_head(
            first["head"],
            channels=self.task.channels,
            layers=len(layers),
            hidden_dim=(first["hidden_dim"] if has(first["head"], "hidden_dim") else None)
            or HIDDEN.get(first["head"]),
            readout=(asked.cls and has(first["head"], "cls_token")) or None,
            start=self.learner.start(first["head"]),
        )
        grids = [tap for tap in self.taps if tap.startswith("patches")]
        return Run(
            Program(head, self.task, first["loss_stride"], HEADS[first["head"]].side_by_side),
            tuple(grids.index(tap_name("patches", layer)) for layer in layers),
            Hparams(*(np.array([each[name] for each in settings], np.float32) for name in LEAVES)),
            cls=asked.cls and has(first["head"], "cls_token"),
            standardize=first["standardize"],
        )
