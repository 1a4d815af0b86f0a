"""A backbone in plain data, and the identity of the features it gives.

Needs no torch: probes, records, boards and a run whose features are all stored know a backbone by this.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from extract.taps import Tap

READING = 1  # counted up when our way of reading a model changes what a tap means


@dataclass(frozen=True)
class BackboneSpec:
    """All that is known of a backbone without its weights.  Grids are (h, w); (0, 0) where there is none."""

    name: str  # as a request would say it: "timm:vit_small_patch14_dinov2.lvd142m"
    architecture: str
    library: str  # with its minor version: "timm 1.0"
    weights: str  # digest of every parameter and buffer
    weights_source: str
    transform: Mapping[str, Any]
    num_layers: int
    layer_dims: tuple[int, ...]
    layer_grids: tuple[tuple[int, int], ...]
    num_params: int
    alias: str | None = None
    has_cls: bool = False
    num_prefix_tokens: int = 0
    patch_size: int | None = None
    default_pool: str = "mean"
    random_params: int = 0  # parameters that no weights were found for
    precision: str = "float32"
    options: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what a user should know before trusting a number

    def to_dict(self) -> dict[str, Any]:
        """JSON values only; `from_dict` reads them back."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> BackboneSpec:
        """The spec that `to_dict` wrote."""
        values = dict(plain)
        values["layer_dims"] = tuple(values["layer_dims"])
        values["layer_grids"] = tuple((h, w) for h, w in values["layer_grids"])
        values["notes"] = tuple(values["notes"])
        return cls(**values)


@dataclass(frozen=True)
class Identity:
    """Two features with one digest are the same numbers; `plain` is what was digested."""

    digest: str  # 32 hex digits
    plain: Mapping[str, Any]


def identity(spec: BackboneSpec, tap: Tap, dtype: str) -> Identity:
    """Of the features that `tap` (resolved) keeps: all that could change a number, and nothing else.

    Names, aliases and where the weights came from are left out, since the weights' digest settles them;
    so are device, batch size and workers.
    """
    plain: dict[str, Any] = {
        "reading": READING,
        "architecture": spec.architecture,
        "library": spec.library,
        "weights": spec.weights,
        "transform": spec.transform,
        "options": spec.options,
        "precision": spec.precision,
        "prefix_tokens": spec.num_prefix_tokens,
        "patch_size": spec.patch_size,
        "tap": tap.kind,
        "layer": tap.layer,
        "dtype": dtype,
    }
    return Identity(digest_json(plain), json.loads(json.dumps(plain)))


def digest_json(value: Any) -> str:
    """32 hex digits of a JSON value; the order of keys does not matter."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
