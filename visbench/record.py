"""A record: one line of JSON that holds a number and all that determines it.

Three digests are drawn from it: `board_key` of what two records must share to be compared, `row_key` of the
backbone as it was used, and `run_key` of both and the seed, which is what a resumed run looks for.  All
three read only what is known before a run, so a planned record has the keys of the finished one.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from os import PathLike, fspath
from typing import Any, Self

DIGITS = 8  # of a key that a person is shown; any unambiguous beginning of at least four names it
SCHEMA_VERSION = 1  # fields are only ever added

Json = dict[str, Any]


def now() -> str:
    """This moment, in UTC to the millisecond: `2026-01-31T12:00:00.000Z`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, kw_only=True)
class Record:
    """What one probe said of one backbone on one dataset.  Holds what JSON can hold: NaN becomes None."""

    schema_version: int = SCHEMA_VERSION
    timestamp: str = field(default_factory=now)

    task: str
    level: str | None = None  # high, mid, low
    protocol: str = "standard"
    probe: str | None = None  # None where nothing is learnt

    dataset: str
    split: str | None = None  # the one that is scored
    train_split: str | None = None
    val_split: str | None = None
    dataset_size: int | None = None  # images of the scored split
    dataset_fingerprint: str | None = None  # of the content and labels of every split in use
    dataset_params: Json = field(default_factory=dict)  # limit, columns, how a split was drawn
    counts: Json = field(default_factory=dict)  # images a split, classes, unreadable files
    unreadable: Json = field(default_factory=dict)  # files that were left out: name → reason

    backbone: str  # the name it was asked by
    backbone_key: str | None = None  # digest of the weights
    backbone_spec: Json = field(default_factory=dict)
    control: str | None = None  # what kind of control this is: pixels, random weights, shuffled labels
    image_size: int | str | None = None  # as asked: pixels, or "native"
    taps: list[str] = field(default_factory=list)  # as asked: ["default"]
    taps_resolved: list[str] = field(default_factory=list)  # as read: ["cls@11"]
    pooling: str | None = None  # as resolved
    pooling_requested: str | None = None
    feature_mode: str | None = None
    layer: int | None = None  # as resolved
    layers: list[int] | None = None
    feature_dtype: str | None = None

    task_params: Json = field(default_factory=dict)
    hyperparameters: Json = field(default_factory=dict)  # those the score was made with
    selection: Json = field(default_factory=dict)  # how they were chosen, grid; results under "outcome"
    training: Json | None = None  # settings of an iterative fit: epochs, batch size, schedule
    finetune: Json | None = None  # None: the backbone was frozen
    seed: int | None = None
    seeds: list[int] | None = None

    headline: str | None = None  # the metric that ranks
    better: str = "higher"  # which way the headline points
    metrics: Json = field(default_factory=dict)  # name → number, None where undefined
    intervals: Json = field(default_factory=dict)  # name → [low, high], 95 %
    n: Json = field(default_factory=dict)  # name → samples behind it
    samples: str | None = None  # where the scores of every sample lie beside the results (visbench.samples)
    context: Json = field(default_factory=dict)  # ceiling, chance, train score, classes scored, tie rate
    convergence: Json = field(default_factory=dict)

    versions: Json = field(default_factory=dict)
    device: str | None = None
    duration_seconds: float | None = None
    notes: Any = None
    caller: str | None = None  # "cli" or "python"
    extra: Json = field(default_factory=dict)  # fields of another schema, written back as they came

    def __post_init__(self) -> None:
        for name in FIELDS:
            object.__setattr__(self, name, plain(getattr(self, name), name))
        for name in MAPPINGS:
            if not isinstance(getattr(self, name), dict):
                raise TypeError(f"{name} is not a mapping but {getattr(self, name)!r}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Take what is known, keep what is not under `extra`, and let defaults fill nulls and gaps."""
        known = {key: value for key, value in values.items() if key in FIELDS and value is not None}
        extra = {key: value for key, value in values.items() if key not in FIELDS}
        try:
            return cls(**{**known, "extra": {**known.get("extra", {}), **extra}})
        except TypeError as error:
            raise ValueError(f"not a record: {error}") from error

    @classmethod
    def from_json(cls, line: str | bytes) -> Self:
        """Read one line; one without `protocol` was written by the older VisBench."""
        values = json.loads(line, parse_constant=lambda constant: None)
        if not isinstance(values, dict):
            raise ValueError("not a JSON object")
        return cls.from_dict({"protocol": "visbench", "timestamp": "", **values})

    def to_dict(self) -> Json:
        """The fields in their order, those of another schema last."""
        values = {name: getattr(self, name) for name in FIELDS if name != "extra"}
        return {**values, **self.extra}

    def to_json(self) -> str:
        """One line of valid JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)


FIELDS = tuple(each.name for each in fields(Record))
MAPPINGS = tuple(each.name for each in fields(Record) if each.default_factory is dict)

# What must agree, as asked, before two numbers may share a board.
_PROTOCOL = (
    *("protocol", "task", "task_params", "probe", "training", "finetune"),
    *("split", "train_split", "val_split", "dataset_params"),
    *("image_size", "taps", "pooling_requested", "feature_mode"),
)
# What says how images were found and not which: a table and its folder are one board.
_HOW_READ = {
    *("table", "image_column", "label_column", "split_column", "shards", "label_key"),
    *("layout", "target_dir", "image_dir", "lists"),
}
# What changes no number in a backbone's spec.
_ONLY_TOLD = {"name", "alias", "weights_source", "notes", "num_params", "random_params"}


def protocol_part(record: Record | Mapping[str, Any]) -> Json:
    """All that two records must agree on to share a board: what was asked, not what it resolved to.

    Data are the same if their fingerprints are, whatever the folder is called.  Hyperparameters count if
    they were given; if they were chosen, the way of choosing counts and not its outcome.
    """
    record = _as_record(record)
    part = {name: getattr(record, name) for name in _PROTOCOL}
    part["data"] = record.dataset_fingerprint or record.dataset
    part["selection"] = {key: value for key, value in record.selection.items() if key != "outcome"}
    part["dataset_params"] = {
        key: value for key, value in record.dataset_params.items() if key not in _HOW_READ
    }
    part["hyperparameters"] = {} if record.selection else record.hyperparameters
    return part


def backbone_part(record: Record | Mapping[str, Any]) -> Json:
    """The backbone as it was used: weights, transform, precision; not the name it was asked by."""
    record = _as_record(record)
    spec = {key: value for key, value in record.backbone_spec.items() if key not in _ONLY_TOLD}
    return {
        "weights": record.backbone_key or record.backbone,
        "control": record.control,
        "feature_dtype": record.feature_dtype,
        **spec,
    }


def board_key(record: Record | Mapping[str, Any]) -> str:
    """Records with the same key are comparable."""
    return _digest(protocol_part(record))


def row_key(record: Record | Mapping[str, Any]) -> str:
    """Records of one board with the same key are runs of the same backbone."""
    return _digest(backbone_part(record))


def run_key(record: Record | Mapping[str, Any]) -> str:
    """Records with the same key hold the same number: device, time, workers and versions are not in it."""
    record = _as_record(record)
    return _digest([protocol_part(record), backbone_part(record), record.seed, record.seeds])


def written(record: Record) -> datetime:
    """When a record was made; the beginning of time for an older one that does not say."""
    try:
        when = datetime.fromisoformat(record.timestamp)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def digest(value: Any) -> str:
    """32 hex digits of the canonical JSON of `value`."""
    return _digest(plain(value))


def _digest(value: Any) -> str:
    """The same of what is plain already, as all that a record holds."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def plain(value: Any, name: str = "value") -> Any:
    """`value` in JSON's own types: arrays as lists, numpy scalars as numbers, NaN and infinities as None."""
    try:
        return _plain(value)
    except _CannotHoldError:
        _name_what_cannot(value, name)
        raise


_SAME = {type(None), bool, int, str}


class _CannotHoldError(TypeError):
    """Nothing of JSON stands for a value."""


def _plain(value: Any) -> Any:
    kind = type(value)  # first what most records hold: a check by isinstance is ten times as slow
    if kind in _SAME:
        return value
    if kind is float:
        return value if math.isfinite(value) else None
    if kind is dict:
        return {
            key if type(key) is str else str(key): item if type(item) in _SAME else _plain(item)
            for key, item in value.items()
        }
    if kind is list or kind is tuple:
        return [item if type(item) in _SAME else _plain(item) for item in value]
    return _plain_of_another_kind(value)


def _plain_of_another_kind(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _plain(dict(value))
    if isinstance(value, list | tuple):
        return _plain(list(value))
    if isinstance(value, set | frozenset):
        return sorted(map(_plain, value))
    if hasattr(value, "tolist"):  # numpy and jax, scalars and arrays, without importing either
        return _plain(value.tolist())
    if isinstance(value, float):
        return _plain(float(value))
    if isinstance(value, int):  # an enum
        return int(value)
    if isinstance(value, str):  # str() would give the name of an enum's member
        return str.__str__(value)
    if isinstance(value, PathLike):
        return fspath(value)
    raise _CannotHoldError(f"a {type(value).__name__}")


def _name_what_cannot(value: Any, name: str) -> None:
    """Raise the error under the name of the place where it arose."""
    items: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        items = [(f"{name}[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, list | tuple | set | frozenset):
        items = [(name, item) for item in value]
    for place, item in items:
        try:
            _plain(item)
        except _CannotHoldError:
            _name_what_cannot(item, place)
    raise TypeError(f"{name} is a {type(value).__name__}, which a record cannot hold") from None


def is_number(value: Any) -> bool:
    """Whether it is a number and no bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_record(record: Record | Mapping[str, Any]) -> Record:
    return record if isinstance(record, Record) else Record.from_dict(record)
