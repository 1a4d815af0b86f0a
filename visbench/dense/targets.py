"""Target maps in the frame of a backbone: decoded once, then read from the feature store like features.

A row's id is a digest of the content of the files it was read from; its identity is the reader with its settings and
the frame.  Backbones that see images of one size share them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from extract.datasets import ImageSet
from extract.datasets.targets import Targets
from extract.errors import UnreadableImageError
from extract.ids import keys
from extract.images import MAX_PIXELS, header, read_image
from extract.maps.frame import Frame
from extract.maps.readers import check_fits
from extract.spec import Identity, digest_json
from extract.store import Store
from visbench import console
from visbench.dense.kinds import KINDS, Kind
from visbench.options import Options

READING = 1  # counted up when our way of reading maps changes what a number means
BATCH = 64


def identity(targets: Targets, frame: Frame) -> Identity:
    """Of the rows that `targets` give in `frame`."""
    plain = {"reading": READING, "target": targets.reader.describe(), "frame": frame.describe()}
    return Identity(digest_json(plain), plain)


def ensure(
    sets: Sequence[ImageSet], frame: Frame, options: Options, store: Store, unreadable: dict[str, str]
) -> str:
    """See that the map of every image is stored; the digest of their identity.

    Images that cannot be read have no map to lie on them: their names and the reason come into `unreadable`.
    """
    targets = sets[0].maps
    which, kind = identity(targets, frame), KINDS[targets.reader.kind]
    todo = [(images, row) for images in sets for row in _lacking(images, which, store)]
    if not todo:
        return which.digest
    store.refuse_unwritable()
    with (
        console.progress("reading maps", sets[0].name, total=len(todo)) as advance,
        store.writer(which, kind.shape(frame.size), kind.dtype, compress=True) as writer,
        ThreadPoolExecutor(options.workers or os.cpu_count()) as pool,
    ):
        for batch in _batches(todo):
            found = list(pool.map(lambda one: _read(one[0], one[1], frame, kind, options), batch))
            unreadable |= {each.name: each.reason for each in found if isinstance(each, UnreadableImageError)}
            good = [
                (_ids(images)[row], each)
                for (images, row), each in zip(batch, found, strict=True)
                if isinstance(each, np.ndarray)
            ]
            if good:
                writer.add(*map(np.stack, zip(*good, strict=True)))
            advance(len(batch))
    return which.digest


def _lacking(images: ImageSet, which: Identity, store: Store) -> list[int]:
    """The rows to be read, of each map one."""
    ids = _ids(images)
    first = np.zeros(len(ids), dtype=bool)
    first[np.unique(keys(ids), return_index=True)[1]] = True
    rows: list[int] = np.flatnonzero(first & ~store.present(which.digest, ids)).tolist()
    return rows


def _read(
    images: ImageSet, row: int, frame: Frame, kind: Kind, options: Options
) -> np.ndarray | UnreadableImageError:
    """One map in its frame, or why its image cannot be read."""
    try:
        return _framed(images, row, frame, kind, options)
    except UnreadableImageError as error:
        if error.name != images.names[row]:  # it is the map
            raise
        return error


def _framed(images: ImageSet, row: int, frame: Frame, kind: Kind, options: Options) -> np.ndarray:
    targets, name, source = images.maps, images.names[row], images.sources[row]
    limit = options.max_pixels or MAX_PIXELS
    make = getattr(targets.reader, "make", None)
    if make is not None:
        placed = frame.place_image(read_image(source, name=name, max_pixels=limit).pixels)
        return np.asarray(make(placed), kind.dtype)
    found, turned = targets.oriented(row, max_pixels=limit)
    check_fits(
        found.shape[:2], header(source, name=name, max_pixels=limit), (targets.names[row], name), turned
    )
    placing = getattr(targets.reader, "place", None)  # a reader may know better than the nearest pixel
    return np.asarray(frame.place(found) if placing is None else placing(found, frame), kind.dtype)


def _ids(images: ImageSet) -> np.ndarray:
    assert images.targets is not None
    assert images.targets.ids is not None
    return images.targets.ids


def _batches(todo: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (todo[start : start + BATCH] for start in range(0, len(todo), BATCH))
