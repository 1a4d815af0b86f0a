"""A backbone whose features can be worked out by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest


@pytest.fixture(scope="session")
def tiny_backbone() -> Callable[..., Any]:
    """`tiny_backbone(size=32, patch=8)` makes a deterministic backbone of two layers and five dims.

    Patch token (r, c) of layer 1 is (mean red, green, blue of the patch in 0 … 1, r, c); the CLS token is
    (mean red, green, blue of the image, -1, -1).  Layer 0 is half of layer 1.
    """
    import torch

    from extract.backbones import CustomBackbone
    from extract.transforms import Transform

    class PatchMeans(torch.nn.Module):
        def __init__(self, patch: int) -> None:
            super().__init__()
            self.patch = patch
            self.scale = torch.nn.Parameter(torch.ones(1))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            colours = torch.nn.functional.avg_pool2d(images, self.patch)
            batch, _, height, width = colours.shape
            rows = torch.arange(height, device=images.device).view(1, 1, height, 1)
            columns = torch.arange(width, device=images.device).view(1, 1, 1, width)
            places = [axis.expand(batch, 1, height, width).float() for axis in (rows, columns)]
            patches = torch.cat([colours, *places], 1).flatten(2).transpose(1, 2)
            outside = torch.full((batch, 2), -1.0, device=images.device)
            cls = torch.cat([images.mean((2, 3)), outside], 1)
            return torch.cat([cls[:, None], patches], 1) * self.scale

    def layers_of(module: torch.nn.Module, images: torch.Tensor, layers: Sequence[int]) -> list[torch.Tensor]:
        tokens = module(images)
        return [tokens * (0.5, 1.0)[layer] for layer in layers]

    def make(size: int = 32, patch: int = 8, **options: Any) -> CustomBackbone:
        return CustomBackbone(
            PatchMeans(patch),
            Transform(size=size, interpolation="bilinear", mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0)),
            **{"name": "tiny", **options},
            patch_size=patch,
            has_cls_token=True,
            layer_feature_fn=layers_of,
            num_layers=2,
        )

    return make
