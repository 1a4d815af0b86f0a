"""The same forward pass, faster on a CPU: batch norms are folded into their convolutions.

Folding changes a feature by float32 rounding, less than another batch size or device does, so it is no part of
its identity.  What cannot be traced, or comes out different, is run as it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from extract.backbones import Backbone, CustomBackbone
from extract.taps import Tap

Forward = Callable[[Tensor], dict[Tap, Tensor]]

WORTHWHILE = 256  # images: tracing and the check take about a second
TOLERANCE = 1e-4  # of the largest feature; folding was seen to move it by 1e-6


class _Taps(nn.Module):
    """`backbone.features` with a tuple for an answer, which is what can be traced."""

    def __init__(self, backbone: Backbone, taps: Sequence[Tap]) -> None:
        super().__init__()
        self.module = backbone.module  # so that its parameters are ours, and are folded
        self.read: Callable[[Tensor], tuple[Tensor, ...]] = lambda batch: tuple(
            backbone.features(batch, taps)[tap] for tap in taps
        )

    def forward(self, batch: Tensor) -> tuple[Tensor, ...]:
        """(b, 3, s, s) to one tensor a tap."""
        return self.read(batch)


def fastest(backbone: Backbone, taps: Sequence[Tap], device: torch.device, num_images: int) -> Forward:
    """`features` of `backbone` for `taps`: folded where that pays and gives the same, else as it is."""

    def plain(batch: Tensor) -> dict[Tap, Tensor]:
        return backbone.features(batch, taps)

    folds = any(isinstance(each, _BatchNorm) for each in backbone.module.modules())
    ours = not isinstance(backbone, CustomBackbone)  # a user's module may do more than compute
    if not (folds and ours) or device.type != "cpu" or num_images < WORTHWHILE:
        return plain
    if backbone.spec.precision != "float32":
        return plain
    try:
        frozen = _frozen(backbone, taps)
        samples = [_noise(backbone, size) for size in (1, 3)]
        same = all(_agree(plain(sample), frozen(sample)) for sample in samples)
    except Exception:  # tracing fails in as many ways as there are models
        return plain
    return frozen if same else plain


def _frozen(backbone: Backbone, taps: Sequence[Tap]) -> Forward:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(  # type: ignore[no-untyped-call]
            _Taps(backbone, taps).eval(), _noise(backbone, 2), check_trace=False
        )
        graph = torch.jit.freeze(traced)

    def forward(batch: Tensor) -> dict[Tap, Tensor]:
        with torch.inference_mode():
            return dict(zip(taps, graph(batch), strict=True))

    return forward


def _noise(backbone: Backbone, size: int) -> Tensor:
    side = int(backbone.spec.transform["size"])
    pixels = torch.randint(0, 256, (size, 3, side, side), generator=torch.Generator().manual_seed(size))
    return backbone.transform.normalise(pixels.to(torch.uint8))


def _agree(expected: dict[Tap, Tensor], found: dict[Tap, Tensor]) -> bool:
    return all(
        found[tap].shape == rows.shape
        and float((found[tap] - rows).abs().max()) <= TOLERANCE * float(rows.abs().max())
        for tap, rows in expected.items()
    )
