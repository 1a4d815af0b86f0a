"""`visbench show TASK DATA`: one picture of what a probe saw, should have said and said; a sub-command a task."""

from __future__ import annotations

from typing import Any

import click

from visbench.cli import options as shared
from visbench.cli.common import Command, Group
from visbench.cli.run import task_command as run_command
from visbench.cli.truth import EXAMPLES
from visbench.showing.table import MATRIX
from visbench.task import Task
from visbench.tasks import TASKS

_NOT_MINE = (  # of the options of `run`: a picture writes no record, and shows one fit of one backbone
    "results",
    "no_results",
    "resume",
    "notes",
    "dry_run",
    "as_json",
    "controls",
    "seeds",
)
_BOTH = "Which view: samples, or who is taken for whom.  [default: samples]"


class Place(click.ParamType[Any]):
    """A pixel, X,Y."""

    name = "X,Y"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read both."""
        if isinstance(value, tuple):
            return value
        try:
            x, y = (float(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not a pixel such as 120,80", param, ctx)
        return x, y


_out = click.option(
    "-o", "--out", default="show.png", show_default=True, metavar="FILE", help="The .png that is drawn."
)
_random = click.option("--random", type=click.IntRange(1), metavar="N", help="So many at random, by --seed.")
_frames = click.option("--frames", multiple=True, metavar="NAME", help="This image or pair; may be repeated.")
_choice = shared.apply(
    _out,
    click.option("--worst", type=click.IntRange(1), metavar="N", help="So many of the worst.  [default: 6]"),
    click.option("--best", type=click.IntRange(1), metavar="N", help="So many of the best."),
    _random,
    _frames,
)


def task_command(task: Task) -> click.Command:
    """The sub-command of one task: the options of `run`, so that features and probe are those of the run."""
    view = click.option("--view", type=click.Choice(["samples", "confusion"]), help=_BOTH)

    @click.command(task.name, cls=Command, help=_help(task), short_help=task.summary)
    @shared.apply(_choice, *([view] if task.name in MATRIX else []))
    def command(**given: Any) -> None:
        from visbench.cli.showing import show_task  # brings in numpy and more

        show_task(task.name, **given)

    theirs = [each for each in run_command(task).params if each.name not in _NOT_MINE]
    arguments = [each for each in theirs if isinstance(each, click.Argument)]
    command.params = [*arguments, *command.params, *(each for each in theirs if each not in arguments)]
    return command


def _help(task: Task) -> str:
    data = EXAMPLES.get(task.name, "photos/")
    more = f"\nvisbench show {task.name} {data} --view confusion" if task.name in MATRIX else ""
    return (
        f"{_SHOWN} Features and probe are those of `visbench run {task.name}` with the same options.\n\n{task.layout}"
        f"\n\n\b\nvisbench show {task.name} {data} --backbone dinov2_vits14 --worst 6 -o seen.png{more}"
    )


_SHOWN = "Draw what a probe saw, should have said and said, of the worst, the best, some or named samples."


@click.group(cls=Group, noun="view", listing="visbench show --help")
def show() -> None:
    """Draw one picture of what a probe saw, should have said and said; no record is written.

    Every task has a view, with the options of `visbench run`; `features` shows the patch features themselves.

    \b
    visbench show classification photos/ --backbone dinov2_vits14 --worst 8 -o worst.png
    visbench show classification photos/ --view confusion -o confusion.png
    visbench show features photos/ --backbone dinov2_vits14 -o colours.png
    """


@show.command(
    "features", cls=Command, short_help="Patch features as colours, or how alike they are to one of them."
)
@shared.apply(
    shared.data_argument,
    _out,
    _random,
    _frames,
    click.option(
        "--patch",
        type=Place(),
        help="Show cosines to the patch at this pixel of the first picture.  [default: principal components]",
    ),
    shared.backbone_options,
    shared.layer_option,
    shared.split_options,
    shared.data_options,
    shared.extraction_options,
    click.option("--seed", type=int, default=0, show_default=True, help="Of which are shown."),
)
def features(**given: Any) -> None:
    """Draw patch features: the first three principal components of all shown pictures as red, green and blue.

    DATA is what `visbench extract` takes. Like colours are like features. With --patch each patch has the colour of its
    cosine to that at a pixel of the first picture: name pictures with --frames.

    \b
    visbench show features photos/ --backbone dinov2_vits14 --random 4 -o colours.png
    visbench show features photos/ --frames cat/a.jpg --frames cat/b.jpg --patch 120,80 -o alike.png
    """
    from visbench.cli.showing import show_task  # brings in numpy and more

    show_task("features", **given)


for _task in TASKS.values():
    show.add_command(task_command(_task))
