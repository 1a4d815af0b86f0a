import numpy as np
import pytest

from extract.errors import InputError
from extract.ids import as_bytes, keys


def test_ids_compare_whole():
    ids = np.zeros((3, 16), np.uint8)
    ids[1, 15], ids[2, 0] = 1, 1  # zeros at either end count
    assert len(np.unique(keys(ids))) == 3
    assert keys(ids).argsort().tolist() == sorted(range(3), key=lambda row: ids[row].tobytes())
    assert as_bytes(ids) == as_bytes(ids[:, ::-1].copy()[:, ::-1]) == [row.tobytes() for row in ids]


@pytest.mark.parametrize("shape", [(16,), (2, 8)])
def test_what_is_no_id_is_refused(shape):
    with pytest.raises(InputError, match="16"):
        keys(np.zeros(shape, np.uint8))
