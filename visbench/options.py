"""What a run may be told, with the defaults that suit a stranger.  The command line and Python share it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from visbench.errors import UsageError, did_you_mean

Protocol = Literal["standard", "visbench"]
CONTROLS = ("shuffle", "random-weights", "pixels")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Everything about a run but the backbone, the task and the data."""

    # features
    pooling: str = "default"
    layer: int | tuple[int, ...] = -1  # of a dense task also several
    image_size: int | str = 224
    checkpoint: str | None = None
    backbone_options: Mapping[str, Any] = field(default_factory=dict)  # projection, norm, precision, …
    dtype: str = "float16"
    device: str | None = None
    batch_size: int | None = None
    workers: int | None = None
    store: Any = None  # a place or a Store; None: $VISBENCH_STORE or the user's cache folder
    extract: bool = True  # False: only what is stored
    on_bad: str = "refuse"
    max_pixels: int | None = None

    # data
    dataset_name: str | None = None  # in records; None: the folder's or the table's own
    split: str | None = None
    train_split: str | None = None
    val_split: str | None = None
    allow_same: bool = False
    limit: int | None = None  # images a class
    reading: Mapping[str, Any] = field(default_factory=dict)  # of `open_dataset`: a table's columns, …
    truth: Mapping[str, Any] = field(
        default_factory=dict
    )  # where maps, pairs or boxes lie and what they mean

    # probe
    protocol: Protocol = "standard"
    probe_settings: Mapping[str, Any] = field(default_factory=dict)
    standardize: bool | None = None
    refit: bool = True
    widen: bool = False
    select: str | None = None  # val, holdout or cv5; None: val where there is one
    seed: int = 0
    seeds: int = 1  # fits of a probe that is random, from `seed` up
    grid: Mapping[str, tuple[Any, ...]] | None = None  # of a sweep: axis → values
    shots: int | None = None  # training images a class
    draws: int = 1  # of those
    allow_fewer: bool = False  # where a class has not so many
    controls: tuple[str, ...] = ()

    # records
    results: str | Path | None = None
    resume: bool = False
    notes: str | None = None
    caller: str = "python"

    def __post_init__(self) -> None:
        for name, allowed in (
            ("pooling", ("default", "cls", "mean")),
            ("on_bad", ("refuse", "skip")),
            ("dtype", ("float16", "bfloat16", "float32")),
            ("protocol", ("standard", "visbench")),
        ):
            if getattr(self, name) not in allowed:
                raise UsageError(f"{name} is {getattr(self, name)!r}; it can be {', '.join(allowed)}")
        layers = self.layer if isinstance(self.layer, tuple) else (self.layer,)
        if not layers or any(isinstance(each, bool) or not isinstance(each, int) for each in layers):
            raise UsageError(
                f"layer is {self.layer!r}; layers are whole numbers from 0, or from the end: -1 is the last"
            )
        for control in self.controls:
            if control not in CONTROLS:
                near = did_you_mean(control, CONTROLS)
                raise UsageError(f'there is no control "{control}".{near} There are {", ".join(CONTROLS)}.')
        for name in ("seeds", "draws"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; it counts from 1")
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"limit is {self.limit}; it counts images a class and starts at 1")

    @property
    def tap(self) -> str:
        """The tap asked for, such as `default@-1`; by default just `default`."""
        return self.pooling if self.one_layer == -1 else f"{self.pooling}@{self.one_layer}"

    @property
    def one_layer(self) -> int:
        """The layer of a task that reads one."""
        if isinstance(self.layer, int):
            return self.layer
        listed = ", ".join(map(str, self.layer))
        raise UsageError(f"layers {listed} are several, and this task reads one; `visbench sweep` tries each")


SETTINGS = (
    "C",
    "l2",
    "k",
    "temperature",
    "learning_rate",
    "weight_decay",
    "epochs",
    "train_batch_size",
    "optimizer",
    "schedule",
    "topk",
    "metric",
    "max_warp",
    "num_corr",
    "ratio",
    "mutual",
    "units",
    "thresholds",
    "score_threshold",
    "nms_iou",
    "max_detections",
    "class_names",
    "templates",
    "hidden_dim",
    "loss_stride",
    "cls_token",
)
_ALIASES = {"lr": "learning_rate", "layers": "layer", "cache": "store", "threshold_units": "units"}
_BACKBONE = (
    "projection",
    "norm",
    "precision",
    "crop_pct",
    "mean",
    "std",
    "interpolation",
    "patch_size",
    "num_prefix_tokens",
    "revision",
    "strict",
    "pretrained",
)
READING = ("image_column", "label_column", "split_column", "allow_empty_classes")


_TRUTH = (
    "image_dir",
    "target_dir",
    "stems",
    "train_stems",
    "num_classes",
    "ignore_index",
    "label_offset",
    "target_hole",
    "target_key",
    "palette",
    "foreground",
    "foreground_above",
    "target_scale",
    "max_depth",
    "n_bins",
    "nyu_crop",
    "normal_source",
    "normal_colours",
    "normal_order",
    "normal_flip",
    "uncertainty",
    "domain",
    "voc",
    "min_votes",
    "partition",
    "annotations",
    "min_box_size",
    "include_difficult",
    "origin",
    "columns",
    "disparity_scale",
    "disparity_offset",
    "disparity_hole",
    "disparity_key",
    "depth_scale",
    "pairs_per_image",
    "max_rotation",
)
_GROUPS = {"probe_settings": SETTINGS, "backbone_options": _BACKBONE, "reading": READING, "truth": _TRUTH}


def make_options(**given: Any) -> Options:
    """Options from flat keywords: those of `Options`, of a probe, of a backbone and of a reader together."""
    homes = {name: group for group, members in _GROUPS.items() for name in members}
    grouped: dict[str, dict[str, Any]] = {group: dict(given.pop(group, {})) for group in _GROUPS}
    plain: dict[str, Any] = {}
    known = [each.name for each in fields(Options)]
    for key, given_value in given.items():
        name, value = _ALIASES.get(key, key), _plain(given_value)
        if name in homes:
            if value is not None:
                grouped[homes[name]][name] = value
        elif name in known:
            plain[name] = value
        else:
            raise UsageError(f'there is no option "{key}".{did_you_mean(key, [*known, *homes])}')
    for name, kind in _NUMBERS.items():
        if name in grouped["truth"]:
            grouped["truth"][name] = _number(name, grouped["truth"][name], kind)
    plain |= grouped
    return Options(**plain)


_NUMBERS = {
    "num_classes": int,
    "n_bins": int,
    "label_offset": int,
    "target_scale": float,
    "max_depth": float,
    "disparity_scale": float,
    "disparity_offset": float,
    "depth_scale": float,
    "pairs_per_image": int,
    "max_rotation": float,
    "min_votes": int,
    "min_box_size": float,
}


def _plain(value: Any) -> Any:
    """A number of numpy as one of Python; a number must be spelt in one way to be one number."""
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        return value.item()
    return tuple(map(_plain, value)) if isinstance(value, tuple | list) else value


def _number(name: str, value: Any, kind: type) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != kind(value):
        raise UsageError(f"{name} is {value!r}; it must be a {'whole ' if kind is int else ''}number")
    return kind(value)
