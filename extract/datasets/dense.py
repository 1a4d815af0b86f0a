"""One way in to images with maps, however they are laid out: folders, a VOC devkit, ADE20K, NYUv2 or Taskonomy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from extract.datasets import ade, domains, nyu, taskonomy, voc
from extract.datasets.base import Splits
from extract.datasets.maps import open_maps
from extract.datasets.targets import MapReader
from extract.errors import InputError

LAYOUTS = ("folders", "voc", "ade", "nyu", "taskonomy")


def layout_of(root: str | Path) -> str:
    """What `root` looks like, by its folders' names; "folders" where it is none of the known packings."""
    root = Path(root).expanduser()
    if nyu.find_packed(root):
        return "nyu"
    if root.is_dir():
        if voc.find_devkit(root) is not None:
            return "voc"
        if ade.find_challenge(root) is not None:
            return "ade"
        if taskonomy.looks_like_taskonomy(root):
            return "taskonomy"
    return "folders"


def open_dense(
    root: str | Path,
    *,
    reader: MapReader,
    layout: str | None = None,
    domain: str | None = None,
    target_dir: str | Path | Sequence[str] | None = None,
    image_dir: str | Path | None = None,
    stems: str | Path | None = None,
    train_stems: str | Path | None = None,
    classes: Sequence[str] = (),
    buildings: Mapping[str, Sequence[str]] | None = None,
    name: str | None = None,
) -> Splits:
    """The image sets of `root` with their maps; `layout` is told from the folders unless it is given.

    `domain` and `buildings` are Taskonomy's.  `image_dir`, lists of stems and `classes` are for folders, which
    they choose where no layout is named; what a layout has no use for is refused.
    """
    folders = {
        "image_dir": image_dir,
        "stems": stems,
        "train_stems": train_stems,
        "classes": tuple(classes) or None,
    }
    given: dict[str, Any] = {key: value for key, value in folders.items() if value is not None}
    if layout is None:
        layout = "folders" if given or isinstance(target_dir, str | Path) else layout_of(root)
    if layout not in LAYOUTS:
        raise InputError(f"there is no layout {layout!r}; data are laid out as {', '.join(LAYOUTS)}")
    whose = {"domain": (domain, "taskonomy"), "buildings": (buildings, "taskonomy")}
    unused = [option for option, (value, home) in whose.items() if value is not None and layout != home]
    unused += given if layout != "folders" else ()
    if isinstance(target_dir, str | Path) and layout not in ("folders", "voc"):
        unused.append("target_dir")
    if unused:
        raise InputError(
            f"{root} is read as {layout}, which has no use for {', '.join(unused)}; leave it out"
        )
    if layout == "taskonomy":
        if domain is None:
            raise InputError(
                f"{root} is laid out as Taskonomy, which has several maps an image; choose one of "
                f"{', '.join(domains.DOMAINS)} (--domain)"
            )
        return taskonomy.open_taskonomy(root, domain, reader=reader, buildings=buildings, name=name)
    named: dict[str, Any] = {} if name is None else {"name": name}
    if layout == "voc":
        if isinstance(target_dir, str | Path):
            named["target_dir"] = str(target_dir)
        return voc.open_voc(root, reader=reader, **named)
    if layout == "ade":
        return ade.open_ade(root, reader=reader, **named)
    if layout == "nyu":
        return nyu.open_nyu(root, reader=reader, **named)
    return open_maps(root, reader=reader, target_dir=target_dir, **given, **named)
