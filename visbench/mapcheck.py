"""`visbench check` on images with maps: what they hold and what would go wrong, before anything is trained.

Every image and every map is read once, as a run would, and nothing is kept but what is said.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from extract import duplicates
from extract.datasets import ImageSet, Splits
from extract.errors import InputError
from extract.images import MAX_PIXELS, read_image
from extract.maps.readers import suspicious
from extract.memo import Memo
from visbench import console, mapnotes
from visbench.mapcheck_text import text
from visbench.maplooks import Look, look

__all__ = ["MapCheckup", "MapReport", "check", "text"]


@dataclass
class MapReport:
    """The maps of one split."""

    images: int
    faults: dict[str, str] = field(default_factory=dict)  # image → why a run would refuse it or its map
    turned: int = 0  # images that EXIF turns, map and all
    valid: float = 0.0  # share of the pixels of all maps that can be read
    without: list[str] = field(default_factory=list)  # images whose maps have no valid pixel
    constant: int = 0  # maps that say the same everywhere
    least: float | None = None  # of the valid pixels of depth and responses
    median: float | None = None
    most: float | None = None
    saturated: float = 0.0  # share of the valid pixels at `most`
    classes: dict[str, float] = field(default_factory=dict)  # share of the valid pixels, where there is any
    images_with: dict[str, int] = field(default_factory=dict)  # maps that show the class
    facing: float | None = None  # normals: share of the pixels whose z is positive
    suspicion: str | None = None  # normals: what is odd
    repeated: int = 0


@dataclass
class MapCheckup:
    """What was found; `refused` is why a run would not start, if it would not."""

    name: str
    kind: str
    num_classes: int | None
    splits: dict[str, MapReport]
    duplicates: list[str]
    contradictions: list[str]  # one picture with two maps
    notes: list[str]
    height: int | None  # median
    width: int | None
    ignored: dict[str, int]
    hidden: list[str]
    overlay: str | None  # the image that was drawn
    refused: str | None

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        return asdict(self)


def check(
    splits: Splits, *, workers: int | None = None, max_pixels: int = MAX_PIXELS, overlay: Path | None = None
) -> MapCheckup:
    """Look through every split; `overlay` is a PNG to draw the image and map into that show most."""
    kinds = {None if images.targets is None else images.maps.reader.kind for images in splits.values()}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None:
        raise InputError(
            f"{splits.name} has images without maps of one kind; what is checked here is a map an image"
        )
    if overlay is not None:
        check_writable(overlay, splits)
    names = _class_names(splits, kind)
    memo = Memo()
    looks: dict[str, list[Look]] = {}
    reports: dict[str, MapReport] = {}
    ids: dict[str, np.ndarray] = {}
    called: dict[str, list[str]] = {}
    with (
        console.progress("checking", splits.name, total=sum(map(len, splits.values()))) as advance,
        ThreadPoolExecutor(workers or os.cpu_count()) as pool,
    ):

        def one(images: ImageSet, position: int) -> Look:
            try:
                return look(images, position, max_pixels)
            finally:
                advance(1)

        for split, images in splits.items():
            found = memo.row_ids(images.sources, unreadable={})
            looks[split] = list(pool.map(one, [images] * len(images), range(len(images))))
            good = [i for i, seen in enumerate(looks[split]) if seen.fault is None]
            ids[split], called[split] = found[good], [images.names[i] for i in good]
            reports[split] = _report(images, looks[split], names)
            reports[split].repeated = duplicates.within(ids[split])
    fine = {split: [seen for seen in each if seen.fault is None] for split, each in looks.items()}
    sizes = np.array([seen.size for each in fine.values() for seen in each])
    return MapCheckup(
        name=splits.name,
        kind=kind,
        num_classes=len(names) if names else None,
        splits=reports,
        duplicates=[str(twin) for twin in duplicates.between(ids, called)],
        contradictions=mapnotes.contradictions(ids, called, fine),
        notes=mapnotes.notes(reports, kind, names),
        height=int(np.median(sizes[:, 0])) if len(sizes) else None,
        width=int(np.median(sizes[:, 1])) if len(sizes) else None,
        ignored=dict(splits.ignored),
        hidden=list(splits.hidden),
        overlay=None if overlay is None else _draw(overlay, splits, looks, names, max_pixels),
        refused=mapnotes.refusal(reports, kind),
    )


def _class_names(splits: Splits, kind: str) -> tuple[str, ...]:
    """Of every class there may be, known ones by their names; of a reader that takes any class none."""
    targets = next(iter(splits.values())).maps
    if kind == "foreground":
        return ("background", "foreground")
    return targets.classes or tuple(str(i) for i in range(getattr(targets.reader, "num_classes", None) or 0))


def _report(images: ImageSet, looks: Sequence[Look], names: tuple[str, ...]) -> MapReport:
    fine = [(name, seen) for name, seen in zip(images.names, looks, strict=True) if seen.fault is None]
    report = MapReport(
        images=len(images),
        faults={
            name: seen.fault for name, seen in zip(images.names, looks, strict=True) if seen.fault is not None
        },
        turned=sum(seen.turned for _, seen in fine),
        without=[name for name, seen in fine if not seen.valid],
        valid=sum(seen.valid for _, seen in fine) / max(sum(seen.pixels for _, seen in fine), 1),
    )
    told = [seen for _, seen in fine if seen.valid]
    if told:
        _summarise(report, told, names)
    return report


def _summarise(report: MapReport, told: Sequence[Look], names: tuple[str, ...]) -> None:
    """What the maps with valid pixels hold in all."""
    total = sum(seen.valid for seen in told)
    counted_pixels = [seen.counts for seen in told if seen.counts is not None]
    if counted_pixels:
        counts = np.stack(counted_pixels)
        report.constant = int(((counts > 0).sum(axis=1) == 1).sum())
        for label in np.flatnonzero(counts.any(axis=0)):
            name = names[label] if label < len(names) else str(label)
            report.classes[name] = float(counts[:, label].sum() / total)
            report.images_with[name] = int((counts[:, label] > 0).sum())
        return
    sample = np.concatenate([seen.sample for seen in told])
    if sample.ndim == 2:
        report.facing = float((sample[:, 2] > 0).mean())
        report.suspicion = suspicious(sample)
        return
    report.least, report.most = min(seen.least for seen in told), max(seen.most for seen in told)
    report.median = float(np.median(sample))
    report.constant = sum(seen.least == seen.most for seen in told)
    report.saturated = sum(seen.at_most for seen in told if seen.most == report.most) / total


def check_writable(path: Path, splits: Splits) -> None:
    if path.suffix.lower() != ".png":
        raise InputError(f"the overlay {path} is no .png; name it so, as in --overlay overlay.png")
    if not path.absolute().parent.is_dir():
        raise InputError(f"there is no folder {path.absolute().parent} to write {path.name} into")
    place = path.absolute().resolve()
    for folder in {each.resolve() for images in splits.values() for each in images.folders}:
        if place.is_relative_to(folder):
            raise InputError(
                f"{path} lies in the dataset, where nothing is written; give it a place elsewhere"
            )


def _draw(
    path: Path, splits: Splits, looks: Mapping[str, Sequence[Look]], names: tuple[str, ...], max_pixels: int
) -> str | None:
    """Draw the image whose map shows most; its name, or None where none can be read."""
    from visbench import mapoverlay

    fine = [
        (split, i, seen) for split, each in looks.items() for i, seen in enumerate(each) if not seen.fault
    ]
    if not fine:
        return None
    split, i, _ = max(fine, key=lambda entry: entry[2].variety)
    images, targets = splits[split], splits[split].maps
    pixels = read_image(images.sources[i], name=images.names[i], max_pixels=max_pixels).pixels
    shown = targets.read(i)
    if targets.reader.kind == "boundaries":  # one map a person: their share is what a head is to say
        shown = shown.mean(axis=-1)
    picture = mapoverlay.draw(
        pixels,
        shown,
        targets.reader.kind,
        classes=names,
        title=f"{images.names[i]}  and  {targets.names[i]}",
    )
    try:
        picture.save(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error
    return images.names[i]
