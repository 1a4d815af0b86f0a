"""What the domains of Taskonomy (Zamir et al. 2018) hold, and what their stored numbers mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from typing import Any, NamedTuple

from extract.datasets.targets import MapReader
from extract.errors import InputError
from extract.maps.readers import DepthReader, NormalsReader, ResponseReader


class Domain(NamedTuple):
    """How a domain is read: its kind of map and what its 16 bits mean."""

    kind: str
    scale: float | None = None  # stored values a unit
    log1p: bool = False
    hole: int | None = None
    masked: bool = False  # rendered from the reconstruction, whose holes only mask_valid tells

    def reader(self) -> MapReader:
        """Of its kind, with nothing said but the domain's own."""
        if self.kind == "response":
            return ResponseReader(log1p=self.log1p)
        return DepthReader() if self.kind == "depth" else NormalsReader()


DOMAINS: Mapping[str, Domain] = {
    "edge_texture": Domain("response", scale=1000),
    "keypoints2d": Domain("response", scale=30),
    "edge_occlusion": Domain("response", scale=50, log1p=True, masked=True),
    "depth_zbuffer": Domain("depth", scale=512, hole=65535),
    "normal": Domain("normals", masked=True),
}

DOMAIN_OF_TASK: Mapping[str, str] = {
    "edge": "edge_texture",
    "keypoints2d": "keypoints2d",
    "occlusion_edge": "edge_occlusion",
    "depth": "depth_zbuffer",
    "relative_depth": "depth_zbuffer",
    "surface_normal": "normal",
}

REFUSED: Mapping[str, str] = {
    "principal_curvature": "its 8 bits round most surfaces to zero curvature",
    "reshading": "it shows the mesh under a light at the camera, which depth and normals say better",
}


def of_name(domain: str) -> Domain:
    """The row of a domain; one that is not offered is refused with the reason."""
    if domain in REFUSED:
        raise InputError(
            f"Taskonomy's {domain} is not offered: {REFUSED[domain]}; take one of {', '.join(DOMAINS)}"
        )
    if domain not in DOMAINS:
        raise InputError(
            f"Taskonomy has no domain {domain!r} that can be read; take one of {', '.join(DOMAINS)}"
        )
    return DOMAINS[domain]


def settled(reader: MapReader, domain: str, *, mask: bool) -> MapReader:
    """`reader` with what is known of the domain's numbers where nothing else was said, and with masks or without."""
    row = of_name(domain)
    if reader.kind != row.kind:
        alike = [each for each, other in DOMAINS.items() if other.kind == reader.kind]
        way_out = f"choose {' or '.join(alike)}" if alike else "lay maps of your own out in folders"
        raise InputError(f"Taskonomy's {domain} holds {row.kind}, and {reader.kind} was asked for; {way_out}")
    known = {"scale": row.scale, "hole": row.hole}
    filled: dict[str, Any] = {
        key: value
        for key, value in known.items()
        if value is not None and getattr(reader, key, value) is None
    }
    if hasattr(reader, "mask"):
        filled["mask"] = mask
    return replace(reader, **filled) if filled and is_dataclass(reader) else reader
