"""What `visbench check` does with its options: images alone, or images with the maps of a task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from extract.images import MAX_PIXELS
from visbench import checkup, mapcheck
from visbench.dense.table import MAPS
from visbench.errors import UsageError
from visbench.options import make_options
from visbench.tasks import get_task


def look(
    data: str,
    *,
    task: str | None,
    overlay: str | None,
    workers: int | None,
    max_pixels: int | None,
    **given: Any,
) -> tuple[Any, str]:
    """What was found, and the same as text."""
    told = {name: value for name, value in given.items() if value is not None}
    options = make_options(**told)
    limit = max_pixels or MAX_PIXELS
    row = get_task(task) if task is not None else None
    if row is None or row.reads != MAPS:
        idle = [*options.truth, *(["overlay"] if overlay else [])]
        if idle:
            which = f"{task} has no maps" if task else "images alone have no maps"
            raise UsageError(
                f"--{idle[0].replace('_', '-')} is for maps, and {which}; say what they are for with --task"
            )
        made = row is not None and row.dense  # its targets are made from the images: no labels are needed
        source = row.opener()(data, options, None) if row is not None and made else data
        found = checkup.check(
            source, reading=options.reading, workers=workers, max_pixels=limit, labelled=not made
        )
        return found, checkup.text(found) + _hint(data, row is None)
    opened = row.opener()(data, replace(options, truth={**options.truth, "any_label": True}), None)
    seen = mapcheck.check(
        opened, workers=workers, max_pixels=limit, overlay=Path(overlay) if overlay else None
    )
    return seen, mapcheck.text(seen)


def _hint(data: str, unsaid: bool) -> str:
    """That folders of images and maps were taken for classes, where it looks so."""
    root = Path(data)
    alike = [folder for folder in (root, *root.glob("*")) if (folder / "images").is_dir()]
    if not unsaid or not alike:
        return ""
    return (
        "\n  images beside another folder look like images with maps: --task depth (or another) reads them so"
    )
