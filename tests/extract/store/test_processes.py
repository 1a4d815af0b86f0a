"""Several processes at once, and processes that are killed."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from extract.store import Store

WRITER = """
import sys, numpy as np
from types import SimpleNamespace
from extract.store import Store

folder, value, n, batch = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
identity = SimpleNamespace(digest="0123456789abcdef" * 2, plain={"model": "tiny", "size": [224, 224]})
ids = np.array([list(i.to_bytes(16, "big")) for i in range(n)], np.uint8)
with Store(folder).writer(identity, (4, 4, 64), "float32", max_seconds=0.05) as writer:
    print("ready", flush=True)
    for start in range(0, n, batch):
        rows = np.arange(start, start + batch, dtype=np.float32)[:, None, None, None] + np.full((4, 4, 64), value)
        writer.add(ids[start:start + batch], rows)
"""


def start_writer(folder, value, n, batch):
    arguments = [str(folder), str(value), str(n), str(batch)]
    process = subprocess.Popen([sys.executable, "-c", WRITER, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def test_two_processes_write_the_same_rows(tmp_path, identity, ids_of):
    n = 2000
    processes = [start_writer(tmp_path, value, n, 16) for value in (0.0, 0.25)]
    assert [process.wait(60) for process in processes] == [0, 0]
    ids = ids_of(range(n))
    rows = Store(tmp_path).view(identity.digest, ids).read()
    base = np.arange(n, dtype=np.float32)
    difference = rows.reshape(n, -1) - base[:, None]
    assert set(np.unique(difference)) <= {0.0, 0.25}
    assert (difference == difference[:, :1]).all()  # no row is mixed
    assert (Store(tmp_path).view(identity.digest, ids[::-1]).read()[::-1] == rows).all()
    store = Store(tmp_path)
    store.gc(older_than=0)
    store.gc(older_than=0)
    assert (Store(tmp_path).view(identity.digest, ids).read() == rows).all()
    assert store.identities()[0].rows == n
    assert store.verify() == []


@pytest.mark.parametrize("moment", [0.02, 0.1, 0.3])
def test_a_killed_writer_loses_no_committed_row(tmp_path, identity, ids_of, moment):
    n = 200_000
    ids = ids_of(range(n))
    process = start_writer(tmp_path, 0.0, n, 8)
    time.sleep(moment)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    store = Store(tmp_path)
    there = store.present(identity.digest, ids)
    assert not there.all()
    if there.any():
        rows = store.view(identity.digest, ids[there]).read()
        assert (rows == np.flatnonzero(there)[:, None, None, None]).all()
    assert store.verify() == []
    missing = np.flatnonzero(~there)[:500]
    with store.writer(identity, (4, 4, 64), "float32") as writer:  # resume
        writer.add(ids[missing], np.broadcast_to(missing[:, None, None, None], (len(missing), 4, 4, 64)))
    store.gc(older_than=0)
    now = store.present(identity.digest, ids)
    assert now.sum() == there.sum() + len(missing)
    assert (store.view(identity.digest, ids[now]).read() == np.flatnonzero(now)[:, None, None, None]).all()
    assert not list(tmp_path.rglob("*.__lock"))


def test_reading_while_others_write_and_collect(tmp_path, identity, ids_of):
    n = 1500
    ids = ids_of(range(n))
    process = start_writer(tmp_path, 0.0, n, 4)
    collect = f"from extract.store import Store\nfor _ in range(20): Store({str(tmp_path)!r}).gc()"
    collectors = [subprocess.Popen([sys.executable, "-c", collect]) for _ in range(2)]
    store, held, reads = Store(tmp_path), None, 0
    while any(collector.poll() is None for collector in collectors):
        there = store.present(identity.digest, ids)
        if held is None and there.any():
            held = store.view(identity.digest, ids[there]), np.flatnonzero(there)
        if held is not None:
            assert (held[0].read() == held[1][:, None, None, None]).all()
            reads += 1
    assert [collector.returncode for collector in collectors] == [0, 0]
    assert process.wait(60) == 0
    process.stdout.close()
    assert reads > 0
    assert (store.view(identity.digest, ids).read() == np.arange(n)[:, None, None, None]).all()
