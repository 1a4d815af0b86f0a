"""Which view a task has, and the way from what is asked for to a picture."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from PIL import Image

from visbench.errors import UsageError
from visbench.options import make_options
from visbench.replacing import replacing
from visbench.showing.choosing import Wanted, chosen, said, wanted
from visbench.showing.table import FEATURES, MATRIX, VIEWS
from visbench.task import Task
from visbench.tasks import get_task


def module_of(task: Task) -> str:
    """The module of `visbench.showing` that draws a task."""
    if task.name in VIEWS:
        return VIEWS[task.name]
    if task.dense:
        return "maps"
    raise UsageError(
        f"there is no picture of {task.name}; of a task of your own draw what its probe says yourself"
    )


def picture(
    backbone: Any,
    task: str,
    dataset: Any,
    train_dataset: Any = None,
    *,
    worst: int | None = None,
    best: int | None = None,
    random: int | None = None,
    frames: Sequence[str] | str = (),
    view: str = "samples",
    patch: tuple[float, float] | None = None,
    probe: str | None = None,
    **options: Any,
) -> Image.Image:
    """What a probe saw, should have said and said, as a picture; notebooks show it where it stands last.

    `backbone`, `task`, `dataset` and the options are those of `visbench.run`, and so are features and probe; no record
    is written.  `worst`, `best` or `random` say how many samples are shown (the worst 6), `frames` names them.  `view`
    may be "confusion" where there are classes.  The task "features" shows the patch features themselves: principal
    components as colours, or with `patch=(x, y)`, a pixel of the first picture, how alike others are to that patch.
    """
    want = wanted(worst=worst, best=best, random=random, frames=frames)
    probe = probe or options.pop("head", None)
    if options.pop("results", None) is not None:
        raise UsageError("a picture writes no record, so results would not be used; visbench.run writes them")
    settings = make_options(**options)
    if task == FEATURES:
        if view != "samples" or probe is not None or train_dataset is not None:
            raise UsageError("features have no probe and one view; leave probe, view and train_dataset out")
        from visbench.showing import tokens

        return tokens.picture(dataset, backbone, settings, want, patch)
    if patch is not None:
        raise UsageError(f'patch is of the view "features", and {task} has no use for it; leave it out')
    return _of_task(backbone, get_task(task), dataset, train_dataset, probe, settings, want, view)


def _of_task(
    backbone: Any,
    task: Task,
    dataset: Any,
    train: Any,
    probe: str | None,
    settings: Any,
    want: Wanted,
    view: str,
) -> Image.Image:
    if view not in ("samples", "confusion") or (view == "confusion" and task.name not in MATRIX):
        known = "samples and confusion" if task.name in MATRIX else "samples alone"
        raise UsageError(f'{task.name} has no view "{view}"; it has {known}')
    drawer = module_of(task)
    from visbench.showing.seen import look_at  # brings in JAX

    seen = look_at(task.name, dataset, backbone, probe, settings, train_dataset=train)
    module = import_module(f"visbench.showing.{drawer}")
    count = seen.images.size
    if view == "confusion":
        found: Image.Image = module.confusion(seen, f"who is taken for whom, {count:,} images")
        return found
    scores = module.scores(seen)
    rows = chosen(want, scores, seen.names, seed=settings.seed, what=seen.noun)
    drawn: Image.Image = module.draw(seen, rows, scores, said(want, len(rows), count, scores, seen.noun))
    return drawn


def refuse_place(out: str | Path, data: Any) -> Path:
    """Where a picture may be written: a .png, in a folder that exists, that is none of the data's own."""
    path = Path(out)
    if path.suffix.lower() != ".png":
        raise UsageError(f"{out} does not end in .png, and pictures are PNG; give -o a name such as seen.png")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is no folder; make it, or give -o another place")
    if path.is_dir():
        raise UsageError(f"{out} is a folder; give -o the name of a file, such as {path.name}/seen.png")
    if (
        isinstance(data, str | Path)
        and Path(data).is_dir()
        and Path(data).resolve() in path.resolve().parents
    ):
        raise UsageError(
            f"{out} lies within {data}, whose images a later run would find it among; give -o another place"
        )
    return path


def save(image: Image.Image, path: Path) -> None:
    """Write it in one step: a file that was there is whole until the new one is."""
    with replacing(path) as draft:
        image.save(draft, "PNG", optimize=False)
