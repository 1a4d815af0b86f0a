"""Objects as COCO has them (Lin et al. 2014, arXiv:1405.0312): one JSON file a split that lists images, categories and
annotations.

    train2017/  val2017/                              the images
    annotations/instances_{train2017,val2017}.json

Boxes are x, y, width, height, whose x and y are edges.  A region of many (`iscrowd`) is CROWD; one to be left alone
(`ignore`) is IGNORED.  Categories may have any ids, 0 too; classes are in the order of the ids.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from extract.datasets.base import SPLITS, ImageSet, Splits
from extract.datasets.cocojson import PREFIX, Listing, read_listing
from extract.datasets.folder import files
from extract.datasets.marking import Rules, marked
from extract.datasets.objects import CROWD, IGNORED, PLAIN, Marks, Objects
from extract.datasets.outlines import check_outline, digest_of, masks_of, pycocotools
from extract.datasets.pairing import called
from extract.errors import InputError
from extract.images import header

FOLDER, EXPORTED = "annotations", "_annotations.coco.json"


def find_listings(root: Path) -> dict[str, Path]:
    """Split → its JSON file, of COCO's own layout or of a folder a split; "all" → the one that lies by itself."""
    if root.is_file():
        return {"all": root}
    own = [path for path in sorted((root / FOLDER).glob(f"{PREFIX}*.json")) if _split(path)]
    if own:
        return _by_split((_split(path), path) for path in own)
    apart = [
        (SPLITS[path.parent.name.lower()], path)
        for path in sorted(root.glob(f"*/{EXPORTED}"))
        if path.parent.name.lower() in SPLITS
    ]
    if apart:
        return _by_split(apart)
    return {"all": root / EXPORTED} if (root / EXPORTED).is_file() else {}


def open_coco(
    root: Path,
    *,
    rules: Rules,
    annotations: Path | None = None,
    image_dir: Path | None = None,
    name: str | None = None,
) -> Splits:
    """The images that the JSON files of `root` list, or the one that `annotations` names; those without objects count.

    Images lie in `image_dir` or where COCO and its like put them: in a folder of the split's name, in `images`, or
    beside the file.  Names of all are relative to `root`.
    """
    home = root if root.is_dir() else root.parent
    there = find_listings(root) if annotations is None else {"all": home / annotations}
    if not there:
        raise InputError(
            f"{root} has no {FOLDER}/{PREFIX}….json and no {EXPORTED}; name the JSON file with --annotations"
        )
    if rules.instances:
        pycocotools()
    read = {split: read_listing(path, home, image_dir) for split, path in there.items()}
    _refuse_shared(read)
    order = _classes(read)
    sets = {
        split: _image_set(listing, order, rules, split, root, name or home.resolve().name)
        for split, listing in read.items()
    }
    return Splits({split: sets[split] for split in ("train", "val", "test", "all") if split in sets})


def _split(path: Path) -> str:
    """The split that a file is named after, without its year; "" where it is none (unlabeled2017)."""
    return SPLITS.get(path.stem.removeprefix(PREFIX).rstrip("0123456789").rstrip("_-").lower(), "")


def _by_split(found: Iterable[tuple[str, Path]]) -> dict[str, Path]:
    there: dict[str, Path] = {}
    for split, path in found:
        if split in there:
            raise InputError(
                f"{there[split]} and {path} both list the {split} split; move one out, or name one with --annotations"
            )
        there[split] = path
    return there


def _refuse_shared(read: Mapping[str, Listing]) -> None:
    seen: dict[str, str] = {}
    for split, listing in read.items():
        for each in listing.images:
            other = seen.setdefault(os.path.normpath(listing.folder / str(each["file_name"])), split)
            if other != split:
                raise InputError(
                    f"{each['file_name']} is listed for {other} and for {split}; an image must not be learnt from and "
                    "scored"
                )


def _classes(read: Mapping[str, Listing]) -> dict[int, str]:
    """Category id → name, by id, of all splits; one that has no object and shares its name is left out.

    Some tools list the name of the whole dataset as a category of its own.
    """
    names: dict[int, str] = {}
    for listing in read.values():
        for number, name in listing.categories.items():
            if names.setdefault(number, name) != name:
                raise InputError(
                    f"category {number} is {names[number]!r} in one split and {name!r} in {listing.path}; export the "
                    "splits together"
                )
    used = {each["category_id"] for listing in read.values() for each in listing.annotations}
    if not used:
        raise InputError(f"{next(iter(read.values())).path} marks no object; there is nothing to find")
    times = Counter(names.values())
    kept = {number: names[number] for number in sorted(names) if number in used or times[names[number]] == 1}
    twice = [name for name, count in Counter(kept.values()).items() if count > 1]
    if twice:
        raise InputError(f"two categories with objects are called {twice[0]!r}; name each apart")
    return kept


def _image_set(
    listing: Listing, classes: Mapping[int, str], rules: Rules, split: str, root: Path, name: str
) -> ImageSet:
    label = {number: place for place, number in enumerate(classes)}
    by_image: dict[Any, list[Mapping[str, Any]]] = {each["id"]: [] for each in listing.images}
    for each in listing.annotations:
        by_image[each["image_id"]].append(each)
    paths = [str(each["file_name"]) for each in listing.images]
    names = called(listing.folder, paths, root if root.is_dir() else root.parent)
    return ImageSet(
        name=name,
        split=None if split == "all" else split,
        sources=files(listing.folder, paths),
        names=names,
        targets=Objects(
            names=tuple(f"{each} in {listing.path.name}" for each in names),
            marks=tuple(_marks(each, by_image[each["id"]], label, rules, listing) for each in listing.images),
            reader=rules.reader,
            classes=tuple(classes.values()),
            params={"layout": "coco"},
        ),
        folders=tuple(dict.fromkeys((root, listing.folder) if root.is_dir() else (listing.folder,))),
    )


def _marks(
    image: Mapping[str, Any],
    found: Sequence[Mapping[str, Any]],
    label: Mapping[int, int],
    rules: Rules,
    listing: Listing,
) -> Marks:
    where = f"{listing.path}, {image['file_name']}"
    size = _size(image)
    boxes = [_edges(each["bbox"], where, number) for number, each in enumerate(found, 1)]
    drawn: dict[str, Any] = {}
    if rules.instances:
        if size is None:
            seen = header(listing.folder / str(image["file_name"]))
            size = (seen.height, seen.width)
        outlines = [each.get("segmentation") for each in found]
        for each, outline in zip(found, outlines, strict=True):
            check_outline(outline, size, f"{where}: annotation {each.get('id')}")
        drawn = {"masks": masks_of(outlines, size, where), "outlines": digest_of(outlines)}
    return marked(
        boxes,
        [label[each["category_id"]] for each in found],
        [_flag(each) for each in found],
        rules,
        where=where,
        size=size,
        **drawn,
    )


def _edges(box: Any, where: str, number: int) -> tuple[float, float, float, float]:
    try:
        x, y, width, height = map(float, box)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{where}, object {number}: its bbox is {box!r}, not x, y, width, height") from None
    return x, y, x + width, y + height


def _size(image: Mapping[str, Any]) -> tuple[int, int] | None:
    """(height, width) as stated; None where it is not, or 0."""
    try:
        height, width = (int(image.get(key) or 0) for key in ("height", "width"))
    except (TypeError, ValueError, OverflowError):
        return None
    return (height, width) if height > 0 and width > 0 else None


def _flag(annotation: Mapping[str, Any]) -> int:
    """Some tools write "0" as text."""
    said = {key: str(annotation.get(key, 0)).lower() in ("1", "true") for key in ("iscrowd", "ignore")}
    return CROWD if said["iscrowd"] else IGNORED if said["ignore"] else PLAIN
