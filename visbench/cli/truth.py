"""What a task may be told of the truth that it scores against: where maps, pairs or boxes lie and what they mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from visbench.cli.options import DEFAULT_BACKBONE, Numbers, apply
from visbench.task import Task


def _parts(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, str] | None:
    """Which column plays which part, of PART=NAME each."""
    pairs = [each.partition("=") for each in given]
    for part, equals, name in pairs:
        if not (part and equals and name):
            raise click.BadParameter(
                f"{part + equals + name!r} is no PART=NAME, such as first=photo", ctx, param
            )
    return {part: name for part, _, name in pairs} or None


_TRUTH: dict[str, Callable[[Any], Any]] = {
    "image_dir": click.option(
        "--image-dir", metavar="DIR", help="The folder of images.  [default: images, or as the layout has it]"
    ),
    "target_dir": click.option("--target-dir", metavar="DIR", help="The folder of maps.  [default: by name]"),
    "stems": click.option(
        "--stems", metavar="FILE", help="Only these stems; scored, where --train-stems says what trains."
    ),
    "train_stems": click.option("--train-stems", metavar="FILE", help="Train on these stems."),
    "num_classes": click.option(
        "--num-classes",
        type=click.IntRange(2, 255),
        help="Classes are 0 … N − 1.  [default: 21 of VOC, 150 of ADE20K]",
    ),
    "ignore_index": click.option(
        "--ignore-index", type=Numbers(int), help="Values that are not scored.  [default: 255]"
    ),
    "label_offset": click.option(
        "--label-offset", type=int, help="Subtract this of every label; below 0 is not scored."
    ),
    "palette": click.option(
        "--palette", metavar="FILE", help="Red, green, blue of a class a line, of maps coded by colour."
    ),
    "target_key": click.option(
        "--target-key", metavar="NAME", help="The array of an .npz, channels of an EXR."
    ),
    "voc": click.option("--voc", is_flag=True, default=None, help="DATA is a VOC devkit (found by itself)."),
    "foreground": click.option(
        "--foreground", type=Numbers(int), help="Values that are foreground, where not 0/1 or 0/255."
    ),
    "foreground_above": click.option(
        "--foreground-above", type=float, help="What is larger is foreground, as of soft or JPEG masks."
    ),
    "target_scale": click.option(
        "--target-scale", type=float, help="Stored values a unit: 1000 for millimetres."
    ),
    "target_hole": click.option("--target-hole", type=Numbers(float), help="Stored values that say nothing."),
    "max_depth": click.option("--max-depth", type=float, help="Metres; beyond is not scored.  [default: 10]"),
    "n_bins": click.option(
        "--n-bins", type=click.IntRange(2), help="Depths that a mean is taken of.  [default: 256]"
    ),
    "nyu_crop": click.option(
        "--nyu-crop/--no-nyu-crop", default=None, help="Score NYUv2's window alone.  [default: of NYUv2]"
    ),
    "uncertainty": click.option(
        "--uncertainty/--no-uncertainty",
        default=None,
        help="Normals with a concentration, or angles alone.  [default: uncertainty]",
    ),
    "normal_source": click.option("--normal-source", metavar="NAME", help="Kept in the record: geonet, …"),
    "normal_colours": click.option(
        "--normal-colours", is_flag=True, default=None, help="Floats are colours of 0 … 1, not −1 … 1."
    ),
    "normal_order": click.option(
        "--normal-order", metavar="xyz", help="The channels as they come: zyx of BGR."
    ),
    "normal_flip": click.option("--normal-flip", metavar="y", help="Axes to turn round."),
    "domain": click.option(
        "--domain", metavar="NAME", help="Which maps of Taskonomy.  [default: the task's own]"
    ),
}

_TRUTH |= {
    "columns": click.option(
        "--column",
        "columns",
        multiple=True,
        metavar="PART=NAME",
        callback=_parts,
        help="A column that is not called as usual, as first=photo; may be repeated.",
    ),
    "origin": click.option(
        "--origin",
        type=click.Choice(["index", "edge"]),
        help="Where files count pixels from: the first one's centre, or its edge.  [default: index]",
    ),
    "disparity_offset": click.option("--disparity-offset", type=float, help="Pixels to add.  [default: 0]"),
    "disparity_key": click.option("--disparity-key", metavar="NAME", help="The array of an .npz."),
    "depth_scale": click.option(
        "--depth-scale", type=float, help="Stored values a unit of the poses, of pairs with depth."
    ),
    "disparity_scale": click.option(
        "--disparity-scale", type=float, help="Stored values a pixel, of disparity maps.  [default: 1]"
    ),
    "disparity_hole": click.option(
        "--disparity-hole", type=Numbers(float), help="Stored values that say nothing, beside 0."
    ),
    "min_votes": click.option(
        "--min-votes",
        type=click.IntRange(0),
        help="Leave out triplets with fewer votes.  [default: 6, where there are votes]",
    ),
    "partition": click.option(
        "--partition",
        type=click.Choice(["imagenet", "no_imagenet"]),
        help="Of NIGHTS' test split, what is of ImageNet or what is not.",
    ),
    "pairs_per_image": click.option(
        "--pairs-per-image", type=click.IntRange(1), help="Of posed images, at most.  [default: 8]"
    ),
    "max_rotation": click.option(
        "--max-rotation",
        type=click.FloatRange(0, 180, min_open=True),
        help="Degrees between the cameras of a pair, at most.  [default: 120]",
    ),
    "annotations": click.option(
        "--annotations",
        metavar="PLACE",
        help="VOC's folder of XML files, or COCO's JSON file, below DATA.  [default: by name]",
    ),
    "min_box_size": click.option(
        "--min-box-size",
        type=click.FloatRange(0),
        help="Objects with a side of fewer pixels are not scored.  [default: 0]",
    ),
    "include_difficult": click.option(
        "--include-difficult", is_flag=True, default=None, help="Score VOC's difficult objects like others."
    ),
}

every_truth_option = apply(*_TRUTH.values())

EXAMPLES = {  # data and what they need to be told, as in the drawn layouts
    "semantic_segmentation": "streets/ --num-classes 19",
    "generic_segmentation": "photos/",
    "depth": "rooms/ --target-scale 1000",
    "relative_depth": "rooms/ --target-scale 1000",
    "surface_normal": "rooms/",
    "edge": "rooms/ --target-scale 1000",
    "keypoints2d": "rooms/ --target-scale 30",
    "occlusion_edge": "rooms/ --target-scale 50",
    "boundaries": "BSDS500/",
    "zeroshot": "photos/ --projection",
    "similarity": "nights/",
    "relative_pose": "navi_v1.5/",
    "detection": "VOC2012/",
    "instance_segmentation": "VOC2012/",
}


_BACKBONES = {"zeroshot": ("clip_vitb32", "clip_vitl14")}  # that have a text tower
_METRES = "Stored values a metre: 1000 for millimetres.  [default: 512 of Taskonomy, 1 of floats]"
_SCALES = {  # what a unit is, and which the data have that say nothing of it
    "depth": _METRES,
    "relative_depth": _METRES,
    "relative_pose": "Stored values a metre, of translations.  [default: 1000 of NAVI, 1 of a table]",
    "edge": "Stored values a unit.  [default: 1000 of Taskonomy, 1 of floats]",
    "keypoints2d": "Stored values a unit.  [default: 30 of Taskonomy, 1 of floats]",
    "occlusion_edge": "Stored values a unit.  [default: 50 of Taskonomy, 1 of floats]",
}


def usual_backbones(task: Task) -> tuple[str, ...]:
    """The one that runs where none is named, and another to compare it with."""
    return _BACKBONES.get(task.name, (DEFAULT_BACKBONE, "resnet50"))


def truth_options(task: Task) -> Callable[[Any], Any]:
    """What the task may be told of what it scores against."""
    told = dict(_TRUTH)
    if task.name in _SCALES:
        told["target_scale"] = click.option("--target-scale", type=float, help=_SCALES[task.name])
    return apply(*(told[name] for name in task.truth))
