"""What the heads are made of.  Axes: b images, h w grid, d feature dims, c channels.

Convolutions pad with zeros and keep the grid; channels come last. How layers start is told in `table.STARTS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float

from probes import resizing
from probes.errors import InputError
from probes.heads.table import NORMS, STARTS
from probes.scaling import raised

EPSILON = 1e-5  # of every norm
GROUPS, IN_A_GROUP = 32, 8  # Wu & He 2018: the number of groups hardly matters; a single channel a group does
SMALL = 0.1

Maps = tuple[Float[Array, "b _h _w _d"], ...]
Cls = tuple[Float[Array, "b _d"], ...] | None


def alone(maps: Maps, cls: Cls, head: str) -> Float[Array, "b h w d"]:
    """The one layer of a head that reads no more, in float32."""
    if len(maps) != 1:
        raise InputError(f"{head} reads one layer and got {len(maps)}: choose one, or use fpn or dpt")
    return several(maps, cls, head)[0]


def several(maps: Maps, cls: Cls, head: str) -> Maps:
    """All layers in float32, for a head that reads no CLS tokens."""
    if cls is not None:
        raise InputError(f"{head} reads no CLS tokens: leave them out, or use dpt with readout=True")
    return tuple(raised(layer) for layer in maps)


def fine_to_coarse(maps: Maps) -> list[int]:
    """Places of the layers from the largest grid to the smallest; of equal grids the earlier layer comes first."""
    return sorted(range(len(maps)), key=lambda place: -maps[place].shape[1] * maps[place].shape[2])


def resized(maps: Float[Array, "b h w c"], size: Sequence[int]) -> Float[Array, "b H W c"]:
    """Bilinear at half-pixel centres, edges replicated: `resizing.upsample` with channels last."""
    high, wide = size
    if maps.shape[1:3] == (high, wide):
        return maps
    return jnp.moveaxis(resizing.upsample(maps, (high, wide)), 1, -1)


def pointwise(width: int, into: Any, start: str, name: str, *, last: bool = False) -> nn.Dense:
    """A 1×1 convolution of maps like `into`."""
    return nn.Dense(width, name=name, **starts(start, into.shape[-1], last))


class Conv3(nn.Module):
    """A 3×3 convolution as one product over the nine cells that each cell sees.

    XLA's own convolution has no fast path on a CPU inside a loop or beside others under vmap, which is where heads
    are trained: there it took 15 to 60 times as long as this. It costs a ninefold copy.
    """

    width: int
    start: str
    stride: int = 1
    bias: bool = True

    @nn.compact
    def __call__(self, cells: Float[Array, "b h w d"]) -> Float[Array, "b H W c"]:
        """A map on the same grid, or with a stride of 2 on half of it, rounded up."""
        d = cells.shape[-1]
        begin = starts(self.start, 9 * d)
        kernel = self.param("kernel", begin["kernel_init"], (3, 3, d, self.width))
        found: Array = _convolved(cells, kernel, self.stride)
        if self.bias:
            found = found + self.param("bias", begin["bias_init"], (self.width,))
        return found


def _convolved(
    cells: Float[Array, "b h w d"], kernel: Float[Array, "3 3 d c"], stride: int
) -> Float[Array, "b H W c"]:
    h, w = cells.shape[1:3]
    wider = jnp.pad(cells, ((0, 0), (1, 1), (1, 1), (0, 0)))
    around = [wider[:, i : i + h : stride, j : j + w : stride] for i in range(3) for j in range(3)]
    return jnp.concatenate(around, -1) @ kernel.reshape(-1, kernel.shape[-1])


def normed(maps: Float[Array, "b h w c"], kind: str, name: str) -> Float[Array, "b h w c"]:
    """Maps normalised an image at a time, then scaled and shifted by a channel."""
    if kind not in NORMS:
        raise InputError(f"there is no norm {kind!r}; use {' or '.join(NORMS)}")
    options: dict[str, Any] = {"epsilon": EPSILON, "use_fast_variance": False, "name": name}
    norm = nn.LayerNorm(**options) if kind == "layer" else nn.GroupNorm(groups(maps.shape[-1]), **options)
    found: Array = norm(maps)
    return found


def groups(channels: int) -> int:
    """As many as there may be of equal size."""
    fitting = (n for n in range(1, GROUPS + 1) if channels % n == 0 and channels >= n * IN_A_GROUP)
    return max(fitting, default=1)


def starts(start: str, fan_in: int, last: bool = False) -> dict[str, Any]:
    """Initialisers of kernel and bias."""
    if start not in STARTS:
        raise InputError(f"there is no start {start!r}; use {' or '.join(STARTS)}")
    if start == "torch":
        bound = fan_in**-0.5

        def uniform(key: Array, shape: Sequence[int], dtype: Any = jnp.float32) -> Array:
            return jax.random.uniform(key, shape, dtype, -bound, bound)

        return {"kernel_init": uniform, "bias_init": uniform}
    share = {"small": SMALL, "zeros": 0.0, "lecun": 1.0}[start] if last else 1.0
    normal = nn.initializers.variance_scaling(share**2, "fan_in", "truncated_normal")
    return {
        "kernel_init": normal if share else nn.initializers.zeros,
        "bias_init": nn.initializers.zeros,
    }
