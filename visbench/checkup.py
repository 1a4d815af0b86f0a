"""`visbench check`: what is in a dataset and what would go wrong, before any compute is spent.

Every image is decoded once, as a run would, and nothing is kept but what is said.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from extract import duplicates
from extract.datasets import ImageSet, Splits, check_scorable, open_dataset
from extract.errors import InputError, UnreadableImageError
from extract.images import MAX_PIXELS, Header, header, read_image
from extract.memo import Memo
from extract.wording import counted
from visbench import console, truthnotes
from visbench.related import PARTITIONS

SHOWN = 5  # of a kind of finding; the rest is counted


@dataclass
class SplitReport:
    """One split: how many images, how many a class, which cannot be read."""

    images: int
    classes: dict[str, int]  # images that can be read
    unreadable: dict[str, str] = field(default_factory=dict)
    repeated: int = 0


@dataclass
class Checkup:
    """What was found; `refused` is why a run would not start, if it would not."""

    name: str
    splits: dict[str, SplitReport]
    duplicates: list[str]
    height: int | None  # median
    width: int | None
    rotated: int
    kinds: dict[str, int]  # what is converted on reading: palette, CMYK, …
    ignored: dict[str, int]
    hidden: list[str]
    refused: str | None
    notes: list[str] = field(default_factory=list)  # what is known of pairs, triplets and boxes

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        return asdict(self)


def check(
    data: Any,
    *,
    reading: Mapping[str, Any],
    workers: int | None = None,
    max_pixels: int = MAX_PIXELS,
    labelled: bool = True,
) -> Checkup:
    """Look through every split of `data`; labels are not looked for where none are needed."""
    splits = data if isinstance(data, Splits) else open_dataset(data, **reading)
    looked = {split: images for split, images in splits.items() if split not in _parts(splits)}
    total = sum(map(len, looked.values()))
    memo = Memo()
    reports: dict[str, SplitReport] = {}
    ids: dict[str, np.ndarray] = {}  # of those that can be read, with their names
    names: dict[str, list[str]] = {}
    shown: dict[str, list[Header | None]] = {}
    kinds: Counter[str] = Counter()
    with console.progress("checking", splits.name, total=total) as advance:
        for split, images in looked.items():
            found = memo.row_ids(images.sources, unreadable={})
            looks = _look_through(images, advance, workers, max_pixels)
            good = [i for i, look in enumerate(looks) if not isinstance(look, str)]
            bad = {images.names[i]: look for i, look in enumerate(looks) if isinstance(look, str)}
            ids[split], names[split] = found[good], [images.names[i] for i in good]
            counts = dict(zip(images.classes, images.subset(good).counts.tolist(), strict=True))
            reports[split] = SplitReport(len(images), counts, bad, duplicates.within(ids[split]))
            seen = [look for look in looks if not isinstance(look, str)]
            shown[split] = [None if isinstance(look, str) else look[0] for look in looks]
            kinds.update(kind for _, kind in seen if kind)
    twins = duplicates.between(ids, names)
    headers = [each for split in shown.values() for each in split if each is not None]
    return Checkup(
        name=splits.name,
        splits=reports,
        duplicates=[str(twin) for twin in twins],
        height=int(np.median([each.height for each in headers])) if headers else None,
        width=int(np.median([each.width for each in headers])) if headers else None,
        rotated=sum(each.orientation != 1 for each in headers),
        kinds=dict(kinds),
        ignored=dict(splits.ignored),
        hidden=list(splits.hidden),
        refused=_refusal(splits, reports, labelled=labelled) or truthnotes.refusal(splits, shown),
        notes=truthnotes.notes(splits, shown),
    )


def _parts(splits: Splits) -> set[str]:
    """Splits that are a part of another, whose pictures are looked at there."""
    return set(PARTITIONS.values()) if "test" in splits else set()


Look = tuple[Header, str | None] | str  # header and conversion, or why it cannot be read


def _look_through(
    images: ImageSet, advance: Callable[[int], None], workers: int | None, max_pixels: int
) -> list[Look]:
    def look(position: int) -> Look:
        name, source = images.names[position], images.sources[position]
        try:
            decoded = read_image(source, name=name, max_pixels=max_pixels)
            found = (
                header(source, max_pixels=max_pixels)
                if isinstance(source, Path)
                else _plain_header(decoded.pixels)
            )
            return found, decoded.converted
        except UnreadableImageError as error:
            return error.reason
        finally:
            advance(1)

    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        return list(pool.map(look, range(len(images))))


def _plain_header(pixels: np.ndarray) -> Header:
    return Header(pixels.shape[1], pixels.shape[0], "RGB", "", 1)


def _refusal(splits: Splits, reports: Mapping[str, SplitReport], *, labelled: bool) -> str | None:
    """Why a run with default options would not start; by default one of classification."""
    bad = sum(len(report.unreadable) for report in reports.values())
    if bad:
        return f"{counted(bad, 'image')} cannot be read: mend or remove, or say --on-bad skip"
    scored = next((splits[name] for name in ("test", "val", "all") if name in splits), None)
    if scored is None:
        return "there is only a training split: nothing to score"
    if not labelled:
        return None
    if scored.multilabel:
        return "images have several labels each; classification and retrieval take one"
    try:
        check_scorable(splits.get("train"), scored)
    except InputError as error:
        return str(error)
    return None


def text(found: Checkup) -> str:
    """The findings as lines."""
    parts = []
    for split, report in found.splits.items():
        bad = f" (and {len(report.unreadable):,} that cannot be read)" if report.unreadable else ""
        parts.append(f"{split} {report.images - len(report.unreadable):,}{bad}")
    alone = sum(report.images for report in found.splits.values()) == 1
    lines = [f"{found.name}  {' · '.join(parts)} image{'' if alone else 's'}{_classes(found)}"]
    lines += _listed(found.duplicates, "the same picture in two splits")
    for split, report in found.splits.items():
        lines += _listed(
            [f"{name}: {why}" for name, why in report.unreadable.items()], f"cannot be read in {split}"
        )
        if report.repeated:
            lines.append(f"  {split} repeats {counted(report.repeated, 'image')} of its own")
        empty = [name for name, count in report.classes.items() if not count]
        if empty:
            lines.append(f"  no image in {split} of: {', '.join(empty[:SHOWN])}{_more(empty)}")
    if found.height is not None:
        said = [f"{found.height}×{found.width} pixels, median height × width"]
        said += [f"{found.rotated:,} rotated by EXIF"] if found.rotated else []
        said += [f"{count:,} {kind}" for kind, count in found.kinds.items()]
        lines.append("  " + "; ".join(said))
    lines += [f"  {note}" for note in found.notes]
    if found.ignored:
        listed = ", ".join(f"{ending} ({count:,})" for ending, count in found.ignored.items())
        lines.append(f"  unread extensions: {listed}")
    if found.hidden:
        lines.append(f"  passed over: {', '.join(found.hidden[:SHOWN])}{_more(found.hidden)}")
    lines.append(f"  a run would refuse this: {found.refused}" if found.refused else "  ready to run")
    return "\n".join(lines)


def _classes(found: Checkup) -> str:
    totals: Counter[str] = Counter()
    for report in found.splits.values():
        totals.update(report.classes)
    if not totals:
        return "" if found.notes else ", no labels"
    least, most = min(totals.values()), max(totals.values())
    size = counted(most, "image") if least == most else f"{least:,} … {counted(most, 'image')}"
    return f", {counted(len(totals), 'class')} ({size} a class)"


def _listed(items: list[str], what: str) -> list[str]:
    if not items:
        return []
    return [f"  {what}: {len(items):,}", *(f"    {item}" for item in items[:SHOWN]), *_rest(items)]


def _rest(items: list[str]) -> list[str]:
    return [f"    … and {len(items) - SHOWN:,} more"] if len(items) > SHOWN else []


def _more(items: list[str]) -> str:
    return f" and {len(items) - SHOWN:,} more" if len(items) > SHOWN else ""
