"""The picture of a sweep as PNG, SVG or PDF.  matplotlib is imported when one is drawn."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visbench.errors import UsageError
from visbench.figures.grid import compared, grids
from visbench.figures.panels import Block, arrange
from visbench.layout import printable
from visbench.replacing import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INSTALL = "pip install 'visbench[plot]'"
DPI = 160
# Whatever names a moment or a version stays out, so that equal sweeps give equal files.
_METADATA: Mapping[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def check(path: str | Path) -> None:
    """Refuse, before anything is computed, what `draw` could not write; nothing is left behind."""
    path = Path(path)
    if path.suffix.lower() not in _METADATA:
        raise UsageError(
            f"a picture is to be written to {path}; its name must end in {' or '.join(_METADATA)}"
        )
    if find_spec("matplotlib") is None:
        raise UsageError(f"drawing {path} needs matplotlib: {INSTALL}")
    try:
        if path.is_dir():
            raise OSError("it is a folder")
        above = next(parent for parent in path.absolute().parents if parent.exists())
        tempfile.TemporaryFile(dir=above).close()
    except OSError as error:
        raise _unwritable(path, error) from error


def draw(
    trials: Sequence[Mapping[str, Any]],
    axes: Mapping[str, Sequence[Any]],
    path: str | Path,
    *,
    metric: str = "top1",
    better: str = "higher",
    title: str = "",
    caption: str = "",
) -> None:
    """Draw `trials` (see `figures.grid`) over `axes`, each name with its values, and replace `path` in one step.

    `better` says which scores are good ("higher" or "lower"); `caption` comes before what the picture says of
    itself.  An axis with one value is left out.
    """
    check(path)
    path = Path(path)
    suffix = path.suffix.lower()
    with _look():
        page = figure(trials, axes, metric=metric, better=better, title=title, caption=caption)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as draft:
                page.savefig(draft, format=suffix[1:], dpi=DPI, metadata=_METADATA[suffix])
        except OSError as error:
            raise _unwritable(path, error) from error


def figure(
    trials: Sequence[Mapping[str, Any]],
    axes: Mapping[str, Sequence[Any]],
    *,
    metric: str = "top1",
    better: str = "higher",
    title: str = "",
    caption: str = "",
) -> Figure:
    """The picture as a matplotlib figure, which no pyplot knows of."""
    from visbench.figures import page

    every = grids(trials, axes, better)
    blocks, notes = list[Block](), dict[str, None]()
    for grid in every:
        more, said = arrange(grid, several=len(every) > 1)
        blocks += more
        notes |= dict.fromkeys(said)
    words = [printable(caption), compared(trials, metric), *notes]
    with _look():
        return page.figure(
            blocks,
            metric=metric,
            better=better,
            title=printable(title),
            caption=" · ".join(filter(None, words)),
        )


@contextmanager
def _look() -> Iterator[None]:
    """One look whatever the user's own settings are, which stay as they are."""
    from matplotlib import font_manager, style

    from visbench.figures.page import FONTS, LOOK

    installed = set(font_manager.get_font_names())
    fonts = [name for name in FONTS if name in installed]
    with warnings.catch_warnings(), style.context(["default", {**LOOK, "font.family": fonts}]):
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from")  # its box in the picture says so
        yield


def _unwritable(path: Path, error: OSError) -> UsageError:
    why = (error.strerror or str(error)).lower()
    return UsageError(f"a picture cannot be written to {path}: {why}; choose another file")
