"""One way in to images with boxes, however they are laid out: a VOC devkit, COCO, YOLO, or a table."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from extract.datasets import boxtable, coco, table, vocboxes, vocinstances, yolo
from extract.datasets.base import Splits
from extract.datasets.marking import Rules
from extract.errors import InputError

LAYOUTS = ("voc", "coco", "yolo", "table")
OUTLINED = ("voc", "coco")  # that have outlines too
_KNOWN = (
    "boxes are read from a VOC devkit (JPEGImages, Annotations, ImageSets/Main), from images with XML files of VOC, "
    "from COCO (annotations/instances_….json, or _annotations.coco.json beside the images), from YOLO (images, labels, "
    "data.yaml), and from a table with the columns image_path,xmin,ymin,xmax,ymax,label"
)


def layout_of(data: Path, annotations: Path | None = None) -> str:
    """What `data` looks like: one of `LAYOUTS`; refused where it is none of them, or two."""
    if annotations is not None:
        where = (data if data.is_dir() else data.parent) / annotations
        if not where.exists():
            raise InputError(f"there is no {where}, which is named as annotations")
        if where.is_file() and where.suffix.lower() != ".json":
            raise InputError(
                f"{where} is neither a JSON file of COCO nor a folder of XML files; a table is the data itself, so "
                "name it in place of the folder"
            )
        return "coco" if where.is_file() else "voc"
    if data.is_file():
        ending = data.suffix.lower()
        if ending != ".json" and ending not in table.EXTENSIONS:
            raise InputError(f"{data} holds no boxes that can be read; {_KNOWN}")
        return "coco" if ending == ".json" else "table"
    if not data.is_dir():
        raise InputError(f"there is no {data}")
    signs = (("coco", coco.find_listings(data)), ("voc", vocboxes.is_voc(data)), ("yolo", yolo.is_yolo(data)))
    found = [name for name, there in signs if there]
    if len(found) > 1:
        raise InputError(
            f"{data} has annotations of {' and of '.join(map(str.upper, found))}; say with --annotations which file of "
            "COCO or which folder of VOC is meant, or move the others out"
        )
    if not found and yolo.has_folders(data):
        raise InputError(
            f"{data} has images and labels as YOLO has them, and no data.yaml with the `names` of the classes; put one "
            "beside them"
        )
    if not found:
        tables = [each.name for each in sorted(data.iterdir()) if each.suffix.lower() in table.EXTENSIONS]
        hint = f"; is it {data / tables[0]} that is meant?" if tables else ""
        raise InputError(f"{data} has no boxes that can be found{hint or f'; {_KNOWN}'}")
    return found[0]


def open_boxes(
    data: str | os.PathLike[str],
    *,
    annotations: str | Path | None = None,
    image_dir: str | Path | None = None,
    min_box_size: float = 0,
    include_difficult: bool = False,
    instances: bool = False,
    name: str | None = None,
) -> Splits:
    """The images of `data` by split, each set's `targets` the objects that are marked on them.

    `annotations` is a JSON file of COCO or a folder of XML files, `image_dir` the folder of the images, both below
    `data` where it is a folder.  Objects whose shorter side is less than `min_box_size` pixels of the image are
    flagged IGNORED, and so are VOC's difficult ones unless `include_difficult`.  `instances` asks for outlines too.
    What a layout has no use for is refused.
    """
    root = Path(data).expanduser()
    where, pictures = (None if each is None else Path(each).expanduser() for each in (annotations, image_dir))
    rules = Rules(min_box_size, include_difficult, instances)
    layout = layout_of(root, where)
    if instances and layout not in OUTLINED:
        raise InputError(
            f"{root} is read as {_called(layout)}, of which boxes are read and no outlines; give a VOC devkit or COCO, "
            "or score `detection`"
        )
    told: dict[str, Any] = {"annotations": where, "image_dir": pictures}
    useless: dict[str, dict[str, Any]] = {
        "voc": told if instances else {},
        "coco": {"include_difficult": include_difficult},
        "yolo": {**told, "include_difficult": include_difficult},
        "table": told,
    }
    unused = [option for option, value in useless[layout].items() if value]
    if unused:
        raise InputError(
            f"{root} is read as {_called(layout)}, which has no use for {', '.join(unused)}; leave it out"
        )
    if layout == "table":
        return boxtable.open_box_table(root, rules=rules, name=name)
    if layout == "yolo":
        return yolo.open_yolo(root, rules=rules, name=name)
    if layout == "coco":
        return coco.open_coco(root, rules=rules, name=name, **told)
    if instances:
        return vocinstances.open_voc_instances(root, rules=rules, name=name)
    return vocboxes.open_voc_boxes(root, rules=rules, name=name, **told)


def _called(layout: str) -> str:
    return "a table" if layout == "table" else layout.upper()
