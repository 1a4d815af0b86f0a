"""Refusing modules whose features of an image depend on the images beside it, on what came before, or on chance.

A stored row is taken for a property of its image, whatever batch it was computed in.  Axes: b images.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from extract.backbones.base import Backbone
from extract.errors import InputError
from extract.transforms import noise_picture

TOLERANCE = 1e-3  # of the largest value; other batch sizes move float32 by 1e-5 at most
COARSE = 5e-2  # the same in half precision, and on devices that round to it


def refuse_batch_statistics(module: nn.Module) -> None:
    """Refuse batch norms that have no statistics of their own and so take those of each batch, even in eval mode."""
    for name, part in module.named_modules():
        if isinstance(part, _BatchNorm) and part.running_mean is None:
            raise InputError(
                f"{name or 'the module'} is a {type(part).__name__} without running statistics, so the features of "
                "an image would depend on the images beside it; give it track_running_stats=True and the statistics "
                "of its training, or put another norm in its place"
            )


def refuse_dependence(backbone: Backbone) -> None:
    """Refuse a backbone that says something else of a picture beside another one than alone."""
    pictures = [torch.as_tensor(backbone.transform.place(noise_picture(seed))) for seed in (0, 1)]
    device = next((each.device for each in backbone.module.parameters()), torch.device("cpu"))
    precision = backbone.spec.precision
    exact = precision == "float32" and all(each.element_size() >= 4 for each in backbone.module.parameters())
    tolerance = TOLERANCE if exact and device.type == "cpu" else COARSE

    def read(*chosen: Tensor) -> list[Tensor]:
        """Every token of the last image at every layer."""
        batch = backbone.transform.normalise(torch.stack(chosen).to(device))
        layers = backbone._forward(batch, range(backbone.num_layers), precision)
        return [tokens[-1].float() for layer in layers.values() for tokens in (layer.prefix, layer.patches)]

    beside, alone = read(*pictures), read(pictures[1])
    if not _same(beside, alone, tolerance):
        by_chance = not _same(alone, read(pictures[1]), tolerance)
        what = (
            "gives other features each time it sees the same image"
            if by_chance
            else "gives an image other features beside another image than alone"
        )
        raise InputError(
            f"{backbone.spec.name} {what}, so no row of features would belong to its image; look for dropout that "
            "is always on, for statistics of the batch, and for state that forward changes"
        )


def _same(first: list[Tensor], second: list[Tensor], tolerance: float) -> bool:
    return all(
        a.shape == b.shape and float((a - b).abs().max()) <= tolerance * float(b.abs().max())
        for a, b in zip(first, second, strict=True)
        if a.numel() or b.numel()
    )
