"""The decoder of dense prediction transformers (Ranftl, Bochkovskiy & Koltun 2021, arXiv:2103.13413)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float

from probes.errors import InputError
from probes.heads import layers
from probes.heads.layers import Cls, Maps
from probes.scaling import raised


class DPT(nn.Module):
    """Layers reassembled as a pyramid, then fused from coarse to fine, twofold finer at every step.

    Layers of one grid are given 4, 2, 1 and 1/2 times its size (three layers: 2, 1, 1/2; two: 1, 1/2), the first
    the largest; stages of a CNN keep their own grids. With `readout`, a layer's CLS token is joined to each of its
    cells and projected back. As published, except: all levels have `hidden_dim` (there more where it is coarse),
    upsampling is at half-pixel centres (there at corners), no batch norm, and the output head (3×3, ReLU, 1×1) ends
    at twice the finest level, since a bilinear step after a 1×1 convolution is the task's own upsampling.
    """

    channels: int
    hidden_dim: int = 256
    readout: bool = False
    start: str = "small"

    @nn.compact
    def __call__(self, maps: Maps, cls: Cls = None) -> Float[Array, "b h w c"]:
        """A map on twice the finest level's grid: eight times that of four layers of a ViT."""
        self._check(maps, cls)
        order = layers.fine_to_coarse(maps)
        even = len({layer.shape[1:3] for layer in maps}) == 1
        pyramid = []
        for step, place in enumerate(order):
            cells = raised(maps[place])
            if cls is not None:
                cells = _Readout(self.start, name=f"readout_{place}")(cells, raised(cls[place]))
            power = len(maps) - 2 - step if even else 0
            pyramid.append(_Reassemble(self.hidden_dim, power, self.start, name=f"reassemble_{place}")(cells))
        path: Any = None
        for step in reversed(range(len(pyramid))):
            size = pyramid[step - 1].shape[1:3] if step else [2 * side for side in pyramid[0].shape[1:3]]
            fuse = _Fuse(self.hidden_dim, self.start, name=f"fuse_{order[step]}")
            path = layers.resized(fuse(pyramid[step], path), size)
        drawn = nn.relu(layers.Conv3(max(1, self.hidden_dim // 2), self.start, name="head")(path))
        return layers.pointwise(self.channels, drawn, self.start, "out", last=True)(drawn)

    def _check(self, maps: Maps, cls: Cls) -> None:
        if not 2 <= len(maps) <= 4:
            raise InputError(f"dpt reads 2 to 4 layers and got {len(maps)}: name as many, or use fpn")
        if self.readout and (cls is None or len(cls) != len(maps)):
            raise InputError(
                "dpt with readout needs the CLS token of every layer: pass them, or leave readout out"
            )
        if cls is not None and not self.readout:
            raise InputError("dpt reads CLS tokens with readout=True only: ask for it, or leave them out")


class _Readout(nn.Module):
    """Each cell joined to the image's CLS token, projected to the layer's own width, GELU."""

    start: str

    @nn.compact
    def __call__(self, cells: Float[Array, "b h w d"], token: Float[Array, "b d"]) -> Float[Array, "b h w d"]:
        every = jnp.broadcast_to(token[:, None, None], cells.shape)
        both = jnp.concatenate([cells, every], -1)
        project = layers.pointwise(cells.shape[-1], both, self.start, "project")
        return nn.gelu(project(both), approximate=False)


class _Reassemble(nn.Module):
    """1×1 to `width`, the grid times 2**power by a convolution of its own, then 3×3 without a bias."""

    width: int
    power: int
    start: str

    @nn.compact
    def __call__(self, cells: Float[Array, "b h w d"]) -> Float[Array, "b H W c"]:
        cells = layers.pointwise(self.width, cells, self.start, "project")(cells)
        if self.power > 0:
            cells = _Spread(2**self.power, self.start, name="resize")(cells)
        elif self.power < 0:
            cells = layers.Conv3(self.width, self.start, stride=2, name="resize")(cells)
        return layers.Conv3(self.width, self.start, bias=False, name="smooth")(cells)


class _Spread(nn.Module):
    """A transposed convolution whose kernel is as large as its stride: every cell becomes a block."""

    factor: int
    start: str

    @nn.compact
    def __call__(self, cells: Float[Array, "b h w c"]) -> Float[Array, "b H W c"]:
        b, h, w, c = cells.shape
        side = self.factor
        begin = layers.starts(self.start, c)
        kernel = self.param("kernel", begin["kernel_init"], (c, side * side * c))
        bias = self.param("bias", begin["bias_init"], (c,))
        blocks = (cells @ kernel).reshape(b, h, w, side, side, c)
        found: Array = blocks.transpose(0, 1, 3, 2, 4, 5).reshape(b, h * side, w * side, c) + bias
        return found


class _Residual(nn.Module):
    """ReLU and 3×3, twice, added to what came (the unit of RefineNet: Lin et al. 2017, arXiv:1611.06612)."""

    start: str

    @nn.compact
    def __call__(self, cells: Float[Array, "b h w c"]) -> Float[Array, "b h w c"]:
        found = cells
        for step in (0, 1):
            found = nn.relu(found)
            found = layers.Conv3(cells.shape[-1], self.start, name=f"conv_{step}")(found)
        return cells + found


class _Fuse(nn.Module):
    """A level refined and added to what comes from below, refined again, 1×1.

    The published block has the 1×1 convolution behind the upsampling: the two commute, and here it sees fewer cells.
    """

    width: int
    start: str

    @nn.compact
    def __call__(
        self, level: Float[Array, "b h w c"], below: Float[Array, "b h w c"] | None
    ) -> Float[Array, "b h w c"]:
        path = level if below is None else below + _Residual(self.start, name="skip")(level)
        path = _Residual(self.start, name="refine")(path)
        return layers.pointwise(self.width, path, self.start, "out")(path)
