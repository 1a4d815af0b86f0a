"""A batch of images, decoded and placed, and what became of each; several threads may read at once."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import CancelledError
from threading import Event
from typing import Any, NamedTuple

import torch

from extract.datasets import ImageSet
from extract.errors import InputError, UnreadableImageError
from extract.images import read_image
from extract.transforms import ImageTransform

WAY_OUT = "mend or remove it, or leave such images out with --on-bad skip"


class Batch(NamedTuple):
    """Images by their position in the dataset."""

    positions: list[int]  # of those that could be read
    pixels: torch.Tensor | None  # (b, 3, s, s) as placed; None where none could be read
    unreadable: dict[int, UnreadableImageError]  # the others
    converted: dict[int, str]  # position → kind of conversion


class Reader:
    """Reads batches of `images`; one that cannot be read is left out under `skip`, else refused by name."""

    def __init__(
        self, images: ImageSet, transform: ImageTransform, *, skip: bool, max_pixels: int | None = None
    ) -> None:
        self.images, self.transform, self.skip = images, transform, skip
        self.options: dict[str, Any] = {"background": transform.background}
        if max_pixels is not None:
            self.options["max_pixels"] = max_pixels
        self._stopped = Event()

    def stop(self) -> None:
        """Let whoever is reading give up at the next image: nobody waits for the answer."""
        self._stopped.set()

    def check(self) -> None:
        """Give up if that was asked for."""
        if self._stopped.is_set():
            raise CancelledError

    def __call__(self, positions: Iterable[int]) -> Batch:
        """Read the images at these positions."""
        kept: list[int] = []
        placed: list[torch.Tensor] = []
        unreadable: dict[int, UnreadableImageError] = {}
        converted: dict[int, str] = {}
        for position in map(int, positions):
            self.check()
            try:
                pixels, conversion = self._read(position)
            except UnreadableImageError as error:
                if not self.skip:
                    name = self.images.names[position]
                    raise UnreadableImageError(name, f"{error.reason}; {WAY_OUT}") from error
                unreadable[position] = error
                continue
            kept.append(position)
            placed.append(pixels)
            if conversion is not None:
                converted[position] = conversion
        return Batch(kept, torch.stack(placed) if placed else None, unreadable, converted)

    def _read(self, position: int) -> tuple[torch.Tensor, str | None]:
        """One image as the backbone takes it; whatever goes wrong, its name goes with the error."""
        name = self.images.names[position]
        try:
            image = read_image(self.images.sources[position], name=name, **self.options)
            return self.transform.place(image.pixels), image.converted
        except UnreadableImageError:
            raise
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
        except Exception as error:  # of a preprocess or dataset that is not ours
            error.add_note(f"The image was {name}.")
            raise
