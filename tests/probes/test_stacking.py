import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes import linear, stacking
from probes.errors import InputError


@given(st.integers(1, 700), st.integers(0, 70), st.integers(1, 8))
def test_groups_hold_every_setting_once_in_few_sizes(settings, limit, devices):
    groups = list(stacking.split(settings, limit, devices))
    np.testing.assert_array_equal(np.concatenate([np.unique(places) for places in groups]), range(settings))
    for places in groups:
        each, rest = divmod(len(places), devices)
        assert rest == 0
        assert each & (each - 1) == 0
        assert each <= max(limit, 1)
    filled = sum(map(len, groups)) - settings
    assert filled <= settings / 3 + 2 * devices


@pytest.mark.parametrize(
    ("settings", "sizes"),
    [(1, [1]), (3, [4]), (5, [4, 1]), (60, [64]), (65, [64, 1]), (300, [128, 128, 32, 16])],
)
def test_sizes(settings, sizes):
    assert [len(places) for places in stacking.split(settings, 200)] == sizes


def test_numbers_stand_for_all_settings():
    stacked = stacking.stacked(linear.Hparams([1e-3, 1e-2], 0))
    np.testing.assert_array_equal(stacked.weight_decay, [0, 0])
    assert [leaf.shape for leaf in stacking.stacked(linear.Hparams())] == [(1,), (1,)]


@pytest.mark.parametrize(
    ("hparams", "message"),
    [
        (linear.Hparams([1.0, 2.0], [1.0, 2.0, 3.0]), "learning_rate \\(2,\\), weight_decay \\(3,\\)"),
        (linear.Hparams([[1.0]], 0), "one length"),
        (linear.Hparams([], 0), "one length"),
        (linear.Hparams([1.0, -1.0], 0), "learning_rate is"),
        (linear.Hparams(1.0, np.nan), "weight_decay is"),
    ],
)
def test_other_settings_are_refused(hparams, message):
    with pytest.raises(InputError, match=message):
        stacking.stacked(hparams)
