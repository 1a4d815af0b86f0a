"""A record as rows of a geospatial bench.

What is called otherwise there: `linear` is logistic regression solved to its optimum, `knn5` a vote of five neighbours,
`seg-fpn` segmentation with that head; `accuracy`, `micro_mAP` and `mIoU` are top1, micro_map and miou.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from visbench.board_names import labels
from visbench.record import Json, Record, is_number

PROTOCOL = "torchgeo"
METRICS = {"top1": "accuracy", "micro_map": "micro_mAP", "miou": "mIoU"}
POOLED, SEGMENTATION, DIMENSION = ("classification", "multilabel"), "semantic_segmentation", "intrinsic_dim"
BESIDE = ("fw_iou", "precision", "recall", "f1")  # beside the mIoU
CALIBRATION = ("ece", "rms_ce", "mce", "ece_ts", "rms_ce_ts", "mce_ts", "temperature", "calibration_n_bins")


def of_record(record: Record) -> list[Json]:
    """Column → cell, None where it is empty: a row of the headline, or one of each estimate of a dimension."""
    common = _setting(record) | _model(record) | _sweep(record) | _counts(record)
    shown = BESIDE if record.task == SEGMENTATION else ()
    common |= {name: record.metrics.get(name, record.context.get(name)) for name in (*shown, *CALIBRATION)}
    common = {column: record.extra.get(column) if cell is None else cell for column, cell in common.items()}
    return [common | metric for metric in _metrics(record)]


def _metrics(record: Record) -> Iterator[Json]:
    """Name, value and interval of each row."""
    names = [record.headline or next(iter(record.metrics), "")]
    if record.task == DIMENSION:
        names = [name for name in record.metrics if name.startswith("id_")] or names
    for name in names:
        low, high = record.intervals.get(name) or (0.0, 0.0)
        said = METRICS.get(name, name)
        if said.startswith("id_") and not said.endswith(("_train", "_val", "_test")):
            said += f"_{record.split}"
        yield {
            "metric_name": said,
            "metric_value": record.metrics.get(name),
            "ci_lower": 0.0 if low is None else low,
            "ci_upper": 0.0 if high is None else high,
        }


def _setting(record: Record) -> Json:
    transform = record.backbone_spec.get("transform")
    transform = transform if isinstance(transform, dict) else {}
    bands = _said(record, "bands", "rgb" if transform else None)
    native = "model_native" if {"mean", "std"} <= transform.keys() else None
    return {
        "dataset": record.dataset,
        "method": _method(record),
        "seed": record.seed,
        "normalization": _said(record, "normalization", native),
        "image_size": None if record.image_size == "native" else record.image_size,
        "interpolation": _said(record, "interpolation", transform.get("interpolation")),
        "partition": _partition(record),
        "bands": ",".join(sorted(map(str, bands))) if isinstance(bands, list) else bands,
        "bootstrap": _said(record, "bootstrap"),
    }


def _method(record: Record) -> str:
    probe = record.probe or ""
    if record.task in POOLED and probe:
        if probe == "knn":
            return f"knn{record.hyperparameters.get('k', '')}"
        if probe == "linear":  # a name that means something else there
            return f"linear-{(record.training or {}).get('optimizer', 'adamw')}"
        return "linear" if probe == "logistic" else probe
    if record.task == SEGMENTATION:
        return f"seg-{probe}"
    return f"{record.task}-{probe}" if probe else record.task


def _model(record: Record) -> Json:
    spec = record.backbone_spec
    (label,) = labels([record])  # tells a control
    pooled = record.feature_mode != "dense" and record.taps not in ([], ["default"])
    also = [
        "+".join(record.taps_resolved) if pooled else "",
        "fine-tuned" if record.finetune else "",
        f"protocol {record.protocol}" if record.protocol not in ("standard", PROTOCOL) else "",
    ]
    dims = spec.get("layer_dims") or []
    layers = [int(layer) for tap in record.taps_resolved if (layer := tap.rpartition("@")[2]).isdigit()]
    known = layers and max(layers) < len(dims)
    return {
        "model": spec.get("name") or spec.get("architecture") or record.backbone,
        "name": " ".join(filter(None, (label, *also))),
        "feature_dim": sum(dims[layer] for layer in layers) if known else None,
    }


def _partition(record: Record) -> Any:
    """A part of the training split that was asked for is another partition."""
    shots, limit = record.task_params.get("shots"), record.dataset_params.get("limit")
    own = f"{shots}-shot" if shots else f"limit-{limit}" if limit else "default"
    return _said(record, "partition", own)


def _counts(record: Record) -> Json:
    ours = {"n_train": "train", "n_val": "val", "n_test": "test", "num_classes": "classes"}
    return {theirs: record.counts.get(name) for theirs, name in ours.items()}


def _sweep(record: Record) -> Json:
    training, selection = record.training or {}, record.selection
    logistic = record.probe == "logistic"
    start, stop, num = selection.get("c_range") or _range(selection.get("grid", {}).get("C"))
    merged = record.task_params.get("refit") if logistic and selection else None
    return {
        "best_c": record.hyperparameters.get("C") if logistic else None,
        "best_lr": record.hyperparameters.get("learning_rate"),
        "best_batch_size": training.get("batch_size", record.hyperparameters.get("batch_size")),
        "c_range_start": start,
        "c_range_stop": stop,
        "c_range_num": num,
        "merge_val": _said(record, "merge_val", merged),
    }


def _range(grid: Any) -> tuple[float | None, float | None, int | None]:
    """First and last exponent of ten and how many values, of a geometric grid of C."""
    if not isinstance(grid, list) or not grid or not all(is_number(each) and each > 0 for each in grid):
        return None, None, None
    exponents = sorted(math.log10(each) for each in grid)
    low, high, n = exponents[0], exponents[-1], len(grid)
    even = all(
        abs(each - (low + (high - low) * i / max(n - 1, 1))) < 1e-6 for i, each in enumerate(exponents)
    )
    return (_short(low), _short(high), n) if even else (None, None, None)


def _short(exponent: float) -> float:
    """-6 for what is -6 but for rounding."""
    rounded = round(exponent, 6)
    return int(rounded) if rounded.is_integer() else rounded


def _said(record: Record, name: str, otherwise: Any = None) -> Any:
    for told in (record.dataset_params, record.task_params):
        if told.get(name) is not None:
            return told[name]
    return otherwise
