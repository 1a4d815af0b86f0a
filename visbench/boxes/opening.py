"""How a task of boxes opens its data."""

from __future__ import annotations

import os
from typing import Any

from extract.datasets import Splits
from extract.datasets.boxes import open_boxes
from visbench.errors import UsageError
from visbench.options import Options

TOLD = ("annotations", "image_dir", "min_box_size", "include_difficult")


def detection(data: Any, options: Options, name: str | None = None) -> Splits:
    """Images with boxes."""
    return _open("detection", data, options, name)


def instance_segmentation(data: Any, options: Options, name: str | None = None) -> Splits:
    """Images with boxes and an outline for each."""
    return _open("instance_segmentation", data, options, name, instances=True)


def _open(task: str, data: Any, options: Options, name: str | None, **more: Any) -> Splits:
    if isinstance(data, Splits):
        return data
    if not isinstance(data, str | os.PathLike):
        raise UsageError(f"{task} reads a folder or a table of boxes, not a {type(data).__name__}")
    for key in ("annotations", "image_dir"):
        if not isinstance(options.truth.get(key, ""), str | os.PathLike | None):
            raise UsageError(f"{key} is {options.truth[key]!r}; it is the place of a file or folder")
    if not isinstance(options.truth.get("include_difficult", False), bool | None):
        raise UsageError(f"include_difficult is {options.truth['include_difficult']!r}; it is True or False")
    told = {key: options.truth[key] for key in TOLD if options.truth.get(key) is not None}
    opened: Splits = open_boxes(data, name=name, **told, **more)
    return opened
