"""What boards and their rows are called: a protocol in a few words, and backbones told apart.

No two boards of one call, and no two rows of one board, read the same.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from extract.wording import counted
from visbench.record import Record, backbone_part, protocol_part

USUAL_SIZE = 224


def titles(records: Sequence[Record]) -> list[str]:
    """What each board is about; where two would read the same, also what tells them apart."""
    return _told_apart([_title(record) for record in records], [protocol_part(record) for record in records])


def _title(record: Record) -> str:
    read_out = ", ".join(filter(None, [record.probe, record.selection.get("how")]))
    varied = {"layer", "tap"} & record.selection.get("grid", {}).keys()  # then `how` says it
    together = len(record.taps) == 1 or not varied
    asked = [tap for tap in record.taps if tap != "default"] if together else []
    shots, warp = record.task_params.get("shots"), record.task_params.get("max_warp")
    return " · ".join(
        filter(
            None,
            [
                record.dataset,
                record.task,
                read_out,
                f"protocol {record.protocol}" if record.protocol != "standard" else "",
                f"image size {record.image_size}" if record.image_size not in (None, USUAL_SIZE) else "",
                ", ".join(asked),
                f"{counted(shots, 'shot')} a class" if shots else "",
                f"max_warp {warp:g}" if warp is not None else "",
                "fine-tuned" if record.finetune else "",
            ],
        )
    )


def labels(records: Sequence[Record], *, every: bool = False) -> list[str]:
    """What each row is called; where two are called the same, also what they were run with, or when."""
    names = [f"{record.backbone}{control_of(record)}" for record in records]
    parts = [backbone_part(record) for record in records]
    if every:
        parts = [part | {"at": record.timestamp[5:19]} for part, record in zip(parts, records, strict=True)]
    return _told_apart(names, parts)


def control_of(record: Record) -> str:
    """` (control)` or which kind it is; nothing of a backbone as it is."""
    if not record.control:
        return ""
    return f" ({'control' if record.control == record.backbone else record.control})"


def _told_apart(names: Sequence[str], parts: Sequence[Mapping[str, Any]]) -> list[str]:
    """`names`, those that occur more than once with the settings in which their `parts` differ."""
    often = Counter(names)
    flat = [_flat(part) for part in parts]
    told = []
    for name, settings in zip(names, flat, strict=True):
        if often[name] > 1:
            twins = [other for other, same in zip(flat, names, strict=True) if same == name]
            keys = dict.fromkeys(key for twin in twins for key in twin)
            differing = [key for key in keys if any(twin.get(key) != settings.get(key) for twin in twins)]
            name += f" [{', '.join(f'{key}={_short(settings.get(key))}' for key in differing)}]"
        told.append(name)
    return told


def _flat(part: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in part.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _short(value: Any) -> str:
    said = value if isinstance(value, str) else json.dumps(value)
    return said if len(said) <= 16 else f"{said[:12]}…"
