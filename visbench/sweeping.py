"""A sweep: one call that tries a grid of settings for several backbones on stored features, and scores the best.

It is a run whose measurements have a grid: the same session, the same search, the same records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from visbench.errors import UsageError
from visbench.grid import ALIASES, make_axis
from visbench.journal import Journal, journal_path
from visbench.options import Options, make_options
from visbench.pipeline import Result, Session
from visbench.record import Record

DRAWS = 5  # of few shots
Names = str | Sequence[Any] | Any


@dataclass(frozen=True)
class Sweep:
    """The results of a sweep, a record each, and the score of every setting that was tried."""

    results: tuple[Result, ...]

    @property
    def best(self) -> Result:
        """The result that scored best; read the board before believing it."""
        sign = -1 if self.results[0].record.better == "lower" else 1
        scored = [result for result in self.results if result.record.control is None] or list(self.results)
        return max(scored, key=lambda result: sign * (result.metrics[str(result.record.headline)] or 0))

    @property
    def trials(self) -> list[dict[str, Any]]:
        """A row a setting: backbone, probe, axes, `score` on held-out rows, `std` over replicates, `chosen`."""
        return [row for result in self.results for row in trials_of(result)]

    @property
    def axes(self) -> dict[str, list[Any]]:
        """Every axis with its values, in the order of the grid."""
        return axes_of(self.results)

    def board(self) -> str:
        """The boards of the results as text."""
        from visbench.cli.running import boards_of

        return boards_of(list(self.results))

    def plot(self, path: str | Path) -> None:
        """Draw the scores of all settings to a PNG, SVG or PDF."""
        from visbench.figures.sweep import check, draw

        check(path)
        if not self.trials:
            raise UsageError("nothing was chosen among, so there are no scores to draw")
        record = self.results[0].record
        title = f"{record.dataset} · {record.task}"
        draw(self.trials, self.axes, path, metric=str(record.headline), better=record.better, title=title)

    def to_pandas(self) -> Any:
        """The trials as a pandas data frame."""
        try:
            import pandas
        except ImportError:
            raise UsageError("to_pandas needs pandas: pip install 'visbench[tables]'") from None
        return pandas.DataFrame(self.trials)


def sweep(
    backbone: Names,
    task: str,
    dataset: Any,
    train_dataset: Any = None,
    results: Any = None,
    *,
    grid: Mapping[str, Any] | None = None,
    probe: str | Sequence[str] | None = None,
    shots: int | Sequence[int] | None = None,
    draws: int = DRAWS,
    **options: Any,
) -> Sweep:
    """Try every setting of `grid` for one or several backbones, choose on held-out rows, and score the best once.

    `grid` maps an axis to its values: any setting of the probe (`learning_rate`, `weight_decay`, `C`, `l2`, `k`,
    `temperature`, `standardize`, `epochs` …), and `tap` and `layer` of the backbone; without one the probe's usual
    grid is tried.  `select` is "val", "holdout" or "cv5"; `seeds` fits of a random probe are averaged.  `shots`
    asks for fits on so many images a class, the mean of `draws` draws.  Other options are those of `visbench.run`.
    """
    probe = probe or options.pop("head", None)
    settings = sweep_options(grid or {}, results=results, draws=draws if shots is not None else 1, **options)
    session = open_session(
        [backbone] if isinstance(backbone, str) or not isinstance(backbone, Sequence) else list(backbone),
        task,
        dataset,
        settings,
        probes=[probe] if probe is None or isinstance(probe, str) else list(probe),
        shots=() if shots is None else np.ravel(shots).tolist(),
        train_dataset=train_dataset,
    )
    return Sweep(tuple(with_trials(result, settings.results) for result in session.run()))


def sweep_options(grid: Mapping[str, Any], **options: Any) -> Options:
    """The options of a run and a grid, its axes under the library's names."""
    if not isinstance(grid, Mapping):
        raise UsageError(
            f"grid is a {type(grid).__name__}; it maps an axis to its values, as {{'C': [0.1, 1]}}"
        )
    axes: dict[str, tuple[Any, ...]] = {}
    for given, values in grid.items():
        name = ALIASES.get(given, given)
        if name in axes:
            raise UsageError(f"the axis {name} of the grid is given twice; name each axis once")
        axes[name] = make_axis(name, values)
    return make_options(grid=axes, **options)


def open_session(
    backbones: Sequence[Any],
    task: str,
    dataset: Any,
    options: Options,
    *,
    probes: Sequence[str | None],
    shots: Sequence[int],
    train_dataset: Any = None,
) -> Session:
    """The session of a sweep; a measurement for each probe and number of shots."""
    for count in shots:
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise UsageError(
                f"shots is {count!r}; it counts training images a class, so wants whole numbers from 1"
            )
    return Session(
        task,
        dataset,
        options,
        backbones,
        probes,
        train_dataset=train_dataset,
        shots=tuple(dict.fromkeys(shots)),
    )


def with_trials(result: Result, stored: str | Path | None) -> Result:
    """The result; one that a record of `stored` answered has the trials that are kept beside it."""
    chosen = result.record.selection.get("outcome", {}).get("chosen")
    if not result.resumed or stored is None or chosen is None:
        return result
    return replace(result, trials=Journal(journal_path(stored, result.record)).trials(chosen))


def label(record: Record) -> str:
    """A backbone and the control that it is here; one that is a control by nature needs no second word."""
    told = record.control not in (None, record.backbone)
    return f"{record.backbone} ({record.control})" if told else record.backbone


def trials_of(result: Result) -> Iterator[dict[str, Any]]:
    """The rows of one result, with what tells it from the others."""
    record = result.record
    shots = record.task_params.get("shots")
    for row in result.trials:
        yield {"backbone": label(record), "probe": record.probe, **({"shots": shots} if shots else {}), **row}


def axes_of(results: Sequence[Result]) -> dict[str, list[Any]]:
    """The axes of all results and their values, in the order met."""
    found: dict[str, dict[Any, None]] = {}
    for result in results:
        shots = result.record.task_params.get("shots")
        axes = {**({"shots": [shots]} if shots else {}), **result.record.selection.get("grid", {})}
        for name, values in axes.items():
            widened = [row[name] for row in result.trials if name in row]
            found.setdefault(name, {}).update(dict.fromkeys([*values, *widened]))
    return {name: list(values) for name, values in found.items()}
