"""From decoded pixels to what a backbone sees: one transform, declared once.

Pixels are (h, w, 3) uint8; placed images (3, s, s); batches (b, 3, s, s).  Resizing works on uint8 and the
batch is normalised as a whole: a third of the time of doing both in float, image by image, and within half a
grey level of it.  torch is imported when the first image comes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from PIL import Image

from extract import geometry
from extract.digests import code_token
from extract.errors import InputError
from extract.images import DECODER, WHITE
from extract.requests import Request

if TYPE_CHECKING:
    import torch

Triple = tuple[float, float, float]
Colour = tuple[int, int, int]

IMAGENET_MEAN: Triple = (0.485, 0.456, 0.406)
IMAGENET_STD: Triple = (0.229, 0.224, 0.225)
INTERPOLATIONS = ("nearest", "bilinear", "bicubic")


class ImageTransform(Protocol):
    """What the extraction loop needs of a transform."""

    @property
    def background(self) -> Colour:
        """The colour that shows through alpha."""

    def describe(self) -> dict[str, Any]:
        """JSON values: all that could change a number."""

    def place(self, pixels: np.ndarray) -> torch.Tensor:
        """One image of the size the backbone takes."""

    def normalise(self, batch: torch.Tensor) -> torch.Tensor:
        """Stacked placed images, on their device, as the backbone's float input."""


@dataclass(frozen=True)
class Transform:
    """Shorter side to `size / crop_pct`, antialiased, then the central `size` × `size`, then mean and std."""

    size: int = 224
    interpolation: str = "bicubic"
    mean: Triple = IMAGENET_MEAN
    std: Triple = IMAGENET_STD
    crop_pct: float = 1.0
    background: Colour = WHITE
    decoder: str = DECODER

    def __post_init__(self) -> None:
        if self.interpolation not in INTERPOLATIONS:
            known = ", ".join(INTERPOLATIONS)
            raise InputError(f'interpolation "{self.interpolation}" is not one of {known}')
        if not 0 < self.crop_pct <= 1:
            raise InputError(
                f"crop_pct is {self.crop_pct}; it is the part of the resized side kept, in (0, 1]"
            )
        if min(self.std) <= 0:
            raise InputError(f"std is {self.std}; all three have to be positive")

    def describe(self) -> dict[str, Any]:
        """JSON values: all that could change a number."""
        return {
            key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()
        }

    def resized(self, height: int, width: int) -> tuple[int, int]:
        """(height, width) before the crop, of an image of that size."""
        return geometry.resized(height, width, round(self.size / self.crop_pct))

    def place(self, pixels: np.ndarray) -> torch.Tensor:
        """(h, w, 3) uint8 to (3, size, size) uint8; the crop's offsets round down."""
        import torch
        from torchvision.transforms.v2 import functional as F  # noqa: N812

        shown = pixels[geometry.middle(*pixels.shape[:2])]
        writable = np.require(shown, requirements=("C", "W"))  # torch warns of others
        image: torch.Tensor = torch.from_numpy(writable).permute(2, 0, 1)
        height, width = self.resized(*image.shape[1:])
        mode = F.InterpolationMode(self.interpolation)
        image = F.resize(image, [height, width], mode, antialias=True)
        top, left = (height - self.size) // 2, (width - self.size) // 2
        return image[:, top : top + self.size, left : left + self.size].contiguous()

    def normalise(self, batch: torch.Tensor) -> torch.Tensor:
        """(b, 3, s, s) uint8 to float32, channels last in memory: convolutions run faster that way."""
        import torch

        def per_channel(values: Triple) -> torch.Tensor:
            return torch.tensor([255 * value for value in values], device=batch.device).view(1, 3, 1, 1)

        floats = batch.to(torch.float32).sub_(per_channel(self.mean)).div_(per_channel(self.std))
        return floats.contiguous(memory_format=torch.channels_last)  # three channels broadcast slowly there


@dataclass(frozen=True)
class CallableTransform:
    """A user's own preprocess: PIL image to (3, h, w) float tensor, and nothing of ours before or after it.

    Made by `of`.  Its identity is a name given for it, or else a digest of its code and settings.
    """

    preprocess: Callable[[Image.Image], Any] = field(compare=False)
    token: str
    shape: tuple[int, ...]
    background: Colour = WHITE
    decoder: str = DECODER

    @classmethod
    def of(cls, preprocess: Callable[[Image.Image], Any], *, name: str | None = None) -> CallableTransform:
        """Try `preprocess` on a picture, and find what tells it from others."""
        token = f"named {name}" if name else code_token(preprocess)
        if token is None:
            raise InputError(
                "the preprocess holds state that cannot be compared, so its features could be taken for "
                "another's; give it a name of its own with preprocess_name="
            )
        placed, again = (_checked(preprocess(Image.fromarray(noise_picture(0)))) for _ in range(2))
        if placed.shape == again.shape and not (placed == again).all():
            raise InputError(
                "the preprocess gives something else each time for the same image; random crops and flips are for "
                "training, so give the one that the model is evaluated with"
            )
        return cls(preprocess, token, tuple(placed.shape))

    def describe(self) -> dict[str, Any]:
        """JSON values: all that could change a number."""
        return {
            "preprocess": self.token,
            "size": min(self.shape[1:]),
            "shape": list(self.shape),
            "background": list(self.background),
            "decoder": self.decoder,
        }

    def place(self, pixels: np.ndarray) -> torch.Tensor:
        """(h, w, 3) uint8 to what the preprocess makes of it."""
        placed = _checked(self.preprocess(Image.fromarray(pixels)))
        if tuple(placed.shape) != self.shape:
            raise InputError(
                f"the preprocess gave {tuple(placed.shape)} for an image of {pixels.shape[:2]} and {self.shape} "
                "for another; let it end in a crop to one size"
            )
        return placed

    def normalise(self, batch: torch.Tensor) -> torch.Tensor:
        """Nothing is left to do but the layout in memory."""
        import torch

        return batch.to(torch.float32, memory_format=torch.channels_last)


def for_request(
    request: Request, *, size: int, mean: Triple, std: Triple, interpolation: str
) -> tuple[Transform, tuple[str, ...]]:
    """The model's own transform with what `request` overrides, and a note for each override."""
    own = {"mean": mean, "std": std, "interpolation": interpolation}
    given = {key: getattr(request, key) for key in own if getattr(request, key) is not None}
    notes = tuple(
        f"{key} is {given[key]}, not the model's own {own[key]}" for key in given if given[key] != own[key]
    )
    return Transform(size=size, crop_pct=request.crop_pct, **{**own, **given}), notes


def grey_picture(side: int = 256) -> np.ndarray:
    """A plain picture to try a transform on."""
    return np.full((side, side, 3), 127, np.uint8)


def noise_picture(seed: int, side: int = 256) -> np.ndarray:
    """A picture in which no two places look alike."""
    return np.random.default_rng(seed).integers(0, 256, (side, side, 3), np.uint8)


def _checked(placed: Any) -> torch.Tensor:
    import torch

    if not isinstance(placed, torch.Tensor):
        raise InputError(
            f"the preprocess gives a {type(placed).__name__}; it has to turn a PIL image into a (3, h, w) float "
            "tensor (of a processor's answer, take pixel_values[0])"
        )
    if placed.ndim != 3 or placed.shape[0] != 3 or not placed.is_floating_point():
        raise InputError(
            f"the preprocess gives {placed.dtype} of shape {tuple(placed.shape)}; it has to give a (3, h, w) "
            "float tensor"
        )
    return placed
