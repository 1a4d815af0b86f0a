"""A dense task's measurement: heads trained on maps of features, the best setting scored on maps of its targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import jax
import numpy as np

from visbench import advice
from visbench.choosing import fraction_of, held_rows, parse_selection
from visbench.classifier import summary
from visbench.data import RunData
from visbench.dense import judging, scoring
from visbench.dense.hints import astray, blind, collapse, idle, unseen
from visbench.dense.judging import InFrame, Outlines
from visbench.dense.learning import Learner
from visbench.dense.predicting import DensePredictor
from visbench.dense.settings import (
    EPOCHS,
    FIXED,
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
from visbench.options import Options
from visbench.outcome import Outcome
from visbench.trials import Trials

GAIN = 0.01  # of a score: for less, an edge of the grid is not worth a word
SHOWN = 200  # training images that are scored too, to tell an underfitted probe from a poor backbone


class Streams(Protocol):
    """What a run gives a dense measurement to read."""

    def __call__(self, roles: Sequence[str], taps: Sequence[str]) -> Stream:
        """The images of these roles, one role behind the other, at these taps."""


@dataclass(frozen=True)
class Answer:
    """What makes a dense task this task."""

    name: str
    make: Any  # (what is told of the truth, data, own settings) → a task of probes.maps or probes.boxes
    headline: str
    lower: bool = False  # whether less of the headline is better
    classic: str | None = None  # what the older tool calls its protocol
    choose: str | None = None  # the metric that settings are compared by, where it is not the headline
    judge: Any = InFrame  # how predictions are judged
    settings: tuple[str, ...] = ()  # of the task itself, beside those of a head
    without: tuple[str, ...] = ()  # settings of a head that mean nothing here
    predictor: Any = DensePredictor  # what a trained head becomes

    def task(self, options: Options, run: RunData | None) -> Any:
        """What is made of a head's output."""
        given = options.probe_settings
        own = {name: given[name] for name in self.settings if name in given}
        return self.make(options.truth, run, own) if self.settings else self.make(options.truth, run)

    def of_heads(self, options: Options) -> Options:
        """The options without the settings of the task itself; one that means nothing to it is refused."""
        for name in (*options.probe_settings, *(options.grid or ())):
            if name in self.without:
                raise UsageError(f"{self.name} has no setting {name}; leave it out")
        left = {name: value for name, value in options.probe_settings.items() if name not in self.settings}
        return replace(options, probe_settings=left)

    def __call__(self, head: str, options: Options) -> Dense:
        """The measurement of one head."""
        return Dense(self, head, options)

    def accepts(self, head: str) -> set[str]:
        """The settings that a head has."""
        return {name for name in (*LEAVES, *PROGRAMS[2:], *FIXED, *self.settings) if has(head, name)} - set(
            self.without
        )

    def varies(self, head: str) -> set[str]:
        """The axes that a grid may have."""
        return {name for name in (*LEAVES, *PROGRAMS) if has(head, name)} - set(self.without)


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
        self.asked: Plan = make_plan(head, answer.of_heads(options))
        classic = options.protocol == "visbench"
        self.refit = options.refit and not classic
        self.seeds = [options.seed + number for number in range(options.seeds)]
        chosen_by = answer.choose or answer.headline
        self.learner = Learner(
            answer.name, chosen_by, answer.lower, self.asked, options, self.refit, self.seeds
        )

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
        answer = self.answer.task(self.options, run)
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
        if getattr(answer, "scene_parsing", False):
            plan["task_params"]["protocol"] = "scene_parsing"
        if self.answer.classic and self.options.protocol == "visbench":
            plan["task_params"]["protocol"] = self.answer.classic
        if varied:
            selection = self.learner.selection(run)
            *others, last = varied
            names = f"{', '.join(others)} and {last}" if others else last
            plan["selection"] = {
                "how": f"{names} chosen on {selection.on(run.splits['val_split'])}",
                "metric": self.learner.chosen_by,
                "fraction": fraction_of(selection, held_out(len(run.sets["train"]))),
                "grid": {name: list(values) for name, values in asked.grid.axes.items()},
                "widen": self.options.widen,
            }
        return plan

    def __call__(self, streams: Streams, run: RunData, trials: Trials) -> Outcome:
        """Choose, train, and score once."""
        task = self.answer.task(self.options, run)
        taps = self.learner.taps(trials)
        roles = [role for role in ("train", "val") if role in run.sets]
        learnt, scored = streams(roles, taps), streams(["test"], taps)
        fit = self.learner.learn(task, learnt, run, trials)
        outcome = self._outcome(task, fit.runs, learnt, fit.rows, scored, run)
        layers = self.asked.layers_of(fit.chosen)
        outcome.taps = [tap_name("patches", each) for each in layers]
        outcome.tap = outcome.taps[-1]
        outcome.probe = self.answer.predictor(fit.runs[0], layers, task, learnt)
        outcome.hyperparameters = dict(fit.chosen)
        outcome.selection = self.plan(run)["selection"]
        if fit.found is not None:
            outcome.trials = fit.found.rows()
            outcome.selection["outcome"] = summary(fit.found, held_rows(fit.folds), trials.file)
            outcome.warnings += advice.edges(fit.found, of=self._looked_at, least=GAIN)
        return outcome

    @property
    def _looked_at(self) -> Sequence[str]:
        """The axes whose edge says something; the usual two weight decays are both at one."""
        given = self.options.grid or {}
        return [name for name in self.asked.grid.axes if name in given or name != "weight_decay"]

    def _outcome(
        self, task: Any, runs: list[Run], learnt: Stream, rows: np.ndarray, scored: Stream, run: RunData
    ) -> Outcome:
        losses = [float(np.atleast_1d(each.loss)[0]) for each in runs if each.loss is not None]
        judge = self._judge(task)
        tallies = [judge.tally(scored, judging.of_run(each)) for each in runs]
        outcome = scoring.score(judge.metric, tallies, seed=self.options.seed)
        headline, quick = self.answer.headline, self.learner.chosen_by
        if not np.isfinite(outcome.metrics[headline]):
            raise UsageError(
                f"{headline} is not defined on any image of the scored split: each of its maps says the same "
                "everywhere, or nothing; `visbench check --task` shows their ranges"
            )
        shown = rows[np.linspace(0, len(rows) - 1, min(SHOWN, len(rows))).round().astype(int)]
        own = scoring.values(task, InFrame(task).tally(learnt, judging.of_run(runs[0]), rows=shown))
        outcome.context[f"train_{quick}"] = own[quick]
        read = [scored.views[layer] for layer in runs[0].layers]
        grid = tuple(max(view.shape[axis] for view in read) for axis in (1, 2))
        guesses = scoring.baselines(task, learnt, rows) if hasattr(task, "guess") else {}
        beside = {name: judging.of_guess(each) for name, each in guesses.items()}
        beside["ceiling"] = judging.of_targets(task, (grid[0], grid[1]))
        known = {
            name: scoring.values(judge.metric, judge.tally(scored, says, quick=True))
            for name, says in beside.items()
        }
        outcome.context |= {f"{name}_{headline}": each[headline] for name, each in known.items()}
        outcome.context |= self._without_copies(judge, tallies, run)
        outcome.context |= judge.context(scored)
        outcome.warnings += collapse(task, runs[0], learnt, shown)
        constant, loss = known.get("constant", {}), float(np.mean(losses))
        outcome.warnings += astray(task, outcome.metrics, constant) if guesses else blind(own, quick, loss)
        if not outcome.warnings:
            outcome.warnings += idle(own, constant, headline, loss, lower=self.answer.lower)
        outcome.warnings += unseen(learnt, rows, scored, run.classes)
        outcome.convergence = {"train_loss": loss}
        return outcome

    def _without_copies(self, judge: Any, tallies: Sequence[Any], run: RunData) -> dict[str, Any]:
        """How many scored pictures also trained, and the score without them."""
        copies = run.shared_with_training()
        if not copies.any():
            return {}
        found: dict[str, Any] = {"duplicates": int(copies.sum())}
        if not copies.all():
            rest = [jax.tree.map(lambda leaf: leaf[~copies], tally) for tally in tallies]
            headline = self.answer.headline
            scores = [scoring.values(judge.metric, tally)[headline] for tally in rest]
            found[f"{headline}_without_duplicates"] = float(np.mean(scores))
        return found

    def _judge(self, task: Any) -> Any:
        if self.answer.judge is Outlines:
            return Outlines(task, processes=self.options.caller == "cli")
        return self.answer.judge(task)


def _described(answer: Any) -> Mapping[str, Any]:
    """The settings of a map task, for the record."""
    return {"name": type(answer).__name__.lower(), **asdict(answer)}
