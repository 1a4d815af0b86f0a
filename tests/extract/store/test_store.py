import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extract.errors import InputError
from extract.store import MissingRowsError, Store, StoreError


def test_rows_come_back_in_the_order_asked_for(tmp_path, identity, ids_of, rows_of, fill):
    store = Store(tmp_path)
    fill(store, range(100))
    asked = [7, 3, 99, 3, 0]
    view = store.view(identity.digest, ids_of(asked))
    assert (view.shape, view.dtype, len(view)) == ((5, 8), np.float16, 5)
    assert (view.read() == rows_of(asked).astype(np.float16)).all()
    assert (view.read(slice(1, 3)) == rows_of([3, 99]).astype(np.float16)).all()
    assert (view.read(np.array([4, 0])) == rows_of([0, 7]).astype(np.float16)).all()
    assert (view.array.read().result() == view.read()).all()
    assert (view.array[1:3].read().result() == view.read(slice(1, 3))).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(("row_shape", "n"), [((5,), 4100), ((3, 4, 5), 300)])
def test_several_parts_of_vectors_and_of_grids(tmp_path, dtype, row_shape, n, identity, ids_of):
    rows = np.random.default_rng(0).standard_normal((n, *row_shape), np.float32)
    with Store(tmp_path).writer(identity, row_shape, dtype) as writer:
        for start in range(0, n, 64):
            writer.add(ids_of(range(start, min(start + 64, n))), rows[start : start + 64])
    view = Store(tmp_path).view(identity.digest, ids_of(range(n)))
    assert view.dtype.name == dtype
    assert (view.read() == rows.astype(view.dtype)).all()
    order = np.random.default_rng(1).permutation(n)
    assert (view.read(order) == rows[order].astype(view.dtype)).all()
    shuffled = Store(tmp_path).view(identity.digest, ids_of(order))
    assert (shuffled.array[:50].read().result() == rows[order[:50]].astype(view.dtype)).all()
    (stored,) = Store(tmp_path).identities()
    assert (stored.rows, stored.row_shape, stored.dtype) == (n, row_shape, dtype)
    assert stored.parts == -(-n // (4096 if len(row_shape) == 1 else 128))


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_store_is_a_dictionary_that_keeps_the_first_value(data, identity, ids_of):
    store, model, rng = Store(f"memory://{os.urandom(8).hex()}"), {}, np.random.default_rng(0)
    with store.writer(identity, (3,), "float32") as writer:
        for numbers in data.draw(st.lists(st.lists(st.integers(0, 30), max_size=12), max_size=6)):
            values = rng.standard_normal((len(numbers), 3), np.float32)
            writer.add(ids_of(numbers), values)
            for key, value in zip(numbers, values, strict=True):
                model.setdefault(key, value)
            if data.draw(st.booleans()):
                writer.flush()
    if data.draw(st.booleans()):
        store.gc(older_than=0)
    assert store.present(identity.digest, ids_of(range(31))).tolist() == [n in model for n in range(31)]
    if model:
        asked = data.draw(st.lists(st.sampled_from(sorted(model)), max_size=40))
        view = store.view(identity.digest, ids_of(asked))
        expected = np.array([model[n] for n in asked], np.float32).reshape(-1, 3)
        assert (view.read() == expected).all()
        assert (view.array.read().result() == expected).all()


def test_many_reads_in_flight(tmp_path, identity, ids_of):
    n, rng = 1000, np.random.default_rng(0)
    with Store(tmp_path).writer(identity, (4, 4, 8)) as writer:
        writer.add(ids_of(range(n)), np.arange(n, dtype=np.float32)[:, None, None, None] * np.ones((4, 4, 8)))
    view = Store(tmp_path).view(identity.digest, ids_of(range(n)))
    chosen = [rng.permutation(n)[:32] for _ in range(300)]
    futures = [view.array[rows].read() for rows in chosen]
    for rows, future in zip(chosen, futures, strict=True):
        assert (future.result()[:, 0, 0, 0] == rows).all()


def test_ids_that_end_in_zeros_are_told_apart(tmp_path, identity):
    ids = np.zeros((3, 16), np.uint8)
    ids[1, 0], ids[2, :2] = 1, 1
    with Store(tmp_path).writer(identity, (1,)) as writer:
        writer.add(ids, np.array([[0.0], [1.0], [2.0]], np.float32))
    assert Store(tmp_path).view(identity.digest, ids[::-1]).read().ravel().tolist() == [2.0, 1.0, 0.0]


def test_missing_rows_are_counted(tmp_path, identity, ids_of, fill):
    store = Store(tmp_path)
    with pytest.raises(MissingRowsError, match="2 of 2 rows"):
        store.view(identity.digest, ids_of([1, 2]))
    fill(store, [1, 2])
    with pytest.raises(MissingRowsError, match=r"1 of 3 rows .* extract them first") as caught:
        store.view(identity.digest, ids_of([1, 5, 2]))
    assert caught.value.missing.tolist() == [False, True, False]


def test_what_another_store_object_commits_is_seen(tmp_path, identity, ids_of, fill):
    reader, writer = Store(tmp_path), Store(tmp_path)
    fill(writer, [1])
    assert reader.present(identity.digest, ids_of([1, 2])).tolist() == [True, False]
    fill(writer, [2])
    assert reader.present(identity.digest, ids_of([1, 2])).tolist() == [True, True]


def test_known_parts_are_not_read_again(tmp_path, monkeypatch, identity, ids_of, fill):
    store = Store(tmp_path)
    fill(store, [1, 2, 3])
    store.present(identity.digest, ids_of([1]))
    monkeypatch.setattr("extract.store.kv.Place.read", lambda *_: pytest.fail("read again"))
    assert store.present(identity.digest, ids_of([3])).all()


def test_the_layout_is_plain_zarr(tmp_path, identity, ids_of, fill):
    fill(Store(tmp_path), range(10))
    home = tmp_path / identity.digest
    assert json.loads((home / "spec.json").read_text()) == identity.plain
    (manifest,) = home.glob("parts/*.json")
    part = manifest.with_suffix("")
    files = sorted(path.relative_to(part).as_posix() for path in part.rglob("*") if path.is_file())
    assert files == ["c/0/0", "ids", "zarr.json"]
    assert (part / "ids").read_bytes() == ids_of(range(10)).tobytes()
    assert json.loads((part / "zarr.json").read_text())["shape"] == [10, 8]


@pytest.mark.parametrize(
    ("n", "row_shape"), [(2000, (768,)), (257, (768,)), (5000, (768,)), (130, (7, 7, 96)), (1, (14, 14, 384))]
)
def test_bytes_on_disk_are_little_more_than_the_numbers(tmp_path, n, row_shape, identity, ids_of):
    rows = np.random.default_rng(0).standard_normal((n, *row_shape), np.float32)
    with Store(tmp_path).writer(identity, row_shape) as writer:
        writer.add(ids_of(range(n)), rows)
    used = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert used <= 1.05 * rows.size * 2
    assert Store(tmp_path).identities()[0].bytes == used


def test_rows_of_a_constant_value_are_stored(tmp_path, identity, ids_of):
    with Store(tmp_path).writer(identity, (4,)) as writer:
        writer.add(ids_of([1, 2]), np.zeros((2, 4), np.float32))
    assert (Store(tmp_path).view(identity.digest, ids_of([2, 1])).read() == 0).all()


def test_compressed_rows(tmp_path, identity, ids_of):
    rows = np.maximum(np.random.default_rng(0).standard_normal((1000, 64), np.float32), 0)
    with Store(tmp_path).writer(identity, (64,), compress=True) as writer:
        writer.add(ids_of(range(1000)), rows)
    store = Store(tmp_path)
    assert store.identities()[0].bytes < 0.8 * rows.size * 2
    assert (store.view(identity.digest, ids_of(range(1000))).read() == rows.astype(np.float16)).all()


def test_an_identity_with_another_content_is_refused(tmp_path, identity, fill):
    fill(Store(tmp_path), [1])
    fill(Store(tmp_path), [2])  # the same again is fine
    other = SimpleNamespace(digest=identity.digest, plain={"model": "another"})
    with pytest.raises(StoreError, match=r"spec\.json .* is not what is to be stored"):
        Store(tmp_path).writer(other, (8,))
    with pytest.raises(InputError, match="32 hex digits"):
        Store(tmp_path).writer(SimpleNamespace(digest="../up", plain={}), (8,))


def test_a_store_in_the_data_folder_is_refused(tmp_path):
    for inside in (tmp_path, tmp_path / "store", tmp_path / "data" / ".." / "deep" / "store"):
        with pytest.raises(InputError, match="lies in the data folder"):
            Store(inside).refuse_inside(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    with pytest.raises(InputError, match="lies in the data folder"):
        Store(tmp_path / "link" / "store").refuse_inside(tmp_path / "data")
    Store(tmp_path / "data2").refuse_inside(tmp_path / "data")
    Store("memory://elsewhere").refuse_inside(tmp_path)


def test_free_bytes(tmp_path):
    assert Store(tmp_path / "not" / "there" / "yet").free_bytes() > 0
    assert Store("memory://x").free_bytes() is None


def test_the_store_needs_neither_torch_nor_jax():
    ask = "import extract.store, sys; print({'torch', 'jax', 'probes', 'visbench', 'PIL'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
