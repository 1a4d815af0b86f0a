"""A run from images to records: data → features → probe → record, the same for the command line and Python."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from typing import Any

import numpy as np

from extract.datasets import ImageSet
from extract.memo import Memo
from extract.store import Store
from visbench import console, data, features, results
from visbench.data import RunData
from visbench.options import Options, make_options
from visbench.outcome import Outcome, Rows
from visbench.record import Record, run_key
from visbench.runtime import prepare_jax
from visbench.tasks import Task, get_task, probe_name

_VERSIONS = ("visbench", "torch", "torchvision", "timm", "open-clip-torch", "jax", "numpy", "tensorstore")


@dataclass(frozen=True)
class Result:
    """A number one can trust: the metrics, their 95 % intervals, the record behind them, the fitted probe."""

    metrics: Mapping[str, Any]
    intervals: Mapping[str, Any]
    record: Record
    probe: Any = field(default=None, repr=False)  # None where a record was found by --resume
    warnings: tuple[str, ...] = ()
    per_sample: Mapping[str, Any] = field(default_factory=dict, repr=False)  # metric → (n,), test order
    resumed: bool = False  # read from the results by --resume, not computed


class Session:
    """What the runs of one call share: the store, the memo, the images."""

    def __init__(self, task: str, dataset: Any, options: Options, *, train_dataset: Any = None) -> None:
        self.task: Task = get_task(task)
        self.options = options
        if options.results is not None:
            results.check_writable(options.results)
        self.store = options.store if isinstance(options.store, Store) else Store(options.store)
        self.memo = Memo()
        self.data: RunData = data.gather(
            self.task, dataset, train_dataset, options, store=self.store, memo=self.memo
        )
        data.report_duplicates(self.data)

    def run(self, backbones: Sequence[Any], probes: Sequence[str | None] = (None,)) -> Iterator[Result]:
        """One result for each backbone and probe, each appended to the results as it comes."""
        prepare_jax()
        names = list(dict.fromkeys(probe_name(self.task, probe, self.options) for probe in probes))
        measures = _measures(self.task.measurement(), names, self.options)  # refuses wrong settings first
        sources = self.find(backbones)
        known = self._known()
        for source in sources:
            yield from self._run_backbone(source, measures, known)

    def find(self, backbones: Sequence[Any]) -> list[features.Source]:
        """The sources of `backbones`; refused if one has no such tap."""
        return features.find_all(backbones, [self.options.tap], self.options, self.memo)

    def images(self) -> tuple[ImageSet, np.ndarray]:
        """The images of all roles as one set, with their row ids."""
        roles = list(self.data.sets)
        return (
            features.concat([self.data.sets[role] for role in roles]),
            np.concatenate([self.data.ids[role] for role in roles]),
        )

    def _run_backbone(
        self, source: features.Source, measures: Sequence[Any], known: Mapping[str, Record]
    ) -> Iterator[Result]:
        keys = [run_key(self._planned(source, measure)) for measure in measures]
        for key in keys:
            if key in known:
                console.note(
                    f"{source.asked}: a record of {known[key].timestamp} answers this, nothing is computed"
                )
                yield Result(known[key].metrics, known[key].intervals, known[key], resumed=True)
        todo = [measure for measure, key in zip(measures, keys, strict=True) if key not in known]
        if not todo:
            return
        rows, spent = self._rows(source)
        for measure in todo:
            began = time.monotonic()
            outcome: Outcome = measure(rows, self.data)
            seconds = time.monotonic() - began
            record = replace(
                self._planned(source, measure),
                **_found(outcome),
                counts={**self.data.counts, "converted": spent.converted},
                device=_device(),
                duration_seconds=round(seconds + spent.seconds, 3),
                versions={name: version for name in _VERSIONS if (version := _version(name))},
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
            )

    def _rows(self, source: features.Source) -> tuple[dict[str, Rows], features.Spent]:
        """The features of every role, aligned with labels; unreadable images are gone from `data` afterwards."""
        images, ids = self.images()
        tap = self.options.tap
        plan, spent = features.ensure(
            source, images, ids, [tap], self.options, store=self.store, memo=self.memo
        )
        if spent.unreadable:
            own = dict(zip(images.names, self.data.names, strict=True))  # `concat` may tell copies apart
            self.data.drop({own[name]: reason for name, reason in spent.unreadable.items()})
            self.data.check()
        if not spent.computed:
            console.note(f"features  {source.asked}  all {len(ids):,} images cached")
        rows = {}
        for role, each in self.data.sets.items():
            read = features.read(plan, tap, self.data.ids[role], self.store)
            rows[role] = Rows(read, each.known_labels, self.data.ids[role])
        return rows, spent

    def _planned(self, source: features.Source, measure: Any) -> Record:
        """All of the record that is known before anything runs, which is all that its keys are made of."""
        options, spec, run = self.options, source.spec, self.data
        (tap,) = features.resolved_taps([options.tap], spec)
        return Record(
            task=self.task.name,
            level=self.task.level,
            protocol=options.protocol,
            dataset=run.name,
            **run.splits,
            dataset_size=len(run.sets["test"]),
            dataset_fingerprint=run.fingerprint,
            dataset_params=dict(run.params),
            unreadable=dict(run.unreadable),
            backbone=source.asked,
            backbone_key=spec.weights,
            backbone_spec=dict(features.describe(spec)),
            control=source.control,
            image_size=source.image_size,
            taps=[options.tap],
            taps_resolved=[f"{tap.kind}@{tap.layer}"],
            pooling=tap.kind,
            pooling_requested=options.pooling,
            feature_mode="pooled",
            layer=tap.layer,
            feature_dtype=options.dtype,
            seed=options.seed,
            headline=self.task.headline,
            better=self.task.metrics[self.task.headline],
            notes=options.notes,
            caller=options.caller,
            **measure.plan(run),
        )

    def _known(self) -> dict[str, Record]:
        if not self.options.resume or self.options.results is None:
            return {}
        return {run_key(record): record for record in results.read(self.options.results, missing_ok=True)}


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
    session = Session(task, dataset, make_options(results=results, **options), train_dataset=train_dataset)
    (result,) = session.run([backbone], [probe])
    return result


def _measures(make: Any, names: Sequence[str | None], options: Options) -> list[Any]:
    """The measurement of each probe, which gets the settings it has; one that none of them has is refused."""
    settings = dict(options.probe_settings)
    if options.standardize is not None:
        settings["standardize"] = options.standardize
    homeless = {key for key in settings if not any(key in make.accepts(name) for name in names)}
    measures = []
    for name in names:
        own = {key: value for key, value in settings.items() if key in make.accepts(name) | homeless}
        standardize = own.pop("standardize", None)
        measures.append(make(name, replace(options, standardize=standardize, probe_settings=own)))
    return measures


def _found(outcome: Outcome) -> dict[str, Any]:
    return {
        name: getattr(outcome, name)
        for name in ("metrics", "intervals", "n", "context", "hyperparameters", "selection", "convergence")
    }


def _device() -> str:
    import jax

    return str(jax.default_backend())


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
