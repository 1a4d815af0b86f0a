"""What may be set of a dense probe, what a grid of it may vary, and the programs that follow from one setting.

`learning_rate` and `weight_decay` vary within a program and are trained side by side; `head`, `layer`, `standardize`,
`hidden_dim` and `loss_stride` make programs of their own, which still share every batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from probes.heads.table import HEADS
from probes.heads.table import check as check_head
from visbench.errors import UsageError, did_you_mean
from visbench.grid import Grid, Setting
from visbench.options import Options

LEAVES = ("learning_rate", "weight_decay")
PROGRAMS = ("head", "layer", "standardize", "hidden_dim", "loss_stride")
FIXED = ("epochs", "train_batch_size", "cls_token")  # of all settings alike
CLASSIC = {"learning_rate": 5e-4, "weight_decay": 1e-4}
USUAL = {"learning_rate": (5e-4, 3e-3, 2e-2, 1e-1), "weight_decay": (1e-4, 1e-2)}
EPOCHS, BATCH = 10, 8
STEPS = 500  # at least, where nobody says how many epochs: few images would leave the head half trained
HIDDEN = {"conv_block": 128, "fpn": 128, "dpt": 64}  # channels, where nobody says: dpt's own 256 takes a GPU
FRACTION, FEWEST = 0.1, 6  # of the training images, held out to choose on


@dataclass(frozen=True)
class Plan:
    """Everything that is asked of a dense probe but the data."""

    grid: Grid  # of what varies, and of the numbers that are trained side by side
    fixed: Setting  # what is the same for all settings
    epochs: int | None  # None: 10, or as many as make 500 steps
    batch: int
    layers: tuple[int, ...]  # that a head reads, where the grid does not vary them
    cls: bool = False

    def epochs_of(self, images: int) -> int:
        """How often so many images are gone through."""
        return self.epochs or max(EPOCHS, -(-STEPS // -(-images // self.batch)))

    def layers_of(self, setting: Setting) -> tuple[int, ...]:
        """The layers that the head of a setting reads, as asked."""
        return (setting["layer"],) if "layer" in setting else self.layers

    def whole(self, setting: Setting) -> Setting:
        """A setting of the grid with what is the same for all."""
        return {**self.fixed, **setting}

    @property
    def varied(self) -> list[str]:
        """The axes that have several values."""
        return [name for name, values in self.grid.axes.items() if len(values) > 1]

    @property
    def taps(self) -> list[str]:
        """Every tap that some setting reads."""
        layers = dict.fromkeys(layer for one in self.grid.settings() for layer in self.layers_of(one))
        kinds = ("patches", "cls") if self.cls else ("patches",)
        return [tap_name(kind, layer) for kind in kinds for layer in layers]


def held_out(images: int) -> float:
    """The share of so many training images that settings are chosen on: a tenth, but six where that is a third."""
    return min(1 / 3, max(FRACTION, FEWEST / images))


def tap_name(kind: str, layer: int) -> str:
    """As a run asks for it."""
    return kind if layer == -1 else f"{kind}@{layer}"


def make_plan(head: str, options: Options) -> Plan:
    """What `options` ask of a head; an unknown setting, a bad value, or a setting given twice is refused."""
    given, axes = dict(options.probe_settings), dict(options.grid or {})
    classic = options.protocol == "visbench"
    _check_known(given, axes)
    if options.standardize is not None:
        given["standardize"] = options.standardize
    twice = [name for name in axes if name in given]
    if twice:
        raise UsageError(f"{twice[0]} is given twice, as a setting and as an axis of the grid")
    layers = (options.layer,) if isinstance(options.layer, int) else tuple(options.layer)
    defaults = {
        "head": head,
        "standardize": not classic,
        "loss_stride": 1 if classic else 4,
        "hidden_dim": None,
    }
    usual = {name: (value,) for name, value in CLASSIC.items()} if classic else USUAL
    if "layer" in axes:
        defaults["layer"] = axes["layer"]
    table: dict[str, tuple[Any, ...]] = {}
    for name in (*PROGRAMS, *LEAVES):
        if name == "layer" and name not in axes:
            continue
        default = usual[name] if name in LEAVES else (defaults[name],)
        table[name] = _values(name, axes.get(name, given.get(name, default)))
    axes_of = {name: values for name, values in table.items() if len(values) > 1 or name in LEAVES}
    plan = Plan(
        Grid(axes_of),
        {name: value for name, (value, *_) in table.items() if name not in axes_of},
        epochs=_count("epochs", given.get("epochs", EPOCHS)) if classic or "epochs" in given else None,
        batch=_count("train_batch_size", given.get("train_batch_size", BATCH)),
        layers=layers,
        cls=bool(given.get("cls_token", False)),
    )
    _check_heads(plan)
    return plan


def _check_known(given: Mapping[str, Any], axes: Mapping[str, Any]) -> None:
    known: tuple[str, ...] = (*LEAVES, *PROGRAMS[2:], *FIXED)
    for name in given:
        if name not in known:
            raise UsageError(
                f"a dense probe has no setting {name}.{did_you_mean(name, known)} Its settings: {', '.join(known)}."
            )
    known = (*PROGRAMS, *LEAVES)
    for name in axes:
        if name not in known:
            raise UsageError(
                f'"{name}" is no axis of a dense probe.{did_you_mean(name, known)} Its axes: {", ".join(known)}.'
            )


def _values(name: str, values: Any) -> tuple[Any, ...]:
    listed: Sequence[Any] = values if isinstance(values, tuple | list) else (values,)
    return tuple(dict.fromkeys(_value(name, each) for each in listed))


def _value(name: str, value: Any) -> Any:
    """In the type that the setting has, so that 1 and 1.0 are one setting."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if name in LEAVES:
        if not number or not 0 <= value < float("inf") or (value == 0 and name == "learning_rate"):
            raise UsageError(f"{name} is {value!r}; it must be a finite number, and 0 only as a weight_decay")
        return float(value)
    if name == "standardize":
        if not isinstance(value, bool):
            raise UsageError(f"standardize is {value!r}; it is on or off")
        return value
    if name == "layer":
        if not isinstance(value, int) or isinstance(value, bool):
            raise UsageError(f"layer={value} is no layer; they count from 0, or from the end: -1 is the last")
        return value
    if name == "head":
        if value not in HEADS:
            raise UsageError(
                f'there is no head "{value}".{did_you_mean(str(value), HEADS)} `visbench list heads`'
            )
        return value
    return value if name == "hidden_dim" and value is None else _count(name, value)


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 1 or value != int(value):
        raise UsageError(f"{name} is {value!r}; it counts, so it must be a whole number from 1")
    return int(value)


def _check_heads(plan: Plan) -> None:
    _check_order(plan.layers)
    settings = [plan.whole(setting) for setting in plan.grid.settings()]
    heads = dict.fromkeys(setting["head"] for setting in settings)
    for name, asked in (("hidden_dim", settings[0]["hidden_dim"] is not None), ("cls_token", plan.cls)):
        if asked and not any(has(head, name) for head in heads):
            having = " and ".join(head for head in HEADS if has(head, name))
            raise UsageError(f"{' and '.join(heads)} has no setting {name}; it is one of {having}")
    for setting in settings:
        check_head(setting["head"], channels=1, layers=len(plan.layers_of(setting)))


def has(head: str, name: str) -> bool:
    """Whether a head has `hidden_dim` or `cls_token`; all other settings are those of every head."""
    inside = {"hidden_dim": "hidden_dim", "cls_token": "readout"}.get(name)
    return inside is None or inside in HEADS[head].settings


def _check_order(layers: Sequence[int]) -> None:
    """Several layers are counted from one end, and increase."""
    listed = ", ".join(map(str, layers))
    if len({layer < 0 for layer in layers}) > 1:
        raise UsageError(f"layers {listed} are counted from both ends; count all from 0, or all from the end")
    if list(layers) != sorted(set(layers)):
        raise UsageError(f"layers {listed} have to increase, each once")
