"""The JSON files of COCO (Lin et al. 2014): read, and everything that they speak of looked up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extract.datasets.pairing import some
from extract.errors import InputError
from extract.wording import counted

PREFIX = "instances_"
_KEYS = {
    "images": ("id", "file_name"),
    "annotations": ("image_id", "category_id", "bbox"),
    "categories": ("id", "name"),
}
_WORDS = ("id", "file_name", "image_id", "category_id")  # looked up, so no lists
_ALONE = (("images", "id"), ("images", "file_name"), ("categories", "id"))  # no two entries share it


@dataclass(frozen=True)
class Listing:
    """A JSON file that was read, and the folder that its images' names are relative to."""

    path: Path
    images: Sequence[Mapping[str, Any]]  # by file name
    annotations: Sequence[Mapping[str, Any]]
    categories: Mapping[int, str]
    folder: Path


def read_listing(path: Path, root: Path, image_dir: Path | None) -> Listing:
    """Read a file and see that all it speaks of is there; names of images are relative to `image_dir` of `root`."""
    try:
        said = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no JSON: {error}") from None
    if not isinstance(said, dict) or not all(isinstance(said.get(part), list) for part in _KEYS):
        raise InputError(f"{path} has not the lists {', '.join(_KEYS)} that the objects of COCO come in")
    for part, keys in _KEYS.items():
        for number, each in enumerate(said[part]):
            lacking = [key for key in keys if not isinstance(each, dict) or each.get(key) is None]
            if lacking:
                raise InputError(f"{path}: entry {number} of {part} has no {lacking[0]}")
            nested = [key for key in keys if key in _WORDS and isinstance(each[key], list | dict)]
            if nested:
                raise InputError(
                    f"{path}: entry {number} of {part} has the {nested[0]} {each[nested[0]]!r}; it is one value"
                )
    for part, key in _ALONE:
        times = Counter(each[key] for each in said[part])
        twice = [value for value, count in times.items() if count > 1]
        if twice:
            raise InputError(f"{path} lists two {part} with the {key} {twice[0]!r}; each has one of its own")
    images = sorted(said["images"], key=lambda each: str(each["file_name"]))
    strange = [each["id"] for each in said["categories"] if not isinstance(each["id"], int)]
    if strange:
        raise InputError(f"{path} has the category id {strange[0]!r}; ids of categories are whole numbers")
    categories = {each["id"]: str(each["name"]).strip() for each in said["categories"]}
    _refuse_strange(path, said, categories)
    if not images:
        raise InputError(f"{path} lists no image")
    folder = _image_folder(path, root, image_dir, str(images[0]["file_name"]))
    missing = [str(each["file_name"]) for each in images if not (folder / str(each["file_name"])).is_file()]
    if missing:
        raise InputError(
            f"{path} lists {counted(len(images), 'image')}, of which {len(missing):,} cannot be found in {folder}: "
            f"{some(missing)}; complete the folder, or name another with --image-dir"
        )
    return Listing(path, images, said["annotations"], categories, folder)


def _refuse_strange(path: Path, said: Mapping[str, Any], categories: Mapping[int, str]) -> None:
    images = {each["id"] for each in said["images"]}
    for number, each in enumerate(said["annotations"]):
        called_ = f"{path}: annotation {each.get('id', number)}"
        if each["image_id"] not in images:
            raise InputError(f"{called_} is of the image {each['image_id']!r}, which the file does not list")
        if each["category_id"] not in categories:
            raise InputError(
                f"{called_} is of the category {each['category_id']!r}, which the file does not list"
            )


def _image_folder(path: Path, root: Path, image_dir: Path | None, first: str) -> Path:
    """Where the first image lies; the likeliest folder where it lies in none."""
    named = path.stem.removeprefix(PREFIX)
    places = [root / named, root / "images" / named, root / "images", path.parent, root]
    if image_dir is not None:
        places = [root / image_dir, root / image_dir / named]
    usual = next((each for each in places if each.is_dir()), root)
    return next((each for each in places if (each / first).is_file()), usual)
