"""Boxes as the trainers of YOLO read them: a text file an image, a line an object, and the classes in data.yaml.

    data.yaml                                    names: [cat, dog]
    images/{train,val,test}/  a.jpg              or {train,valid,test}/images/, or images/ alone
    labels/{train,val,test}/  a.txt              0 0.5 0.5 0.2 0.3

A line is the class, the middle of the box across and down, its width and its height, in shares of the upright image;
or the class and the corners of an outline, around which the box is drawn.  An image without a text file, or with an
empty one, has no objects.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from extract.datasets.base import SPLITS, ImageSet, Splits
from extract.datasets.folder import files, find
from extract.datasets.marking import Rules, marked
from extract.datasets.objects import PLAIN, Marks, Objects
from extract.datasets.pairing import Passed, Side, called, side, some
from extract.errors import InputError, UnreadableImageError
from extract.images import header
from extract.wording import counted

IMAGES, LABELS = "images", "labels"
BOX = 5  # numbers of a line: class, x, y, width, height
BEYOND = 0.01  # by which a share may leave 0 … 1: rounding


class Part(NamedTuple):
    """The images of a split, and the text files that some of them have."""

    images: Side
    labels: Side


def is_yolo(root: Path) -> bool:
    """Whether there is a file of names beside folders of images and labels."""
    return bool(_names_file(root) and has_folders(root))


def has_folders(root: Path) -> bool:
    """Whether there are folders of images and labels, which a file of names should lie beside."""
    return bool(_folders(root))


def open_yolo(root: Path, *, rules: Rules, name: str | None = None) -> Splits:
    """The images of `root` by split, with the boxes of the text file of their stem."""
    listing = _names_file(root)
    if listing is None:
        raise InputError(f"{root} has no data.yaml, which names the classes")
    classes = _names(listing)
    passed = Passed()
    parts = {
        split: Part(side(images, passed.note(find(images))), _text_side(labels))
        for split, (images, labels) in _folders(root).items()
    }
    for part in parts.values():
        unused = sorted(part.labels.stems.keys() - part.images.stems.keys())
        if unused or not part.images.stems:
            said = f"{counted(len(unused), 'text file')} without an image ({some(unused)})"
            raise InputError(
                f"{part.labels.folder} has {said}; complete {part.images.folder}, or remove them"
                if unused
                else f"{part.images.folder} holds no image that can be read"
            )
    sets = {
        split: _image_set(part, classes, rules, split, root, name or root.resolve().name)
        for split, part in parts.items()
    }
    if not any(len(marks) for each in sets.values() for marks in each.objects.marks):
        raise InputError(f"the text files of {root} mark no object; there is nothing to find")
    return passed.splits(sets)


def _names_file(root: Path) -> Path | None:
    there = [root / f"data.{ending}" for ending in ("yaml", "yml") if (root / f"data.{ending}").is_file()]
    return there[0] if there else None


def _names(path: Path) -> tuple[str, ...]:
    """A list of names, or names by number from 0."""
    yaml: Any = importlib.import_module("yaml")  # comes with timm
    try:
        said = yaml.safe_load(path.read_bytes())
    except (OSError, yaml.YAMLError) as error:
        raise InputError(f"{path} cannot be read: {' '.join(str(error).split())}") from None
    names = said.get("names") if isinstance(said, dict) else None
    if isinstance(names, dict) and set(names) == set(range(len(names))):
        names = [names[number] for number in range(len(names))]
    if not isinstance(names, list) or not names:
        raise InputError(f"{path} has no `names`, a list of the classes or their names by number from 0")
    found = tuple(
        "" if each is None or isinstance(each, list | dict) else str(each).strip() for each in names
    )
    if not all(found):
        raise InputError(f"{path} calls class {found.index('')} {names[found.index('')]!r}, which is no name")
    if len(set(found)) < len(found):
        twice = next(each for each in found if found.count(each) > 1)
        raise InputError(f"{path} calls two classes {twice!r}; name each apart")
    return found


def _folders(root: Path) -> dict[str, tuple[Path, Path]]:
    """Split → the folders of its images and labels."""
    found: dict[str, tuple[Path, Path]] = {}
    for folder in sorted(each for each in root.glob("*") if each.is_dir() and each.name.lower() in SPLITS):
        _add(found, SPLITS[folder.name.lower()], folder / IMAGES, folder / LABELS)
    for folder in sorted(each for each in (root / IMAGES).glob("*") if each.name.lower() in SPLITS):
        _add(found, SPLITS[folder.name.lower()], folder, root / LABELS / folder.name)
    if not found and (root / IMAGES).is_dir() and (root / LABELS).is_dir():
        return {"all": (root / IMAGES, root / LABELS)}
    return {split: found[split] for split in ("train", "val", "test") if split in found}


def _add(found: dict[str, tuple[Path, Path]], split: str, images: Path, labels: Path) -> None:
    if not images.is_dir() or not labels.is_dir():
        return
    if split in found:
        raise InputError(f"{found[split][0]} and {images} both mean {split}; keep one of them")
    found[split] = images, labels


def _text_side(root: Path) -> Side:
    """The text files below a folder by stem; classes.txt is none of an image."""
    paths = [path.relative_to(root) for path in sorted(root.rglob("*.txt"))]
    shown = [path for path in paths if not path.name.startswith(".") and path.name != "classes.txt"]
    return Side(root, {path.with_suffix("").as_posix(): [path.as_posix()] for path in shown})


def _image_set(
    part: Part, classes: tuple[str, ...], rules: Rules, split: str, root: Path, name: str
) -> ImageSet:
    stems = sorted(part.images.stems)
    pictures = [part.images.one(stem) for stem in stems]
    texts = [f"{stem}.txt" for stem in stems]
    return ImageSet(
        name=name,
        split=None if split == "all" else split,
        sources=files(part.images.folder, pictures),
        names=called(part.images.folder, pictures, root),
        targets=Objects(
            names=called(part.labels.folder, texts, root),
            marks=tuple(
                _marks(part.images.folder / picture, part.labels.folder / text, len(classes), rules)
                for picture, text in zip(pictures, texts, strict=True)
            ),
            reader=rules.reader,
            classes=classes,
            params={"layout": "yolo"},
        ),
        folders=(root,),
    )


def _marks(picture: Path, text: Path, classes: int, rules: Rules) -> Marks:
    """The objects of an image; none where it cannot be read, which is said where images are read."""
    lines = _lines(text, classes) if text.is_file() else []
    try:
        seen = header(picture)
    except UnreadableImageError:
        return marked([], [], [], rules, where=str(text))
    scale = np.array([seen.width, seen.height] * 2)
    boxes = [_around(each[1:]) * scale for each in lines]
    labels = [int(each[0]) for each in lines]
    size = (seen.height, seen.width)
    return marked(boxes, labels, [PLAIN] * len(lines), rules, where=str(text), size=size)


def _lines(path: Path, classes: int) -> list[list[float]]:
    """The numbers of each line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        lines = [[float(each) for each in line.split()] for line in text.splitlines() if line.strip()]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError:
        raise InputError(
            f"{path} holds something else than numbers; a box is class, x, y, width, height"
        ) from None
    for number, line in enumerate(lines, 1):
        if len(line) < BOX or (len(line) > BOX and (len(line) < BOX + 2 or len(line) % 2 == 0)):
            raise InputError(
                f"{path}, object {number} has {counted(len(line), 'number')}; a box is class, x, y, width, height"
            )
        if not line[0].is_integer() or not 0 <= line[0] < classes:
            raise InputError(
                f"{path}, object {number} is of class {line[0]:g}; data.yaml names 0 … {classes - 1}"
            )
        if not all(-BEYOND <= each <= 1 + BEYOND for each in line[1:]):
            raise InputError(
                f"{path}, object {number} has numbers outside 0 … 1; boxes of YOLO are in shares of the image"
            )
    return lines


def _around(numbers: Sequence[float]) -> np.ndarray:
    """(4,) edges in shares, of a box by its middle or of an outline by its corners."""
    if len(numbers) == BOX - 1:
        middle, extent = np.array(numbers[:2]), np.array(numbers[2:])
        return np.concatenate([middle - extent / 2, middle + extent / 2])
    corners = np.array(numbers).reshape(-1, 2)
    return np.concatenate([corners.min(axis=0), corners.max(axis=0)])
