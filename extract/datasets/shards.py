"""Tar shards as WebDataset writes them: the members of a sample share a name up to its first dot.

`photos-{000..003}.tar` means four shards.  A sample is an image and, under "cls" unless another ending is
asked for, a file of its label.  A shard is gone through once for where its members lie; images are then read
straight from their place.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from extract.datasets.base import ImageSet, Splits, one_set
from extract.datasets.folder import IMAGE_EXTENSIONS
from extract.datasets.labels import encode
from extract.datasets.sources import Lazy
from extract.errors import InputError
from extract.wording import counted

_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")


class _Place(NamedTuple):
    shard: Path
    offset: int
    size: int

    def read(self) -> bytes:
        with self.shard.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.size)


def expand(pattern: str) -> list[Path]:
    """The shards a pattern stands for, all of which must exist."""
    match = _RANGE.search(pattern)
    if match is None:
        shards = [Path(pattern)]
    else:
        first, last = match.groups()
        numbers = (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
        shards = [Path(pattern[: match.start()] + number + pattern[match.end() :]) for number in numbers]
    missing = [shard for shard in shards if not shard.is_file()]
    if missing or not shards:
        raise InputError(
            f"there is no shard {missing[0] if missing else pattern} ({counted(len(shards), 'shard')} named)"
        )
    return shards


def open_shards(shards: Sequence[Path], *, name: str | None = None, label_key: str | None = None) -> Splits:
    """The samples of all shards in order.  Where one has a label, all must."""
    samples: dict[str, dict[str, _Place]] = {}
    short = len({shard.name for shard in shards}) == len(shards)
    for shard in shards:
        _index(shard, shard.name if short else str(shard), samples)
    key = label_key or "cls"
    images = {sample: _image(sample, parts) for sample, parts in samples.items()}
    kept = [each for each, image in images.items() if image is not None]
    if not kept:
        raise InputError(f"{shards[0]} holds no sample with an image")
    lacking = [each for each in kept if key not in samples[each]]
    if lacking and (label_key or len(lacking) < len(kept)):
        raise InputError(
            f"the sample {lacking[0]} has no {key!r} (samples without it: {len(lacking):,} of {len(kept):,})"
        )
    places = [place for place in images.values() if place is not None]
    labels: np.ndarray | None = None
    classes: tuple[str, ...] = ()
    if not lacking:
        labels, classes = encode([samples[each][key].read().decode() for each in kept])
    title = name or shards[0].stem
    sources = Lazy(len(places), lambda position: places[position].read())
    params = {"shards": len(shards)} | ({} if lacking else {"label_key": key})
    return one_set(ImageSet(title, None, sources, tuple(kept), labels, classes, params=params))


def _index(shard: Path, called: str, samples: dict[str, dict[str, _Place]]) -> None:
    """Add where the members of `shard` lie, by sample and ending."""
    try:
        with tarfile.open(shard, "r:") as tar:
            for member in tar:
                folder, slash, base = member.name.rpartition("/")
                stem, _, ending = base.partition(".")
                if member.isfile() and stem:
                    sample = samples.setdefault(f"{called}/{folder}{slash}{stem}", {})
                    sample[ending.lower()] = _Place(shard, member.offset_data, member.size)
    except tarfile.TarError as error:
        raise InputError(f"the shard {shard} is damaged or compressed, or is no tar file: {error}") from None


def _image(sample: str, parts: dict[str, _Place]) -> _Place | None:
    found = [ending for ending in parts if f".{ending}" in IMAGE_EXTENSIONS]
    if len(found) > 1:
        raise InputError(f"the sample {sample} has several images ({', '.join(found)}); one is wanted")
    return parts[found[0]] if found else None
