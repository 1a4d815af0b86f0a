"""The rows of the task table whose answers are boxes.  Nothing heavy is imported to read them."""

from __future__ import annotations

from probes.heads.table import HEADS
from visbench.task import Task

BOXES = "images with boxes"

_DEVKIT_AND_COCO = """\
\b
  VOC2012/                                     coco/
    JPEGImages/   2007_000027.jpg                train2017/  000000000009.jpg
    Annotations/  2007_000027.xml                val2017/    000000000139.jpg
    ImageSets/Main/  train.txt val.txt           annotations/  instances_train2017.json
                                                               instances_val2017.json"""

_SCORED = """\
Objects are scored where the square crop that the backbone sees shows their centre; what VOC calls difficult and what
COCO calls a crowd is neither asked for nor held against a detector."""

_LAYOUT = f"""\
DATA is a VOC devkit, COCO, a folder as YOLO has it, or a table of boxes:

{_DEVKIT_AND_COCO}
\b
  cells/  (YOLO)                               trees.csv
    data.yaml  with the names                    image_path,xmin,ymin,xmax,ymax,label,split
    train/  images/ a.jpg  labels/ a.txt         plot1.png,203,67,227,90,Tree,train
    valid/  images/ b.jpg  labels/ b.txt

Images and XML files side by side are read too, in folders train, valid and test or without; of one folder a fifth is
drawn and scored. {_SCORED}"""

_OUTLINES = f"""\
DATA is a VOC devkit or COCO, with an outline of every object:

{_DEVKIT_AND_COCO}

VOC's are SegmentationObject and SegmentationClass with the lists of ImageSets/Segmentation, COCO's polygons and run
lengths. The extra `boxes` brings what reading them takes. {_SCORED}"""

_CAUTION = (
    "read this first: one linear map on one coarse grid is no detector; the numbers compare features, and the ceiling "
    "says what the grid allows"
)

_METRICS = ("map_50", "map_50_95", "coco_map", "coco_map_50", "coco_map_75", "coco_ar_100")


def _row(name: str, summary: str, reading: str, layout: str, metrics: tuple[str, ...], shown: str) -> Task:
    """`shown` are the columns of a board, separated by blanks."""
    return Task(
        name=name,
        level="high",
        summary=summary,
        reads=BOXES,
        layout=layout,
        measure=f"visbench.boxes.answers:{name}",
        probes={row.name: row.summary for row in HEADS.values()},
        headline="map_50",
        metrics=dict.fromkeys(metrics, "higher"),
        shown=tuple(shown.split()),
        reading=f"visbench.boxes.reading:{reading}",
        opening=f"visbench.boxes.opening:{name}",
        truth=("annotations", "image_dir", "min_box_size", "include_difficult"),
        settings=("score_threshold", "nms_iou", "max_detections"),
        dense=True,
        pooled=False,
        columns=False,
        limit="images of each split, by name",
        caution=_CAUTION,
    )


BOXED = (
    _row(
        "detection",
        "How well a read-out of patch features finds the objects of each class, as boxes.",
        "Boxed",
        _LAYOUT,
        _METRICS,
        "map_50 map_50_95 coco_map coco_map_75 coco_ar_100 train_map_50 ceiling_map_50",
    ),
    _row(
        "instance_segmentation",
        "How well a read-out of patch features finds each object and the pixels that are its own.",
        "Outlined",
        _OUTLINES,
        (*_METRICS, *(f"box_{name}" for name in _METRICS)),
        "map_50 map_50_95 coco_map box_map_50 box_map_50_95 train_box_map_50 ceiling_map_50",
    ),
)
