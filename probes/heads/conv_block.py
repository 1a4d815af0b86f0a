"""A read-out that looks at neighbouring cells."""

from __future__ import annotations

from flax import linen as nn
from jaxtyping import Array, Float

from probes.heads import layers
from probes.heads.layers import Cls, Maps


class ConvBlock(nn.Module):
    """3×3 convolution, norm and ReLU, twice, then 1×1: every cell sees the 5×5 around it.

    The norm takes no statistics of a batch (group: Wu & He 2018, arXiv:1803.08494; layer: Ba et al. 2016,
    arXiv:1607.06450), so that the map of an image does not depend on its company.
    """

    channels: int
    hidden_dim: int = 256
    norm: str = "group"
    start: str = "small"

    @nn.compact
    def __call__(self, maps: Maps, cls: Cls = None) -> Float[Array, "b h w c"]:
        """A map on the layer's own grid."""
        cells = layers.alone(maps, cls, "conv_block")
        for step in (0, 1):
            cells = layers.Conv3(self.hidden_dim, self.start, bias=False, name=f"conv_{step}")(cells)
            cells = nn.relu(layers.normed(cells, self.norm, f"norm_{step}"))
        return layers.pointwise(self.channels, cells, self.start, "out", last=True)(cells)
