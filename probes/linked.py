"""Intervals of scores of pairs that share images.  Axes: p pairs, r fits, m values, B resamples.

Pairs with an image in common are not independent, nor are images of one scene.  So what is drawn with replacement are
scenes, all that pairs link together: a pair counts as often as its scene was drawn.  Where there are too few scenes
for that, images are drawn instead, and a pair counts the product of how often its two images were (Owen, Annals of
Applied Statistics 2007, for pairs of one kind); scenes are then taken as given.  Several fits are drawn as well.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from probes.resampling import interval, resampled

SCENES = 10  # with fewer, a resample of them is no picture of others that might have been


def scenes(members: Int[np.ndarray, "p 2"]) -> Int[np.ndarray, " p"]:
    """The scene of each pair, numbered as they come: pairs that share an image, directly or by others, have one."""
    from scipy.sparse import coo_array  # slow to import
    from scipy.sparse.csgraph import connected_components

    images, places = np.unique(members, return_inverse=True)
    first, second = places.reshape(members.shape).T
    links = coo_array((np.ones(len(first)), (first, second)), shape=(len(images), len(images)))
    of_image = connected_components(links, directed=False)[1]
    _, starts, numbers = np.unique(of_image[first], return_index=True, return_inverse=True)
    return np.argsort(np.argsort(starts))[numbers].astype(np.int64)


def drawn(members: Int[np.ndarray, "p 2"]) -> str:
    """What a resample draws: "scenes" or "images"."""
    return "scenes" if len(np.unique(scenes(members))) >= SCENES else "images"


def bootstrap(
    members: Int[np.ndarray, "p 2"],
    value: Callable[[np.ndarray], np.ndarray],
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Both ends of the percentile interval of m values of r fits, averaged over the fits that were drawn.

    `value` turns (B, p), how often each pair counts, into (B, r, m).  Resamples in which a value is NaN, as where no
    pair counts, are left out of it.
    """
    if drawn(members) == "scenes":
        numbers = scenes(members)
        places = np.stack([numbers], axis=1)
    else:
        numbers = np.unique(members, return_inverse=True)[1].reshape(members.shape)
        places = numbers
    units, found = np.ones(int(numbers.max()) + 1, np.int64), []
    fits = np.random.default_rng([seed, len(members)])
    for times in resampled(units, resamples, seed, room=4 * len(members)):
        values = value(times[:, places].astype(np.float64).prod(axis=-1))
        r = values.shape[1]
        own = fits.multinomial(r, np.full(r, 1 / r), len(times))
        found.append((values * own[..., None]).sum(axis=1) / r)
    low, high = interval(np.concatenate(found), level)
    return np.asarray(low), np.asarray(high)
