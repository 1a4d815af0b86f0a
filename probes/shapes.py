"""Few shapes for many sizes: a compiled program serves one shape, so sizes are rounded up and padded."""

from typing import Any

import numpy as np
from jaxtyping import Shaped

STEPS_AN_OCTAVE = 16
SMALLEST = 16


def bucket(size: int) -> int:
    """`size` rounded up to one of 16 sizes between each power of two and the next: at most 1/16 is wasted."""
    step = max(SMALLEST, (1 << (max(size - 1, 1).bit_length() - 1)) // STEPS_AN_OCTAVE)
    return -(-size // step) * step


def pad(rows: Shaped[np.ndarray, "n *rest"], size: int, value: Any = 0) -> Shaped[np.ndarray, "size *rest"]:
    """`rows` with as many rows of `value` behind them as make it `size` long."""
    if len(rows) == size:
        return rows
    padded = np.full((size, *rows.shape[1:]), value, rows.dtype)
    padded[: len(rows)] = rows
    return padded
