"""Folders of images and maps that share their stems, in whichever of three ways they are split:

    data/train/images/a.jpg    data/images/train/a.jpg    data/images/a.jpg
    data/train/labels/a.png    data/labels/train/a.png    data/labels/a.png

Folders below these count for the stem.  The folder of maps is found by its usual names, of which exactly one
must be there.  Lists of stems select from the third way, the dataset's root.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from extract.datasets.base import SPLITS, ImageSet, Splits
from extract.datasets.folder import _split_folders, find
from extract.datasets.pairing import (
    Passed,
    Side,
    find_maps,
    pair,
    paired_set,
    read_stems,
    refuse_shared,
    side,
)
from extract.datasets.targets import MapReader
from extract.errors import InputError

_MANY = ("maps", "map", "targets", "target", "gt", "ground_truth", "groundtruth")
_MASKS = ("masks", "mask", "annotations", "annotation", "SegmentationClass")

TARGET_FOLDERS: Mapping[str, tuple[str, ...]] = {
    "labels": ("labels", "label", *_MASKS, "segmentation", "semantic", *_MANY),
    "foreground": (*_MASKS, "labels", "label", "foreground", "saliency", *_MANY),
    "depth": ("depth", "depths", "depth_zbuffer", *_MANY),
    "normals": ("normals", "normal", "surface_normals", *_MANY),
    "response": (
        "edges",
        "edge",
        "edge_texture",
        "edge_occlusion",
        "occlusion_edges",
        "keypoints",
        "keypoints2d",
        *_MANY,
    ),
    "edge": ("edges", "edge", "edge_texture", *_MANY),
    "keypoints2d": ("keypoints2d", "keypoints", *_MANY),
    "occlusion_edge": ("occlusion_edges", "edge_occlusion", "occlusion", *_MANY),
}
"""Usual names of the folder of maps, in any case: by kind of map, or by task where a kind serves several."""


def open_maps(
    root: str | Path,
    *,
    reader: MapReader,
    target_dir: str | Path | Sequence[str] | None = None,
    image_dir: str | Path = "images",
    stems: str | Path | None = None,
    train_stems: str | Path | None = None,
    classes: Sequence[str] = (),
    name: str | None = None,
) -> Splits:
    """Images with a map each, nothing opened yet.

    `image_dir` and `target_dir` are relative to a split's folder or to the root, or absolute; `target_dir` may
    be several names to look for.  `stems` and `train_stems` are text files that list the scored and the
    training images; with one of them alone there is a single set.
    """
    root = Path(root).expanduser()
    if not root.is_dir():
        raise InputError(f"there is no folder {root}; images and maps are read from a folder")
    if target_dir is None:
        target_dir = TARGET_FOLDERS.get(reader.kind, _MANY)
    passed = Passed()
    if stems is not None or train_stems is not None:
        images, maps = _whole(root, image_dir, target_dir, passed)
        sides = _listed(images, maps, stems, train_stems)
    else:
        sides = {split: (*both, None) for split, both in _sides(root, image_dir, target_dir, passed).items()}
    params = {"lists": [Path(each).name for each in (train_stems, stems) if each is not None]}
    sets: dict[str, ImageSet] = {}
    for split, (images, maps, chosen) in sides.items():
        sets[split] = paired_set(
            pair(images, maps, stems=chosen),
            images,
            maps,
            name=name or root.resolve().name,
            split=split,
            root=root,
            reader=reader,
            classes=classes,
            params=(params if chosen else {}) | {"target_dir": maps_called(maps.folder, root)},
        )
    return passed.splits(sets)


def maps_called(folder: Path, root: Path) -> str:
    """The folder of maps in words for a record: below the root, without the split, else by name alone."""
    folder, root = folder.absolute(), root.absolute()
    parts = folder.relative_to(root).parts if folder.is_relative_to(root) else folder.parts[-1:]
    return "/".join(part for part in parts if part.lower() not in SPLITS) or folder.name


def _listed(
    images: Side, maps: Side, stems: str | Path | None, train_stems: str | Path | None
) -> dict[str, tuple[Side, Side, Any]]:
    """The sets that lists of stems choose; those of one list alone are split by whoever uses them."""
    lists = {
        split: read_stems(Path(path).expanduser())
        for split, path in (("train", train_stems), ("test", stems))
        if path is not None
    }
    refuse_shared(lists)
    only = "train" if stems is None else "all"
    named = lists if len(lists) > 1 else {only: next(iter(lists.values()))}
    return {split: (images, maps, chosen) for split, chosen in named.items()}


def _whole(root: Path, image_dir: str | Path, target_dir: Any, passed: Passed) -> tuple[Side, Side]:
    """Both sides of `root` without regard to splits."""
    images = _image_folder(root, image_dir)
    maps = target_folder(root, target_dir, images)
    return side(images, passed.note(find(images))), side(maps, passed.note(find_maps(maps)))


def _sides(
    root: Path, image_dir: str | Path, target_dir: Any, passed: Passed
) -> dict[str, tuple[Side, Side]]:
    """The images and maps of every split."""
    folders = _split_first(root, image_dir)
    if folders:
        whole = {split: _whole(folder, image_dir, target_dir, passed) for split, folder in folders.items()}
        names = {maps.folder.name: split for split, (_, maps) in whole.items()}
        if len(names) > 1:
            listed = " and ".join(f"{name} ({split})" for name, split in names.items())
            raise InputError(
                f"{root} has its maps in {listed}; one name for all splits, or give --target-dir"
            )
        return whole
    images = _image_folder(root, image_dir)
    maps = target_folder(root, target_dir, images)
    both = passed.note(find(images)), passed.note(find_maps(maps))
    for folder, found, what in zip((images, maps), both, ("image", "map"), strict=True):
        if not found.images:
            raise InputError(f"{folder} holds no {what} that can be read (other files: {found.unread()})")
    of_images, of_maps = (
        _split_folders(found, folder) for found, folder in zip(both, (images, maps), strict=True)
    )
    if of_images.keys() != of_maps.keys():
        raise InputError(
            f"{images} is split into {_splits(of_images)} and {maps} into {_splits(of_maps)}; each split needs both"
        )
    return {
        split: (side(images, both[0], of_images[split]), side(maps, both[1], of_maps[split]))
        for split in of_images
    }


def _split_first(root: Path, image_dir: str | Path) -> dict[str, Path]:
    """Split → its folder, where splits come before images and maps."""
    if Path(image_dir).is_absolute():
        return {}
    folders: dict[str, Path] = {}
    for folder in _folders(root):
        split = SPLITS.get(folder.name.lower())
        if split is None:
            continue
        if split in folders:
            raise InputError(
                f"{root} has {folders[split].name} and {folder.name}, both meaning {split}; keep one of them"
            )
        folders[split] = folder
    if folders and (root / image_dir).is_dir():
        listed = ", ".join(folder.name for folder in folders.values())
        raise InputError(
            f"{root} has {image_dir} beside the split folders {listed}: are splits above or below it? "
            "Move one of them out"
        )
    return {split: folders[split] for split in ("train", "val", "test") if split in folders}


def _image_folder(base: Path, image_dir: str | Path) -> Path:
    folder = base / image_dir
    if not folder.is_dir():
        there = ", ".join(each.name for each in _folders(base)) or "none"
        raise InputError(
            f"{base} has no folder {image_dir} (its folders: {there}); name that of the images with --image-dir, or "
            "lay them out as train/images, val/images …"
        )
    return folder


def target_folder(base: Path, target_dir: str | Path | Sequence[str], images: Path) -> Path:
    """The folder of maps: the one named, or the only one of several usual names."""
    if isinstance(target_dir, str | Path):
        folder = base / target_dir
        if not folder.is_dir():
            there = ", ".join(each.name for each in _folders(base)) or "none"
            raise InputError(
                f"{base} has no folder {target_dir} (its folders: {there}); name that of the maps with --target-dir"
            )
        return folder
    usual = {each.lower() for each in target_dir}
    found = [each for each in _folders(base) if each.name.lower() in usual and each != images]
    if len(found) == 1:
        return found[0]
    if found:
        listed = " and ".join(each.name for each in found)
        raise InputError(f"{base} has {listed}, all of which could be the maps; choose one with --target-dir")
    there = ", ".join(each.name for each in _folders(base) if each != images) or "none"
    raise InputError(
        f"{base} has no folder of maps under a usual name ({', '.join(target_dir[:4])} …); its other folders: "
        f"{there}; name it with --target-dir"
    )


def _folders(base: Path) -> list[Path]:
    try:
        return sorted(each for each in base.iterdir() if each.is_dir() and not each.name.startswith("."))
    except OSError as error:
        raise InputError(f"{base} cannot be listed: {error.strerror}") from error


def _splits(folders: Mapping[str, str]) -> str:
    return "nothing" if "all" in folders else ", ".join(folders)
