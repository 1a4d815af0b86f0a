"""How much of a picture is worked on at a time, so that what passes between two operations stays in cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array

CPU_BYTES = 1 << 20  # of intermediate values: about a core's own cache
DEVICE_BYTES = 1 << 28


def block_bytes() -> int:
    """What an intermediate result may take on the device in use."""
    return CPU_BYTES if jax.default_backend() == "cpu" else DEVICE_BYTES


def each_image(one: Callable[..., Any], *images: Array) -> Any:
    """`one` of each image after the other; on a CPU, where it is mapped over settings, of each setting too.

    Side by side they would leave the cache.
    """
    if jax.default_backend() == "cpu":
        one = jax.custom_batching.sequential_vmap(one)
    return jax.lax.map(lambda image: one(*image), images)


def strip(rows: int, bytes_a_row: int) -> int:
    """How many of `rows` to take at a time: a divisor of them, of about the size of a block."""
    wanted = max(1, block_bytes() // max(bytes_a_row, 1))
    divisors = [count for count in range(1, rows + 1) if rows % count == 0]
    small = max(count for count in divisors if count <= wanted)
    large = min((count for count in divisors if count >= wanted), default=rows)
    return small if 2 * small >= wanted or large > 4 * wanted else large
