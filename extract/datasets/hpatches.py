"""HPatches sequences (Balntas et al. 2017, CVPR): six pictures each, and the homographies of the first to the others.

    v_graffiti/1.ppm … 6.ppm, H_1_2 … H_1_6     a plane from other places; i_…: in other light

A pair is a sequence's first picture and another.  The homographies count from the centre of the first pixel.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from extract.datasets.base import Splits
from extract.datasets.folder import IMAGE_EXTENSIONS, readable
from extract.datasets.grouping import grouped_splits, members_of_files, relation_array
from extract.datasets.groups import Groups
from extract.datasets.matrix_files import read_homography
from extract.datasets.relations import Homography
from extract.errors import InputError

CATEGORIES = {"v": "viewpoint", "i": "illumination"}
_SEQUENCE = re.compile(r"[vi]_.+")
_HOMOGRAPHY = re.compile(r"H_1_(\d+)")


def sequences(root: Path) -> list[Path]:
    """The folders of `root` that are sequences."""
    return sorted(
        folder
        for folder in root.iterdir()
        if _SEQUENCE.fullmatch(folder.name) and folder.is_dir() and (folder / "H_1_2").is_file()
    )


def open_hpatches(root: Path, *, name: str | None = None) -> Splits:
    """The pairs of all sequences, in one set; `truth["category"]` is "viewpoint" or "illumination"."""
    found = sequences(root)
    if not found:
        raise InputError(
            f"{root} has no sequence of HPatches, such as v_graffiti, with 1.ppm … 6.ppm and H_1_2 …"
        )
    groups, relations, names, categories = [], list[Homography](), [], []
    for folder in found:
        numbered = _pictures(folder)
        others = _others(folder, numbered)
        for other in others:
            groups.append([f"{folder.name}/{numbered[1]}", f"{folder.name}/{numbered[other]}"])
            relations.append(read_homography(folder / f"H_1_{other}", "index"))
            names.append(readable(f"{folder.name}, 1 and {other}"))
            categories.append(CATEGORIES[folder.name[0]])
    params: dict[str, Any] = {"layout": "hpatches", "relation": "homography", "origin": "index"}
    truth = {"relation": relation_array(relations), "category": relation_array(categories)}
    members = members_of_files(root, groups)
    return grouped_splits(
        members,
        Groups("pair", members.places, tuple(names), truth, params),
        {"all": np.arange(len(groups))},
        name=name or root.resolve().name,
        folders=(root,),
    )


def _pictures(folder: Path) -> dict[int, str]:
    """The pictures of a sequence by their numbers."""
    found: dict[int, str] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() not in IMAGE_EXTENSIONS or not path.stem.isdecimal():
            continue
        number = int(path.stem)
        if number in found:
            raise InputError(
                f"{folder} has {found[number]} and {path.name}, two pictures of one number; remove one"
            )
        found[number] = path.name
    return found


def _others(folder: Path, pictures: dict[int, str]) -> list[int]:
    """The numbers of the pictures that a homography leads to; the two must match."""
    matches = (_HOMOGRAPHY.fullmatch(path.name) for path in folder.iterdir())
    matrices = {int(match[1]) for match in matches if match}
    alone = sorted(matrices ^ (pictures.keys() - {1}))
    if 1 not in pictures or alone:
        what = "no picture 1" if 1 not in pictures else f"of number {alone[0]} only the "
        if alone and 1 in pictures:
            what += "picture" if alone[0] in pictures else f"homography H_1_{alone[0]}"
        raise InputError(f"{folder} has {what}; a sequence has pictures 1 … n and H_1_2 … H_1_n")
    return sorted(matrices)
