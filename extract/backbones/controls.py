"""Controls: what a score is worth is seen beside a read-out of the pixels themselves."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from extract.backbones.base import Backbone
from extract.backbones.custom import CustomBackbone
from extract.errors import InputError
from extract.requests import Request
from extract.transforms import Transform

SIDE = 8  # cells a side


class Pixels(nn.Module):
    """The picture at 8 × 8 cells, as one vector of 192 mean colours."""

    def forward(self, images: Tensor) -> Tensor:
        """(b, 3, s, s) to (b, 192)."""
        return nn.functional.adaptive_avg_pool2d(images, SIDE).flatten(1)


def load(request: Request) -> Backbone:
    """The control that `request` names."""
    if request.model != "pixels":
        raise InputError(f'there is no control "{request.model}"; there is pixels')
    size = 224 if request.image_size == "native" else cast(int, request.image_size)
    return CustomBackbone(Pixels(), Transform(size=size, crop_pct=request.crop_pct), name="pixels")
