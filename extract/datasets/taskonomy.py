"""Taskonomy (Zamir et al. 2018): one map a domain for each view of a building, `point_1_view_2_domain_rgb.png`.

    root/rgb/<building>/…                 root/<building>/rgb/…        either below train, val and test,
    root/edge_texture/<building>/…        root/<building>/normal/…     or with lists of buildings

A folder `taskonomy` between domain and building, as Omnidata's download has it, is passed through.  Buildings,
never single views, are divided into splits: by folders, by a table with the columns id, train, val and test as
published (train_val_test_tiny.csv), or by names given.  `mask_valid` marks the holes of what was
rendered from the reconstruction; its files may bear any domain in their names.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from extract.datasets.base import SPLITS, ImageSet, Splits
from extract.datasets.domains import of_name, settled
from extract.datasets.folder import Found, find
from extract.datasets.pairing import Pair, Side, paired_set, refuse_shared, some
from extract.datasets.targets import MapReader
from extract.errors import InputError
from extract.wording import counted

_FILE = re.compile(r"(point_\d+_view_\d+)_domain_([a-z0-9_]+)", re.IGNORECASE)
_BETWEEN = "taskonomy"


@dataclass
class _Views:
    """Files of one domain: building → view → path below the root."""

    files: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, building: str, view: str, path: str) -> None:
        here = self.files.setdefault(building, {})
        if view in here:
            raise InputError(f"{here[view]} and {path} are the same view of {building}; keep one of them")
        here[view] = path


def open_taskonomy(
    root: str | Path,
    domain: str,
    *,
    reader: MapReader | None = None,
    buildings: Mapping[str, Sequence[str]] | None = None,
    name: str | None = None,
) -> Splits:
    """The views of every building with `rgb` and `domain`, by split; what `reader` leaves open is the domain's.

    `buildings` names those of each split.  Where `mask_valid` is there, `edge_occlusion` and `normal` need a mask
    for each map: holes of the first hold a 0, which also means that there is no edge.  Depth marks its own.
    """
    row = of_name(domain)
    root = Path(root).expanduser()
    if not root.is_dir():
        raise InputError(f"there is no folder {root}")
    found = find(root)
    places = _sort(found, ("rgb", domain, "mask_valid"), root)
    if buildings is None and set(places) == {""}:
        buildings = _table(root)
    if buildings is not None:
        places = _divide(places, {split: list(names) for split, names in buildings.items()}, root)
    masked = row.masked and any(views["mask_valid"].files for views in places.values())
    reader = settled(reader or row.reader(), domain, mask=masked)
    params: dict[str, Any] = {"layout": "taskonomy", "domain": domain}
    if row.masked:
        params["mask"] = "mask_valid" if masked else None
    sets = {
        split: _set(views, domain, root, split, reader, name or root.resolve().name, params)
        for split, views in places.items()
    }
    order = [split for split in ("train", "val", "test") if split in sets]
    return Splits({split: sets[split] for split in order}, dict(found.ignored), tuple(sorted(found.hidden)))


def looks_like_taskonomy(root: Path) -> bool:
    """Whether `rgb` holds files that are named as Taskonomy names them, at whatever depth it is kept."""
    for pattern in ("rgb/*/*", "*/rgb/*", "*/rgb/*/*", "*/*/rgb/*", "rgb/taskonomy/*/*"):
        first = next(root.glob(f"{pattern}_domain_rgb.png"), None)
        if first is not None and _FILE.match(first.stem):
            return True
    return False


def _sort(found: Found, domains: Sequence[str], root: Path) -> dict[str, dict[str, _Views]]:
    """Split ("" where there are none) → domain → views, by the folders that a file lies in."""
    places: dict[str, dict[str, _Views]] = {}
    for path in found.images:
        *folders, last = path.split("/")
        matched = _FILE.match(Path(last).stem)
        domain = next((each for each in folders if each in domains), None)
        if matched is None or domain is None:
            continue
        split = SPLITS.get(folders[0].lower(), "")
        rest = [each for each in folders[1 if split else 0 :] if each not in (domain, _BETWEEN)]
        if len(rest) != 1:
            raise InputError(
                f"{root / path} lies in no folder of a building; views are kept as {domain}/<building>/{last} or "
                f"<building>/{domain}/{last}"
            )
        views = places.setdefault(split, {each: _Views() for each in domains})
        views[domain].add(rest[0], matched[1].lower(), path)
    if "" in places and len(places) > 1:
        stray = next(iter(places[""]["rgb"].files or places[""][domains[1]].files), "others")
        raise InputError(
            f"{root} has split folders and, beside them, buildings such as {stray}; move them into a split"
        )
    if not any(views[each].files for views in places.values() for each in domains[:2]):
        raise InputError(
            f"{root} holds no view of Taskonomy: files are called point_1_view_2_domain_{domains[1]}.png and lie in "
            f"{domains[1]}/<building>/"
        )
    return places


def _table(root: Path) -> dict[str, list[str]]:
    """The buildings of each split as the only table in the root says; without one they are not divided."""
    tables = sorted(root.glob("*.csv"))
    if len(tables) != 1:
        listed = (
            f"several tables ({some([each.name for each in tables])})" if tables else "no table of splits"
        )
        raise InputError(
            f"{root} has {listed} and no folders train, val and test: views of one building are much alike, so "
            "buildings must be divided, not views; add the published train_val_test_tiny.csv (id,train,val,test)"
        )
    with tables[0].open(newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        header = {(each or "").strip().lower(): each for each in rows.fieldnames or ()}
        if "id" not in header or not {"train", "val", "test"} & header.keys():
            raise InputError(
                f"{tables[0]} has no columns id, train, val and test; give the table as it is published"
            )
        splits = [split for split in ("train", "val", "test") if split in header]
        chosen: dict[str, list[str]] = {split: [] for split in splits}
        for row in rows:
            for split in splits:
                if (row[header[split]] or "").strip() in ("1", "true", "True"):
                    chosen[split].append((row[header["id"]] or "").strip())
    return chosen


def _divide(
    places: dict[str, dict[str, _Views]], buildings: Mapping[str, list[str]], root: Path
) -> dict[str, dict[str, _Views]]:
    """The views of undivided buildings by split; of a published table most buildings may be absent."""
    if set(places) != {""}:
        raise InputError(f"{root} has folders of splits already; leave the lists of buildings out")
    refuse_shared(buildings)
    views = places[""]
    there = set(views["rgb"].files)
    divided = {}
    for split, names in buildings.items():
        mine = [each for each in names if each in there]
        if mine:
            divided[split] = {
                domain: _Views({each: all_views.files[each] for each in mine if each in all_views.files})
                for domain, all_views in views.items()
            }
    if not divided:
        raise InputError(
            f"none of the buildings of {root} ({some(sorted(there))}) is in a split; name those of train, val and test"
        )
    return divided


def _set(
    views: Mapping[str, _Views],
    domain: str,
    root: Path,
    split: str,
    reader: MapReader,
    name: str,
    params: Mapping[str, Any],
) -> ImageSet:
    keys = {each: _keys(views[each]) for each in views}
    lacking = {
        "rgb": sorted(keys[domain] - keys["rgb"]),
        domain: sorted(keys["rgb"] - keys[domain]),
    }
    masked = bool(getattr(reader, "mask", False))
    if masked:
        lacking["mask_valid"] = sorted(keys[domain] - keys["mask_valid"])
    for what, missing in lacking.items():
        if missing:
            views_named = some([" ".join(each) for each in missing])
            raise InputError(
                f"{root} ({split}) lacks {what} of {counted(len(missing), 'view')}: {views_named}; "
                "complete the download, or remove the other files of these views"
            )
    chosen = sorted(keys["rgb"], key=_order)
    paths = {
        each: [views[each].files[building][view] for building, view in chosen] for each in ("rgb", domain)
    }
    pairs = [Pair(image, image, target) for image, target in zip(paths["rgb"], paths[domain], strict=True)]
    whole = Side(root, {})
    masks = (
        [root / views["mask_valid"].files[building][view] for building, view in chosen] if masked else None
    )
    return paired_set(
        pairs, whole, whole, name=name, split=split, root=root, reader=reader, masks=masks, params=params
    )


def _keys(views: _Views) -> set[tuple[str, str]]:
    return {(building, view) for building, here in views.files.items() for view in here}


def _order(key: tuple[str, str]) -> tuple[str, list[int]]:
    """By building, then by point and view as numbers."""
    return key[0], [int(each) for each in re.findall(r"\d+", key[1])]
