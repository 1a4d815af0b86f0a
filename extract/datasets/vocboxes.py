"""Boxes as a PASCAL VOC devkit has them (Everingham et al. 2010): JPEGImages, an XML file an image in Annotations, and
lists of stems in ImageSets/Main.  Images and XML files side by side, as labelling tools leave them, are read too.

VOC counts pixels from 1 and means the last one too, so that xmin … xmax covers what lies between the edges xmin − 1
and xmax.  An object that is `difficult` is IGNORED.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from extract.datasets.base import SPLITS, ImageSet, Splits
from extract.datasets.folder import files, find
from extract.datasets.labels import class_order
from extract.datasets.marking import Rules, marked
from extract.datasets.objects import IGNORED, PLAIN, Marks, Objects
from extract.datasets.pairing import Passed, Side, called, refuse_shared, side, some
from extract.datasets.voc import CLASSES as WITH_BACKGROUND
from extract.datasets.voc import LISTS as OUTLINED
from extract.datasets.voc import find_devkit, split_lists
from extract.datasets.vocxml import Annotation, read_annotation
from extract.errors import InputError
from extract.wording import counted

CLASSES = WITH_BACKGROUND[1:]

LISTS = "ImageSets/Main"
_IMAGES = ("JPEGImages", "images")  # what the folder beside Annotations is called


class Part(NamedTuple):
    """Images and XML files of a split, by stem."""

    images: Side
    annotations: Side
    stems: Sequence[str]


def is_voc(root: Path) -> bool:
    """Whether it is a devkit, or has XML files where a labelling tool puts them."""
    if not root.is_dir():
        return False
    if any(find_devkit(root, lists) is not None for lists in (LISTS, OUTLINED)):
        return True
    folders = [root, *_split_folders(root).values()]
    return any((each / "Annotations").is_dir() or any(each.glob("*.xml")) for each in folders)


def open_voc_boxes(
    root: Path,
    *,
    rules: Rules,
    annotations: Path | None = None,
    image_dir: Path | None = None,
    name: str | None = None,
) -> Splits:
    """The images that the lists name, or all, with the boxes of the XML file of their stem.

    `root` is a year's folder, the devkit or what holds it; or a folder of images and XML files, or of such folders
    called train, val and test.  `annotations` and `image_dir` (below `root`) are where they lie if not where usual.
    A `test` list counts where it has XML files.  Classes are those of VOC in its order where an object has no other
    name, else those of all splits by name.
    """
    year = find_devkit(root, LISTS)
    passed = Passed()
    if year is not None:
        parts = _listed(year, annotations, image_dir, passed)
    else:
        folders = _split_folders(root) or {"all": root}
        parts = {split: _beside(each, annotations, image_dir, passed) for split, each in folders.items()}
    passed.ignored.pop(".xml", None)
    read = {split: _read(part) for split, part in parts.items()}
    names = {each.name for found in read.values() for one in found for each in one.objects}
    classes = CLASSES if names <= set(CLASSES) else class_order(names)
    if not names:
        raise InputError(f"the XML files of {root} mark no object; there is nothing to find")
    home = year or root
    sets = {
        split: _image_set(parts[split], read[split], classes, rules, split, home, name or home.resolve().name)
        for split in parts
    }
    return passed.splits(sets)


def _marks(found: Annotation, classes: Sequence[str], rules: Rules) -> Marks:
    """The objects of an annotation, numbered by `classes`."""
    return marked(
        [each.box for each in found.objects],
        [classes.index(each.name) for each in found.objects],
        [IGNORED if each.difficult and not rules.include_difficult else PLAIN for each in found.objects],
        rules,
        where=str(found.path),
        size=found.size,
    )


def _listed(year: Path, annotations: Path | None, image_dir: Path | None, passed: Passed) -> dict[str, Part]:
    """The parts of a devkit by its lists."""
    where = year / (annotations or "Annotations")
    pictures = year / (image_dir or "JPEGImages")
    for folder, what, option in (
        (pictures, "the images", "image-dir"),
        (where, "the XML files", "annotations"),
    ):
        if not folder.is_dir():
            raise InputError(
                f"{year} has no {folder.name}, where a VOC devkit keeps {what}; unpack the whole archive, or name the "
                f"folder with --{option}"
            )
    images, files_ = side(pictures, passed.note(find(pictures))), _xml_side(where)
    lists = split_lists(year / LISTS)
    if "test" in lists and not any(stem in files_.stems for stem in lists["test"]):
        del lists["test"]  # of most years the objects of the test images were never published
    refuse_shared(lists)
    for stems in lists.values():
        for each, what in ((images, "image"), (files_, "XML file")):
            missing = [stem for stem in stems if stem not in each.stems]
            if missing:
                raise InputError(
                    f"{each.folder} has no {what} for {counted(len(missing), 'stem')} of the lists in {LISTS}: "
                    f"{some(missing)}; mend the list, or complete the folder"
                )
    return {split: Part(images, files_, stems) for split, stems in lists.items()}


def _beside(root: Path, annotations: Path | None, image_dir: Path | None, passed: Passed) -> Part:
    """All images of a folder and the XML files that go with them."""
    usual = root / "Annotations" if (root / "Annotations").is_dir() else root
    where = usual if annotations is None else root / annotations
    pictures = next((root / each for each in _IMAGES if (root / each).is_dir()), root)
    pictures = pictures if image_dir is None else root / image_dir
    for folder in (where, pictures):
        if not folder.is_dir():
            raise InputError(f"there is no folder {folder}")
    images, files_ = side(pictures, passed.note(find(pictures))), _xml_side(where)
    bare, unused = (
        sorted(one.stems.keys() - other.stems.keys()) for one, other in ((images, files_), (files_, images))
    )
    if bare or unused or not images.stems:
        said = [f"{counted(len(bare), 'image')} without an XML file ({some(bare)})"] if bare else []
        said += [f"{counted(len(unused), 'XML file')} without an image ({some(unused)})"] if unused else []
        folders = " and ".join(dict.fromkeys(map(str, (pictures, where))))
        raise InputError(
            f"{folders} has {' and '.join(said) or 'nothing that can be read'}; complete it, take out what is left "
            f"over, or list in {LISTS} what counts (an image without objects has an XML file without <object>)"
        )
    return Part(images, files_, sorted(images.stems))


def _xml_side(root: Path) -> Side:
    """The XML files below a folder by stem."""
    stems: dict[str, list[str]] = {}
    for path in sorted(root.rglob("*.xml")):
        inner = path.relative_to(root).as_posix()
        if not any(each.startswith(".") for each in inner.split("/")):
            stems.setdefault(os.path.splitext(inner)[0], []).append(inner)  # noqa: PTH122
    return Side(root, stems)


def _split_folders(root: Path) -> dict[str, Path]:
    """Split → its folder, of a folder that has train, val and test with XML files of their own."""
    there: dict[str, Path] = {}
    for folder in sorted(each for each in root.iterdir() if each.is_dir() and each.name.lower() in SPLITS):
        split = SPLITS[folder.name.lower()]
        if any(folder.glob("*.xml")) or (folder / "Annotations").is_dir():
            if split in there:
                raise InputError(f"{root} has {there[split].name} and {folder.name}, both meaning {split}")
            there[split] = folder
    return {split: there[split] for split in ("train", "val", "test") if split in there}


def _read(part: Part) -> list[Annotation]:
    return [read_annotation(part.annotations.folder / part.annotations.one(stem)) for stem in part.stems]


def _image_set(
    part: Part,
    read: Iterable[Annotation],
    classes: tuple[str, ...],
    rules: Rules,
    split: str,
    root: Path,
    name: str,
) -> ImageSet:
    images, annotations = part.images, part.annotations
    pictures = [images.one(stem) for stem in part.stems]
    return ImageSet(
        name=name,
        split=None if split == "all" else split,
        sources=files(images.folder, pictures),
        names=called(images.folder, pictures, root),
        targets=Objects(
            names=called(annotations.folder, map(annotations.one, part.stems), root),
            marks=tuple(_marks(each, classes, rules) for each in read),
            reader=rules.reader,
            classes=classes,
            params={"layout": "voc"},
        ),
        folders=tuple(dict.fromkeys((root, images.folder, annotations.folder))),
    )
