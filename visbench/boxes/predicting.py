"""What a trained detector says: of features of whatever number, and of pictures, in their own pixels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from extract.datasets import ImageSet
from extract.framed_boxes import back
from extract.images import header
from probes.boxes.masks import SIDE
from visbench.boxes.judging import pasted
from visbench.dense.predicting import DensePredictor, Sight
from visbench.errors import UsageError
from visbench.frames import frame_side

WITH_MASK = 6 + SIDE * SIDE  # numbers of a detection


class BoxPredictor(DensePredictor):
    """A trained detector: `predict` takes features as they are stored, `predict_images` pictures.

    What `predict` says of n images is (n, K, 6): x0, y0, x1, y1 in shares of the square frame that the backbone sees,
    score and class, best first; where there is nothing, the class is −1.  Of pictures it gives a list of (k, 6), in
    upright pixels of each ("image", the default of `predict_images`) or of the frame ("frame").
    """

    where, alike = "image", False

    def _each(self, images: ImageSet, at: str, fill: float, sight: Sight) -> Iterator[np.ndarray]:
        side = frame_side(sight.source)
        for position, said in enumerate(self._said(images, sight)):
            found = said[said[:, 5] >= 0]
            found[:, :4] *= side
            if at == "image":
                shown = header(
                    images.sources[position], name=images.names[position], max_pixels=sight.max_pixels
                )
                found[:, :4] = back(found[:, :4], (shown.height, shown.width), side)
            yield found


class InstancePredictor(BoxPredictor):
    """A trained detector with a mask branch: what it says of a detection is followed by 14 · 14 values of its mask.

    `predict` gives (n, K, 6 + 196), of pictures there are lists of (k, 6 + 196), and `masks` draws those.
    """

    def masks(self, found: np.ndarray, height: int, width: int) -> np.ndarray:
        """(k, height, width) bool for the detections (k, 6 + 196) of a picture of that size, boxes in its pixels."""
        shape = getattr(found, "shape", None)
        if shape is None or len(shape) != 2 or shape[1] != WITH_MASK:
            came = f"shape {shape}" if shape is not None else f"type {type(found).__name__}"
            raise UsageError(f"detections of {came} came; one picture's are (k, {WITH_MASK})")
        parts = list(pasted(found, height, width))
        return np.concatenate(parts) if parts else np.zeros((0, height, width), bool)
