"""The tasks of boxes: what each makes of a head's output, and the metric that ranks it."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from probes.boxes.detection import Detection
from probes.boxes.instances import Instances
from visbench.boxes.judging import Masks
from visbench.boxes.predicting import BoxPredictor, InstancePredictor
from visbench.data import RunData
from visbench.dense.measure import Answer
from visbench.errors import UsageError

SETTINGS = ("score_threshold", "nms_iou", "max_detections")  # of what is made of a head's output


def _detection(truth: Mapping[str, Any], run: RunData | None, settings: Mapping[str, Any]) -> Detection:
    count = int(truth["num_classes"]) if run is None else len(run.classes)
    for name, value in settings.items():
        kind, wanted = (Integral, "whole number") if name == "max_detections" else (Real, "number")
        if isinstance(value, bool) or not isinstance(value, kind):
            raise UsageError(f"{name} is {value!r}; it must be a {wanted}")
    return Detection(num_classes=count, size=1, **settings)


def _instances(truth: Mapping[str, Any], run: RunData | None, settings: Mapping[str, Any]) -> Instances:
    return Instances(_detection(truth, run, settings))


detection = Answer(
    "detection",
    _detection,
    "map_50",
    classic="visbench_anchor_free_det",
    settings=SETTINGS,
    without=("loss_stride",),
    predictor=BoxPredictor,
)
instance_segmentation = Answer(
    "instance_segmentation",
    _instances,
    "map_50",
    choose="box_map_50",
    judge=Masks,
    settings=SETTINGS,
    without=("loss_stride",),
    predictor=InstancePredictor,
)
