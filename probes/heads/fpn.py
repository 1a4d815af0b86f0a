"""A feature pyramid (Lin et al. 2017, arXiv:1612.03144), read as by Kirillov et al. 2019 (arXiv:1901.02446)."""

from __future__ import annotations

from flax import linen as nn
from jaxtyping import Array, Float

from probes.heads import layers
from probes.heads.layers import Cls, Maps


class FPN(nn.Module):
    """Every layer to one width (1×1), sums from coarse to fine, 3×3 with norm and ReLU, all levels summed, 1×1.

    Layers may lie on one grid, as a ViT's do, or on several, as the stages of a CNN; of one grid the later layer
    counts as the coarser. The published pyramid has no norm; the published reading of it has group norm, as here,
    and upsamples a level twofold at a time with a convolution each, where here one bilinear step does.
    """

    channels: int
    hidden_dim: int = 256
    norm: str = "group"
    start: str = "small"

    @nn.compact
    def __call__(self, maps: Maps, cls: Cls = None) -> Float[Array, "b h w c"]:
        """A map on the finest grid."""
        maps = layers.several(maps, cls, "fpn")
        order = layers.fine_to_coarse(maps)
        finest = maps[order[0]].shape[1:3]
        above = total = None
        for place in reversed(order):
            lateral = layers.pointwise(self.hidden_dim, maps[place], self.start, f"lateral_{place}")
            level = lateral(maps[place])
            if above is not None:
                level = level + layers.resized(above, level.shape[1:3])
            above = level
            smooth = layers.Conv3(self.hidden_dim, self.start, bias=False, name=f"smooth_{place}")(level)
            smooth = nn.relu(layers.normed(smooth, self.norm, f"norm_{place}"))
            smooth = layers.resized(smooth, finest)
            total = smooth if total is None else total + smooth
        return layers.pointwise(self.channels, total, self.start, "out", last=True)(total)
