"""The pixel control in plain data: it has no weights, so it is known without torch."""

from __future__ import annotations

from typing import cast

from extract.digests import weights_digest
from extract.errors import InputError
from extract.requests import Request
from extract.spec import BackboneSpec
from extract.transforms import Transform

CELLS = 8  # a side


def pixels(request: Request) -> BackboneSpec:
    """The spec of `control:pixels`: the mean colours of 8 × 8 cells as one vector."""
    if request.model != "pixels":
        raise InputError(f'there is no control "{request.model}"; there is pixels')
    return BackboneSpec(
        name="pixels",
        architecture="Pixels",
        library="visbench",
        weights=weights_digest({}),
        weights_source="none",
        transform=transform(request).describe(),
        num_layers=1,
        layer_dims=(3 * CELLS**2,),
        layer_grids=((0, 0),),
        num_params=0,
        alias=request.alias,
        options={"cells": CELLS},
    )


def transform(request: Request) -> Transform:
    """What happens to an image before its cells are averaged."""
    size = 224 if request.image_size == "native" else cast(int, request.image_size)
    return Transform(size=size, crop_pct=request.crop_pct)
