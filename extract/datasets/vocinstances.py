"""The outlines of objects as a PASCAL VOC devkit has them: palette PNGs that number the objects of an image
(SegmentationObject) and name the class of each pixel (SegmentationClass), 255 along the outlines.

An object's class is that of most of its pixels and its box is drawn around them.  Whether it is difficult stands in the
XML file, whose objects are matched with those of the picture: of one class, one to one, best IoU first and at least
0.2.  An object of the XML file that was not outlined is IGNORED, and its box is its mask.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from extract.datasets.base import ImageSet, Splits
from extract.datasets.folder import files, find
from extract.datasets.marking import Rules, marked
from extract.datasets.objects import IGNORED, PLAIN, Marks, Objects
from extract.datasets.pairing import Pair, Passed, Side, called, find_maps, pair, refuse_shared, side
from extract.datasets.voc import CLASSES as WITH_BACKGROUND
from extract.datasets.voc import LISTS, find_devkit, split_lists
from extract.datasets.vocxml import Described, read_annotation
from extract.errors import InputError
from extract.ids import ID_BYTES
from extract.maps.base import one_plane
from extract.maps.files import read_map

OBJECTS, KINDS = "SegmentationObject", "SegmentationClass"
CLASSES = WITH_BACKGROUND[1:]
VOID = 255
LEAST_IOU = 0.2  # of an object's box with that of its outline


def open_voc_instances(root: Path, *, rules: Rules, name: str | None = None) -> Splits:
    """The images that ImageSets/Segmentation lists; all their outlines are read once, and again when asked for."""
    year = find_devkit(root, LISTS)
    lacking = [each for each in (OBJECTS, KINDS, "JPEGImages") if year is None or not (year / each).is_dir()]
    if year is None or lacking:
        raise InputError(
            f"{root} has boxes but no outlines; a VOC devkit has {LISTS} and, beside JPEGImages, {OBJECTS} and {KINDS} "
            "(`detection` scores boxes alone)"
        )
    passed = Passed()
    images = side(year / "JPEGImages", passed.note(find(year / "JPEGImages")))
    numbers, kinds = (side(year / each, passed.note(find_maps(year / each))) for each in (OBJECTS, KINDS))
    lists = split_lists(year / LISTS)
    if "test" in lists and not any(stem in numbers.stems for stem in lists["test"]):
        del lists["test"]
    refuse_shared(lists)
    sets = {}
    for split, stems in lists.items():
        pairs = pair(images, numbers, stems=stems)
        pair(images, kinds, stems=stems)
        sets[split] = ImageSet(
            name=name or year.resolve().name,
            split=split,
            sources=files(images.folder, [each.image for each in pairs]),
            names=called(images.folder, (each.image for each in pairs), year),
            targets=Objects(
                names=called(numbers.folder, (each.map for each in pairs), year),
                marks=tuple(_marks(each, numbers, kinds, year, rules) for each in pairs),
                reader=rules.reader,
                classes=CLASSES,
                params={"layout": "voc", "outlines": OBJECTS},
            ),
            folders=(year, images.folder, numbers.folder, kinds.folder),
        )
    return passed.splits(sets)


def _marks(each: Pair, numbers: Side, kinds: Side, year: Path, rules: Rules) -> Marks:
    path, of_classes = numbers.folder / each.map, kinds.folder / kinds.one(each.stem)
    number, kind = _plane(path), _plane(of_classes)
    if number.shape != kind.shape:
        raise InputError(
            f"{path} is {number.shape[1]}×{number.shape[0]} and {of_classes} {kind.shape[1]}×{kind.shape[0]}; they "
            "have to be of one size"
        )
    found = [value for value in np.unique(number).tolist() if value not in (0, VOID)]
    boxes = np.array([_around(number == value) for value in found], np.float64).reshape(-1, 4)
    labels = [_majority(kind[number == value], path, value) for value in found]
    flags = [PLAIN] * len(found)
    described = year / "Annotations" / f"{each.stem}.xml"
    extra: list[Described] = []
    if described.is_file():
        objects = read_annotation(described).objects
        partners = _partners(objects, boxes, labels)
        for one, place in zip(objects, partners, strict=True):
            if place is None and one.name in CLASSES:
                extra.append(one)
            elif place is not None and one.difficult and not rules.include_difficult:
                flags[place] = IGNORED
    bare = np.array([one.box for one in extra], np.float64).reshape(-1, 4)
    return marked(
        np.concatenate([boxes, bare]),
        [*labels, *(CLASSES.index(one.name) for one in extra)],
        [*flags, *[IGNORED] * len(extra)],
        rules,
        where=str(path),
        size=(number.shape[0], number.shape[1]),
        masks=_masks(path, found, bare),
        outlines=hashlib.blake2b(path.read_bytes(), digest_size=ID_BYTES).digest(),
    )


def _masks(path: Path, found: list[int], bare: np.ndarray) -> Callable[[], np.ndarray]:
    """What gives (b, h, w): the pixels of each number, then those in each bare box."""

    def read() -> np.ndarray:
        number = _plane(path)
        masks = np.zeros((len(found) + len(bare), *number.shape), bool)
        for place, value in enumerate(found):
            masks[place] = number == value
        for place, box in enumerate(bare, len(found)):
            x0, y0, x1, y1 = np.maximum(np.round(box), 0).astype(int).tolist()
            masks[place, y0:y1, x0:x1] = True
        return masks

    return read


def _plane(path: Path) -> np.ndarray:
    """(h, w) raw numbers."""
    return one_plane(read_map(path, name=str(path)), str(path))


def _around(mask: np.ndarray) -> list[int]:
    """The edges of a mask."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return [int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1]


def _majority(kinds: np.ndarray, path: Path, value: int) -> int:
    """The place among `CLASSES` of most pixels that have a class; the first of equals."""
    counts = np.bincount(kinds[(kinds != VOID) & (kinds != 0)].astype(np.int64))
    if not counts.size or counts.argmax() > len(CLASSES):
        raise InputError(
            f"{path}: object {value} lies where {KINDS} has no class of 1 … {len(CLASSES)}; the two have to belong "
            "together"
        )
    return int(counts.argmax()) - 1


def _partners(objects: tuple[Described, ...], boxes: np.ndarray, labels: list[int]) -> list[int | None]:
    """Of each object of the XML file its place among the outlined ones, or None."""
    pairs = []
    for i, one in enumerate(objects):
        for j, label in enumerate(labels):
            if CLASSES[label] == one.name:
                pairs.append((_iou(np.array(one.box), boxes[j]), i, j))
    partners: list[int | None] = [None] * len(objects)
    taken: set[int] = set()
    for iou, i, j in sorted(pairs, key=lambda each: (-each[0], *each[1:])):
        if iou >= LEAST_IOU and partners[i] is None and j not in taken:
            partners[i] = j
            taken.add(j)
    return partners


def _iou(one: np.ndarray, other: np.ndarray) -> float:
    sides = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    shared = float(np.maximum(sides, 0).prod())
    both = float((one[2:] - one[:2]).prod() + (other[2:] - other[:2]).prod())
    return shared / (both - shared) if both > shared else 0.0
