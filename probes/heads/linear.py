"""A linear read-out of every cell (linear probes: Alain & Bengio 2016, arXiv:1610.01644)."""

from __future__ import annotations

from flax import linen as nn
from jaxtyping import Array, Float

from probes.heads import layers
from probes.heads.layers import Cls, Maps


class Linear(nn.Module):
    """A 1×1 convolution, the headline: a difference between two backbones is then one between feature maps.

    Under a convex loss only its start and the order of the batches tell two seeds apart, and "zeros" leaves the
    order alone; "small" is nearly as still and does not get stuck where depth takes a ReLU of the output.
    """

    channels: int
    start: str = "small"

    @nn.compact
    def __call__(self, maps: Maps, cls: Cls = None) -> Float[Array, "b h w c"]:
        """A map on the layer's own grid."""
        cells = layers.alone(maps, cls, "linear")
        return layers.pointwise(self.channels, cells, self.start, "out", last=True)(cells)
