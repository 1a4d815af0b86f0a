"""A dense task's measurement: heads trained on maps of features, the best setting scored on maps of its targets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from probes.dense import Hparams, Program
from probes.heads import make_head
from probes.heads.table import HEADS
from visbench import advice
from visbench.choosing import Fold, Selection, fraction_of, held_rows, make_folds, parse_selection
from visbench.classifier import summary
from visbench.data import RunData
from visbench.dense import judging, scoring, training
from visbench.dense.hints import collapse, idle
from visbench.dense.judging import InFrame, Outlines
from visbench.dense.predicting import DensePredictor
from visbench.dense.settings import (
    EPOCHS,
    FIXED,
    HIDDEN,
    LEAVES,
    PROGRAMS,
    STEPS,
    Plan,
    has,
    held_out,
    make_plan,
    tap_name,
)
from visbench.dense.streams import Stream
from visbench.dense.training import Run
from visbench.errors import UsageError
from visbench.grid import Grid, Setting
from visbench.options import Options
from visbench.outcome import Outcome, Rows
from visbench.searching import Arm, Found, Search
from visbench.trials import Trials

CONVEX = ("semantic_segmentation", "generic_segmentation")  # losses that have a slope everywhere
GAIN = 0.01  # of a score: for less, an edge of the grid is not worth a word
SHOWN = 200  # training images that are scored too, to tell an underfitted probe from a poor backbone


class Streams(Protocol):
    """What a run gives a dense measurement to read."""

    def __call__(self, roles: Sequence[str], taps: Sequence[str]) -> Stream:
        """The images of these roles, one role behind the other, at these taps."""


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
class Answer:
    """What makes a dense task this task."""

    name: str
    make: Any  # (settings of the maps, data) → a task of probes.maps
    headline: str
    lower: bool = False  # whether less of the headline is better
    classic: str | None = None  # what the older tool calls its protocol
    choose: str | None = None  # the metric that settings are compared by, where it is not the headline
    judge: Any = InFrame  # how predictions are judged

    def __call__(self, head: str, options: Options) -> Dense:
        """The measurement of one head."""
        return Dense(self, head, options)

    @staticmethod
    def accepts(head: str) -> set[str]:
        """The settings that a head has."""
        return {name for name in (*LEAVES, *PROGRAMS[2:], *FIXED) if has(head, name)}

    @staticmethod
    def varies(head: str) -> set[str]:
        """The axes that a grid may have."""
        return {name for name in (*LEAVES, *PROGRAMS) if has(head, name)}


class Dense:
    """One head's measurement of one task."""

    def __init__(self, answer: Answer, head: str, options: Options) -> None:
        self.answer, self.name, self.options = answer, head, options
        if options.shots is not None:
            raise UsageError(
                f"--shots counts images a class, and {answer.name} has maps; --limit takes fewer images"
            )
        if "pixels" in options.controls:
            raise UsageError(
                f"the control pixels has no grid of patches, which {answer.name} reads; take random-weights or shuffle"
            )
        self.asked: Plan = make_plan(head, options)
        classic = options.protocol == "visbench"
        self.refit = options.refit and not classic
        self.seeds = [options.seed + number for number in range(options.seeds)]

    @property
    def taps(self) -> list[str]:
        """The taps it reads, as asked."""
        return self.asked.taps

    @property
    def every(self) -> bool:
        """Whether a backbone must have all taps: where layers are an axis, it may go without some."""
        return "layer" not in self.asked.grid.axes

    @property
    def fits(self) -> int:
        """How many fits it makes to choose; 0 where there is nothing to choose."""
        settings = len(self.asked.grid)
        folds = parse_selection(self.options.select, has_val=True).folds or 1
        return settings * folds * len(self.seeds) if settings > 1 else 0

    def plan(self, run: RunData) -> dict[str, Any]:
        """What of the record is known before the fit."""
        asked, varied, (first, *_) = self.asked, self.asked.varied, self.asked.grid.settings()
        answer = self.answer.make(self.options.maps, run)
        params = {
            "refit": self.refit,
            **asked.fixed,
            "answer": _described(answer),
            "cls_token": asked.cls or None,
        }
        plan: dict[str, Any] = {
            "probe": " or ".join(asked.grid.axes.get("head", (self.name,))),
            "training": {
                "optimizer": "adamw",
                "epochs": asked.epochs or f"{EPOCHS}, and {STEPS} steps at least",
                "batch_size": asked.batch,
            },
            "task_params": {key: value for key, value in params.items() if value is not None},
            "seeds": self.seeds if len(self.seeds) > 1 else None,
            "hyperparameters": {} if varied else {name: first[name] for name in LEAVES},
            "selection": {},
        }
        if self.answer.classic and self.options.protocol == "visbench":
            plan["task_params"]["protocol"] = self.answer.classic
        if varied:
            selection = self._selection(run)
            *others, last = varied
            names = f"{', '.join(others)} and {last}" if others else last
            plan["selection"] = {
                "how": f"{names} chosen on {selection.on(run.splits['val_split'])}",
                "metric": self.answer.choose or self.answer.headline,
                "fraction": fraction_of(selection, held_out(len(run.sets["train"]))),
                "grid": {name: list(values) for name, values in asked.grid.axes.items()},
                "widen": self.options.widen,
            }
        return plan

    def __call__(self, streams: Streams, run: RunData, trials: Trials) -> Outcome:
        """Choose, train, and score once."""
        task = self.answer.make(self.options.maps, run)
        taps = self._taps(trials)
        roles = [role for role in ("train", "val") if role in run.sets]
        learnt, scored = streams(roles, taps), streams(["test"], taps)
        fit = self.learn(task, learnt, run, trials)
        outcome = self._outcome(task, fit.runs, learnt, fit.rows, scored)
        layers = self.asked.layers_of(fit.chosen)
        outcome.tap, outcome.taps = (
            tap_name("patches", layers[-1]),
            [tap_name("patches", each) for each in layers],
        )
        outcome.probe = DensePredictor(fit.runs[0], layers, task, learnt)
        outcome.hyperparameters = dict(fit.chosen)
        outcome.selection = self.plan(run)["selection"]
        if fit.found is not None:
            outcome.trials = fit.found.rows()
            outcome.selection["outcome"] = summary(fit.found, held_rows(fit.folds), trials.file)
            outcome.warnings += advice.edges(fit.found, of=self._looked_at, least=GAIN)
        return outcome

    def learn(self, task: Any, stream: Stream, roles: Roles, trials: Trials) -> Learnt:
        """Choose among the settings where there are several, then train; what is scored is not looked at."""
        grid = self._available(trials)
        work = _Work(self, task, self._taps(trials), stream)
        rows, chosen = np.arange(len(roles.ids["train"])), grid.settings()[0]
        found: Found | None = None
        folds: list[Fold] = []
        if len(grid) > 1:
            selection = self._selection(roles)
            folds = self._folds(selection, roles)
            found = self._search(work, grid, folds, trials)
            chosen = found.chosen
            rows = rows if selection.kind != "holdout" else folds[0].fits
        if self.refit:
            rows = np.arange(len(stream))
        runs = [work.trained([chosen], rows, seed)[0][0] for seed in self.seeds]
        losses = [float(np.atleast_1d(each.loss)[0]) for each in runs if each.loss is not None]
        if not np.isfinite(losses).all():
            raise UsageError(f"the {self.name} head diverged; try a smaller learning rate (--lr)")
        return Learnt(runs, chosen, rows, found, folds)

    def start(self, head: str) -> str | None:
        """How the last layer of a head starts: from zeros where that takes the seed's noise away and does no harm."""
        if self.options.protocol == "visbench":
            return "torch"
        return "zeros" if head == "linear" and self.answer.name in CONVEX else None

    @property
    def _looked_at(self) -> Sequence[str]:
        """The axes whose edge says something; the usual two weight decays are both at one."""
        given = self.options.grid or {}
        return [name for name in self.asked.grid.axes if name in given or name != "weight_decay"]

    def _taps(self, trials: Trials) -> list[str]:
        """Those that the backbone has."""
        return [tap for tap in self.taps if tap in trials.taps]

    def _available(self, trials: Trials) -> Grid:
        """The grid without the layers that the backbone lacks."""
        axes = dict(self.asked.grid.axes)
        if "layer" in axes:
            axes["layer"] = tuple(each for each in axes["layer"] if tap_name("patches", each) in trials.taps)
        return Grid(axes)

    def _search(self, work: _Work, grid: Grid, folds: Sequence[Fold], trials: Trials) -> Found:
        replicates = [(fold, seed) for fold in range(len(folds)) for seed in self.seeds]
        chosen_by = self.answer.choose or self.answer.headline

        def measure(
            arm: Arm, settings: Sequence[Setting], replicate: tuple[int, int]
        ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
            fold = folds[replicate[0]]
            runs = work.trained(settings, fold.fits, replicate[1])
            tallies = training.evaluate(work.stream, [each for each, _ in runs], fold.held)
            for (_, places), each in zip(runs, tallies, strict=True):
                scores = [scoring.values(work.task, tally)[chosen_by] for tally in each]
                yield places, np.array(scores)

        with trials.progress(len(grid) * len(replicates)) as advance:
            search = Search(measure, replicates, trials.journal, advance, self.answer.lower)
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

    def _outcome(
        self, task: Any, runs: list[Run], learnt: Stream, rows: np.ndarray, scored: Stream
    ) -> Outcome:
        losses = [float(np.atleast_1d(each.loss)[0]) for each in runs if each.loss is not None]
        judge = self._judge(task)
        tallies = [judge.tally(scored, judging.of_run(each)) for each in runs]
        outcome = scoring.score(judge.metric, tallies, seed=self.options.seed)
        headline, quick = self.answer.headline, self.answer.choose or self.answer.headline
        if not np.isfinite(outcome.metrics[headline]):
            raise UsageError(
                f"no image of the scored split has a pixel that says something, so {headline} has no value; "
                "`visbench check` shows how much of the maps is void"
            )
        shown = rows[np.linspace(0, len(rows) - 1, min(SHOWN, len(rows))).round().astype(int)]
        trained = InFrame(task).tally(learnt, judging.of_run(runs[0]), rows=shown)
        outcome.context[f"train_{quick}"] = scoring.values(task, trained)[quick]
        grid = tuple(max(view.shape[axis] for view in scored.views) for axis in (1, 2))
        beside = {
            name: judging.of_guess(each) for name, each in scoring.baselines(task, learnt, rows).items()
        }
        beside["ceiling"] = judging.of_targets(task, (grid[0], grid[1]))
        for name, says in beside.items():
            tally = judge.tally(scored, says, quick=True)
            outcome.context[f"{name}_{headline}"] = scoring.values(judge.metric, tally)[headline]
        outcome.context |= judge.context(scored)
        outcome.warnings += collapse(task, runs[0], learnt, shown)
        outcome.warnings += idle(outcome.context, headline, float(np.mean(losses)), lower=self.answer.lower)
        outcome.convergence = {"train_loss": float(np.mean(losses))}
        return outcome

    def _judge(self, task: Any) -> Any:
        if self.answer.judge is Outlines:
            return Outlines(task, processes=self.options.caller == "cli")
        return self.answer.judge(task)

    def _selection(self, run: Roles) -> Selection:
        selection = parse_selection(self.options.select, has_val="val" in run.ids)
        if selection.kind == "cv" and not self.refit:
            raise UsageError(
                f"--select {selection} does not go with --no-refit: choose on val or on a holdout"
            )
        return selection


@dataclass(frozen=True)
class _Work:
    """What trainings of one measurement share."""

    measure: Dense
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
        asked = self.measure.asked
        training.train(
            self.stream,
            [run for run, _ in runs],
            rows,
            epochs=asked.epochs_of(len(rows)),
            batch=asked.batch,
            seed=seed,
        )
        return runs

    def _run(self, settings: Sequence[Setting]) -> Run:
        """The run of settings that differ in numbers alone."""
        asked = self.measure.asked
        first = asked.whole(settings[0])
        layers = asked.layers_of(first)
        head = make_head(
            first["head"],
            channels=self.task.channels,
            layers=len(layers),
            hidden_dim=(first["hidden_dim"] if has(first["head"], "hidden_dim") else None)
            or HIDDEN.get(first["head"]),
            readout=(asked.cls and has(first["head"], "cls_token")) or None,
            start=self.measure.start(first["head"]),
        )
        grids = [tap for tap in self.taps if tap.startswith("patches")]
        return Run(
            Program(head, self.task, first["loss_stride"], HEADS[first["head"]].side_by_side),
            tuple(grids.index(tap_name("patches", layer)) for layer in layers),
            Hparams(*(np.array([each[name] for each in settings], np.float32) for name in LEAVES)),
            cls=asked.cls and has(first["head"], "cls_token"),
            standardize=first["standardize"],
        )


def _described(answer: Any) -> Mapping[str, Any]:
    """The settings of a map task, for the record."""
    from dataclasses import asdict

    return {"name": type(answer).__name__.lower(), **asdict(answer)}
