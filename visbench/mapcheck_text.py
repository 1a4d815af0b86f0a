"""The findings on images with maps, as lines for a person."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from extract.wording import counted, listed

if TYPE_CHECKING:
    from visbench.mapcheck import MapCheckup, MapReport

SHOWN = 5  # of a kind of finding; the rest is counted
_LARGEST = 8  # classes told with their share

_CALLED = {
    "labels": "maps of classes",
    "foreground": "masks of foreground",
    "depth": "maps of depth",
    "normals": "maps of normals",
    "response": "maps of responses",
    "boundaries": "boundaries",
}


def text(found: MapCheckup) -> str:
    """The findings as lines."""
    counts = " · ".join(f"{split} {report.images:,}" for split, report in found.splits.items())
    classes = f", {counted(found.num_classes, 'class')}" if found.num_classes else ""
    lines = [f"{found.name}  {counts} images with {_CALLED.get(found.kind, found.kind)}{classes}"]
    for split, report in found.splits.items():
        lines += _split(split, report)
    lines += _items(found.duplicates, "the same picture in two splits")
    lines += _items(found.contradictions, "the same picture with two maps that differ")
    lines += [f"  {note}" for note in found.notes]
    if found.height is not None:
        turned = sum(report.turned for report in found.splits.values())
        more = f"; {counted(turned, 'image')} turned by EXIF, and the maps fit" if turned else ""
        lines.append(f"  {found.height}×{found.width} pixels, median height × width{more}")
    if found.ignored:
        lines.append(
            "  unread extensions: " + ", ".join(f"{end} ({count:,})" for end, count in found.ignored.items())
        )
    if found.hidden:
        lines.append(f"  passed over: {listed(found.hidden, SHOWN)}")
    if found.overlay:
        lines.append(f"  drawn: {found.overlay}")
    lines.append(f"  a run would refuse this: {found.refused}" if found.refused else "  ready to run")
    return "\n".join(lines)


def _split(split: str, report: MapReport) -> list[str]:
    said = [f"{_percent(1 - report.valid)} of the pixels not valid"]
    if len(report.faults) == report.images:
        said = ["no image with a map that can be used"]
    if report.classes:
        largest = sorted(report.classes, key=lambda name: -report.classes[name])
        shares = [f"{name} {_percent(report.classes[name])}" for name in largest]
        said.append(f"{counted(len(largest), 'class')} shown, of the valid pixels {listed(shares, _LARGEST)}")
    if report.least is not None and report.median is not None and report.most is not None:
        said.append(f"{report.least:.4g} … {report.most:.4g}, median {report.median:.4g}")
    if report.facing is not None:
        said.append(f"z positive in {_percent(report.facing)} of them")
    lines = [f"  {split}: {'; '.join(said)}"]
    lines += _items([f"{name}: {why}" for name, why in report.faults.items()], f"cannot be used in {split}")
    if report.without:
        lines.append(
            f"  {counted(len(report.without), 'map')} of {split} without a valid pixel: {listed(report.without, SHOWN)}"
        )
    if report.repeated:
        lines.append(f"  {split} repeats {counted(report.repeated, 'image')} of its own")
    return lines


def _percent(share: float) -> str:
    """Three figures, and neither 0 nor 100 for what is only near it."""
    if 0 < share < 0.0005:
        return "under 0.1 %"
    if 0.9995 < share < 1:
        return "over 99.9 %"
    return f"{100 * share:.3g} %"


def _items(items: Iterable[str], what: str) -> list[str]:
    found = list(items)
    if not found:
        return []
    more = [f"    … and {len(found) - SHOWN:,} more"] if len(found) > SHOWN else []
    return [f"  {what}: {len(found):,}", *(f"    {item}" for item in found[:SHOWN]), *more]
