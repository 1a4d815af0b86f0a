import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes import masks, shapes
from probes.errors import InputError

LABELS = np.array([0] * 10 + [1] * 3 + [2] * 7 + [-1] * 2)


def test_few_shot_draws_take_so_many_of_every_class():
    draws = masks.few_shot(LABELS, 4, draws=5)
    assert draws.shape == (5, 22)
    assert [np.bincount(LABELS[draw]).tolist() for draw in draws] == [[4, 3, 4]] * 5
    assert len({draw.tobytes() for draw in draws}) > 1
    assert (draws == masks.few_shot(LABELS, 4, draws=5)).all()
    assert (draws != masks.few_shot(LABELS, 4, draws=5, seed=1)).any()


def test_folds_leave_every_row_out_once_and_every_class_evenly():
    folds = masks.folds(LABELS[:20], 3)
    assert ((~folds).sum(0) == 1).all()
    held_out = [np.bincount(LABELS[:20][~fold], minlength=3) for fold in folds]
    assert np.ptp(held_out, axis=0).max() <= 1


def test_impossible_masks_are_refused():
    with pytest.raises(InputError, match="shots is 0"):
        masks.few_shot(LABELS, 0)
    with pytest.raises(InputError, match="1 folds"):
        masks.folds(LABELS, 1)


@given(st.integers(1, 10**7))
def test_buckets_hold_what_they_should_and_waste_little(size):
    found = shapes.bucket(size)
    assert size <= found <= max(size * (1 + 1 / 16), size + 15)
    assert shapes.bucket(found) == found
    assert found % 16 == 0


def test_padding_adds_rows_behind():
    assert shapes.pad(np.array([[1], [2]]), 4, 9).tolist() == [[1], [2], [9], [9]]
