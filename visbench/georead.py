"""A row of a geospatial bench as a record, in the words of visbench.georows; values of older files stand as they came.

Such records are of the protocol `torchgeo`: they share no board with our own, and one with each other where all that
their rows say of the measurement agrees.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from visbench.georows import BESIDE, CALIBRATION, METRICS, PROTOCOL, SEGMENTATION
from visbench.record import Json, Record, is_number
from visbench.tasks import TASKS

_OURS = {theirs: ours for ours, theirs in METRICS.items()}
_OF_CALIBRATION = ("temperature", "calibration_n_bins")  # which are no scores
_SWEEP = ("merge_val", "c_range_start", "c_range_stop", "c_range_num")
_COUNTS = {"n_train": "train", "n_val": "val", "n_test": "test", "num_classes": "classes"}
_LESS = (
    "latency_",
    "peak_",
    "reserved_",
    "params_",
    "gflops",
    "gpu_power_",
    "energy_",
)  # costs: less is better


def record(row: Mapping[str, Any]) -> Record:
    """The record that a row's cells, read as numbers and words, stand for; what it does not say stays unknown."""
    for column in ("dataset", "method", "metric_name"):
        if row.get(column) is None:
            raise ValueError(f"it has no {column}")
    theirs = str(row["metric_name"])
    metric = _OURS.get(theirs, theirs)
    task, probe, fixed, training = _asked(str(row["method"]), metric)
    return Record(
        timestamp="",
        protocol=PROTOCOL,
        task=task,
        level=TASKS[task].level if task in TASKS else None,
        probe=probe,
        dataset=str(row["dataset"]),
        train_split="train",
        val_split="val" if row.get("n_val") else None,
        dataset_params=_known(row, "partition", "bands", "normalization"),
        counts=_renamed(row, _COUNTS),
        backbone=str(row.get("name") or row.get("model")),
        backbone_spec=_renamed(row, {"model": "architecture"}),
        image_size=row.get("image_size") or "native",
        task_params=_asked_of(row, probe) | ({} if metric in METRICS else {"metric": theirs}),
        extra=_known(row, "feature_dim", *(() if probe == "logistic" else _SWEEP)),
        seed=row.get("seed"),
        **_chosen(row, probe, fixed, training),
        **_scored(row, task, metric),
    )


def _scored(row: Mapping[str, Any], task: str, metric: str) -> Json:
    """The metrics of a record, and of what they are."""
    score, low, high = (row.get(column) for column in ("metric_value", "ci_lower", "ci_upper"))
    if score is not None and not is_number(score):
        raise ValueError(f"its metric_value is {score!r}, not a number")
    measured = {name: row[name] for name in (*BESIDE, *CALIBRATION) if is_number(row.get(name))}
    known = is_number(low) and is_number(high) and (low != 0 or high != 0)  # both are 0.0 where there is none
    named = re.fullmatch(r"(?:id|spectrum)_.*_(train|val|test)", metric)
    split = named[1] if named else "test"
    return {
        "split": split,
        "dataset_size": row.get(f"n_{split}"),
        "headline": metric,
        "better": _better(task, metric),
        "context": {name: measured.pop(name) for name in _OF_CALIBRATION if name in measured},
        "metrics": {metric: score} | measured,
        "intervals": {metric: [low, high]} if known else {},
        "n": _renamed(row, {"n_test": metric}) if metric in METRICS else {},
    }


def _asked(method: str, metric: str) -> tuple[str, str | None, Json, Json]:
    """Task and probe that a method's name tells, its hyperparameters and how it was trained."""
    pooled = "multilabel" if metric == "micro_map" else "classification"
    if found := re.fullmatch(r"knn(\d+)", method):
        return pooled, "knn", {"k": int(found[1])}, {}
    if method in ("linear", "ridge"):
        return pooled, "logistic" if method == "linear" else "ridge", {}, {}
    kind, _, rest = method.partition("-")
    if kind == "linear":
        return pooled, "linear", {}, {"optimizer": rest}
    return (SEGMENTATION if kind == "seg" else kind), rest or None, {}, {}


def _asked_of(row: Mapping[str, Any], probe: str | None) -> Json:
    return _known(row, "interpolation", "bootstrap", *(_SWEEP[:1] if probe == "logistic" else ()))


def _chosen(row: Mapping[str, Any], probe: str | None, fixed: Json, training: Json) -> Json:
    """What of a record says how the settings came about."""
    if probe == "logistic":
        c_range = [row.get(column) for column in _SWEEP[1:]]
        told = {} if None in c_range else {"c_range": c_range}
        return {
            "hyperparameters": _renamed(row, {"best_c": "C"}),
            "selection": {"how": "C chosen on the val split"} | told,
        }
    chosen = _renamed(row, {"best_lr": "learning_rate", "best_batch_size": "batch_size"})
    return {
        "hyperparameters": fixed | chosen,
        "training": training or None,
        "selection": {"metric": "as the bench chose"} if chosen else {},
    }


def _better(task: str, metric: str) -> str:
    row = TASKS.get(task)
    return "lower" if metric.startswith(_LESS) else ((row and row.better(metric)) or "higher")


def _known(row: Mapping[str, Any], *columns: str) -> Json:
    return {column: row[column] for column in columns if row.get(column) is not None}


def _renamed(row: Mapping[str, Any], names: Mapping[str, str]) -> Json:
    return {ours: row[theirs] for theirs, ours in names.items() if row.get(theirs) is not None}
