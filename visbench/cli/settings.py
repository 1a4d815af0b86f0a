"""The options of what is fitted and measured: settings of probes, how they are chosen, controls beside them.

Help texts tell the defaults of the task that they stand under; a test compares them with those of the code.
"""

from __future__ import annotations

from collections.abc import Callable

import click

from visbench.cli.options import F, Numbers, apply
from visbench.task import Task

_SETTINGS = {
    "C": click.option(
        "--C",
        "C",
        type=Numbers(float),
        help="logistic: fix C, or the grid it is chosen from.  [default: the best of 21 from 1e-6 to 1e4]",
    ),
    "l2": click.option(
        "--l2",
        type=Numbers(float),
        help="ridge, and logistic in place of C: the same as a penalty a sample.  "
        "[default of ridge: the best of 21 from 1e-6 to 1e4]",
    ),
    "k": click.option("--k", type=Numbers(int), help="knn: neighbours.  [default: the better of 20 and 5]"),
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
        "--metric",
        type=click.Choice(["cosine", "euclidean"]),
        help="How near two images are.  [default: cosine]",
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
        "--units",
        type=click.Choice(["pixel", "patch"]),
        help="What a board sorts by.  [default: pixel; patch under --protocol visbench]",
    ),
    "thresholds": click.option(
        "--thresholds",
        type=Numbers(float),
        help="Errors up to which a match is right, in those units.  "
        "[default: 1,2,5,10 pixels and 0.5,1,2,4 patch widths]",
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
        "--score-threshold",
        type=click.FloatRange(0, 1),
        help="Detections that score no more are left out.  [default: 0.05]",
    ),
    "nms_iou": click.option(
        "--nms-iou",
        type=click.FloatRange(0, 1),
        help="Of two of a class that overlap more, the better stays.  [default: 0.5]",
    ),
    "max_detections": click.option(
        "--max-detections", type=click.IntRange(1), help="Detections kept an image.  [default: 100]"
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
    "train_batch_size": click.option(
        "--train-batch-size", type=click.IntRange(1), help="Pairs.  [default: 128]"
    ),
}


def settings_options(task: Task) -> Callable[[F], F]:
    """The settings of the probes of a task, or of its measurement."""
    known = _SETTINGS | (_OF_POSES if "mlp" in task.probes else {})
    return apply(*(known[name] for name in task.settings))


def scaling_options(what: str, *, but: str = "") -> Callable[[F], F]:
    """Whether `what` is scaled, and grids widened."""
    return apply(
        click.option(
            "--standardize/--no-standardize",
            default=None,
            help=f"Scale {what} by the training images first{but}.  [default: yes; no under --protocol visbench]",
        ),
        click.option("--widen", is_flag=True, help="Try beyond a grid whose edge is best."),
    )


def control_option(task: Task) -> Callable[[F], F]:
    """`--control`, with those that the task can have."""
    pixels = ", pixels" if task.pooled and task.name != "zeroshot" else ""
    return click.option(
        "--control",
        "controls",
        multiple=True,
        metavar="NAME",
        help=f"A row to compare with: shuffle (what is right), random-weights{pixels}; may be repeated.",
    )


def search_options(task: Task) -> Callable[[F], F]:
    """How settings are chosen, and what is run beside them."""
    ways = "val or holdout" if "mlp" in task.probes else "val, holdout or cv5"  # pairs share their images
    return apply(
        click.option(
            "--select",
            metavar="HOW",
            help=f"Choose settings on {ways}.  [default: val, else holdout]",
        ),
        click.option(
            "--seeds",
            type=click.IntRange(1),
            default=1,
            show_default=True,
            help="Fits of a random probe that are averaged.",
        ),
        control_option(task),
    )
