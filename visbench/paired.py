"""How correspondence reads what a run has stored: patch grids of both images of each pair, and where points belong.

An image by itself is paired with a view made of it: its crop, warped by a homography.  Axes: p pairs, h w grid, d dims,
k points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extract import taps as tap_names
from extract.datasets import ImageSet, Lazy
from extract.datasets.groups import Groups
from extract.datasets.relations import Keypoints
from extract.geometry import axes
from extract.ids import as_bytes
from extract.images import MAX_PIXELS, header, read_image
from extract.plan import Plan
from extract.store.view import View
from extract.views import Warp, apply_homography
from visbench.errors import UsageError
from visbench.frames import frame_side
from visbench.options import Options
from visbench.reading import Views, shuffled
from visbench.sources import Source

if TYPE_CHECKING:
    from visbench.pipeline import Session

BLOCK = 32  # pairs read together


class Paired:
    """The pairs of the scored split, at a tap."""

    def __init__(self, session: Session) -> None:
        self._session = session
        told = session.options.probe_settings.get("max_warp")
        if told is not None and not self._made:
            raise UsageError(
                f"max_warp is for views made of an image, and {self._images.name} has pairs of its own; leave it out"
            )

    @property
    def _images(self) -> ImageSet:
        return self._session.data.sets["test"]

    @property
    def _groups(self) -> Groups:
        groups = self._images.groups
        assert groups is not None
        return groups

    @property
    def _made(self) -> bool:
        return bool(self._groups.members.shape[1] == 1)

    def prepare(self, source: Source) -> None:
        """See that places in the backbone's frame are known, and that there is another pair to take from."""
        frame_side(source)
        if source.shuffled:
            self._other_halves()

    def _other_halves(self) -> np.ndarray:
        assert self._groups.ids is not None
        return shuffled(self._groups.ids, self._session.options.seed)

    def views(self, source: Source, measures: Sequence[Any]) -> Views | None:
        """Of every image one for each warp that is asked for."""
        if not self._made:
            return None
        images, ids = self._images, as_bytes(self._session.data.ids["test"])
        limit = self._session.options.max_pixels or MAX_PIXELS
        warps = list(dict.fromkeys(measure.warp for measure in measures))
        count, side = len(images), frame_side(source)

        def get(position: int) -> np.ndarray:
            warp, row = warps[position // count], position % count
            transform = source.load().transform
            pixels = read_image(
                images.sources[row],
                name=images.names[row],
                background=transform.background,
                max_pixels=limit,
            ).pixels
            placed = transform.place(pixels).permute(1, 2, 0).numpy()
            warped: np.ndarray = warp.apply(placed, warp.homography(ids[row], side))
            return warped

        return Views(
            ImageSet(
                images.name,
                None,
                Lazy(count * len(warps), get),
                tuple(f"{name} (warped {warp.max_warp:g})" for warp in warps for name in images.names),
            ),
            np.concatenate([_view_ids(warp, ids, side) for warp in warps]),
            list(images.names) * len(warps),
        )

    def __call__(self, source: Source, plan: Plan) -> Callable[[str, Warp], Pairs]:
        """The pairs at a tap; views are those of a warp."""
        session, groups, side = self._session, self._groups, frame_side(source)
        ids = session.data.ids["test"]

        def pairs(tap: str, warp: Warp) -> Pairs:
            identity = plan.identities[tap_names.resolve(tap, plan.spec)].digest
            first = ids[groups.members[:, 0]]
            second = _view_ids(warp, as_bytes(first), side) if self._made else ids[groups.members[:, 1]]
            if source.shuffled:  # every image beside the other half of another pair
                second = second[self._other_halves()]
            views = session.store.view(identity, first), session.store.view(identity, second)
            made = warp if self._made else None
            return Pairs(*views, groups, self._images, session.options, side, made, as_bytes(first))

        return pairs


class Marked(NamedTuple):
    """Points that are marked in b pairs, k of each."""

    places: np.ndarray  # (b, k, 2) in the first frame
    wanted: np.ndarray  # (b, k, 2) in the second
    truth: np.ndarray  # (b, k, 2) in pixels of the second image
    visible: np.ndarray  # (b, k) bool
    extent: np.ndarray  # (b,) that errors are measured by
    outside: int = 0  # points that are left out since a frame does not show them

    @classmethod
    def empty(cls, pairs: int, room: int) -> Marked:
        """Of no points yet."""
        places, wanted, truth = (np.zeros((pairs, room, 2)) for _ in range(3))
        return cls(places, wanted, truth, np.zeros((pairs, room), bool), np.ones(pairs))


@dataclass
class Pairs:
    """Patch grids of both images of each pair, and what is known of where points belong."""

    first: View  # (p, h, w, d)
    second: View
    groups: Groups
    images: ImageSet
    options: Options
    side: int  # of the frame, in pixels
    warp: Warp | None  # of views; None: the pairs are the data's own
    ids: list[bytes]  # of the first images
    _sizes: dict[int, tuple[int, int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.first.shape[1], self.first.shape[2]

    @property
    def marked(self) -> bool:
        """Whether somebody marked points, and only these are known."""
        return self.warp is None and isinstance(self.groups.truth["relation"][0], Keypoints)

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Some pairs at a time: their places, and both grids (b, h, w, d); the next are read meanwhile."""
        rows = np.arange(len(self))
        parts = [rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK)]
        begun = [(part, self.first.start(part), self.second.start(part)) for part in parts[:1]]
        for following in [*parts[1:], None]:
            part, one, two = begun.pop()
            if following is not None:
                begun.append((following, self.first.start(following), self.second.start(following)))
            yield part, one(), two()

    def truth(self, rows: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(b, n, 2) where points (n, 2) of each first frame lie in the second, and (b, n) whether that is known."""
        found = [self._truth(int(row), points) for row in rows]
        return np.stack([each for each, _ in found]), np.stack([known for _, known in found])

    def marks(self, rows: np.ndarray, room: int, *, everywhere: bool) -> Marked:
        """The points that are marked in these pairs, up to `room` a pair; `everywhere`: also outside the frames."""
        marked = Marked.empty(len(rows), room)
        for place, row in enumerate(rows):
            relation = self.groups.truth["relation"][row]
            one, two = self.groups.members[row]
            count = len(relation.visible)
            marked.truth[place, :count] = relation.second
            marked.places[place, :count] = self.into(one, relation.first)
            marked.wanted[place, :count] = self.into(two, relation.second)
            marked.visible[place, :count] = relation.visible
            marked.extent[place] = relation.extent
        both = np.stack([marked.places, marked.wanted])
        inside = ((both >= 0) & (both <= self.side)).all(axis=(0, 3))
        outside = int((marked.visible & ~inside).sum())
        return marked._replace(visible=marked.visible & (inside | everywhere), outside=outside)

    def second_out_of(self, rows: np.ndarray, points: np.ndarray) -> np.ndarray:
        """(b, k, 2) points of the second frames of these pairs, in pixels of the images."""
        members = self.groups.members[rows, 1]
        return np.stack([self.out_of(int(two), each) for two, each in zip(members, points, strict=True)])

    def _truth(self, row: int, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.warp is not None:
            moved = apply_homography(self.warp.homography(self.ids[row], self.side), points)
            return moved, np.isfinite(moved).all(axis=-1)
        one, two = self.groups.members[row]
        sizes = self.size(one), self.size(two)
        moved, known = self.groups.truth["relation"][row].truth(self.out_of(one, points), *sizes)
        return self.into(two, moved), known

    def size(self, image: int) -> tuple[int, int]:
        """(height, width) of an image of the set, upright."""
        if image not in self._sizes:
            limit = self.options.max_pixels or MAX_PIXELS
            found = header(self.images.sources[image], name=self.images.names[image], max_pixels=limit)
            self._sizes[image] = found.height, found.width
        return self._sizes[image]

    def into(self, image: int, points: np.ndarray) -> np.ndarray:
        """Points (…, 2) of an image, in its frame."""
        rows, columns = axes(*self.size(image), self.side)
        return np.stack([columns.into(points[..., 0]), rows.into(points[..., 1])], axis=-1)

    def out_of(self, image: int, points: np.ndarray) -> np.ndarray:
        """Points (…, 2) of a frame, in its image."""
        rows, columns = axes(*self.size(image), self.side)
        return np.stack([columns.out_of(points[..., 0]), rows.out_of(points[..., 1])], axis=-1)


def _view_ids(warp: Warp, ids: Sequence[bytes], side: int) -> np.ndarray:
    """(n, 16) row ids of views: of the image and the warp; how it was cropped, a feature's identity says."""
    return np.stack([np.frombuffer(warp.view_id(each, side), np.uint8) for each in ids])
