"""A run from images to records: data → features → probe → record, the same for the command line and Python.

A sweep is a run over a grid: the same session, the same search, more settings.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from extract.datasets import ImageSet
from extract.memo import Memo
from extract.plan import Plan
from extract.store import Store
from visbench import console, data, features, results, samples, sources
from visbench.data import RunData
from visbench.errors import UsageError
from visbench.features import Spent
from visbench.journal import Journal, journal_path
from visbench.measures import make_measures
from visbench.options import Options, make_options
from visbench.outcome import Outcome
from visbench.planning import finished, planned
from visbench.record import Record, run_key
from visbench.runtime import prepare_jax
from visbench.sources import Source
from visbench.task import Task
from visbench.tasks import get_task, probe_name
from visbench.trials import Trials


@dataclass(frozen=True)
class Result:
    """A number one can trust: the metrics, their 95 % intervals, the record behind them, the fitted probe."""

    metrics: Mapping[str, Any]
    intervals: Mapping[str, Any]
    record: Record
    probe: Any = field(default=None, repr=False)  # None where a record was found by --resume
    warnings: tuple[str, ...] = ()
    per_sample: Mapping[str, Any] = field(default_factory=dict, repr=False)  # metric → (n,), test order
    trials: Sequence[Mapping[str, Any]] = field(default=(), repr=False)  # of a search: a row a setting
    resumed: bool = False  # read from the results by --resume, not computed


class Session:
    """What the runs of one call share: the store, the memo, the images, the backbones.

    What is wrong with a name, a setting, a tap or the layout of the data is refused before an image is read.
    """

    def __init__(
        self,
        task: str,
        dataset: Any,
        options: Options,
        backbones: Sequence[Any],
        probes: Sequence[str | None] = (None,),
        *,
        train_dataset: Any = None,
        shots: Sequence[int | None] = (),
    ) -> None:
        self.task: Task = get_task(task)
        self.options = options
        self.probes = list(dict.fromkeys(probe_name(self.task, probe, options) for probe in probes))
        _refuse_idle(self.task, options)
        prepare_jax()
        self.measures = make_measures(
            self.task, self.probes, options, shots or (options.shots,)
        )  # refuses wrong settings
        if options.results is not None:
            results.check_writable(options.results)
        self.store = options.store if isinstance(options.store, Store) else Store(options.store)
        self.memo = Memo()
        divided = data.divided(self.task, dataset, train_dataset, options, store=self.store)
        every = any(getattr(measure, "every", False) for measure in self.measures)
        self.sources = sources.find_all(backbones, self.taps, options, self.memo, every=every)
        self.data: RunData = data.gather(self.task, divided, options, memo=self.memo)
        data.report_duplicates(self.data)
        self.reading = self.task.reader()(self)

    @property
    def taps(self) -> list[str]:
        """Every tap that a measurement asks for."""
        return list(dict.fromkeys(tap for measure in self.measures for tap in measure.taps))

    def only(self, source: Source, measures: Sequence[Any] | None = None) -> Session:
        """The same session with one backbone, and these of its measurements; nothing is opened or read again."""
        alone = copy.copy(self)
        alone.sources = [source]
        if measures is not None:
            alone.measures = list(measures)
        return alone

    def run(self) -> Iterator[Result]:
        """One result for each backbone and measurement, each appended to the results as it comes."""
        known = self._known()
        for source in self.sources:
            yield from self._run_backbone(source, known)

    def images(self) -> tuple[ImageSet, np.ndarray]:
        """The images of all roles as one set, with their row ids."""
        roles = list(self.data.sets)
        return (
            features.concat([self.data.sets[role] for role in roles]),
            np.concatenate([self.data.ids[role] for role in roles]),
        )

    def _run_backbone(self, source: Source, known: Mapping[str, Record]) -> Iterator[Result]:
        found = {run_key(self._planned(source, measure)): measure for measure in self.measures}
        for key in [key for key in found if key in known]:
            console.note(
                f"{source.asked}: a record of {known[key].timestamp} answers this, nothing is computed"
            )
            yield Result(known[key].metrics, known[key].intervals, known[key], resumed=True)
        todo = [measure for key, measure in found.items() if key not in known]
        if not todo:
            return
        self.reading.prepare(source)
        plan, spent = self._extracted(source, todo)
        for measure in todo:
            rows = self.reading(source, plan)
            began, before = time.monotonic(), self._planned(source, measure)
            outcome: Outcome = measure(rows, self.data, self._trials(source, before))
            if hasattr(outcome.probe, "remember"):  # so that it can be asked of pictures
                outcome.probe.remember(source, self.options, self.store)
            record = finished(
                before,
                source,
                outcome,
                counts={**self.data.counts, "converted": spent.converted},
                duration_seconds=round(time.monotonic() - began + spent.seconds, 3),
                samples=self._kept(outcome),
            )
            if self.options.results is not None:
                results.append(self.options.results, [record])
            for text in outcome.warnings:
                console.warn(f"{source.asked}, {measure.name}: {text}")
            yield Result(
                record.metrics,
                record.intervals,
                record,
                outcome.probe,
                tuple(outcome.warnings),
                outcome.per_sample,
                outcome.trials,
            )

    def _kept(self, outcome: Outcome) -> str | None:
        """Keep the scores of every sample, before the record that names them; a failure costs no record."""
        if self.options.results is None:
            return None
        ids = self.data.ids["test"] if outcome.ids is None else outcome.ids
        try:
            return samples.write(self.options.results, outcome.per_sample, ids)
        except UsageError as error:
            console.warn(f"{error}; the record is kept without them and cannot be compared sample by sample")
            return None

    def seen(self, source: Source, measures: Sequence[Any]) -> tuple[ImageSet, np.ndarray, list[str]]:
        """All that a backbone is to see: images, row ids, and the name in `data` of what each is or is made of."""
        (images, ids), names = self.images(), self.data.names
        views = self.reading.views(source, measures)
        if views is None:
            return images, ids, names
        every = features.concat([images, views.images]), np.concatenate([ids, views.ids])
        return *every, [*names, *views.of]

    def _extracted(self, source: Source, measures: Sequence[Any]) -> tuple[Plan, Spent]:
        """See that the features are there; unreadable images are gone from `data` afterwards."""
        images, ids, names = self.seen(source, measures)
        plan, spent = features.ensure(
            source, images, ids, source.taps, self.options, store=self.store, memo=self.memo
        )
        if spent.unreadable:
            own = dict(zip(images.names, names, strict=True))  # `concat` may tell copies apart
            self.data.drop({own[name]: reason for name, reason in spent.unreadable.items()})
            self.data.check()
        if not spent.computed:
            console.note(f"features  {source.asked}  all {len(ids):,} images cached")
        return plan, spent

    def _trials(self, source: Source, record: Record) -> Trials:
        path = None
        if self.options.results is not None and self.options.grid is not None:
            path = journal_path(self.options.results, record)
        resolved = sources.resolved_taps(source.taps, source.spec)
        first = {tap: asked for asked, tap in reversed([*zip(source.taps, resolved, strict=True)])}
        return Trials(
            frozenset(first.values()),  # two names of one tap are tried once
            Journal(path),
            source.asked,
            f"{path.parent.name}/{path.name}" if path is not None else None,
        )

    def _planned(self, source: Source, measure: Any) -> Record:
        return planned(self.task, self.options, source, self.data, measure)

    def _known(self) -> dict[str, Record]:
        if not self.options.resume or self.options.results is None:
            return {}
        return {run_key(record): record for record in results.read(self.options.results, missing_ok=True)}


def _refuse_idle(task: Task, options: Options) -> None:
    """Refuse what means nothing to the task, before anything is read."""
    idle = [name for name in options.truth if name not in task.truth]
    if not task.pooled and options.pooling != "default":
        idle.append("pooling")
    if not task.columns:
        idle += list(options.reading)
    if idle:
        known = f" It may be told {', '.join(task.truth)}." if task.truth else ""
        raise UsageError(f"{task.name} has no use for {idle[0]}; leave it out.{known}")


def run(
    backbone: Any,
    task: str,
    dataset: Any,
    train_dataset: Any = None,
    results: Any = None,
    *,
    probe: str | None = None,
    **options: Any,
) -> Result:
    """Measure one backbone on one task.

    `backbone` is a name or an object (`visbench.CustomBackbone`, `get_backbone`), `dataset` a folder, a table,
    arrays or a dataset object; `train_dataset` gives the training images where they lie apart.  `results` is a
    file that the record is appended to.  Other options are the fields of `visbench.options.Options`, and the
    settings of the probe (`C`, `l2`, `k`, `learning_rate`, `weight_decay`, `epochs`).
    """
    probe = probe or options.pop("head", None)
    settings = make_options(results=results, **options)
    if settings.controls:
        raise UsageError(
            "controls are backbones beside the one that is asked for; visbench.sweep runs several"
        )
    session = Session(task, dataset, settings, [backbone], [probe], train_dataset=train_dataset)
    if len(session.measures) > 1:
        raise UsageError(
            f"that asks for {len(session.measures)} results and this call gives one; give a single value of each "
            "setting, and call it once for each"
        )
    (result,) = session.run()
    return result
