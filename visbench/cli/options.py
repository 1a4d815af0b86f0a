"""The options that commands share, in the groups that belong together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from visbench.cli.common import json_option, store_option
from visbench.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_BACKBONE = "dinov2_vits14"
DEFAULT_RESULTS = "results/visbench.jsonl"


def apply(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, shown in this order."""

    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


class ImageSize(click.ParamType[Any]):
    """A number of pixels, or "native"."""

    name = "PIXELS|native"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse anything else."""
        text = str(value).strip().lower()
        if text == "native":
            return text
        if not text.isdecimal() or int(text) < 1:
            self.fail(f"{value!r} is neither a number of pixels nor native", param, ctx)
        return int(text)


class Numbers(click.ParamType[Any]):
    """Numbers separated by commas."""

    def __init__(self, kind: type) -> None:
        self.kind, self.name = kind, f"{'INT' if kind is int else 'NUMBER'}[,…]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read them."""
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(self.kind(item) for item in str(value).replace(",", " ").split())
        except ValueError:
            numbers = ()
        if not numbers:
            self.fail(f"{value!r} is not a list of numbers such as 1,5", param, ctx)
        return numbers


data_argument = apply(
    click.argument("data", required=False),
    click.option("--data", "data_option", metavar="DATA", help="The same as the argument."),
)


def the_data(argument: str | None, option: str | None) -> str:
    """DATA, given as an argument or as an option."""
    if not argument and not option:
        command = click.get_current_context().command_path
        raise UsageError(f"no data: name a folder or a table, as in `{command} photos/`")
    if argument and option:
        raise UsageError(f"DATA is given twice, as {argument} and with --data {option}")
    return argument or option or ""


def backbone_option(usual: str = DEFAULT_BACKBONE) -> Callable[[F], F]:
    """`--backbone`, and the one that runs where none is named."""
    return click.option(
        "--backbone",
        "backbones",
        multiple=True,
        default=[usual],
        show_default=True,
        metavar="NAME",
        help="An alias, timm:…, open_clip:…/… or torchvision:…; may be repeated.",
    )


weights_options = apply(
    click.option("--checkpoint", metavar="FILE", help="Weights from a local .pth or .safetensors file."),
    click.option("--revision", metavar="REV", help="Pin hub weights to a revision."),
    click.option(
        "--image-size", type=ImageSize(), default=224, show_default=True, help="Pixels a backbone sees."
    ),
    click.option(
        "--crop-pct", type=float, help="Part of the resized side that the crop keeps.  [default: 1]"
    ),
    click.option("--projection", is_flag=True, default=None, help="CLIP: features after the projection."),
    click.option("--norm/--no-norm", default=None, help="Final norm on layer outputs.  [default: norm]"),
    click.option("--amp", type=click.Choice(["bf16"]), help="Mixed precision: faster, other numbers."),
    click.option("--random-weights", is_flag=True, help="Do not load weights: a control."),
)

backbone_options = apply(backbone_option(), weights_options)

extraction_options = apply(
    store_option,
    click.option("--cache", "store", metavar="PLACE", help="The same as --store.", hidden=True),
    click.option("--no-cache", is_flag=True, help="Keep features in memory only."),
    click.option(
        "--dtype",
        type=click.Choice(["float16", "bfloat16", "float32"]),
        default="float16",
        show_default=True,
        help="Of stored features.",
    ),
    click.option("--device", metavar="DEVICE", help="cuda, cpu …  [default: the best there is]"),
    click.option("--batch-size", type=click.IntRange(1), help="Images a forward pass."),
    click.option("--workers", type=click.IntRange(1), help="Threads that decode.  [default: all cores]"),
    click.option(
        "--on-bad",
        type=click.Choice(["refuse", "skip"]),
        default="refuse",
        show_default=True,
        help="What an unreadable image does.",
    ),
    click.option("--max-pixels", type=click.IntRange(1), help="Largest image that is decoded."),
)

reading_options = apply(
    click.option("--image-column", metavar="NAME", help="Of a table: where the paths are."),
    click.option("--label-column", metavar="NAME", help="Of a table: where the labels are."),
    click.option("--split-column", metavar="NAME", help="Of a table: where the splits are."),
    click.option("--allow-empty-classes", is_flag=True, default=None, help="Class folders may be empty."),
)


def limit_option(counts: str = "images a class") -> Callable[[F], F]:
    """`--limit`, and what it counts."""
    return click.option("--limit", type=click.IntRange(1), metavar="N", help=f"Only the first N {counts}.")


data_options = apply(limit_option(), reading_options)

split_options = apply(
    click.option("--split", metavar="SPLIT", help="The split that is scored.  [default: test, else val]"),
)

train_options = apply(
    click.option("--train-split", metavar="SPLIT", help="The split that trains.  [default: train]"),
    click.option("--val-split", metavar="SPLIT", help="The split that selects settings.  [default: val]"),
    click.option("--allow-same", is_flag=True, help="Train or select on the very split that is scored."),
    click.option("--no-refit", is_flag=True, help="Do not fit again on train and val together."),
)

record_options = apply(
    click.option(
        "--results",
        metavar="FILE",
        default=DEFAULT_RESULTS,
        show_default=True,
        help="Records are appended here; to a .csv a row of each, with the records beside it.",
    ),
    click.option("--no-results", is_flag=True, help="Write no record."),
    click.option("--resume", is_flag=True, help="Skip what has a record already."),
    click.option("--notes", metavar="TEXT", help="Kept in the record."),
    click.option(
        "--seed",
        type=int,
        default=0,
        show_default=True,
        help="Of fits, made views and resampling.",
    ),
    click.option(
        "--protocol",
        type=click.Choice(["standard", "visbench"]),
        default="standard",
        show_default=True,
        help="standard is ours; visbench has the older tool's settings and reproduces its tables.",
    ),
)

work_options = apply(
    extraction_options,
    record_options,
    click.option("--dry-run", is_flag=True, help="Say what would be done and what it costs; do nothing."),
    json_option,
)

layer_option = click.option(
    "--layer", "--layers", type=int, default=-1, show_default=True, help="From 0, or from the end."
)
pooling_options = apply(
    click.option(
        "--pooling",
        type=click.Choice(["default", "cls", "mean"]),
        default="default",
        show_default=True,
        help="CLS token or mean over patches.",
    ),
    layer_option,
)
