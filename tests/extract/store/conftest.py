from types import SimpleNamespace

import numpy as np
import pytest


@pytest.fixture(scope="session")
def identity():
    return SimpleNamespace(digest="0123456789abcdef" * 2, plain={"model": "tiny", "size": [224, 224]})


@pytest.fixture(scope="session")
def ids_of():
    """Row ids of numbers: the number, in 16 bytes."""
    return lambda numbers: np.array([list(int(n).to_bytes(16, "big")) for n in numbers], np.uint8).reshape(
        -1, 16
    )


@pytest.fixture(scope="session")
def rows_of():
    """Rows of numbers, eight values each, exact in float16 up to 1023."""
    return lambda numbers: np.asarray(numbers, np.float32)[:, None] + np.arange(8, dtype=np.float32) / 2


@pytest.fixture(scope="session")
def fill(identity, ids_of, rows_of):
    """Store the rows of these numbers as one part (or more, where they do not fit)."""

    def store_rows(store, numbers, **options):
        with store.writer(identity, (8,), **options) as writer:
            writer.add(ids_of(numbers), rows_of(numbers))

    return store_rows
