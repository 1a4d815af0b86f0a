"""Numbers in few characters, and numbers that differ by rounding made one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from visbench.layout import printable
from visbench.record import is_number


def decimals(scores: Iterable[float]) -> int:
    """Places after the point that leave three figures of the largest score: 3 for 0.871, 1 for 12.3."""
    largest = max((abs(score) for score in scores if math.isfinite(score)), default=1.0) or 1.0
    return min(max(3 - math.ceil(math.log10(largest)), 0), 6)


def scale(scores: np.ndarray, better: str) -> tuple[float, float, str]:
    """The ends of a scale of colours or bars for `scores`, and the end that is cut: "min", "max" or "neither".

    Far outliers at the bad end share its colour, so that the good end is told apart.
    """
    known = scores[~np.isnan(scores)]
    if not known.size:
        return 0.0, 1.0, "neither"
    low, high, middle = float(known.min()), float(known.max()), float(np.median(known))
    floor, ceiling = high - 4 * (high - middle), low + 4 * (middle - low)
    if better == "higher" and low < floor < high:
        return floor, high, "min"
    if better == "lower" and low < ceiling < high:
        return low, ceiling, "max"
    return (low, high, "neither") if low < high else (low - 0.5, high + 0.5, "neither")


def short(value: Any, digits: int = 2) -> str:
    """`3.2e-3`, `0.05`, `1e4`, `on`, `none`; `digits` figures of a number, all of one before its point."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if not is_number(value):
        return "none" if value is None else printable(str(value))
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    power = int(exponent)
    if -2 <= power < 4:
        whole = f"{value:.{max(digits - 1 - power, 0)}f}"
        return whole.rstrip("0").rstrip(".") if "." in whole else whole
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{power}"


def plain(value: Any) -> Any:
    """A value that equals its copy in single precision; 0.001 does, whichever way it came."""
    value = value.item() if isinstance(value, np.generic) else value
    value = tuple(value) if isinstance(value, list) else value
    return float(f"{value:.6g}") if isinstance(value, float) else value


def finite(value: Any) -> float:
    """The number; NaN for none and for what is not finite."""
    return float(value) if value is not None and math.isfinite(value) else math.nan
