"""Folders of images: `root/[split/]class/image`, or images alone.

Folders below a class count for the class.  Images are ordered by class, then by path in code point order.
Images beside class folders, and class folders beside split folders, could mean two things and are refused.
Links are followed, loops are not.  Nothing is opened and nothing written: 100,000 files take a second.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from extract.datasets.base import SPLITS, ImageSet, Splits
from extract.datasets.labels import class_order
from extract.datasets.sources import Lazy
from extract.errors import InputError
from extract.wording import counted

_USUAL = {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".tif", ".tiff", ".bmp", ".dib"}
IMAGE_EXTENSIONS = frozenset(_USUAL | {".ppm", ".pgm", ".pbm", ".pnm", ".avif"})

_SYSTEM = {"__macosx", "__pycache__", "@eadir", "$recycle.bin", "lost+found", "thumbs.db", "desktop.ini"}
_LIKE_SPLITS = {"training", "testing", "dev", "eval", "evaluation", "trainset", "testset", "valset"}
_PAPERS = re.compile(r"(readme|licen[cs]e|notice)(\.\w+)?", re.IGNORECASE)  # files only, and never images


@dataclass
class Found:
    """What lies below a folder, as paths relative to it."""

    images: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)  # extension → files that are no images
    hidden: set[str] = field(default_factory=set)

    def unread(self) -> str:
        """The extensions left unread, for people: ".heic (4), .txt (1)"."""
        return ", ".join(f"{ending} ({count})" for ending, count in self.ignored.most_common()) or "none"


def open_folder(root: Path, *, name: str | None = None, allow_empty_classes: bool = False) -> Splits:
    """Read the layout of `root`.  A class folder without images is refused in `train`, or where there are no
    splits, unless allowed; so is whatever could be read in two ways.
    """
    found = find(root)
    if not found.images:
        raise InputError(
            f"{root} holds no image that can be read (other files: {found.unread()}); what is read is "
            + " ".join(sorted(IMAGE_EXTENSIONS))
        )
    splits = _split_folders(found, root)
    trees = {split: _Tree(found, f"{folder}/" if folder else "", root) for split, folder in splits.items()}
    for split, tree in trees.items():
        tree.check(must_be_full=split in ("train", "all") and not allow_empty_classes)
    classes = class_order(name for split, tree in trees.items() for name in tree.classes(split))
    name = name or root.resolve().name
    sets = {split: tree.image_set(name, split, classes) for split, tree in trees.items()}
    return Splits(sets, dict(found.ignored), tuple(sorted(found.hidden)))


def find(root: Path) -> Found:
    """Walk `root`, images by extension alone."""
    found = Found()
    try:
        _walk(str(root), "", found, ())
    except OSError as error:
        raise InputError(f"{error.filename} cannot be listed: {error.strerror}") from error
    found.images.sort()
    found.folders.sort()
    return found


def files(root: Path, paths: Sequence[str]) -> Lazy:
    """Files below `root` as image sources."""
    return Lazy(len(paths), lambda position: root / paths[position])


def readable(path: str) -> str:
    """A path as text that can be printed and written anywhere, should its bytes be no UTF-8."""
    return path if path.isascii() else path.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _walk(folder: str, prefix: str, found: Found, above: tuple[tuple[int, int], ...]) -> None:
    status = os.stat(folder)  # noqa: PTH116
    here = status.st_dev, status.st_ino
    if here in above:  # a link to a folder that we came through
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or entry.name.lower() in _SYSTEM:
                found.hidden.add("._*" if entry.name.startswith("._") else readable(entry.name))
            elif entry.is_dir():
                found.folders.append(prefix + entry.name)
                _walk(entry.path, f"{prefix}{entry.name}/", found, (*above, here))
            elif (ending := os.path.splitext(entry.name)[1].lower()) in IMAGE_EXTENSIONS:  # noqa: PTH122
                found.images.append(prefix + entry.name)
            elif _PAPERS.fullmatch(entry.name):
                found.hidden.add(readable(entry.name))
            else:
                found.ignored[readable(ending) or "no extension"] += 1


def _split_folders(found: Found, root: Path) -> dict[str, str]:
    """Split → its folder; {"all": ""} where there are no splits."""
    top = [folder for folder in found.folders if "/" not in folder]
    named = [folder for folder in top if folder.lower() in SPLITS]
    full = {path.split("/", 1)[0] for path in found.images}
    alike = [folder for folder in full if folder.lower() in _LIKE_SPLITS]
    if alike and full <= {*alike, *named}:
        raise InputError(
            f"{root} has the folders {_some(full)}, which look like splits; call them train, val and test"
        )
    if not named:
        return {"all": ""}
    beside = full - set(named)
    if beside:
        raise InputError(
            f"{root} has {_some(named)} beside {_some(beside)}: split folders stand alone, so move the "
            f"others out, or rename a class that is called {named[0]!r}"
        )
    splits: dict[str, str] = {}
    for folder in sorted(named):
        split = SPLITS[folder.lower()]
        if split in splits:
            raise InputError(
                f"{root} has {splits[split]} and {folder}, both meaning {split}; keep one of them"
            )
        splits[split] = folder
    return {split: splits[split] for split in ("train", "val", "test") if split in splits}


class _Tree:
    """The images of one split: below class folders, or all loose."""

    def __init__(self, found: Found, prefix: str, root: Path) -> None:
        self.prefix, self.root = prefix, root
        self.where = root / prefix
        inside = [path for path in found.images if path.startswith(prefix)]
        self.loose = [path for path in inside if "/" not in path[len(prefix) :]]
        self.by_class: dict[str, list[str]] = {}
        for path in inside:
            head, slash, _ = path[len(prefix) :].partition("/")
            if slash:
                self.by_class.setdefault(head, []).append(path)
        below = [path[len(prefix) :] for path in found.folders if path.startswith(prefix)]
        self.empty = sorted({path for path in below if "/" not in path} - set(self.by_class))
        self.splits_below = [path for path in below if path.count("/") == 1 and _last(path).lower() in SPLITS]

    def check(self, *, must_be_full: bool) -> None:
        """Refuse what could be read in two ways, or looks like half a download."""
        if not self.loose and not self.by_class:
            raise InputError(f"{self.where} holds no image; fill the split or remove the folder")
        if self.loose and self.by_class:
            raise InputError(
                f"{self.where} has {counted(len(self.loose), 'image')} ({_last(self.loose[0])}, …) beside the class "
                f"folders {_some(self.by_class)}; move them into a class folder or out"
            )
        if self.splits_below:
            folder = self.splits_below[0]
            raise InputError(
                f"{self.where / folder} has the name of a split but lies in a class folder; splits come "
                f"first (train/class/image), or is {self.where / folder.split('/')[0]} the dataset?"
            )
        if self.by_class and self.empty and must_be_full:
            raise InputError(
                f"{self.where} has class folders without images: {_some(self.empty)}; fill or remove them, "
                "or allow them with --allow-empty-classes"
            )

    def classes(self, split: str) -> Iterable[str]:
        """Names of class folders; an empty one counts only where the classes are learnt."""
        if not self.by_class:
            return ()
        return [*self.by_class, *(self.empty if split in ("train", "all") else ())]

    def image_set(self, name: str, split: str, classes: tuple[str, ...]) -> ImageSet:
        """The images in order, numbered by the classes of all splits."""
        paths = self.loose or [path for each in classes for path in self.by_class.get(each, ())]
        counts = [len(self.by_class.get(each, ())) for each in classes]
        return ImageSet(
            name=name,
            split=None if split == "all" else split,
            sources=files(self.root, paths),
            names=tuple(map(readable, paths)),
            labels=None if self.loose else np.repeat(np.arange(len(classes), dtype=np.int64), counts),
            classes=tuple(map(readable, classes)),
            folders=(self.root,),
        )


def _last(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _some(names: Iterable[str], most: int = 5) -> str:
    listed = sorted(names)
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")
