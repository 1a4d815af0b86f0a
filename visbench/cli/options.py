"""The options that commands share, in the groups that belong together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from visbench.cli.common import json_option, store_option
from visbench.errors import UsageError
from visbench.task import Task

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


backbone_options = apply(
    click.option(
        "--backbone",
        "backbones",
        multiple=True,
        default=[DEFAULT_BACKBONE],
        show_default=True,
        metavar="NAME",
        help="An alias, timm:…, open_clip:…/… or torchvision:…; may be repeated.",
    ),
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
        help="Records are appended here; .csv draws a table beside them.",
    ),
    click.option("--no-results", is_flag=True, help="Write no record."),
    click.option("--resume", is_flag=True, help="Skip what has a record already."),
    click.option("--notes", metavar="TEXT", help="Kept in the record."),
    click.option("--seed", type=int, default=0, show_default=True, help="Of what is random in a fit."),
    click.option(
        "--protocol",
        type=click.Choice(["standard", "visbench"]),
        default="standard",
        show_default=True,
        help="standard is ours; visbench reproduces the older tool's tables.",
    ),
)

work_options = apply(
    extraction_options,
    record_options,
    click.option("--dry-run", is_flag=True, help="Say what would be done and what it costs; do nothing."),
    json_option,
)

_SETTINGS = {
    "C": click.option(
        "--C", "C", type=Numbers(float), help="logistic: fix C, or the grid it is chosen from."
    ),
    "l2": click.option("--l2", type=Numbers(float), help="logistic, ridge: the same as a penalty a sample."),
    "k": click.option("--k", type=Numbers(int), help="knn: neighbours.  [default: 20,5]"),
    "temperature": click.option(
        "--temperature", type=float, help="knn: of the votes; inf counts all alike.  [default: 0.07]"
    ),
    "learning_rate": click.option("--lr", "learning_rate", type=float, help="linear.  [default: 0.01]"),
    "weight_decay": click.option("--weight-decay", type=float, help="linear.  [default: 1e-4]"),
    "epochs": click.option("--epochs", type=click.IntRange(1), help="linear.  [default: 200]"),
    "train_batch_size": click.option(
        "--train-batch-size", type=click.IntRange(1), help="linear.  [default: 256]"
    ),
    "optimizer": click.option(
        "--optimizer", type=click.Choice(["adamw", "sgd"]), help="linear.  [default: adamw]"
    ),
    "schedule": click.option(
        "--schedule",
        type=click.Choice(["constant", "cosine"]),
        help="linear: of its learning rate.  [default: constant]",
    ),
    "topk": click.option("--topk", type=Numbers(int), help="k of recall@k.  [default: 1,5,10]"),
    "metric": click.option(
        "--metric", type=click.Choice(["cosine", "euclidean"]), help="What is near.  [default: cosine]"
    ),
    "max_warp": click.option(
        "--max-warp",
        type=Numbers(float),
        help="How far the corners of a made view move, in shares of its side; 0.05,0.1,0.2 scores each.  "
        "[default: 0.2]",
    ),
    "num_corr": click.option(
        "--num-corr", type=click.IntRange(1), help="Matches of a pair that are scored.  [default: 1000]"
    ),
    "ratio": click.option(
        "--ratio",
        type=click.FloatRange(0, 1, min_open=True),
        help="Keep matches nearer than this share of the second nearest; 1 keeps all.  [default: 0.9]",
    ),
    "mutual": click.option(
        "--mutual", is_flag=True, default=None, help="Keep matches that are found from both sides."
    ),
    "units": click.option(
        "--units", type=click.Choice(["pixel", "patch"]), help="What a board sorts by.  [default: pixel]"
    ),
    "thresholds": click.option(
        "--thresholds",
        type=Numbers(float),
        help="Of errors, in those units.  [default: 1,2,5,10 pixels and 0.5,1,2,4 patch widths]",
    ),
    "class_names": click.option(
        "--class-names",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="What classes are called: CLASS, a tab, its name[, synonym] a line; or JSON.  [default: as folders]",
    ),
    "templates": click.option(
        "--templates",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="Texts with {} for the name, one a line.  [default: a photo of a {}.]",
    ),
    "score_threshold": click.option(
        "--score-threshold", type=click.FloatRange(0, 1), help="Of detections.  [default: 0.05]"
    ),
    "nms_iou": click.option(
        "--nms-iou",
        type=click.FloatRange(0, 1),
        help="Of two of a class that overlap more, one stays.  [default: 0.5]",
    ),
    "max_detections": click.option(
        "--max-detections", type=click.IntRange(1), help="Kept an image.  [default: 100]"
    ),
}


_OF_POSES = {
    "learning_rate": click.option(
        "--lr", "learning_rate", type=float, help="Fix it.  [default: the best of 3e-4, 1e-3, 3e-3]"
    ),
    "weight_decay": click.option(
        "--weight-decay", type=float, help="Fix it.  [default: the better of 1e-4 and 1e-2]"
    ),
    "epochs": click.option("--epochs", type=click.IntRange(1), help="[default: 30]"),
    "train_batch_size": click.option("--train-batch-size", type=click.IntRange(1), help="[default: 128]"),
}


def settings_options(task: Task) -> Callable[[F], F]:
    """The settings of the probes of a task, or of its measurement."""
    known = _SETTINGS | (_OF_POSES if "mlp" in task.probes else {})
    return apply(*(known[name] for name in task.settings))


scaling_options = apply(
    click.option(
        "--standardize/--no-standardize", default=None, help="Scale features by training rows first."
    ),
    click.option("--widen", is_flag=True, help="Try beyond a grid whose edge is best."),
)
control_option = click.option(
    "--control",
    "controls",
    multiple=True,
    metavar="NAME",
    help="A row to compare with: shuffle (labels), random-weights, pixels; may be repeated.",
)

search_options = apply(
    click.option(
        "--select",
        metavar="HOW",
        help="Choose settings on val, holdout or cv5.  [default: val, else holdout]",
    ),
    click.option(
        "--seeds", type=click.IntRange(1), default=1, help="Fits of a random probe that are averaged."
    ),
    control_option,
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
