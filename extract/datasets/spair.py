"""SPair-71k (Min et al. 2019, arXiv:1908.10543): pairs of pictures of one class, and keypoints marked in both.

    JPEGImages/<category>/<picture>.jpg
    PairAnnotation/{trn,val,test}/<pair>.json
    Layout/large/{trn,val,test}.txt              the pairs of each split, one a line

Points are pixel indices, whose (0, 0) is the centre of the first pixel.  Errors are measured by the longer side of the
object's box in the second (target) picture, in its own pixels.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from extract.datasets.base import Splits
from extract.datasets.grouping import Members, Sizes, grouped_splits, members_of_files, relation_array
from extract.datasets.groups import Groups
from extract.datasets.pairing import read_stems
from extract.datasets.relations import Keypoints, Size, origin_of
from extract.errors import InputError

SPLITS = {"train": "trn", "val": "val", "test": "test"}
_ORIGIN = "index"
_KEYS = ("src_imname", "trg_imname", "src_kps", "trg_kps", "trg_bndbox", "category")


def is_spair(root: Path) -> bool:
    """Whether the folder is laid out so."""
    return all((root / part).is_dir() for part in ("JPEGImages", "PairAnnotation"))


def open_spair(root: Path, *, name: str | None = None, layout: str = "large") -> Splits:
    """The pairs of each split for which there is a list in Layout/`layout`; a pair's relation is `Keypoints`.

    Thousands of small files are read: of all three splits about 71,000.
    """
    lists = {split: root / "Layout" / layout / f"{file}.txt" for split, file in SPLITS.items()}
    there = {split: path for split, path in lists.items() if path.is_file()}
    if not there:
        raise InputError(
            f"{root} has no lists of pairs; there should be {', '.join(map(str, lists.values()))}"
        )
    groups: list[list[str]] = []
    relations: list[Keypoints] = []
    names: list[str] = []
    stated: list[list[Size | None]] = []
    rows: dict[str, np.ndarray] = {}
    for split, path in there.items():
        stems = read_stems(path)
        rows[split] = np.arange(len(groups), len(groups) + len(stems))
        for stem in stems:
            annotation = root / "PairAnnotation" / SPLITS[split] / f"{stem}.json"
            said = _read(annotation)
            pictures, keypoints = _pair(said, annotation)
            groups.append(pictures)
            relations.append(keypoints)
            names.append(stem)
            stated.append([_size(said.get(key)) for key in ("src_imsize", "trg_imsize")])
    members = members_of_files(root, groups)
    _check_pictures(root, members, stated, names)
    params: dict[str, Any] = {
        "layout": "spair",
        "pairs": layout,
        "relation": "keypoints",
        "origin": _ORIGIN,
        "extent": "box",
    }
    truth = {
        "relation": relation_array(relations),
        "category": relation_array([each.category for each in relations]),
    }
    return grouped_splits(
        members,
        Groups("pair", members.places, tuple(names), truth, params),
        rows,
        name=name or root.resolve().name,
        folders=(root,),
    )


def _read(path: Path) -> Mapping[str, Any]:
    try:
        said = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}; is the archive unpacked whole?"
        ) from error
    except ValueError as error:
        raise InputError(f"{path} is no JSON: {error}") from None
    lacking = [key for key in _KEYS if not isinstance(said, Mapping) or key not in said]
    if lacking:
        raise InputError(f"{path} has no {', '.join(lacking)}; a pair of SPair-71k has {', '.join(_KEYS)}")
    known: Mapping[str, Any] = said
    return known


def _pair(said: Mapping[str, Any], path: Path) -> tuple[list[str], Keypoints]:
    """The two pictures and the points marked in both."""
    category = str(said["category"])
    try:
        first, second, box = (np.array(said[key], np.float64) for key in ("src_kps", "trg_kps", "trg_bndbox"))
        if box.shape != (4,) or not len(first):
            raise InputError(
                f"a box {said['trg_bndbox']} and {len(first)} points; wanted x0, y0, x1, y1 and points"
            )
        extent = float((box[2:] - box[:2]).max())
        shift = origin_of(_ORIGIN)
        keypoints = Keypoints(first + shift, second + shift, np.ones(len(first), bool), extent, category)
    except (TypeError, ValueError) as error:  # InputError, too, is a ValueError
        raise InputError(f"{path}: {error}") from None
    return [f"JPEGImages/{category}/{said[key]}" for key in ("src_imname", "trg_imname")], keypoints


def _size(stated: Any) -> Size | None:
    """(height, width) of what is stated as width, height, channels."""
    return (int(stated[1]), int(stated[0])) if isinstance(stated, list) and len(stated) >= 2 else None


def _check_pictures(root: Path, members: Members, stated: list[list[Size | None]], names: list[str]) -> None:
    """Every picture must be there, and of the size at which it was marked."""
    missing = [each for each in members.names if not (root / each).is_file()]
    if missing:
        raise InputError(
            f"{root} lacks {len(missing):,} of {len(members.names):,} pictures that its pairs name, the first "
            f"{missing[0]}"
        )
    sizes, checked = Sizes(members), set()
    for places, pair, name in zip(members.places.tolist(), stated, names, strict=True):
        for place, size in zip(places, pair, strict=True):
            if size is None or (place, size) in checked:
                continue
            checked.add((place, size))
            if sizes[place] not in (None, size):
                height, width = sizes[place] or size
                raise InputError(
                    f"{members.names[place]} is {width}×{height}, and {name} was marked at {size[1]}×{size[0]}; use "
                    "the pictures as they came"
                )
