"""What every backbone is: a module, its transform, and a way of reading tokens at its layers.

Axes: b images, p prefix tokens (CLS, registers), n patch tokens, d dims, (h, w) the patch grid.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from extract import taps as tap_names
from extract.digests import weights_digest
from extract.errors import InputError
from extract.spec import BackboneSpec
from extract.taps import Tap
from extract.transforms import ImageTransform, grey_picture
from extract.wording import counted

FEATURE_MODES = ("dense_only", "dense_cls_broadcast", "dense_plus_cls")


class Layer(NamedTuple):
    """What a model says at one layer."""

    prefix: Tensor  # (b, p, d); p may be 0
    patches: Tensor  # (b, n, d), row by row where they fill a grid
    grid: tuple[int, int] | None  # (h, w) with h · w = n; None where they fill none

    @classmethod
    def of_map(cls, features: Tensor, prefix: Tensor | None = None) -> Layer:
        """From PyTorch's (b, d, h, w), with the prefix tokens beside it."""
        patches = features.permute(0, 2, 3, 1).flatten(1, 2)
        grid = (features.shape[2], features.shape[3])
        return cls(patches[:, :0] if prefix is None else prefix, patches, grid)

    def read(self, tap: Tap) -> Tensor:
        """`tap` of this layer in float32, in memory of its own."""
        if tap.kind == "cls":
            return self.prefix[:, 0].float().clone(memory_format=torch.contiguous_format)
        if tap.kind == "mean":
            return self.patches.float().mean(1)
        if self.grid is None:
            raise InputError(
                f"{counted(self.patches.shape[1], 'patch token')} without a known grid; declare patch_size="
            )
        grid = self.patches.float().reshape(self.patches.shape[0], *self.grid, -1)  # not len(): traced
        return grid.clone(memory_format=torch.contiguous_format)


@dataclass(frozen=True)
class Facts:
    """What a loader knows of a backbone and measuring cannot tell; the fields are the spec's."""

    name: str
    architecture: str = ""  # "" for the class's name
    library: str = ""
    weights_source: str = "as given"
    alias: str | None = None
    random_params: int = 0
    precision: str = "float32"
    options: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def plus(self, *notes: str, **options: Any) -> Facts:
        """With more notes and options."""
        return replace(self, notes=self.notes + notes, options={**self.options, **options})


class Backbone(ABC):
    """A frozen model in eval mode.  A subclass says how its layers are read; several threads may read at once.

    The class attributes describe the reading and are set before `Backbone.__init__` runs the model once, on a
    grey picture, to learn its shapes.
    """

    num_layers: int = 1
    has_cls: bool = False
    num_prefix_tokens: int = 0
    patch_size: int | None = None
    default_pool: str = "mean"

    def __init__(self, module: nn.Module, transform: ImageTransform, facts: Facts) -> None:
        self.module = module.eval().requires_grad_(False)
        self.transform = transform
        self._spec, self._measured = self._measure(facts), self._writes()

    @property
    def spec(self) -> BackboneSpec:
        """What is known of it.  The digest follows weights that were trained or loaded into it meanwhile."""
        writes = self._writes()
        if writes != self._measured:
            self._spec = replace(self._spec, weights=weights_digest(self.module.state_dict()))
            self._measured = writes
        return self._spec

    @spec.setter
    def spec(self, spec: BackboneSpec) -> None:
        self._spec = spec

    @abstractmethod
    def read(self, images: Tensor, layers: Sequence[int]) -> Mapping[int, Layer]:
        """One forward pass of normalised images (b, 3, h, w); every one of `layers` (increasing) is wanted."""

    def features(self, batch: Tensor, taps: Sequence[Tap]) -> dict[Tap, Tensor]:
        """All `taps` (resolved) from one forward pass: pooled ones (b, d), grids (b, h, w, d), float32."""
        if not taps:
            return {}
        layers = self._forward(batch, sorted({tap.layer for tap in taps}), self._spec.precision)
        with torch.inference_mode():
            return {tap: layers[tap.layer].read(tap) for tap in taps}

    def extract_features(
        self,
        images: Tensor,
        pooling: str = "default",
        layers: Sequence[int] | None = None,
        feature_mode: str = "dense_only",
    ) -> dict[str, Any]:
        """Normalised images to maps in PyTorch's order: `dense` (b, d, h, w), `pooled` (b, d), `grid_hw`.

        `layers` adds `dense_layers`, one map each.  `feature_mode` may add the CLS token: behind every patch
        of `dense` ("dense_cls_broadcast") or as `cls` beside it ("dense_plus_cls").
        """
        if feature_mode not in FEATURE_MODES:
            raise InputError(f'feature_mode "{feature_mode}" is not one of {", ".join(FEATURE_MODES)}')
        dense = tap_names.resolve("patches", self.spec)
        pooled = tap_names.resolve(pooling, self.spec)
        several = [Tap("patches", i) for i in tap_names.resolve_layers(layers or (), self.spec)]
        wanted = [dense, pooled, *several]
        if feature_mode != "dense_only":
            wanted.append(tap_names.resolve("cls", self.spec))
        read = self.features(images, list(dict.fromkeys(wanted)))
        maps = {tap: value.permute(0, 3, 1, 2) for tap, value in read.items() if not tap.pooled}
        answer: dict[str, Any] = {"dense": maps[dense], "pooled": read[pooled]}
        answer["grid_hw"] = tuple(maps[dense].shape[2:])
        if several:
            answer["dense_layers"] = [maps[tap] for tap in several]
        if feature_mode == "dense_plus_cls":
            answer["cls"] = read[wanted[-1]]
        elif feature_mode == "dense_cls_broadcast":
            token = read[wanted[-1]][:, :, None, None].expand(-1, -1, *answer["grid_hw"])
            answer["dense"] = torch.cat([maps[dense], token], 1)
        return answer

    @property
    def embed_dim(self) -> int:
        """Dims of the last layer."""
        return self.spec.layer_dims[-1]

    def to(self, device: str | torch.device) -> Self:
        """Move to `device`."""
        self.module.to(device)
        return self

    def _forward(self, batch: Tensor, layers: Sequence[int], precision: str) -> Mapping[int, Layer]:
        if any(module.training for module in self.module.modules()):  # somebody trains it beside us
            self.module.eval()  # statistics of a batch are no property of an image
        reduced = precision == "bf16"
        with (
            torch.inference_mode(),
            torch.autocast(batch.device.type, dtype=torch.bfloat16, enabled=reduced),
        ):
            return self.read(batch, layers)

    def _writes(self) -> list[int]:
        """How often each weight was written to, which PyTorch counts (but not through `.data`)."""
        tensors = [*self.module.parameters(), *self.module.buffers()]
        return [tensor._version for tensor in tensors if not tensor.is_inference()]

    def _measure(self, facts: Facts) -> BackboneSpec:
        sample = self.transform.normalise(self.transform.place(grey_picture())[None])
        sample = sample.to(next((p.device for p in self.module.parameters()), sample.device))
        read = self._forward(sample, range(self.num_layers), facts.precision)
        layers = [read[index] for index in range(self.num_layers)]
        state = self.module.state_dict()
        return BackboneSpec(
            **{
                **vars(facts),
                "architecture": facts.architecture or type(self).__qualname__,
                "weights": weights_digest(state),
                "transform": self.transform.describe(),
                "num_layers": self.num_layers,
                "layer_dims": tuple(layer.patches.shape[2] for layer in layers),
                "layer_grids": tuple(layer.grid or (0, 0) for layer in layers),
                "num_params": sum(p.numel() for p in self.module.parameters()),
                "has_cls": self.has_cls,
                "num_prefix_tokens": self.num_prefix_tokens,
                "patch_size": self.patch_size,
                "default_pool": self.default_pool,
            }
        )
