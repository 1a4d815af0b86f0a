import jax
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from probes import scaling


def test_mean_and_scale_are_those_of_the_rows_in_the_mask():
    rows = np.random.default_rng(0).normal(3, 2, (50, 4)).astype(np.float32)
    mask = np.arange(50) < 40
    spoilt = rows.copy()
    spoilt[~mask] = np.nan
    found = scaling.fit(spoilt, mask=mask)
    np.testing.assert_allclose(found.mean, rows[:40].mean(0), rtol=1e-5)
    np.testing.assert_allclose(found.scale, rows[:40].std(0), rtol=1e-5)
    older = scaling.fit(spoilt, mask=mask, ddof=1, floor=1e-6)
    np.testing.assert_allclose(older.scale, rows[:40].std(0, ddof=1), rtol=1e-5)


def test_other_rows_do_not_move_the_statistics():
    rows = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    train, val = scaling.standardise(rows, rows + 100)
    np.testing.assert_allclose(train.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(val - train, 100 / rows.std(0) * np.ones((50, 1)), rtol=1e-4)


def test_a_constant_column_becomes_zeros():
    rows = np.random.default_rng(0).normal(size=(1000, 3)).astype(np.float32)
    rows[:, 1] = 1234.567
    found = scaling.fit(rows)
    assert found.scale[1] == 1
    np.testing.assert_allclose(scaling.apply(found, rows)[:, 1], 0, atol=1e-3)


def test_a_large_offset_costs_no_digits():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(100_000, 2)).astype(np.float32)
    found = scaling.fit(noise + np.float32(4096))
    exact = np.float64(noise + np.float32(4096))
    np.testing.assert_allclose(found.mean, exact.mean(0), rtol=1e-7)
    np.testing.assert_allclose(found.scale, exact.std(0), rtol=1e-4)


def test_float64_stays_float64():
    with jax.enable_x64(True):
        rows = np.random.default_rng(0).normal(size=(20, 2)) + 1e9
        found = scaling.fit(rows)
        np.testing.assert_allclose(found.scale, rows.std(0), rtol=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.floats(1e-3, 1e3), st.floats(-100, 100))
def test_unit_and_offset_do_not_matter(unit, offset):
    rows = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    moved = (unit * (rows + offset)).astype(np.float32)
    np.testing.assert_allclose(scaling.standardise(moved)[0], scaling.standardise(rows)[0], atol=1e-3)
