import pytest
from hypothesis import given
from hypothesis import strategies as st

from extract.errors import InputError
from extract.shares import parse_shard, share


@given(st.integers(0, 10_000), st.integers(1, 100))
def test_shares_are_every_row_once_and_even(num_rows, of):
    shares = [share(num_rows, index, of) for index in range(of)]
    assert [row for rows in shares for row in rows] == list(range(num_rows))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize(
    ("num_rows", "of", "sizes"), [(21, 2, [10, 11]), (10, 3, [3, 3, 4]), (1, 4, [0, 0, 0, 1])]
)
def test_uneven_shares(num_rows, of, sizes):
    assert [len(share(num_rows, index, of)) for index in range(of)] == sizes


def test_a_shard_as_written():
    assert parse_shard("3/64") == (3, 64)
    assert parse_shard(" 0 / 1 ") == (0, 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("64/64", "the last one is 63/64"),
        ("0/0", "at least one"),
        ("3", "index/count"),
        ("-1/4", "index/count"),
    ],
)
def test_a_shard_that_is_none(text, says):
    with pytest.raises(InputError, match=says):
        parse_shard(text)
