"""Datasets under their documented names: one split of what a reader finds, with `len`, `[i]`, `subset`, `labels`.

Each remembers where it lies and what it was told, so that `visbench.run` opens it as the task needs it:
`visbench.run("efficientnet_lite0", "depth", DenseFolderDataset("rooms/", split="val", target_scale=1000))`.
Images are RGB pictures of Pillow.  Nothing is decoded before an item is asked for, and torch is not imported.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from PIL import Image

from extract.datasets import SPLITS, ImageSet, Splits, open_dataset
from extract.datasets.boxes import open_boxes
from extract.datasets.maps import TARGET_FOLDERS, open_maps
from extract.datasets.objects import Marks
from extract.datasets.pairs import open_related
from extract.datasets.taskonomy import open_taskonomy
from extract.images import read_image
from extract.maps.files import read_map
from extract.memo import Memo
from extract.views import Warp
from visbench import related
from visbench.dense.table import DENSE
from visbench.errors import UsageError, did_you_mean
from visbench.options import READING, Options, make_options
from visbench.tasks import TASKS

Opener = Callable[[Any, Any, str | None], Splits]


class NamedDataset:
    """One split of the data at `root`; `told` is what its reader has to be told."""

    takes: tuple[str, ...] = ()  # what it may be told

    def __init__(self, root: str | os.PathLike[str], split: str | None = None, **told: Any) -> None:
        self.root, self.split, self.told = Path(root).expanduser(), split, self._understood(told)
        self.images = self._one(self._open())

    def __len__(self) -> int:
        return self.images.size

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(f"item {index} of {len(self)}")
        return self._item(index % len(self))

    def _understood(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """What was told, as a run would take it; what this reader has no use for is refused."""
        for name in told:
            if name not in self.takes:
                raise UsageError(
                    f"{type(self).__name__} has no {name}.{did_you_mean(name, self.takes)} "
                    f"It may be told {', '.join(self.takes)}."
                )
        options = make_options(**told)
        return {**options.reading, **options.truth}

    def _open(self) -> Splits:
        return open_dataset(self.root, **self.told)

    def _item(self, index: int) -> Any:
        raise NotImplementedError

    def _one(self, opened: Splits) -> ImageSet:
        """The split that was asked for, or the only one."""
        if self.split is None and len(opened) == 1:
            return next(iter(opened.values()))
        name = self.split and SPLITS.get(self.split.strip().lower(), self.split)
        if name and name in opened:
            return opened[name]
        came = f"there is no split {name}" if name else "no split was asked for"
        there = ", ".join(opened)
        raise UsageError(f'{came}, and {self.root} has {there}; say one, as split="{next(iter(opened))}"')

    def opened_for(self, opener: Opener, options: Any, name: str | None) -> Splits:
        """As a task opens it, told the same, with this split and these items alone."""
        opened = opener(self.root, replace(options, truth={**self.told, **options.truth}), name)
        images = self._one(opened)
        return replace(opened, sets={images.split or "all": _chosen(images, self._items(images))})

    def _items(self, images: ImageSet) -> np.ndarray:
        """Which items of `images` are those of this dataset."""
        place = {each: row for row, each in enumerate(_names(images))}
        return np.array([place[each] for each in _names(self.images)], dtype=np.int64)

    def subset(self, indices: Iterable[int]) -> Self:
        """The items at `indices`, in that order."""
        other = object.__new__(type(self))
        other.__dict__ |= self.__dict__
        other.images = _chosen(self.images, np.array([int(each) for each in indices], dtype=np.int64))
        return other

    def _picture(self, row: int) -> Image.Image:
        return Image.fromarray(read_image(self.images.sources[row], name=self.images.names[row]).pixels)


def _names(images: ImageSet) -> tuple[str, ...]:
    """What the items are called: images, or pairs and triplets."""
    return images.names if images.groups is None else images.groups.names


def _chosen(images: ImageSet, rows: np.ndarray) -> ImageSet:
    """The images at `rows`; of pairs and triplets those at `rows`, and the images in them."""
    if images.groups is None:
        return images.subset(rows)
    few = images.groups.take(rows)
    return replace(images, groups=few).subset(np.unique(few.members))


def _of_tasks(*names: str) -> tuple[str, ...]:
    """What the data of these tasks may be told of what they hold."""
    return tuple(dict.fromkeys(told for name in names for told in TASKS[name].truth))


class ImageFolderDataset(NamedDataset):
    """Images in a folder a class, or in a table: items are (image, label)."""

    takes = READING

    def labels(self) -> np.ndarray:
        """(n,) the number of each image's class, in the order of `classes`."""
        if self.images.labels is None:
            raise UsageError(f"{self.root} has no folders of classes")
        return self.images.labels

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes."""
        return self.images.classes

    def balanced_subset(self, n: int) -> Self:
        """The first `n` images of every class."""
        other = self.subset(())
        other.images = self.images.limit(n)
        return other

    def opened_for(self, opener: Opener, options: Any, name: str | None) -> Splits:
        """These very images and labels."""
        return opener(self.images, options, name)

    def _item(self, index: int) -> tuple[Image.Image, int | None]:
        labels = self.images.labels
        return self._picture(index), None if labels is None else int(labels[index])


_DENSE = _of_tasks(*(row.name for row in DENSE))
_WHERE = ("image_dir", "target_dir", "stems", "train_stems")
_USUAL = tuple(dict.fromkeys(folder for folders in TARGET_FOLDERS.values() for folder in folders))


class _Stored:
    """Reads a map as it is stored."""

    kind = "stored"

    def describe(self) -> dict[str, Any]:
        """Nothing is done to it."""
        return {}

    def read(self, sources: tuple[Any, ...], name: str) -> np.ndarray:
        """The numbers of the first file."""
        return read_map(sources[0], name=name).pixels


class DenseFolderDataset(NamedDataset):
    """Images with a map each: items are (image, the stored numbers of its map).

    `told` are `image_dir`, `target_dir`, `stems` and `train_stems`, and what a task has to be told of its maps
    (`target_scale`, `num_classes` …).
    """

    takes = tuple(name for name in _DENSE if name != "domain")

    def _open(self) -> Splits:
        where = {key: self.told[key] for key in _WHERE if self.told.get(key)}
        where.setdefault("target_dir", _USUAL)
        return open_maps(self.root, reader=_Stored(), **where)

    def _item(self, index: int) -> tuple[Image.Image, np.ndarray]:
        return self._picture(index), self.images.maps.read(index)


class TaskonomyDataset(DenseFolderDataset):
    """A domain of Taskonomy: items are (image, its map in the domain's units), metres of depth."""

    takes = tuple(name for name in _DENSE if name not in _WHERE)

    def __init__(
        self, root: str | os.PathLike[str], domain: str, split: str | None = None, **told: Any
    ) -> None:
        super().__init__(root, split, domain=domain, **told)

    def _open(self) -> Splits:
        return open_taskonomy(self.root, self.told["domain"])


class DetectionFolderDataset(NamedDataset):
    """Images with boxes (VOC, COCO, YOLO, a table): items are (image, `extract.datasets.objects.Marks`).

    `told` are `annotations`, `image_dir`, `min_box_size` and `include_difficult`.
    """

    takes = _of_tasks("detection")

    def _open(self) -> Splits:
        return open_boxes(self.root, **self.told)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes."""
        return self.images.objects.classes

    def _item(self, index: int) -> tuple[Image.Image, Marks]:
        return self._picture(index), self.images.objects.marks[index]


class TwoAFCDataset(NamedDataset):
    """Triplets that people judged: items are (reference, left, right, whether people chose the right one).

    `told` are `min_votes`, `partition` ("imagenet" or "no_imagenet", of the test split) and `columns`.
    """

    takes = _of_tasks("similarity")

    def _open(self) -> Splits:
        return related.similarity(self.root, Options(split=self.split, truth=self.told))

    def _item(self, index: int) -> tuple[Image.Image, Image.Image, Image.Image, bool]:
        groups = self.images.groups
        assert groups is not None
        reference, left, right = (self._picture(int(row)) for row in groups.members[index])
        return reference, left, right, bool(groups.truth["right"][index])


class PairViewDataset(NamedDataset):
    """Real pairs (a table, SPair-71k, HPatches): items are (first, second, how their points belong together)."""

    takes = _of_tasks("correspondence")

    def _open(self) -> Splits:
        return open_related(self.root, **self.told)

    def _item(self, index: int) -> tuple[Image.Image, Image.Image, Any]:
        groups = self.images.groups
        assert groups is not None
        first, second = (self._picture(int(row)) for row in groups.members[index])
        return first, second, groups.truth["relation"][index]


class HomographyPairDataset(NamedDataset):
    """Any images, each with a view made of it: items are (crop, view, homography from the one to the other).

    Both are square, `size` pixels a side, and the homography is (3, 3) with points from the first pixel's edge.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str | None = None,
        *,
        size: int = 224,
        max_warp: float = 0.2,
        seed: int = 0,
    ) -> None:
        super().__init__(root, split)
        self.size, self.warp = size, Warp(max_warp, seed)

    def opened_for(self, opener: Opener, options: Any, name: str | None) -> Splits:
        """The images; their views are made as the run says (`max_warp`, `seed`, `image_size`)."""
        return opener(self.images, options, name)

    def _item(self, index: int) -> tuple[Image.Image, Image.Image, np.ndarray]:
        from extract.transforms import Transform  # brings in torch

        (row,) = Memo().row_ids([self.images.sources[index]], unreadable={})
        pixels = np.asarray(self._picture(index))
        crop = Transform(size=self.size).place(pixels).permute(1, 2, 0).contiguous().numpy()
        homography = self.warp.homography(row.tobytes(), self.size)
        view = self.warp.apply(crop, homography)
        return Image.fromarray(crop), Image.fromarray(view), homography


def load_label_map(path: str | os.PathLike[str]) -> np.ndarray:
    """(h, w) labels of a file as they are stored: indices of a palette, not its colours."""
    labels = read_map(Path(path), name=str(path)).pixels
    if labels.ndim != 2 or labels.dtype.kind not in "iub":
        raise UsageError(
            f"{path} holds {labels.dtype} {labels.shape}; a map of labels is one integer a pixel"
        )
    return labels


def load_mask(path: str | os.PathLike[str]) -> np.ndarray:
    """(h, w) bool of a mask of {0, 1} or {0, 255}."""
    mask = load_label_map(path)
    values = set(np.unique(mask).tolist())
    if not (values <= {0, 1} or values <= {0, 255}):
        raise UsageError(f"{path} holds {sorted(values)[:5]}; a mask is 0 and 1, or 0 and 255")
    return mask > 0


NAMES: Mapping[str, Any] = {
    each.__name__: each
    for each in (
        *(ImageFolderDataset, DenseFolderDataset, TaskonomyDataset, DetectionFolderDataset, TwoAFCDataset),
        *(PairViewDataset, HomographyPairDataset, load_label_map, load_mask),
    )
}
