"""Semantic segmentation as a PASCAL VOC devkit has it (Everingham et al. 2010): images in JPEGImages, palette
PNGs of the classes 0 … 20 in SegmentationClass, 255 along the outlines, splits in ImageSets/Segmentation.
"""

from __future__ import annotations

from pathlib import Path

from extract.datasets.base import Splits
from extract.datasets.folder import find
from extract.datasets.pairing import Passed, find_maps, pair, paired_set, read_stems, refuse_shared, side
from extract.datasets.targets import MapReader
from extract.errors import InputError

CLASSES = (
    "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip

LISTS = "ImageSets/Segmentation"


def find_devkit(root: Path, lists: str = LISTS) -> Path | None:
    """The folder of one year that `root` is, or has below it, with split lists in `lists`; None where there is none."""
    candidates = [root, *sorted(root.glob("VOC2*")), *sorted(root.glob("VOCdevkit/VOC2*"))]
    years = [each for each in candidates if (each / lists).is_dir()]
    if len(years) > 1 and years[0] != root:
        listed = ", ".join(str(each.relative_to(root)) for each in years)
        raise InputError(f"{root} has several years of VOC: {listed}; name one, as in {years[-1]}")
    return years[0] if years else None


def open_voc(
    root: str | Path, *, reader: MapReader, target_dir: str = "SegmentationClass", name: str | None = None
) -> Splits:
    """The images that the split lists name: `train` and `val`, and `test` where it has maps (VOC 2007).

    `root` is a year's folder, the devkit or what holds it.  Where neither `train` nor `val` is listed,
    `trainval` is the training split.  `target_dir` may be SegmentationClassAug, whose lists then stand in
    the same folder.
    """
    root = Path(root).expanduser()
    year = find_devkit(root) if root.is_dir() else None
    if year is None:
        raise InputError(
            f"{root} is no VOC devkit: neither it nor a VOC2… folder below it has {LISTS}; give the folder "
            "VOCdevkit/VOC2012"
        )
    for folder, what in (("JPEGImages", "the images"), (target_dir, "the maps")):
        if not (year / folder).is_dir():
            raise InputError(
                f"{year} has no {folder}, where a VOC devkit keeps {what}; unpack the whole archive"
            )
    passed = Passed()
    images = side(year / "JPEGImages", passed.note(find(year / "JPEGImages")))
    maps = side(year / target_dir, passed.note(find_maps(year / target_dir)))
    lists = split_lists(year / LISTS)
    if "test" in lists and not any(stem in maps.stems for stem in lists["test"]):
        del lists["test"]  # of most years the maps of the test images were never published
    refuse_shared(lists)
    sets = {
        split: paired_set(
            pair(images, maps, stems=stems),
            images,
            maps,
            name=name or year.resolve().name,
            split=split,
            root=year,
            reader=reader,
            classes=CLASSES,
            params={"layout": "voc", "target_dir": target_dir},
        )
        for split, stems in lists.items()
    }
    return passed.splits(sets)


def split_lists(folder: Path) -> dict[str, list[str]]:
    """Split → stems, of the lists that are there; `trainval` stands in for a `train` that is not."""
    there = {split: folder / f"{split}.txt" for split in ("train", "val", "trainval", "test")}
    lists = {split: read_stems(path) for split, path in there.items() if path.is_file()}
    trainval = lists.pop("trainval", None)
    if trainval and "train" not in lists:
        if "val" in lists:
            raise InputError(
                f"{folder} lists trainval and val but not train; add train.txt, or remove val.txt"
            )
        lists["train"] = trainval
    if not lists:
        raise InputError(
            f"{folder} has neither train.txt nor val.txt; they list a stem a line, such as 2007_000033"
        )
    return {split: lists[split] for split in ("train", "val", "test") if split in lists}
