"""Scene parsing as the challenge data of ADE20K have it (Zhou et al. 2017): `images` and `annotations`, both split
into `training` and `validation`.  Maps number the 150 classes from 1, and 0 is what nobody labelled.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from extract.datasets.base import Splits
from extract.datasets.folder import find
from extract.datasets.pairing import Passed, both_there, find_maps, pair, paired_set, side
from extract.datasets.targets import MapReader
from extract.errors import InputError

NUM_CLASSES = 150
SPLITS = {"train": "training", "val": "validation"}
_FOLDER = "ADEChallengeData2016"
_NAMES = "objectInfo150.txt"


def find_challenge(root: Path) -> Path | None:
    """The folder that `root` is, or holds; None where there is none."""
    for folder in (root, root / _FOLDER):
        if any((folder / "annotations" / each).is_dir() for each in SPLITS.values()):
            return folder
    return None


def open_ade(root: str | Path, *, reader: MapReader, name: str | None = None) -> Splits:
    """`training` as train, `validation` as val; one of them may be missing.

    Class names are the first words of `objectInfo150.txt`, where it lies beside the images.
    """
    root = Path(root).expanduser()
    folder = find_challenge(root)
    if folder is None:
        raise InputError(
            f"{root} is not laid out as {_FOLDER}: there is no annotations/training or annotations/validation; "
            "for maps of your own use train/images and train/labels"
        )
    if getattr(reader, "offset", 1) != 1:
        raise InputError(
            f"the maps of {folder} number classes from 1, and 0 is not labelled; read them with offset 1 and "
            f"{NUM_CLASSES} classes"
        )
    classes = class_names(folder / _NAMES) if (folder / _NAMES).is_file() else ()
    sets, passed = {}, Passed()
    for split, called in SPLITS.items():
        places = folder / "images" / called, folder / "annotations" / called
        if not both_there(folder, *places):
            continue
        images = side(places[0], passed.note(find(places[0])))
        maps = side(places[1], passed.note(find_maps(places[1])))
        sets[split] = paired_set(
            pair(images, maps),
            images,
            maps,
            name=name or folder.resolve().name,
            split=split,
            root=folder,
            reader=reader,
            classes=classes,
            params={"layout": "ade", "target_dir": "annotations"},
        )
    return passed.splits(sets)


def class_names(path: Path) -> tuple[str, ...]:
    """The names by number from 1: the first of several words for a class, all of them where that is taken."""
    rows = [
        line.rstrip("\n").split("\t")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    if "idx" not in header or "name" not in header:
        raise InputError(
            f"{path} has no columns Idx and Name, tab between them, as {_NAMES} has; restore or remove it"
        )
    idx, column = header.index("idx"), header.index("name")
    try:
        words = {int(row[idx]): row[column].strip() for row in rows[1:]}
    except (IndexError, ValueError) as error:
        raise InputError(f"{path} has a line without a number and a name; restore or remove it") from error
    if sorted(words) != list(range(1, len(words) + 1)):
        raise InputError(f"{path} does not number its classes 1 … {len(words)}; restore or remove it")
    first = [words[i].replace(";", ",").split(",")[0].strip() for i in sorted(words)]
    often = Counter(first)
    return tuple(words[i + 1] if often[each] > 1 else each for i, each in enumerate(first))
