"""Controls: what a score is worth is seen beside a read-out of the pixels themselves."""

from __future__ import annotations

from torch import Tensor, nn

from extract.backbones.base import Backbone
from extract.backbones.custom import CustomBackbone
from extract.controls import CELLS, pixels, transform
from extract.requests import Request


class Pixels(nn.Module):
    """The picture at 8 × 8 cells, as one vector of 192 mean colours."""

    def forward(self, images: Tensor) -> Tensor:
        """(b, 3, s, s) to (b, 192)."""
        return nn.functional.adaptive_avg_pool2d(images, CELLS).flatten(1)


def load(request: Request) -> Backbone:
    """The control that `request` names."""
    spec = pixels(request)
    backbone = CustomBackbone(Pixels(), transform(request), name="pixels")
    backbone.spec = spec
    return backbone
