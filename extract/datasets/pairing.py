"""Images and the maps that go with them, brought together by stem: the path below their folder, less the ending.

What stands on one side only is refused with its number and first names, and so are two files of one stem:
nothing is left out in silence.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from extract.datasets.base import ImageSet, Splits
from extract.datasets.folder import Found, files, find, readable
from extract.datasets.targets import MapReader, Targets
from extract.errors import InputError
from extract.wording import counted

_ARRAYS = frozenset({".npy", ".npz", ".exr"})  # maps that are no images
MAP_EXTENSIONS = _ARRAYS | {".png", ".tif", ".tiff", ".bmp", ".dib", ".gif", ".pgm", ".ppm", ".pnm"}
LOSSY_EXTENSIONS = frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".avif"})
_SHOWN = 3  # names of a complaint; the rest is counted

ByStem = Mapping[str, Sequence[str]]  # stem → the files that bear it, relative to their folder


@dataclass
class Passed:
    """What was passed over on the way to the sets of a dataset."""

    ignored: Counter[str] = field(default_factory=Counter)
    hidden: set[str] = field(default_factory=set)

    def note(self, found: Found) -> Found:
        """Remember what was passed over there."""
        self.ignored.update(found.ignored)
        self.hidden |= found.hidden
        return found

    def splits(self, sets: Mapping[str, ImageSet]) -> Splits:
        """The dataset of these sets."""
        return Splits(sets, dict(self.ignored), tuple(sorted(self.hidden)))


def both_there(folder: Path, images: Path, maps: Path) -> bool:
    """Whether a split has its two folders; False where it has none, and refused where it has one."""
    there = [each for each in (images, maps) if each.is_dir()]
    if len(there) == 1:
        lacking = maps if there[0] == images else images
        raise InputError(f"{folder} has {there[0].relative_to(folder)} but no {lacking.relative_to(folder)}")
    return bool(there)


@dataclass(frozen=True)
class Side:
    """One side of the pairs, images or maps: a folder, and what of it counts by stem."""

    folder: Path
    stems: ByStem

    def one(self, stem: str) -> str:
        """The only file of a stem."""
        paths = self.stems[stem]
        if len(paths) > 1:
            listed = " and ".join(readable(_last(path)) for path in paths)
            raise InputError(
                f"{self.folder} has {listed}, two files of one stem, and only one of them can have the other "
                "side of the pair; rename or remove one"
            )
        return paths[0]


class Pair(NamedTuple):
    """An image and its map, relative to the folders of their sides."""

    stem: str
    image: str
    map: str


def find_maps(root: Path) -> Found:
    """Walk `root` as `folder.find` does; `images` are then the files that may be maps."""
    found = find(root)
    paths = [path for path in found.images if _ending(path) in MAP_EXTENSIONS | LOSSY_EXTENSIONS]
    if found.ignored.keys() & _ARRAYS:
        for folder in ("", *found.folders):
            with os.scandir(root / folder) as entries:
                names = [entry.name for entry in entries if not entry.name.startswith(".")]
            paths += [f"{folder}/{name}".lstrip("/") for name in names if _ending(name) in _ARRAYS]
        for ending in _ARRAYS:
            del found.ignored[ending]  # a counter lets go of what it never held
    found.images = sorted(paths)
    return found


def side(root: Path, found: Found, below: str = "") -> Side:
    """The files of `found` that lie below a folder of `root`, by stem."""
    prefix = f"{below}/" if below else ""
    stems: dict[str, list[str]] = {}
    for path in found.images:
        if path.startswith(prefix):
            inner = path[len(prefix) :]
            stems.setdefault(os.path.splitext(inner)[0], []).append(inner)  # noqa: PTH122
    return Side(root / below if below else root, stems)


def pair(images: Side, maps: Side, *, stems: Iterable[str] | None = None) -> list[Pair]:
    """The pairs in code point order of their stems, or those of `stems` in the order given."""
    if stems is None:
        _check_both(images, maps)
        chosen: Iterable[str] = sorted(images.stems)
    else:
        chosen = list(stems)
        for each, what in ((images, "image"), (maps, "map")):
            missing = [stem for stem in chosen if stem not in each.stems]
            if missing:
                raise InputError(
                    f"{each.folder} has no {what} for {counted(len(missing), 'stem')} of the list: "
                    f"{some(missing)}; mend the list, or complete the folder"
                )
    return [Pair(stem, images.one(stem), maps.one(stem)) for stem in chosen]


def paired_set(
    pairs: Sequence[Pair],
    images: Side,
    maps: Side,
    *,
    name: str,
    split: str,
    root: Path,
    reader: MapReader,
    classes: Sequence[str] = (),
    masks: Sequence[Path] | None = None,
    params: Mapping[str, Any] | None = None,
) -> ImageSet:
    """The image set of `pairs`; `masks` are a second file for each map, `params` go into the record."""
    refuse_lossy(pairs, maps, reader.kind)
    check_classes(reader, classes)
    map_files = files(maps.folder, [each.map for each in pairs])
    return ImageSet(
        name=name,
        split=None if split == "all" else split,
        sources=files(images.folder, [each.image for each in pairs]),
        names=called(images.folder, (each.image for each in pairs), root),
        targets=Targets(
            names=called(maps.folder, (each.map for each in pairs), root),
            sources=(map_files,) if masks is None else (map_files, masks),
            reader=reader,
            classes=tuple(classes),
            params=dict(params or {}),
        ),
        folders=tuple(dict.fromkeys((root, images.folder, maps.folder))),
    )


def called(folder: Path, paths: Iterable[str], root: Path) -> tuple[str, ...]:
    """What records and errors call files: their path below the dataset's root, or in full where it is elsewhere."""
    if not folder.is_relative_to(root) and folder.is_relative_to(root.absolute()):
        root = root.absolute()
    prefix = folder.relative_to(root).as_posix() if folder.is_relative_to(root) else str(folder)
    return tuple(readable(path if prefix == "." else f"{prefix}/{path}") for path in paths)


def refuse_lossy(pairs: Sequence[Pair], maps: Side, kind: str) -> None:
    """JPEG invents values between two that were there, which only a mask cut at a half survives."""
    lossy = [each.map for each in pairs if _ending(each.map) in LOSSY_EXTENSIONS]
    if lossy and kind != "foreground":
        raise InputError(
            f"{maps.folder} has {counted(len(lossy), 'map')} saved with loss ({some(lossy)}), which changes "
            "the numbers they hold; save the originals as PNG, TIFF or .npy"
        )


def check_classes(reader: MapReader, classes: Sequence[str]) -> None:
    """Names of classes must be as many as the reader lets labels have, and all different."""
    wanted = getattr(reader, "num_classes", None)
    if classes and wanted is not None and wanted != len(classes):
        raise InputError(
            f"there are names for {counted(len(classes), 'class')} and {wanted} were asked for; "
            f"say --num-classes {len(classes)}, or name every class"
        )
    if len(set(classes)) != len(classes):
        twice = next(each for each in classes if list(classes).count(each) > 1)
        raise InputError(f"two classes are called {twice!r}; name each apart")


def read_stems(path: Path) -> list[str]:
    """The stems of a text file, one a line, in its order."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise InputError(f"the list of stems {path} cannot be read: {reason}") from error
    stems = [line.strip() for line in lines if line.strip()]
    if not stems:
        raise InputError(f"the list of stems {path} is empty; it needs a stem a line, such as 2007_000033")
    once = dict.fromkeys(stems)
    if len(once) < len(stems):
        twice = next(stem for stem in once if stems.count(stem) > 1)
        raise InputError(f"{path} lists {twice} twice; every image counts once")
    return stems


def refuse_shared(lists: Mapping[str, Sequence[str]]) -> None:
    """A stem in two lists would be learnt from and scored."""
    seen: dict[str, str] = {}
    for split, stems in lists.items():
        shared = [stem for stem in stems if seen.setdefault(stem, split) != split]
        if shared:
            raise InputError(
                f"the lists of {seen[shared[0]]} and {split} share {counted(len(shared), 'stem')}: "
                f"{some(shared)}; an image must not be learnt from and scored"
            )


def some(names: Sequence[str]) -> str:
    """The first few names."""
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(map(readable, names[:_SHOWN])) + more


def _check_both(images: Side, maps: Side) -> None:
    alone = sorted(images.stems.keys() - maps.stems.keys())
    unused = sorted(maps.stems.keys() - images.stems.keys())
    if not images.stems or not maps.stems:
        empty, what = (images, "image") if not images.stems else (maps, "map")
        raise InputError(f"{empty.folder} holds no {what} that can be read; fill it or name another folder")
    if len(alone) == len(images.stems):
        raise InputError(
            f"no image of {images.folder} shares its stem with a map of {maps.folder}: the images are called "
            f"{some(alone)}, the maps {some(unused)}; give both of a pair the same name"
        )
    if alone or unused:
        lacks = [f"{counted(len(alone), 'image')} without a map ({some(alone)})"] if alone else []
        lacks += [f"{counted(len(unused), 'map')} without an image ({some(unused)})"] if unused else []
        raise InputError(
            f"{images.folder} and {maps.folder} have {' and '.join(lacks)}; add what is missing, remove what is "
            "left over, or list the stems that count (--stems, --train-stems)"
        )


def _ending(path: str) -> str:
    return os.path.splitext(path)[1].lower()  # noqa: PTH122


def _last(path: str) -> str:
    return path.rsplit("/", 1)[-1]
