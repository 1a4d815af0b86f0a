import numpy as np
import pytest
from scipy.stats import norm

from probes import linked


def all_pairs(scenes, images, start=0):
    return np.array(
        [
            (start + images * s + i, start + images * s + j)
            for s in range(scenes)
            for i in range(images)
            for j in range(i)
        ]
    )


def mean(scores):
    """A value of one fit, as `bootstrap` asks for it."""
    return lambda times: (times @ scores / times.sum(1))[:, None, None]


def test_scenes_are_what_pairs_link_and_count_from_the_first():
    members = np.array([(9, 8), (1, 2), (3, 2), (8, 7), (3, 1), (20, 21)])
    assert linked.scenes(members).tolist() == [0, 1, 1, 0, 1, 2]


@pytest.mark.parametrize(("scenes", "drawn"), [(9, "images"), (10, "scenes")])
def test_scenes_are_drawn_where_there_are_enough(scenes, drawn):
    assert linked.drawn(all_pairs(scenes, 3)) == drawn


def test_a_scene_is_one_draw_however_many_pairs_it_has():
    """The interval of a mean of scenes that are all of one size is that of their means."""
    rng = np.random.default_rng(0)
    members, effects = all_pairs(400, 4), rng.normal(size=400)
    scores = effects[linked.scenes(members)]
    (low,), (high,) = (each.ravel() for each in linked.bootstrap(members, mean(scores), seed=1))
    half = norm.ppf(0.975) * effects.std() / 20
    assert (high - low) / 2 == pytest.approx(half, rel=0.1)
    assert (high - low) / 2 > 2 * norm.ppf(0.975) * scores.std() / len(
        scores
    ) ** 0.5  # were pairs independent


def test_an_image_is_in_many_pairs_and_so_they_are_not_independent():
    """One scene of scores that are sums of two images' effects: the mean varies as twice that of effects."""
    rng = np.random.default_rng(0)
    members, effects = all_pairs(1, 60), rng.normal(size=60)
    scores = effects[members].sum(axis=1)
    (low,), (high,) = (each.ravel() for each in linked.bootstrap(members, mean(scores), seed=1))
    assert (high - low) / 2 == pytest.approx(norm.ppf(0.975) * 2 * effects.std() / 60**0.5, rel=0.15)


def test_where_fits_differ_and_pairs_do_not_fits_are_drawn():
    members = all_pairs(1, 20)
    per_fit = np.array([1.0, 2.0, 3.0])
    low, high = linked.bootstrap(members, lambda times: np.tile(per_fit[:, None], (len(times), 1, 1)))
    assert low[0] < 1.5
    assert high[0] > 2.5


def test_resamples_without_a_pair_are_left_out():
    members = np.array([(0, 1), (2, 3)])
    with np.errstate(invalid="ignore"):
        low, high = linked.bootstrap(members, mean(np.array([1.0, 2.0])))
    assert low == 1
    assert high == 2


def test_the_numbers_of_images_do_not_matter():
    members, scores = all_pairs(2, 6), np.random.default_rng(0).random(30)
    assert linked.bootstrap(members, mean(scores)) == linked.bootstrap(members * 7 + 3, mean(scores))
