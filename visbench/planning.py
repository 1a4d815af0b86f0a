"""The record of a measurement: all that is known before it runs, which makes its keys, and what it found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata
from typing import Any

from extract import taps as tap_names
from visbench.data import RunData
from visbench.options import Options
from visbench.outcome import Outcome
from visbench.record import Record
from visbench.sources import Source, describe
from visbench.task import Task

_VERSIONS = ("visbench", "torch", "torchvision", "timm", "open-clip-torch", "jax", "numpy", "tensorstore")
_FOUND = ("metrics", "intervals", "n", "context", "hyperparameters", "selection", "convergence")


def planned(task: Task, options: Options, source: Source, run: RunData, measure: Any) -> Record:
    """Everything but the outcome."""
    taps = list(measure.taps)
    told = {"headline": task.headline, **measure.plan(run)}
    return Record(
        task=task.name,
        level=task.level,
        protocol=options.protocol,
        dataset=run.name,
        **run.splits,
        dataset_size=run.sets["test"].size,
        dataset_fingerprint=run.fingerprint,
        dataset_params=dict(run.params),
        unreadable=dict(run.unreadable),
        backbone=source.asked,
        backbone_key=source.spec.weights,
        backbone_spec={**describe(source.spec), **source.beside},
        control=source.control,
        image_size=source.image_size,
        taps=taps,
        pooling_requested=",".join(dict.fromkeys(tap_names.parse(tap).kind for tap in taps)),
        feature_mode="dense" if any(not tap_names.parse(tap).pooled for tap in taps) else "pooled",
        feature_dtype=options.dtype,
        seed=options.seed,
        better=_better(task, str(told["headline"])),
        notes=options.notes,
        caller=options.caller,
        **told,
    )


def _better(task: Task, headline: str) -> str:
    way = task.better(headline)
    assert way is not None, f"{task.name} does not say which way its headline {headline} points"
    return way


def finished(record: Record, source: Source, outcome: Outcome, **told: Any) -> Record:
    """The record with what was found; `told` are fields that only the run knows."""
    tap = tap_names.resolve(outcome.tap or record.taps[0], source.spec)
    taps = [tap_names.resolve(each, source.spec) for each in outcome.taps or []] or [tap]
    return replace(
        record,
        **{name: getattr(outcome, name) for name in _FOUND},
        taps_resolved=[f"{each.kind}@{each.layer}" for each in taps],
        layers=[each.layer for each in taps] if len(taps) > 1 else None,
        pooling=tap.kind,
        layer=tap.layer,
        device=_device(),
        versions=dict(versions()),
        **told,
    )


def versions() -> Mapping[str, str]:
    """Of the packages that a number may depend on."""
    return {name: version for name in _VERSIONS if (version := _version(name))}


def _device() -> str:
    import jax

    return str(jax.default_backend())


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
