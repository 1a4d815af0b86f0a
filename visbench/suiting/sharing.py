"""Features that several tasks want of one backbone, each image seen once for all the taps that any of them reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from extract import taps as tap_names
from extract.datasets import ImageSet
from extract.ids import keys
from visbench import console, features
from visbench.errors import USER_ERRORS
from visbench.pipeline import Session
from visbench.sources import Source
from visbench.suiting.jobs import Part


@dataclass(frozen=True)
class Wanted:
    """Images of which the same taps are wanted."""

    session: Session  # one of those that want them
    source: Source
    images: ImageSet
    ids: np.ndarray  # (n, 16)
    taps: list[str]


def wanted(parts: Sequence[Part]) -> Iterator[Wanted]:
    """All that parts of one backbone read, every image once: grouped by which taps are wanted of it.

    Features that are stored apart, or in another precision, are not shared.
    """
    alike: dict[tuple[str, str], list[Part]] = {}
    for part in parts:
        session = part.job.session
        alike.setdefault((session.store.url, session.options.dtype), []).append(part)
    for each in alike.values():
        yield from _grouped(each)


def _grouped(parts: Sequence[Part]) -> Iterator[Wanted]:
    seen = [part.job.session.seen(part.source, part.pending)[:2] for part in parts]
    images, ids = features.concat([each for each, _ in seen]), np.concatenate([each for _, each in seen])
    asked = [{tap_names.resolve(tap, p.source.spec) for tap in p.source.taps} for p in parts]
    columns = sorted(set().union(*asked), key=lambda tap: (tap.kind, tap.layer))
    wants = np.array([[tap in own for tap in columns] for own in asked])
    _, first, row = np.unique(keys(ids), return_index=True, return_inverse=True)
    of_image = np.zeros((len(first), len(columns)), bool)
    np.logical_or.at(of_image, row, np.repeat(wants, [len(each) for _, each in seen], axis=0))
    for pattern in np.unique(of_image, axis=0)[::-1]:
        rows = np.sort(first[(of_image == pattern).all(axis=1)])
        taps = [f"{tap.kind}@{tap.layer}" for tap, own in zip(columns, pattern, strict=True) if own]
        yield Wanted(parts[0].job.session, parts[0].source, images.subset(rows), ids[rows], taps)


def extract(parts: Sequence[Part]) -> None:
    """Extract what is missing for all parts together.

    Nothing is refused here: what is wrong with an image or the store, the task that needs it says itself.
    """
    if len({id(part.job.session) for part in parts}) < 2:
        return  # a run of one task sees its images once by itself
    lead = parts[0].source
    try:
        for each in wanted(parts):
            lenient = replace(each.session.options, on_bad="skip")
            features.ensure(
                lead,
                each.images,
                each.ids,
                each.taps,
                lenient,
                store=each.session.store,
                memo=each.session.memo,
            )
    except USER_ERRORS as error:
        console.detail(f"{lead.asked}: features are extracted a task at a time: {error}")
    for part in parts:  # loaded once, if at all
        part.source.loaded = part.source.loaded or lead.loaded
