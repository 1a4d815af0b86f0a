"""The dense tasks: what each makes of a head's output, and the metric that ranks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from probes.maps.boundaries import Boundaries
from probes.maps.depth import Depth
from probes.maps.foreground import Foreground
from probes.maps.normals import Normals
from probes.maps.ordinal import Ordinal
from probes.maps.orientation import Orientation
from probes.maps.response import Response
from probes.maps.segmentation import Segmentation
from visbench.data import RunData
from visbench.dense.judging import Outlines
from visbench.dense.measure import Answer
from visbench.dense.opening import HIGH

Maps = Mapping[str, Any]


def _segmentation(maps: Maps, run: RunData) -> Segmentation:
    targets = run.sets["test"].targets
    assert targets is not None
    parsing = targets.params.get("layout") == "ade"  # ADE20K's challenge
    return Segmentation(int(getattr(targets.reader, "num_classes", 0)), scene_parsing=parsing)


def _depth(maps: Maps, run: RunData) -> Depth:
    bins = {"bins": maps["n_bins"]} if maps.get("n_bins") else {}
    return Depth(**bins, high=maps.get("max_depth", HIGH))


def _normals(maps: Maps, run: RunData) -> Normals:
    return Normals(uncertainty=maps.get("uncertainty", True))


def _response(name: str) -> Any:
    return lambda maps, run: Response(f"{name}_correlation")


semantic_segmentation = Answer(
    "semantic_segmentation", _segmentation, "miou", classic="visbench_semantic_seg"
)
generic_segmentation = Answer("generic_segmentation", lambda maps, run: Foreground(), "iou")
depth = Answer("depth", _depth, "d1")
relative_depth = Answer("relative_depth", lambda maps, run: Ordinal(), "ordinal_accuracy")
surface_normal = Answer("surface_normal", _normals, "d1")
edge = Answer("edge", _response("edge"), "edge_correlation", classic="visbench_edge_regression")
keypoints2d = Answer(
    "keypoints2d", _response("keypoint"), "keypoint_correlation", classic="visbench_keypoint2d_regression"
)
occlusion_edge = Answer(
    "occlusion_edge",
    _response("occlusion_edge"),
    "occlusion_edge_correlation",
    classic="visbench_occlusion_edge_regression",
)
boundaries = Answer("boundaries", lambda maps, run: Boundaries(), "ods", choose="pixel_ap", judge=Outlines)
corner = Answer("corner", _response("corner"), "corner_correlation")
orientation = Answer("orientation", lambda maps, run: Orientation(), "mean_error_deg", lower=True)
