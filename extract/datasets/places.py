"""The folders that belong to a dataset: nothing of ours may come to lie in them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def image_folders(paths: Iterable[str], home: Path | None = None) -> tuple[Path, ...]:
    """The one folder that holds all of `paths`, or else each of theirs; `home` is what they are relative to.

    Never `home` or what lies above it: beside a table that lists images there is room for other things.
    """
    start = Path.cwd() if home is None else home.absolute()
    above = {start, *start.parents}
    apart = {path.rpartition("/")[0] for path in paths}
    held = {Path(os.path.normpath(start / folder)) for folder in apart} - above
    together = {Path(os.path.commonpath(held))} - above if held else set()
    return tuple(sorted(together or held))
