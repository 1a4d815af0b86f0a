import ml_dtypes
import numpy as np
import pytest

from probes import checks
from probes.errors import InputError

ROWS = np.ones((5000, 2), np.float32)


def test_good_input_comes_back_as_numpy():
    assert checks.check_features([[1, 2], [3, 4]]).shape == (2, 2)
    assert checks.check_features(ROWS.astype(ml_dtypes.bfloat16)).shape == (5000, 2)
    assert checks.check_labels([0, 1, 2], 3).tolist() == [0, 1, 2]
    assert checks.check_mask(None, 3).all()
    assert checks.check_positive([1, 2.5], "l2s").tolist() == [1.0, 2.5]
    assert checks.check_k(3, 3) == 3


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: checks.check_features(ROWS[0]), r"features have shape \(2,\)"),
        (lambda: checks.check_features(ROWS[:0]), r"shape \(0, 2\)"),
        (lambda: checks.check_features(ROWS > 0), "type bool"),
        (
            lambda: checks.check_features(np.where(np.arange(5000)[:, None] == 4321, np.inf, ROWS)),
            "in row 4321",
        ),
        (lambda: checks.check_labels([0, 7], 3), "labels go up to 7 but num_classes is 3"),
        (lambda: checks.check_labels([0, -1], 3), "go down to -1"),
        (lambda: checks.check_labels([0.0, 1.0], 3), "float64"),
        (lambda: checks.check_trainable([2, 2], 3), "all 2 labels are class 2"),
        (lambda: checks.check_together(ROWS, ROWS[1:]), "5000 and 4999 rows"),
        (lambda: checks.check_k(0, 3), "k is 0"),
        (lambda: checks.check_mask(np.zeros(3, bool), 3), "leaves no row"),
        (lambda: checks.check_mask(np.ones(3), 3), "type float64"),
        (lambda: checks.check_positive([1, np.nan], "l2s"), "l2s are"),
        (lambda: checks.check_positive([], "l2s"), "l2s are"),
    ],
)
def test_bad_input_is_named(call, said):
    with pytest.raises(InputError, match=said):
        call()
