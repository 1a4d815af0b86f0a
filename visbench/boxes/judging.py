"""How instance segmentation is judged: by the overlap of masks in the pixels of the frame, and of boxes beside it.

Axes: n images, K detections, M objects, s pixels of the frame a side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from probes.boxes.instances import BOX
from probes.boxes.masks import SIDE, paste
from probes.metrics import detection as metric
from visbench.dense.judging import Says
from visbench.dense.streams import Stream
from visbench.dense.training import EVALUATED, joined

AT_ONCE = 16  # masks drawn together: a frame each


class Tally(NamedTuple):
    """What became of detections by their masks, and by their boxes."""

    masks: metric.Tally
    boxes: metric.Tally


class Metric:
    """The metrics of masks, and under `box_…` those of boxes."""

    counts = ("classes_scored", "detections_per_image")

    def scores(self, tally: Tally) -> dict[str, np.ndarray]:
        """Of each image there is nothing: a precision is of all detections together."""
        return {}

    def value(self, tally: Tally) -> dict[str, float]:
        """Of all images."""
        return _both(metric.value(tally.masks), metric.value(tally.boxes))

    def weighted(self, tally: Tally, weights: np.ndarray) -> dict[str, np.ndarray]:
        """The same where image i counts `weights[b, i]` times."""
        return _both(metric.weighted(tally.masks, weights), metric.weighted(tally.boxes, weights))

    def influence(self, tally: Tally) -> dict[str, np.ndarray]:
        """Each image's part in a metric."""
        return _both(metric.influence(tally.masks), metric.influence(tally.boxes))


@dataclass(frozen=True)
class Masks:
    """Masks beside the objects' outlines, one image after the other: no more than one image's are held."""

    task: Any

    @property
    def metric(self) -> Metric:
        """What turns tallies into values."""
        return Metric()

    def tally(
        self, stream: Stream, says: Says, *, rows: np.ndarray | None = None, quick: bool = False
    ) -> Tally:
        """Of every image of the stream, in its order."""
        tallies = [
            self._of(stream, int(row), found, true)
            for chosen, maps, target in stream.blocks(EVALUATED, rows)
            for row, found, true in zip(chosen, np.asarray(says(maps, target)), target, strict=False)
        ]
        every: Tally = joined(tallies)
        return every

    def context(self, stream: Stream) -> dict[str, float]:
        """Nothing more is to be said."""
        return {}

    def _of(self, stream: Stream, row: int, found: np.ndarray, true: np.ndarray) -> Tally:
        assert stream.original is not None
        outlines = stream.original(row)
        boxes, objects = found[None, :, :BOX], true[None, :, :BOX]
        said = drawn(found[found[:, 5] >= 0], int(stream.frame))
        overlaps = metric.mask_overlaps([said], [_runs(outlines)], boxes, objects)
        count = self.task.detection.num_classes
        return Tally(
            metric.tally(boxes, objects, num_classes=count, overlaps=overlaps),
            metric.tally(boxes, objects, num_classes=count),
        )


def drawn(found: np.ndarray, side: int) -> list[Mapping[str, Any]]:
    """The masks (k, 6 + 14 · 14) of detections as run lengths in a frame of `side` pixels."""
    frame = np.concatenate([found[:, :4] * side, found[:, 4:]], axis=1)
    return [run for masks in pasted(frame, side, side) for run in _runs(masks)]


def pasted(found: np.ndarray, height: int, width: int) -> Iterator[np.ndarray]:
    """The masks of detections (k, 6 + 14 · 14), whose boxes are in pixels, some (·, height, width) bool at a time."""
    for start in range(0, len(found), AT_ONCE):
        part = found[start : start + AT_ONCE]
        rows = np.concatenate([part, np.zeros((AT_ONCE - len(part), found.shape[1]), found.dtype)])
        masks = _pasted(rows[:, BOX:].reshape(-1, SIDE, SIDE), rows[:, :4], size=(height, width))
        yield np.asarray(masks)[: len(part)]


@partial(jax.jit, static_argnames="size")
def _pasted(masks: Any, boxes: Any, *, size: tuple[int, int]) -> Any:
    return jax.vmap(lambda mask, box: paste(mask, box, size))(masks, boxes)


def _runs(masks: np.ndarray) -> Sequence[Mapping[str, Any]]:
    """COCO's run lengths of (k, s, s) masks."""
    from pycocotools import mask

    if not len(masks):
        return []
    found: Sequence[Mapping[str, Any]] = mask.encode(
        np.asfortranarray(masks.transpose(1, 2, 0).astype(np.uint8))
    )
    return found


def _both(masks: Mapping[str, Any], boxes: Mapping[str, Any]) -> dict[str, Any]:
    return {**masks, **{f"box_{name}": each for name, each in boxes.items() if name not in Metric.counts}}
