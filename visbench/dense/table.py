"""The rows of the task table whose answers are maps.  Nothing heavy is imported to read them."""

from __future__ import annotations

from probes.heads.table import HEADS
from visbench.maplayouts import LAYOUTS
from visbench.task import Task

MAPS = "images with maps"
_PLACES = ("image_dir", "target_dir", "stems", "train_stems", "target_key")
_NUMBERS = ("target_scale", "target_hole")
_DEPTH = (*_PLACES, *_NUMBERS, "max_depth", "nyu_crop", "domain")
_RESPONSE = (*_PLACES, *_NUMBERS, "domain")


def _row(
    name: str,
    level: str,
    summary: str,
    truth: tuple[str, ...],
    *,
    higher: str = "",
    lower: str = "",
    first: str,
    reads: str = MAPS,
) -> Task:
    """`first` is the headline; metrics are given by which way is better, separated by blanks."""
    metrics = dict.fromkeys(higher.split(), "higher") | dict.fromkeys(lower.split(), "lower")
    return Task(
        name=name,
        level=level,
        summary=summary,
        reads=reads,
        layout=LAYOUTS[name],
        measure=f"visbench.dense.answers:{name}",
        probes={row.name: row.summary for row in HEADS.values()},
        headline=first,
        metrics=metrics,
        reading="visbench.dense.reading:Mapped",
        opening=f"visbench.dense.opening:{name}",
        truth=truth,
        dense=True,
        pooled=False,
        columns=False,
        limit="images of each split, by name",
    )


DENSE = (
    _row(
        "semantic_segmentation",
        "high",
        "How well a read-out of patch features names the class of every pixel.",
        (*_PLACES, "num_classes", "ignore_index", "label_offset", "palette", "voc"),
        first="miou",
        higher="miou miou_per_image pixel_acc pixel_acc_per_image mean_acc fw_iou precision recall f1 scene_parsing",
    ),
    _row(
        "generic_segmentation",
        "mid",
        "How well patch features tell foreground from background.",
        (*_PLACES, "foreground", "foreground_above", "ignore_index"),
        first="iou",
        higher="iou f1 pixel_acc iou_pooled f1_pooled pixel_acc_pooled",
    ),
    _row(
        "depth",
        "mid",
        "How well patch features tell the distance of every pixel.",
        (*_DEPTH, "n_bins"),
        first="d1",
        higher="d1 d2 d3 d1_aligned d2_aligned d3_aligned",
        lower="rmse abs_rel rmse_aligned abs_rel_aligned rmse_pooled abs_rel_pooled",
    ),
    _row(
        "relative_depth",
        "mid",
        "How well patch features tell which of two points is nearer.",
        _DEPTH,
        first="ordinal_accuracy",
        higher="ordinal_accuracy ordinal_accuracy_pooled",
    ),
    _row(
        "surface_normal",
        "mid",
        "How well patch features tell which way surfaces face.",
        (*_PLACES, "uncertainty", "normal_source", "normal_colours", "normal_order", "normal_flip", "domain"),
        first="d1",
        higher="d1 d2 d3 d1_pooled d2_pooled d3_pooled",
        lower="mean median rmse mean_pooled median_pooled rmse_pooled",
    ),
    _row(
        "edge",
        "low",
        "How well patch features give back the response of an edge detector.",
        _RESPONSE,
        first="edge_correlation",
        higher="edge_correlation",
        lower="rmse mae rmse_pooled mae_pooled",
    ),
    _row(
        "keypoints2d",
        "low",
        "How well patch features give back the response of a keypoint detector.",
        _RESPONSE,
        first="keypoint_correlation",
        higher="keypoint_correlation",
        lower="rmse mae rmse_pooled mae_pooled",
    ),
    _row(
        "occlusion_edge",
        "mid",
        "How well patch features tell where one thing hides another.",
        _RESPONSE,
        first="occlusion_edge_correlation",
        higher="occlusion_edge_correlation",
        lower="rmse mae rmse_pooled mae_pooled",
    ),
    _row(
        "boundaries",
        "low",
        "How well patch features tell the boundaries that people draw (BSDS500).",
        (),
        first="ods",
        higher="ods ois ap ods_precision ods_recall best_f",
    ),
    _row(
        "corner",
        "low",
        "How well patch features give back where a picture has corners; targets are made from the images.",
        (),
        reads="images",
        first="corner_correlation",
        higher="corner_correlation",
        lower="rmse mae rmse_pooled mae_pooled",
    ),
    _row(
        "orientation",
        "low",
        "How well patch features give back the direction of texture; targets are made from the images.",
        (),
        reads="images",
        first="mean_error_deg",
        lower="mean_error_deg median_error_deg mean_error_deg_pooled median_error_deg_pooled",
    ),
)
