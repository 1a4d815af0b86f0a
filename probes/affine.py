"""What every probe with a weight and a bias does once it is fitted.  Axes: n samples, d feature dims, c classes."""

from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num

from probes.scaling import raised

TOP = 5


@runtime_checkable
class Affine(Protocol):
    """A fit of such a probe."""

    @property
    def weight(self) -> Float[Array, "d c"]:
        """What each dim adds to each class."""

    @property
    def bias(self) -> Float[Array, " c"]:
        """What each class has to begin with."""


@jax.jit
def predict(fit: Affine, features: Num[Array, "n d"]) -> Float[Array, "n c"]:
    """Logits, or the outputs of a regression."""
    return raised(features) @ fit.weight + fit.bias


@jax.jit
def score(
    logits: Float[Array, "n c"], labels: Int[Array, " n"], mask: Bool[Array, " n"] | None = None
) -> dict[str, Float[Array, ""]]:
    """`top1` and the mean cross-entropy `loss`; `top5` only where there are more than 5 classes."""
    place = rank(logits, labels)
    scores = {
        "top1": (place < 1).mean(where=mask),
        "loss": cross_entropy(logits, labels).mean(where=mask),
    }
    if logits.shape[1] > TOP:
        scores["top5"] = (place < TOP).mean(where=mask)
    return scores


def rank(logits: Float[Array, "n c"], labels: Int[Array, " n"]) -> Int[Array, " n"]:
    """How many classes come before the true one; of equal logits the lower class comes first, as in argmax.

    Where the true logit is NaN, as after a fit that diverged, it comes behind all.
    """
    true = jnp.take_along_axis(logits, labels[:, None], 1, mode="clip")
    later = jnp.arange(logits.shape[1]) >= labels[:, None]
    return logits.shape[1] - ((logits < true) | ((logits == true) & later)).sum(1)


def cross_entropy(logits: Float[Array, "n c"], labels: Int[Array, " n"]) -> Float[Array, " n"]:
    """Minus the log of the probability given to the true class, in nats."""
    true = jnp.take_along_axis(logits, labels[:, None], 1, mode="clip")[:, 0]
    return jax.nn.logsumexp(logits, axis=1) - true
