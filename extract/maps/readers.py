"""How maps of each kind are read: raw numbers become classes, metres, unit vectors or responses, or are refused.

Every reader is a frozen dataclass whose fields are all that could change a number (`MapReader` of
`extract.datasets.targets`).  What comes out lies on the upright image, (h, w) or (h, w, 3).
"""

from __future__ import annotations

from extract.images import Header
from extract.maps.base import RefusedMapError
from extract.maps.classes import ForegroundReader, LabelReader, settled
from extract.maps.quantities import DepthReader, NormalsReader, ResponseReader, suspicious

__all__ = [
    "DepthReader",
    "ForegroundReader",
    "LabelReader",
    "NormalsReader",
    "ResponseReader",
    "check_fits",
    "settled",
    "suspicious",
]


def check_fits(shape: tuple[int, ...], image: Header, names: tuple[str, str], orientation: int = 1) -> None:
    """Refuse a map that does not lie on its image, or of which that cannot be told.

    `shape` is the map's, (h, w) upright; `names` are (map, image); `orientation` is the EXIF orientation that
    the map's own file states (`Reader.oriented`).  Where the two files state different ones, only sizes
    tell whether the map was drawn on the picture as stored or as seen, and of squares, half turns and mirror
    images they do not.
    """
    high, wide = shape[:2]
    called, pictured = names
    sizes = f"{called} is {wide}×{high} and {pictured} {image.width}×{image.height}"
    turned = f", turned by its EXIF orientation {image.orientation}" if image.orientation != 1 else ""
    mend = "save the image upright, without EXIF orientation"
    if (high, wide) != (image.height, image.width):
        if turned and (wide, high) == (image.height, image.width):
            raise RefusedMapError(f"{sizes}{turned}: the map was not turned with it; {mend}, or turn the map")
        raise RefusedMapError(f"{sizes}{turned}; a map has to be as large as its image, pixel for pixel")
    if orientation == image.orientation:
        return
    if high == wide or (orientation >= 5) == (image.orientation >= 5):
        stated = f" (the map states orientation {orientation})" if orientation != 1 else ""
        raise RefusedMapError(
            f"{sizes}{turned}{stated}: whether the map was turned with it cannot be told from the sizes; {mend} "
            "and lying on its map"
        )
