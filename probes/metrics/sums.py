"""From sums to values on the host, in 64 bit; leading axes are kept, so that a bootstrap is one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def ratio(part: Any, whole: Any, otherwise: float = np.nan) -> np.ndarray:
    """`part` by `whole`; `otherwise` where the whole is nothing."""
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    shape = np.broadcast_shapes(part.shape, whole.shape)
    return np.asarray(np.divide(part, whole, out=np.full(shape, otherwise), where=whole > 0))


def pooled(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Values of all pixels together, under names that tell them from means over images."""
    return {f"{name}_pooled": value for name, value in values.items()}
