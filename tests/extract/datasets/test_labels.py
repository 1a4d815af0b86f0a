"""Labels keep their names, whatever the split and the way they are written."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extract.datasets.labels import class_order, encode, encode_indices, encode_many
from extract.errors import InputError


def test_integers_sort_by_value_and_text_by_code_point():
    assert class_order(["2", "10", "1", "2"]) == ("1", "2", "10")
    assert class_order(["2", "10", "x"]) == ("10", "2", "x")
    assert class_order(["b", "B", "a", "é"]) == ("B", "a", "b", "é")
    assert class_order(["01", "1", "-3"]) == ("-3", "01", "1")


def test_0_5_9_are_three_classes():
    labels, classes = encode([9, 0, 5, 0])
    assert labels.tolist() == [2, 0, 1, 0]
    assert labels.dtype == np.int64
    assert classes == ("0", "5", "9")
    for values in (["9", "0", "5", "0"], np.array([9, 0, 5, 0], np.uint8), [9.0, 0.0, 5.0, 0.0]):
        assert encode(values)[0].tolist() == [2, 0, 1, 0]


def test_missing_labels():
    assert encode([1, -1, 0])[0].tolist() == [1, -1, 0]
    assert encode(["1", "-1", "0"])[1] == ("0", "1")
    assert encode(["cat", None, "", " dog "])[0].tolist() == [0, -1, -1, 1]
    assert encode([1.0, float("nan")])[0].tolist() == [0, -1]
    assert encode(["cat", "-1"])[1] == ("-1", "cat")  # a name among names
    assert encode([None, None])[1] == ()


def test_labels_that_are_no_classes():
    with pytest.raises(InputError, match=r"0\.5; classes are integers or text"):
        encode([1.0, 0.5])
    with pytest.raises(InputError, match="a label is a tuple"):
        encode([(1, 2)])


def test_indices_into_given_classes():
    labels, classes = encode_indices([2, 0, -1, None], ("dog", "cat", "ant"))
    assert labels.tolist() == [2, 0, -1, -1]
    assert classes == ("dog", "cat", "ant")
    with pytest.raises(InputError, match="from 0 to 3, but what is named is 3 classes"):
        encode_indices([0, 3], ("dog", "cat", "ant"))


def test_several_labels():
    labels, classes = encode_many([["b", "a"], [], ["c", None], ["b"]])
    assert classes == ("a", "b", "c")
    assert labels.tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert labels.dtype == np.uint8


@given(st.lists(st.one_of(st.none(), st.integers(0, 99), st.text("ab1 ", max_size=3)), max_size=30))
def test_a_label_can_be_read_back(values):
    labels, classes = encode(values)
    assert list(classes) == sorted(set(classes), key=classes.index)
    for value, label in zip(values, labels, strict=True):
        text = "" if value is None else str(value).strip()
        assert (classes[label] if label >= 0 else "") == text
