"""Settings side by side in one program: which belong together, on how many devices.  Axis: s settings.

A program serves one number of settings, so groups have few sizes; a wide product is fast, but past some thousand
columns (settings times classes) what an optimiser remembers no longer fits the cache.
"""

from collections.abc import Iterator
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Int

from probes.errors import InputError

COLUMNS = 2000
H = TypeVar("H", bound=tuple)
T = TypeVar("T")


def stacked(hparams: H) -> H:
    """Every leaf as an array of s float32 values: finite and not negative; a number stands for all settings."""
    leaves = [np.asarray(leaf, np.float32) for leaf in hparams]
    lengths = {leaf.size for leaf in leaves if leaf.ndim}
    if len(lengths) > 1 or 0 in lengths or any(leaf.ndim > 1 for leaf in leaves):
        shapes = ", ".join(f"{n} {leaf.shape}" for n, leaf in zip(_names(hparams), leaves, strict=True))
        raise InputError(f"settings have the shapes {shapes}; wanted numbers, or lists of one length")
    for name, leaf in zip(_names(hparams), leaves, strict=True):
        if not (np.isfinite(leaf) & (leaf >= 0)).all():
            raise InputError(f"{name} is {leaf.tolist()}; wanted finite numbers, none below 0")
    size = max(lengths, default=1)
    return type(hparams)(*(np.broadcast_to(leaf, size) for leaf in leaves))


def _names(hparams: Any) -> tuple[str, ...]:
    names: tuple[str, ...] = hparams._fields
    return names


def split(settings: int, limit: int, devices: int = 1) -> Iterator[Int[np.ndarray, " s"]]:
    """The settings' places, group by group: on each device a power of two of them, at most `limit`.

    A group that is nearly full is filled up with the last place, once more; a rest smaller than three quarters
    of its size is split instead.
    """
    largest = 1 << (max(1, limit).bit_length() - 1)
    first = 0
    while first < settings:
        each = -(-(settings - first) // devices)
        size = 1 << (each - 1).bit_length()
        size = min(largest, size if 4 * each >= 3 * size else size // 2)
        yield np.minimum(np.arange(first, first + size * devices), settings - 1)
        first += size * devices


def repeated(tree: T, size: int) -> T:
    """`size` of each leaf, stacked: copies, so that they can be donated."""
    copies: T = jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[None], size, axis=0), tree)
    return copies


def shardings(settings: int) -> tuple[NamedSharding, NamedSharding]:
    """One device's share of the settings on each device here, and all of something on every device."""
    devices = np.array(jax.local_devices()[:settings])
    mesh = Mesh(devices, ("settings",))
    return NamedSharding(mesh, PartitionSpec("settings")), NamedSharding(mesh, PartitionSpec())
