"""The square frame that a backbone sees, for those who have to know where in an image a feature lies."""

from __future__ import annotations

from visbench.errors import UsageError
from visbench.sources import Source


def frame_side(source: Source) -> int:
    """Its side in pixels, if the backbone's transform is the one whose geometry is known."""
    transform = source.spec.transform
    if "interpolation" not in transform:
        raise UsageError(
            f"{source.asked} comes with a preprocess of its own, and nothing can follow where that puts the places of "
            "an image; give it an extract.transforms.Transform (size, mean, std) as preprocess"
        )
    if transform.get("crop_pct", 1) != 1:
        raise UsageError(
            f"{source.asked} sees a crop of {transform['crop_pct']}; places are known in the whole crop, so leave "
            "--crop-pct out"
        )
    return int(transform["size"])
