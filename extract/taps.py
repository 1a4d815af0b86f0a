"""What of a backbone is kept: `cls`, `mean` (over patch tokens) or the `patches` grid, each at a layer.

Written `patches@11`, `cls@-1`; `cls` alone means the last layer, and `default` is whichever of `cls` and
`mean` the model was made for.  Layers count from 0, negative ones from the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from extract.errors import InputError
from extract.spec import BackboneSpec

KINDS = ("default", "cls", "mean", "patches")


@dataclass(frozen=True)
class Tap:
    """One thing to keep of a forward pass."""

    kind: str = "default"
    layer: int = -1

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(
                f'"{self.kind}" is not a tap; there are {", ".join(KINDS)}, each with or without @LAYER'
            )

    def __str__(self) -> str:
        return self.kind if self.layer == -1 else f"{self.kind}@{self.layer}"

    @property
    def pooled(self) -> bool:
        """Whether a row is one vector rather than a grid of them."""
        return self.kind != "patches"


def parse(text: str | Tap) -> Tap:
    """The tap that `text` names; a tap comes back as it is."""
    if isinstance(text, Tap):
        return text
    kind, at, layer = text.strip().partition("@")
    if not at:
        return Tap(kind)
    try:
        return Tap(kind, int(layer))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f'"{text}" is not a tap: after the @ comes a layer number, as in {kind}@-1'
        ) from None


def parse_many(taps: str | Iterable[str | Tap], *, layers: Sequence[int] | None = None) -> tuple[Tap, ...]:
    """Several taps, from a list or from "cls,mean@3"; those without a layer are asked at each of `layers`."""
    items = [item for item in taps.split(",") if item.strip()] if isinstance(taps, str) else list(taps)
    found: list[Tap] = []
    for item in items:
        tap = parse(item)
        fixed = layers is None or tap.layer != -1 or (isinstance(item, str) and "@" in item)
        found += [tap] if fixed else [Tap(tap.kind, layer) for layer in layers or ()]
    if not found:
        raise InputError("no tap was asked for; name at least one, such as default")
    return tuple(dict.fromkeys(found))


def resolve(tap: str | Tap, spec: BackboneSpec) -> Tap:
    """`tap` with its layer counted from 0 and its kind settled; refused where the model has no such thing."""
    tap = parse(tap)
    (layer,) = resolve_layers([tap.layer], spec)
    kind = spec.default_pool if tap.kind == "default" else tap.kind
    if kind == "cls" and not spec.has_cls:
        raise InputError(
            f"{spec.name} has no CLS token; ask for mean, or default, which is {spec.default_pool}"
        )
    if kind == "patches" and spec.layer_grids[layer] == (0, 0):
        raise InputError(
            f"{spec.name} gives no grid of patches at layer {layer}: its output is pooled, or tokens that fill "
            "no grid (declare patch_size= and num_prefix_tokens=); pooled taps remain"
        )
    return Tap(kind, layer)


def resolve_layers(layers: Sequence[int], spec: BackboneSpec) -> tuple[int, ...]:
    """Layers counted from 0; they must exist and, once resolved, increase strictly."""
    last = spec.num_layers - 1
    for layer in layers:
        if not -spec.num_layers <= layer <= last:
            there = (
                f"its {spec.num_layers} layers are 0 … {last}, or -{spec.num_layers} … -1 from the end"
                if last
                else "its only layer is 0, or -1 from the end"
            )
            raise InputError(f"{spec.name} has no layer {layer}; {there}")
    resolved = tuple(layer % spec.num_layers for layer in layers)
    if any(after <= before for before, after in pairwise(resolved)):
        raise InputError(
            f"layers {_listed(layers)} are {_listed(resolved)} of {spec.name}; they have to increase"
        )
    return resolved


def shape(tap: Tap, spec: BackboneSpec) -> tuple[int, ...]:
    """Of one row: (d,) of a pooled tap, (h, w, d) of a grid.  `tap` is resolved."""
    dims = (spec.layer_dims[tap.layer],)
    return dims if tap.pooled else spec.layer_grids[tap.layer] + dims


def _listed(layers: Sequence[int]) -> str:
    return ", ".join(map(str, layers))
