"""What `visbench check` does with its options: images alone, or images with the maps of a task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from extract.datasets import Splits
from extract.images import MAX_PIXELS
from visbench import checkup, mapcheck, truthoverlay
from visbench.dense.table import MAPS
from visbench.errors import UsageError
from visbench.options import Options, make_options
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
        _refuse_idle(task, options, overlay)
        own = row is not None and not (row.pooled and row.columns)  # what it reads has no classes
        source = row.opener()(data, options, None) if row is not None and own else data
        if overlay and isinstance(source, Splits):
            truthoverlay.refuse(source, Path(overlay))
        found = checkup.check(
            source, reading=options.reading, workers=workers, max_pixels=limit, labelled=not own
        )
        if overlay and isinstance(source, Splits):
            truthoverlay.draw(source, Path(overlay), max_pixels=limit)
        return found, checkup.text(found) + _hint(data, row is None)
    opened = row.opener()(data, replace(options, truth={**options.truth, "any_label": True}), None)
    seen = mapcheck.check(
        opened, workers=workers, max_pixels=limit, overlay=Path(overlay) if overlay else None
    )
    return seen, mapcheck.text(seen)


def _refuse_idle(task: str | None, options: Options, overlay: str | None) -> None:
    """Refuse what says nothing of images with classes, or of this task."""
    row = get_task(task) if task is not None else None
    known = () if row is None else row.truth
    idle = [name for name in options.truth if name not in known]
    if overlay and (row is None or (row.columns and row.pooled)):
        idle.append("overlay")
    if idle:
        name = {"columns": "column"}.get(idle[0], idle[0]).replace("_", "-")
        which = f"{task} has no use for it" if task else "images alone have none of it"
        raise UsageError(
            f"--{name} is for maps, pairs or boxes, and {which}; say what they are for with --task"
        )


def _hint(data: str, unsaid: bool) -> str:
    """That folders of images and maps were taken for classes, where it looks so."""
    root = Path(data)
    alike = [folder for folder in (root, *root.glob("*")) if (folder / "images").is_dir()]
    if not unsaid or not alike:
        return ""
    return (
        "\n  images beside another folder look like images with maps: --task depth (or another) reads them so"
    )
