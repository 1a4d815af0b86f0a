"""What `visbench check --task` says of pairs, triplets and boxes, beside what it says of their images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from extract.datasets import ImageSet, Splits
from extract.datasets.groups import Groups
from extract.datasets.objects import CROWD, IGNORED, PLAIN, Objects
from extract.datasets.relations import Keypoints
from extract.errors import InputError, UnreadableImageError
from extract.framed_boxes import check_marks
from extract.images import Header, header
from extract.wording import counted

Size = tuple[int, int]
Shown = Mapping[
    str, Sequence[Header | None]
]  # split → the header of each image, None of one that cannot be read

SHOWN = 12  # classes that are named; the rest is counted
SMALL = 1 / 16  # of the shorter side of an image: narrower objects fall between the patches of most backbones


def headers(opened: Splits) -> Shown:
    """Those of the images with marks; None of one that cannot be read, which is said elsewhere."""

    def read(images: ImageSet, row: int) -> Header | None:
        try:
            return header(images.sources[row])
        except UnreadableImageError:
            return None

    return {
        split: [read(images, row) for row in range(len(images))]
        for split, images in opened.items()
        if isinstance(images.targets, Objects)
    }


def refusal(opened: Splits, shown: Shown | None = None) -> str | None:
    """Why a run would not take the objects that are marked: they lie off their images, or out of a backbone's sight.

    `shown` are the headers of the images of every split that has marks; what is not given is read.
    """
    shown = headers(opened) if shown is None else shown
    for split, images in opened.items():
        if not isinstance(images.targets, Objects):
            continue
        seen = 0
        for name, marks, image in zip(images.names, images.objects.marks, shown[split], strict=True):
            if image is None or not len(marks):
                continue
            try:
                check_marks(marks, image, name)
            except InputError as error:
                return str(error)
            seen += int(((marks.flags == PLAIN) & ~_cut(marks.boxes, (image.height, image.width))).sum())
        if not seen:
            return f"no object of {split} that counts lies in the square that a backbone sees"
    return None


def notes(opened: Splits, shown: Shown | None = None) -> list[str]:
    """A few lines a split; none where images are all there is.  `shown` as of `refusal`."""
    shown = headers(opened) if shown is None else shown
    lines = []
    for split, images in opened.items():
        where = f"{split}: " if images.split else ""
        if images.groups is not None:
            lines += [f"{where}{line}" for line in _groups(images.groups)]
        if isinstance(images.targets, Objects):
            lines += [f"{where}{line}" for line in _objects(images, shown[split])]
    return lines


def _groups(groups: Groups) -> list[str]:
    said = [counted(len(groups), groups.noun)]
    truth = groups.truth
    if "right" in truth:
        said.append(f"{truth['right'].mean():.1%} chosen right")
    if "votes" in truth:
        said.append(f"{int(truth['votes'].min())} … {int(truth['votes'].max())} votes")
    if "imagenet" in truth:
        said.append(f"{int(truth['imagenet'].sum()):,} of ImageNet")
    if "relation" in truth:
        said += _relations(truth["relation"])
    if "pose" in truth:
        pose = truth["pose"]
        turn = np.rad2deg(2 * np.arccos(np.clip(pose[:, 0], 0, 1)))
        apart = np.median(np.linalg.norm(pose[:, 4:], axis=1))
        said.append(f"turned by {turn.min():.0f}° … {turn.max():.0f}°, median distance {apart:.3g} m")
    if groups.members.shape[1] == 1:
        said.append("each image and a view that is made of it")
    lines = [" · ".join(said)]
    twice = (np.sort(groups.members, axis=1)[:, 1:] == np.sort(groups.members, axis=1)[:, :-1]).any(axis=1)
    if twice.any():
        first = groups.names[int(twice.argmax())]
        lines.append(f"{counted(int(twice.sum()), groups.noun)} with one image twice: {first}")
    return lines


def _relations(relations: Any) -> list[str]:
    kinds = Counter(type(each).__name__.lower() for each in relations)
    said = [f"{count:,} by {kind}" for kind, count in kinds.items()]
    points = [int(each.visible.sum()) for each in relations if isinstance(each, Keypoints)]
    if points:
        said.append(f"{min(points)} … {max(points)} points a pair")
    return said


def _objects(images: ImageSet, shown: Sequence[Header | None]) -> list[str]:
    objects = images.objects
    labels = np.concatenate([marks.labels for marks in objects.marks])
    flags = np.concatenate([marks.flags for marks in objects.marks])
    counts = np.bincount(labels[flags == PLAIN], minlength=len(objects.classes))
    order = np.argsort(-counts, kind="stable")
    named = ", ".join(f"{objects.classes[each]} {counts[each]:,}" for each in order[:SHOWN])
    more = f" and {len(order) - SHOWN} more classes" if len(order) > SHOWN else ""
    lines = [f"{counted(int(counts.sum()), 'object')}: {named}{more}"]
    lacking = [objects.classes[each] for each in np.flatnonzero(counts == 0)]
    if lacking:
        lines.append(
            f"no object of {', '.join(lacking[:SHOWN])}: what has none in the scored split is not scored"
        )
    said = [
        f"{int((flags == flag).sum()):,} {what}"
        for flag, what in ((IGNORED, "not scored (difficult or too small)"), (CROWD, "crowds"))
        if (flags == flag).any()
    ]
    empty = sum(not len(marks) for marks in objects.marks)
    if empty:
        said.append(f"{counted(empty, 'image')} without any object")
    sizes = _sizes(images.objects, shown)
    small, outside = _small(objects, sizes), _outside(objects, sizes)
    if small:
        said.append(f"{small:.0%} narrower than a sixteenth of their image's shorter side")
    if outside:
        said.append(
            f"{outside:.0%} with their centre outside the central square that a backbone sees, not scored"
        )
    return [*lines, *([" · ".join(said)] if said else [])]


def _sizes(objects: Objects, shown: Sequence[Header | None]) -> list[Size | None]:
    """(height, width) of each image, as its annotation states or its header says; None where neither does."""
    return [
        marks.size if marks.size is not None or image is None else (image.height, image.width)
        for marks, image in zip(objects.marks, shown, strict=True)
    ]


def _small(objects: Objects, sizes: list[Size | None]) -> float:
    """The share of objects that few grids can tell."""
    shares = [
        (marks.boxes[:, 2:] - marks.boxes[:, :2]).min(axis=1) / min(size)
        for marks, size in zip(objects.marks, sizes, strict=True)
        if size is not None and len(marks)
    ]
    return float((np.concatenate(shares) < SMALL).mean()) if shares else 0.0


def _outside(objects: Objects, sizes: list[Size | None]) -> float:
    """The share of objects that the square crop cuts off."""
    hidden = [
        _cut(marks.boxes, size)
        for marks, size in zip(objects.marks, sizes, strict=True)
        if size is not None and len(marks)
    ]
    return float(np.concatenate(hidden).mean()) if hidden else 0.0


def _cut(boxes: np.ndarray, size: Size) -> np.ndarray:
    """(b,) whether the middle of a box lies outside the central square of an image."""
    middle = (boxes[:, :2] + boxes[:, 2:]) / 2
    apart = np.abs(middle - np.array([size[1], size[0]]) / 2)  # from the middle of the image, in pixels
    return np.asarray(apart.max(axis=1) > min(size) / 2)
