"""Arrays of a pickle: equal to what was saved, mapped where large, and nothing else let through."""

import os
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from extract.datasets.pickled import load_arrays
from extract.errors import InputError


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_as_probe3d_packs_them(tmp_path, protocol):
    """Channels moved to the front, so that the arrays are neither in C nor in Fortran order."""
    random = np.random.default_rng(protocol)
    depths = np.asfortranarray(random.random((48, 64, 9)).astype(np.float32)).transpose(2, 0, 1)
    images = np.asfortranarray(random.integers(0, 256, (48, 64, 3, 9), np.uint8)).transpose(3, 2, 0, 1)
    saved = {
        "depths": depths, "images": images, "fortran": np.asfortranarray(random.random((90, 100))),
        "plain": random.random((90, 100)), "test_indices": np.array([1, 4]), "scene_types": [["kitchen"], ["study"]],
        "objects": np.array(["a", "b"], object), "one": np.float64(3),
    }  # fmt: skip
    path = tmp_path / "all.pkl"
    path.write_bytes(pickle.dumps(saved, protocol=protocol))
    found = load_arrays(path)
    assert found.keys() == saved.keys()
    for key, value in saved.items():
        assert np.array_equal(found[key], value), key
    mapped = {key for key, value in found.items() if isinstance(_root(value), np.memmap)}
    assert mapped == (set() if protocol == 2 else {"depths", "images", "fortran", "plain"})


def _root(value):
    while isinstance(getattr(value, "base", None), np.ndarray):
        value = value.base
    return value


@settings(max_examples=30, deadline=None)
@given(
    arrays.arrays(arrays.scalar_dtypes(), arrays.array_shapes(min_dims=0, max_dims=3, min_side=0)),
    st.integers(2, 5),
    st.booleans(),
)
def test_any_array_of_numbers(tmp_path_factory, array, protocol, fortran):
    path = tmp_path_factory.mktemp("any") / "a.pkl"
    array = np.asfortranarray(array) if fortran else array
    path.write_bytes(pickle.dumps({"a": array, "again": array}, protocol=protocol))
    found = load_arrays(path)
    for key in ("a", "again"):
        assert found[key].dtype == array.dtype
        assert found[key].tobytes() == array.tobytes()
        assert found[key].shape == array.shape


class Runs:
    def __reduce__(self):
        return os.mkdir, ("pwned",)


def test_what_could_run_is_refused_before_it_is_imported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "bad.pkl"
    for value in ({"a": Runs()}, {"a": [np.zeros(3), Runs()]}, np.array([Runs()], object), {"a": print}):
        path.write_bytes(pickle.dumps(value))
        with pytest.raises(InputError, match="could run anything"):
            load_arrays(path)
    assert not (tmp_path / "pwned").exists()


def test_what_is_no_such_pickle(tmp_path):
    path = tmp_path / "bad.pkl"
    whole = pickle.dumps({"a": np.zeros((300, 300))})
    for content, said in (
        (whole[:100_000], "ends .* bytes early"),
        (whole[:-1], "no pickle"),
        (b"", "no pickle"),
        (b"hello", "no pickle"),
        (pickle.dumps([1, 2]), "holds a list"),
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=said):
            load_arrays(path)
    with pytest.raises(InputError, match=r"none\.pkl"):
        load_arrays(tmp_path / "none.pkl")
