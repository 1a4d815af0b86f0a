import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from extract.errors import InputError
from extract.store import NonFiniteRowError, OverflowingRowError, Store, StoreError


def eventually(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_never_stored(tmp_path, identity, ids_of, rows_of, bad):
    store = Store(tmp_path)
    rows = rows_of([3, 4, 5])
    rows[1, 7] = bad

    def work():
        with store.writer(identity, (8,)) as writer:
            writer.add(ids_of([1, 2]), rows_of([1, 2]))
            writer.add(ids_of([3, 4, 5]), rows)

    with pytest.raises(NonFiniteRowError, match="row 1 of the batch") as caught:
        work()
    assert caught.value.position == 1
    assert store.present(identity.digest, ids_of(range(1, 6))).tolist() == [True, True, False, False, False]


def test_a_value_too_large_for_the_stored_type_is_refused(tmp_path, identity, ids_of, rows_of):
    rows = rows_of([1, 2, 3, 4])
    rows[2, 0] = -65520  # rounds to infinity; 65519 rounds to 65504
    rows[3, 0] = np.nan
    with Store(tmp_path).writer(identity, (8,)) as writer:
        with pytest.raises(
            OverflowingRowError, match=r"65520, .* too large for float16; .*--dtype float32"
        ) as caught:
            writer.add(ids_of([1, 2, 3, 4]), rows)
        assert caught.value.position == 2
        rows[2, 0], rows[3, 0] = 65519, 0
        writer.add(ids_of([1, 2, 3, 4]), rows)
    assert Store(tmp_path).view(identity.digest, ids_of([3])).read()[0, 0] == 65504


@pytest.mark.parametrize(("dtype", "largest"), [("bfloat16", 3.39e38), ("float32", 3.4e38)])
def test_wider_types_hold_larger_values(tmp_path, identity, ids_of, dtype, largest):
    with Store(tmp_path).writer(identity, (1,), dtype) as writer:
        writer.add(ids_of([1]), np.array([[largest]], np.float32))
        with pytest.raises(OverflowingRowError):
            writer.add(ids_of([2]), np.array([[3.5e38]]))


def test_wrong_shapes_and_types_are_refused(tmp_path, identity, ids_of, rows_of):
    with Store(tmp_path).writer(identity, (8,)) as writer:
        for ids, rows in [
            (ids_of([1]), rows_of([1])[:, :4]),
            (ids_of([1, 2]), rows_of([1])),
            (ids_of([1]).astype(np.int64), rows_of([1])),
        ]:
            with pytest.raises(InputError, match="the store takes"):
                writer.add(ids, rows)
    with pytest.raises(InputError, match="float16, bfloat16, float32, uint8, not as int8"):
        Store(tmp_path).writer(identity, (8,), "int8")
    with pytest.raises(RuntimeError, match="closed"):
        writer.add(ids_of([1]), rows_of([1]))


def test_a_full_part_is_committed_at_once(tmp_path, identity, ids_of):
    store = Store(tmp_path)
    with store.writer(identity, (2, 2, 3)) as writer:
        writer.add(ids_of(range(300)), np.zeros((300, 2, 2, 3), np.float32))
        assert eventually(lambda: writer.committed == 256)
        assert store.present(identity.digest, ids_of(range(300))).sum() == 256
    assert writer.committed == 300


def test_an_old_row_is_committed_while_the_loop_stalls(tmp_path, identity, ids_of, rows_of):
    store = Store(tmp_path)
    with store.writer(identity, (8,), max_seconds=0.1) as writer:
        writer.add(ids_of([1, 2]), rows_of([1, 2]))
        assert eventually(lambda: store.present(identity.digest, ids_of([1, 2])).all())
        writer.add(ids_of([3]), rows_of([3]))
        assert eventually(lambda: writer.committed == 3)


def test_rows_added_before_an_exception_are_committed(tmp_path, identity, ids_of, rows_of):
    def work():
        with Store(tmp_path).writer(identity, (8,)) as writer:
            writer.add(ids_of([1, 2]), rows_of([1, 2]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert Store(tmp_path).present(identity.digest, ids_of([1, 2])).all()


def test_a_batch_may_be_refilled_after_it_was_added(tmp_path, identity, ids_of):
    batch = np.empty((64, 8), np.float16)  # of the stored type, so that nothing is converted
    with Store(tmp_path).writer(identity, (8,)) as writer:
        for start in range(0, 5120, 64):
            batch[:] = start // 64
            writer.add(ids_of(range(start, start + 64)), batch)
            batch[:] = -1
    rows = Store(tmp_path).view(identity.digest, ids_of(range(5120))).read()
    assert (rows == np.arange(5120)[:, None] // 64).all()


def test_several_threads_add(tmp_path, identity, ids_of, rows_of):
    with Store(tmp_path).writer(identity, (8,), "float32") as writer:

        def work(first):
            for start in range(first, first + 3000, 50):
                writer.add(ids_of(range(start, start + 50)), rows_of(range(start, start + 50)))

        threads = [threading.Thread(target=work, args=(first,)) for first in range(0, 12_000, 3000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert writer.committed == 12_000
    assert (
        Store(tmp_path).view(identity.digest, ids_of(range(12_000))).read() == rows_of(range(12_000))
    ).all()


def test_add_waits_while_two_parts_are_being_written(tmp_path, identity, ids_of, monkeypatch):
    gate, written = threading.Event(), []
    monkeypatch.setattr(
        "extract.store.writer.write_part", lambda *_, **__: (gate.wait(10), written.append(1))
    )
    with Store(tmp_path).writer(identity, (1, 1, 1)) as writer:

        def work():
            for start in range(0, 128 * 4, 128):
                writer.add(ids_of(range(start, start + 128)), np.zeros((128, 1, 1, 1), np.float32))

        adding = threading.Thread(target=work)
        adding.start()
        adding.join(0.3)
        assert adding.is_alive()
        gate.set()
        adding.join(10)
        assert not adding.is_alive()
    assert len(written) == 4


def test_a_failure_in_the_background_surfaces(tmp_path, identity, ids_of, rows_of, monkeypatch):
    def fail(place, key, value):
        raise StoreError("no room")

    store = Store(tmp_path)
    writer = store.writer(identity, (8,))
    monkeypatch.setattr("extract.store.kv.Place.write", fail)
    writer.add(ids_of(range(4096)), rows_of(np.zeros(4096)))
    assert eventually(lambda: writer._under_way[0].done())
    with pytest.raises(StoreError, match="no room"):
        writer.add(ids_of([1]), rows_of([1]))
    with pytest.raises(StoreError, match="no room"):
        writer.close()
    assert not store.present(identity.digest, ids_of(range(4096))).any()
    assert not list(tmp_path.rglob("zarr.json"))  # what was written of the part is removed


def test_a_disk_that_fills_up(tmp_path):
    """With a limit on the size of files in place of a full disk: the first part fits, the second does not."""
    script = f"""
import resource, numpy as np
from types import SimpleNamespace
from extract.store import Store, StoreError
store = Store({str(tmp_path)!r})
ids = np.arange(600, dtype=np.uint64).repeat(2).view(np.uint8).reshape(-1, 16)
identity = SimpleNamespace(digest="0" * 32, plain={{}})
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    with store.writer(identity, (200,)) as writer:
        writer.add(ids[:100], np.ones((100, 200), np.float32))
        writer.flush()
        writer.add(ids[100:], np.ones((500, 200), np.float32))
except StoreError as error:
    print(error)
print(store.present("0" * 32, ids).sum(), store.verify())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    message, found = done.stdout.splitlines()
    assert message.startswith(
        f"the feature store {tmp_path} could not be written: File too large; check the path, or choose"
    )
    assert found == "100 []"
    assert len(list(tmp_path.rglob("zarr.json"))) == 1


def test_a_folder_that_cannot_be_written(tmp_path, identity):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="choose another place with --store"):
        Store(tmp_path / "file" / "store").writer(identity, (8,))
