"""From a record back to what was asked: the options of `visbench run` or `visbench sweep` that lead to it.

A record keeps neither the place of its data nor that of files (weights, class names, lists of stems), so these are
told anew.  What could not be found here shows in the keys of what is planned, and is refused rather than guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extract import taps as tap_names
from visbench.options import SETTINGS
from visbench.record import Record
from visbench.suiting.words import Switch
from visbench.tasks import get_task

_CALLED = {"batch_size": "train_batch_size"}  # in a record → as an option
_TOLD_ANEW = {"class_names", "templates", "image_dir", "target_dir", "stems", "train_stems", "annotations"}
_PREFIXES = ("", "target_", "normal_")
_AXES = ("tap", "layer")


def sweeps(record: Record) -> bool:
    """Whether settings were chosen from a grid, or few shots drawn, which `visbench sweep` does."""
    return bool(record.selection) or "shots" in record.task_params


def axes(record: Record) -> dict[str, tuple[Any, ...]]:
    """The grid that was asked for."""
    return {name: tuple(values) for name, values in record.selection.get("grid", {}).items()}


def keys(record: Record, names: Mapping[str, Switch]) -> dict[str, Any]:
    """Options by name, of those that the record's task has."""
    found: dict[str, Any] = {
        "image_size": record.image_size,
        "dtype": record.feature_dtype,
        "protocol": record.protocol,
        "seed": record.seed,
        "seeds": len(record.seeds) if record.seeds else None,
        "probes": [record.probe] if record.probe and " or " not in record.probe else None,
        "on_bad": "skip" if record.unreadable else None,
        "controls": ["shuffle"] if record.control == "shuffled labels" else None,
        "widen": record.selection.get("widen") or None,
        "select": _select(str(record.selection.get("how", ""))),
        **_backbone(record),
        **_taps(record),
        **_splits(record),
        **_data(record.dataset_params, names),
        **_settings(record),
    }
    grid = record.selection.get("grid", {})
    if "head" in grid:
        found["probes"] = [grid["head"][0]]
    accepted = get_task(record.task).measurement().accepts(next(iter(found["probes"] or ()), None))
    idle = {*SETTINGS, "standardize"} - accepted | {*grid}
    return {name: it for name, it in found.items() if it is not None and name in names and name not in idle}


def _backbone(record: Record) -> dict[str, Any]:
    spec, transform = record.backbone_spec, record.backbone_spec.get("transform", {})
    return {
        "crop_pct": transform.get("crop_pct") if transform.get("crop_pct") != 1.0 else None,
        "amp": "bf16" if spec.get("precision") == "bf16" else None,
        "projection": True if spec.get("projection") or spec.get("options", {}).get("projection") else None,
        "norm": False if False in (spec.get("norm"), spec.get("options", {}).get("norm")) else None,
        "random_weights": True if record.control == "random weights" else None,
    }


def _taps(record: Record) -> dict[str, Any]:
    taps = [tap_names.parse(tap) for tap in record.taps]
    grid = record.selection.get("grid", {})
    if not taps or any(axis in grid for axis in _AXES):
        return {}
    grids = list(dict.fromkeys(tap.layer for tap in taps if not tap.pooled)) or [taps[0].layer]
    return {"pooling": taps[0].kind, "layer": grids if len(grids) > 1 else grids[0]}


def _splits(record: Record) -> dict[str, Any]:
    """The splits by name; parts that were drawn are drawn again."""
    if "(drawn)" in str(record.split):
        return {}
    splits = {"split": record.split, "train_split": record.train_split, "val_split": record.val_split}
    named = [name for name in splits.values() if name]
    return {**splits, "allow_same": True if len(set(named)) < len(named) else None}


def _data(params: Mapping[str, Any], names: Mapping[str, Switch]) -> dict[str, Any]:
    found = {name: value for name, value in params.items() if name not in _TOLD_ANEW}
    for name, value in params.get("target_transform", {}).items():
        called = next((prefix + name for prefix in _PREFIXES if prefix + name in names), None)
        if called is not None and value not in (None, [], ""):
            found[called] = value
    return found


def _settings(record: Record) -> dict[str, Any]:
    training = {_CALLED.get(name, name): value for name, value in (record.training or {}).items()}
    if not isinstance(training.get("epochs"), int):  # said in words where nobody chose them
        training.pop("epochs", None)
    given = {} if record.selection else dict(record.hyperparameters)
    if "C" in given:
        given.pop("l2", None)  # the same, a sample
    params = {name: value for name, value in record.task_params.items() if name not in _TOLD_ANEW}
    answer = params.pop("answer", None)
    if isinstance(answer, Mapping):  # what a head's answer has to be told: num_classes, n_bins …
        params = {**answer, **params}
    refit = params.pop("refit", None)
    for name in ("protocol", "head", "probe"):  # said by fields of the record
        params.pop(name, None)
    return {
        **params,
        **training,
        **given,
        "no_refit": True
        if refit is False and "shots" not in params and record.protocol == "standard"
        else None,
    }


def _select(how: str) -> str | None:
    _, _, rows = how.rpartition(" chosen on ")
    if rows == "held-out training data":
        return "holdout"
    if rows.endswith("folds of the training data"):
        return f"cv{rows.split()[0]}"
    return "val" if rows.endswith(" split") else None
