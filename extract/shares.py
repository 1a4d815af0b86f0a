"""Dividing a dataset's rows among workers, by position."""

import re

from extract.errors import InputError


def share(num_rows: int, index: int, of: int) -> range:
    """The rows of shard `index` of `of`: by position in the whole dataset, before what is stored is left out.

    The shares are contiguous, differ by at most one row, and together are every row once.
    """
    _check(index, of)
    start, stop = (num_rows * i // of for i in (index, index + 1))
    return range(start, stop)


def parse_shard(text: str) -> tuple[int, int]:
    """`"3/64"` as (3, 64): shard 3 of 64, counted from 0, as job arrays count."""
    found = re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", text)
    if found is None:
        raise InputError(f"a shard is written index/count, for instance 3/64, but this is {text!r}")
    index, of = int(found[1]), int(found[2])
    _check(index, of)
    return index, of


def _check(index: int, of: int) -> None:
    if not 0 <= index < of:
        last = f"the last one is {of - 1}/{of}" if of > 0 else "there is at least one"
        raise InputError(f"there is no shard {index} of {of}; shards count from 0 and {last}")
