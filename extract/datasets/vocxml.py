"""The XML file in which PASCAL VOC, and the tools that write as it does, describe the objects of an image."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from extract.errors import InputError

_CORNERS = ("xmin", "ymin", "xmax", "ymax")
_YES, _NO = {"1", "true", "yes"}, {"", "0", "false", "no", "unspecified"}


class Described(NamedTuple):
    """An object: its class, edges x0, y0, x1, y1, and whether it is difficult."""

    name: str
    box: tuple[float, float, float, float]
    difficult: bool


class Annotation(NamedTuple):
    """What a file says of an image."""

    path: Path
    size: tuple[int, int] | None  # (height, width); None where it states none, or 0
    objects: tuple[Described, ...]


class _Builder(ElementTree.TreeBuilder):
    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        """Refuse what could define entities that grow without end: no annotation needs it."""
        raise InputError(
            "it begins with a document type (<!DOCTYPE …>), which no annotation needs; take it out"
        )


def read_annotation(path: Path) -> Annotation:
    """Read a file; what is missing in it, or no number, is refused."""
    try:
        root = ElementTree.fromstring(path.read_bytes(), ElementTree.XMLParser(target=_Builder()))
        objects = tuple(_object(each, number) for number, each in enumerate(root.findall("object"), 1))
        if root.tag != "annotation":
            raise InputError(f"it holds <{root.tag}>; a file of VOC holds <annotation>")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except ElementTree.ParseError as error:
        raise InputError(f"{path} is no XML: {error}") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return Annotation(path, _size(root), objects)


def _object(element: ElementTree.Element, number: int) -> Described:
    name = (element.findtext("name") or "").strip()
    if not name:
        raise InputError(f"object {number} has no <name>, which is its class")
    box = element.find("bndbox")
    if box is None:
        raise InputError(
            f"object {number} ({name}) has no <bndbox>; give it the box around its outline, or take it out"
        )
    x0, y0, x1, y1 = (
        _number(box.findtext(corner), f"object {number} ({name}): {corner}") for corner in _CORNERS
    )
    said = (element.findtext("difficult") or "").strip().lower()
    if said not in _YES | _NO:
        raise InputError(f"object {number} ({name}): difficult is {said!r}; it is 0 or 1")
    return Described(name, (x0 - 1, y0 - 1, x1, y1), said in _YES)


def _number(text: str | None, what: str) -> float:
    try:
        return float((text or "").strip())
    except ValueError:
        raise InputError(f"{what} is {text!r}, not a number of pixels") from None


def _size(root: ElementTree.Element) -> tuple[int, int] | None:
    """What is stated; many tools leave 0."""
    try:
        height, width = (int(float(root.findtext(f"size/{each}") or 0)) for each in ("height", "width"))
    except (ValueError, OverflowError):
        return None
    return (height, width) if height > 0 and width > 0 else None
