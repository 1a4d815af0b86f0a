"""Streams: batches are the same from memory and from the store, whatever the size of chunks."""

import numpy as np
import pytest

from extract.spec import Identity, digest_json
from extract.store import Store
from visbench.dense import streams
from visbench.dense.kinds import KINDS
from visbench.dense.streams import Stream

N, GRID, DIMS, SIZE = 11, 3, 4, 6


@pytest.fixture
def stored(tmp_path):
    """Features and label maps of N images, in parts of a few rows each."""
    store, rng = Store(tmp_path / "store"), np.random.default_rng(0)
    ids = rng.integers(0, 256, (N, 16), dtype=np.uint8)
    rows = {
        "features": rng.standard_normal((N, GRID, GRID, DIMS)).astype(np.float16),
        "maps": rng.integers(0, 5, (N, SIZE, SIZE)).astype(np.uint8),
    }
    digests = {}
    for name, array in rows.items():
        which = Identity(digest_json(name), {"name": name})
        digests[name] = which.digest
        for start in range(0, N, 4):
            with store.writer(which, array.shape[1:], array.dtype) as writer:
                writer.add(ids[start : start + 4], array[start : start + 4])

    def make(held):
        views = [store.view(digests[name], ids) for name in rows]
        return Stream(views[:1], [], views[1], KINDS["labels"], held=held)

    return make, rows


def every(stream, order, batch):
    return [(chunk.maps.grids[0], chunk.target, chunk.batches) for chunk in stream.chunks(order, batch)]


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("chunk_bytes", [1, 1000, 1 << 25])
def test_batches_hold_the_rows_of_the_order(stored, monkeypatch, held, chunk_bytes):
    make, rows = stored
    monkeypatch.setattr(streams, "CHUNK_BYTES", chunk_bytes)
    order = np.random.default_rng(1).permutation(N)
    found = every(make(held), order, 4)
    assert len({grids.shape for grids, _, _ in found}) == 1  # one program serves all
    assert sum(count for _, _, count in found) == 3
    grids = np.concatenate([grids[:count].reshape(-1, GRID, GRID, DIMS) for grids, _, count in found])
    target = np.concatenate([target[:count].reshape(-1, SIZE, SIZE) for _, target, count in found])
    np.testing.assert_array_equal(grids[:N], rows["features"][order])
    np.testing.assert_array_equal(target[:N], rows["maps"][order])
    assert (target[N:] == 255).all()  # what fills the last batch says nothing


@pytest.mark.parametrize("held", [True, False])
def test_blocks_go_through_all_rows_in_order(stored, held):
    make, rows = stored
    found = list(make(held).blocks(4))
    assert [len(chosen) for chosen, _, _ in found] == [4, 4, 3]
    assert all(len(target) == 4 for _, _, target in found)
    grids = np.concatenate([maps.grids[0][: len(chosen)] for chosen, maps, _ in found])
    np.testing.assert_array_equal(grids, rows["features"])


def test_what_is_held_is_read_once(stored):
    make, _ = stored
    held, streamed = make(True), make(False)
    for stream in (held, streamed):
        for _ in range(3):
            every(stream, np.arange(N), 4)
    assert (held.reads, streamed.reads) == (N, 3 * N)


def test_rows_are_held_only_where_they_fit(stored, monkeypatch):
    make, _ = stored
    need = make(None).row_bytes * N
    for free, held in ((streams.SHARE * need, True), (streams.SHARE * need - 1, False)):
        monkeypatch.setattr(streams, "free_bytes", lambda free=free: free)
        stream = make(None)
        every(stream, np.arange(N), 4)
        every(stream, np.arange(N), 4)
        assert stream.reads == (N if held else 2 * N)


def test_batches_do_not_share_memory_with_what_comes_next(stored):
    make, _ = stored
    found = every(make(True), np.arange(N), 4) + every(make(False), np.arange(N), 4)
    arrays = [array for grids, target, _ in found for array in (grids, target)]
    assert not any(np.shares_memory(a, b) for place, a in enumerate(arrays) for b in arrays[:place])
