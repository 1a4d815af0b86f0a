"""How a task of boxes reads what a run has stored: feature grids with the marked objects of each image, in its frame.

Axes: n images, M rows of objects (`probes.boxes` says what is in them), in shares of the frame's side, so that they
are the same for every backbone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from extract import taps as tap_names
from extract.datasets import ImageSet
from extract.errors import UnreadableImageError
from extract.framed_boxes import check_marks, framed, framed_masks, padded, sampled, seen
from extract.images import MAX_PIXELS, header
from extract.plan import Plan
from probes.shapes import bucket
from visbench import console
from visbench.dense.kinds import KINDS
from visbench.dense.streams import Rowwise, Stream
from visbench.errors import UsageError
from visbench.frames import frame_side
from visbench.memory import free_bytes
from visbench.opening import refuse_unreadable
from visbench.reading import shuffled
from visbench.sources import Source

if TYPE_CHECKING:
    from visbench.pipeline import Session

BOX = 6  # numbers of an object before those of its mask
SHARE = 2  # of the memory that is free, half may hold objects


class Boxed:
    """Grids of features and marked objects, in one order."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._rows: dict[int, dict[str, np.ndarray]] = {}  # side of the frame → role → (n, M, …)

    def prepare(self, source: Source) -> None:
        """Bring the objects into the backbone's frame: what is wrong with one shows before anything is extracted."""
        self._framed(frame_side(source))

    def views(self, source: Source, measures: Sequence[Any]) -> None:
        """No image but those of the data."""

    def __call__(self, source: Source, plan: Plan) -> Callable[[Sequence[str], Sequence[str]], Stream]:
        """The images of some roles, one behind the other, at some taps."""
        session, side = self._session, frame_side(source)
        rows = self._framed(side)

        def stream(roles: Sequence[str], taps: Sequence[str]) -> Stream:
            ids = np.concatenate([session.data.ids[role] for role in roles])
            resolved = [tap_names.resolve(tap, plan.spec) for tap in taps]
            views = {tap: session.store.view(plan.identities[tap].digest, ids) for tap in resolved}
            places = [(role, row) for role in roles for row in range(len(rows[role]))]
            return Stream(
                [views[tap] for tap in resolved if not tap.pooled],
                [views[tap] for tap in resolved if tap.pooled],
                Rowwise([self._truth(role, rows[role], source) for role in roles]),
                KINDS["boxes"],
                name=source.asked,
                frame=side,
                original=lambda row: self.outlines(*places[row], side),
            )

        return stream

    def rows_of(self, images: ImageSet, position: int, side: int) -> np.ndarray:
        """(k, …) what is known of the objects of an image."""
        return _relative(framed(*self._marked(images, position), side, name=images.names[position]), side)

    def outlines(self, role: str, row: int, side: int) -> np.ndarray:
        """(k, s, s) bool: the objects of an image in the frame, in the order of their rows."""
        images = self._session.data.sets[role]
        return framed_masks(*self._marked(images, row), side, name=images.names[row])

    def _marked(self, images: ImageSet, position: int) -> tuple[Any, tuple[int, int]]:
        """The marks of an image, which are seen to lie on it, and its height and width."""
        limit, name = self._session.options.max_pixels or MAX_PIXELS, images.names[position]
        shown = header(images.sources[position], name=name, max_pixels=limit)
        marks = images.objects.marks[position]
        check_marks(marks, shown, name)
        return marks, (shown.height, shown.width)

    def _truth(self, role: str, rows: np.ndarray, source: Source) -> np.ndarray:
        if not source.shuffled or role == "test":
            return rows
        order = shuffled(self._session.data.ids[role], self._session.options.seed)
        return np.asarray(rows[order])

    def _framed(self, side: int) -> dict[str, np.ndarray]:
        """(n, M, …) of every role; images whose file cannot be read are dropped, or refused."""
        sets = self._session.data.sets
        known = self._rows.get(side)
        if known is not None and all(len(known[role]) == len(images) for role, images in sets.items()):
            return known
        unreadable: dict[str, str] = {}
        found = {role: self._of_set(images, side, unreadable) for role, images in sets.items()}
        if unreadable:
            refuse_unreadable(unreadable, self._session.options)
            self._session.data.drop(unreadable)
            return self._framed(side)
        for role, rows in found.items():
            self._refuse_empty(role, rows)
        room = bucket(max(len(each) for rows in found.values() for each in rows))
        self._refuse_large(room, found)
        self._rows[side] = {
            role: np.stack([_padded(each, room) for each in rows]) for role, rows in found.items()
        }
        return self._rows[side]

    def _refuse_empty(self, role: str, rows: Sequence[np.ndarray]) -> None:
        """Refuse a role without any object: there is nothing to learn from, or nothing to score."""
        if any((each[:, 5] == 0).any() for each in rows):
            return
        images = self._session.data.sets[role]
        split = f"the {images.split} split of " if images.split else ""
        raise UsageError(
            f"no image of {split}{images.name} has an object to {'score' if role == 'test' else 'learn from'}: what is "
            "marked lies outside the square that the backbone sees, is too small, difficult or a crowd; `visbench "
            f"check --task {self._session.task.name}` shows it"
        )

    def _refuse_large(self, room: int, found: dict[str, list[np.ndarray]]) -> None:
        """Refuse more than memory holds, before it is full."""
        count, width = sum(map(len, found.values())), next(iter(found.values()))[0].shape[1]
        wanted, free = 4 * count * room * width, free_bytes()
        if free is not None and wanted * SHARE > free:
            raise UsageError(
                f"the objects of {count:,} images, up to {room} an image, need {console.size(wanted)} of memory, and "
                f"{console.size(free)} is free; take fewer images with --limit"
            )

    def _of_set(self, images: ImageSet, side: int, unreadable: dict[str, str]) -> list[np.ndarray]:
        found = []
        for position, name in enumerate(images.names):
            try:
                found.append(self.rows_of(images, position, side))
            except UnreadableImageError as error:
                unreadable[name] = error.reason
        return found


class Outlined(Boxed):
    """The same with a mask of each object, in its box."""

    def rows_of(self, images: ImageSet, position: int, side: int) -> np.ndarray:
        """(k, 6 + 14 · 14): boxes, and their masks row by row."""
        (marks, size), name = self._marked(images, position), images.names[position]
        masks = framed_masks(marks, size, side, name=name)
        rows = seen(framed(marks, size, side, name=name), masks, name=name)
        small = [sampled(mask, row[:4]).reshape(-1) for mask, row in zip(masks, rows, strict=True)]
        return (
            np.concatenate(
                [_relative(rows, side), np.array(small, np.float32).reshape(len(rows), -1)], axis=1
            )
            if len(rows)
            else np.zeros((0, BOX + 14 * 14), np.float32)
        )


def _relative(rows: np.ndarray, side: int) -> np.ndarray:
    """Boxes of a frame of `side` pixels in shares of it."""
    return np.concatenate([rows[:, :4] / side, rows[:, 4:]], axis=1).astype(np.float32)


def _padded(rows: np.ndarray, room: int) -> np.ndarray:
    """(M, …) the objects of an image and, behind them, −1."""
    boxes = padded(rows[:, :BOX], room)
    masks = np.full((room, rows.shape[1] - BOX), -1, np.float32)
    masks[: len(rows)] = rows[:, BOX:]
    return np.concatenate([boxes, masks], axis=1)
