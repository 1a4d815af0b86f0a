import jax.numpy as jnp
import numpy as np
import pytest

from probes.metrics import ordinal


def tally(prediction, target, **options):
    return ordinal.tally(jnp.asarray(prediction), jnp.asarray(target), **options)


def scene(seed, n=3, size=(10, 12)):
    rng = np.random.default_rng(seed)
    depth = rng.uniform(1, 5, (n, *size)).astype(np.float32)
    return np.where(rng.random(depth.shape) < 0.3, 0, depth).astype(np.float32)


def test_pairs_are_counted_as_written():
    truth = scene(0)
    said = np.round(truth + np.random.default_rng(1).standard_normal(truth.shape)).astype(np.float32)
    found = tally(said, truth, pairs=400, ratio=1.1, seed=3)
    drawn = ordinal.places((10, 12), 400, 3)
    for row in range(3):
        right = ties = count = 0
        for a, b in drawn.T:
            t, p = truth[row].ravel()[[a, b]], said[row].ravel()[[a, b]]
            if t.min() <= 0 or t.max() <= np.float32(1.1) * t.min():
                continue
            count += 1
            ties += p[0] == p[1]
            right += 0.5 if p[0] == p[1] else (p[0] < p[1]) == (t[0] < t[1])
        assert (found.right[row], found.ties[row], found.pairs[row]) == (right, ties, count)


def test_any_rising_map_of_the_truth_is_right_and_a_falling_one_wrong():
    truth = scene(1)
    for said, expected in ((np.log1p(truth) - 7, 1), (-truth, 0), (np.ones_like(truth), 0.5)):
        assert (ordinal.value(tally(said, truth))["ordinal_accuracy"] == expected).all()
    assert (ordinal.value(tally(np.ones_like(truth), truth))["tie_rate"] == 1).all()


def test_pairs_do_not_depend_on_the_other_images_or_the_unit():
    truth = scene(2)
    said = np.random.default_rng(0).standard_normal(truth.shape).astype(np.float32)
    together = ordinal.value(tally(said, 1024 * truth))["ordinal_accuracy"]
    for row in range(3):
        alone = ordinal.value(tally(said[row : row + 1], truth[row : row + 1]))["ordinal_accuracy"]
        assert alone == together[row]


def test_a_map_without_pairs_has_no_value():
    truth = np.zeros((3, 4, 4), np.float32)
    truth[1, 2, 2], truth[2] = 1, 3
    assert np.isnan(ordinal.value(tally(truth, truth))["ordinal_accuracy"]).all()


def test_the_vertical_map_orders_a_floor():
    floor = np.repeat(np.linspace(9, 1, 16, dtype=np.float32)[:, None], 16, 1)[None]
    assert ordinal.value(tally(ordinal.vertical((16, 16))[None], floor))["ordinal_accuracy"] == pytest.approx(
        1
    )
    assert not ordinal.places((16, 16), 10, 0).flags.writeable
