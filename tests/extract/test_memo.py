"""Files are hashed once and never served stale; the memo survives whatever happens to its file."""

import hashlib
import os
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from extract import memo as memos
from extract.errors import UnreadableImageError
from extract.memo import Memo, content_id, default_path, derived_id

LATER = 3_000_000_000  # three seconds on: files written just now have settled


@pytest.fixture
def settled(monkeypatch):
    now = time.time_ns
    monkeypatch.setattr(memos.time, "time_ns", lambda: now() + LATER)


@pytest.fixture
def reads(monkeypatch):
    """The files that were read, in whatever order threads took."""
    seen = []
    real = memos.content_bytes
    monkeypatch.setattr(memos, "content_bytes", lambda source: seen.append(source) or real(source))
    return seen


@pytest.fixture
def files(tmp_path) -> list[Path]:
    folder = tmp_path / "photos"
    folder.mkdir()
    paths = [folder / f"{i}.jpg" for i in range(5)]
    for i, path in enumerate(paths):
        path.write_bytes(bytes([i]) * 100)
    return paths


def digest(data: bytes) -> list[int]:
    return list(hashlib.blake2b(data, digest_size=16).digest())


def test_ids_are_digests_of_content(files, tmp_path):
    array = np.zeros((2, 2, 3), np.uint8)
    ids = Memo(tmp_path / "memo").row_ids([*files, bytes([3]) * 100, array, Image.fromarray(array)])
    assert ids.shape == (8, 16)
    assert ids.dtype == np.uint8
    assert ids[0].tolist() == digest(bytes(100))
    assert ids[5].tolist() == ids[3].tolist() == digest(bytes([3]) * 100)
    assert len({row.tobytes() for row in ids}) == 7


def test_known_files_are_not_read_again(files, tmp_path, reads, settled):
    first = Memo(tmp_path / "memo").row_ids(files)
    assert sorted(reads) == sorted(files)
    again = Memo(tmp_path / "memo")
    assert np.array_equal(again.row_ids(files[::-1]), first[::-1])
    assert sorted(reads) == sorted(files)
    files[2].write_bytes(b"new")
    assert again.row_ids(files)[2].tolist() == digest(b"new")
    assert sorted(reads) == sorted([*files, files[2]])


def test_a_file_replaced_under_the_same_size_and_time_is_noticed(files, tmp_path, settled):
    memo = Memo(tmp_path / "memo")
    memo.row_ids(files)
    before = files[0].stat()
    files[0].write_bytes(b"x" * 100)
    os.utime(files[0], ns=(before.st_atime_ns, before.st_mtime_ns))
    assert files[0].stat().st_size == before.st_size
    assert files[0].stat().st_mtime_ns == before.st_mtime_ns
    assert memo.row_ids(files)[0].tolist() == digest(b"x" * 100)


def test_another_file_renamed_into_place_is_noticed(files, tmp_path, settled):
    memo = Memo(tmp_path / "memo")
    memo.row_ids(files)
    files[1].replace(files[0])
    assert memo.row_ids(files[:1])[0].tolist() == digest(bytes([1]) * 100)


def test_a_young_file_is_not_remembered(files, tmp_path, reads, monkeypatch):
    memo = Memo(tmp_path / "memo")
    memo.row_ids(files)
    memo.row_ids(files)
    assert sorted(reads) == sorted(files * 2)
    written = files[0].stat().st_ctime_ns
    monkeypatch.setattr(memos.time, "time_ns", lambda: written + memos.SETTLED_NS)  # two seconds old
    memo.row_ids(files[:1])
    memo.row_ids(files[:1])
    assert sorted(reads) == sorted([*files * 2, files[0]])
    old = time.time_ns() - 10**12
    os.utime(files[1], ns=(old, old))  # an old date does not make a change an old one
    changed = files[1].stat().st_ctime_ns
    monkeypatch.setattr(memos.time, "time_ns", lambda: changed + memos.SETTLED_NS - 1)
    memo.row_ids(files[1:2])
    memo.row_ids(files[1:2])
    assert sorted(reads) == sorted([*files * 2, *files[:1], files[1], files[1]])


def test_a_file_that_changes_while_it_is_read_is_not_remembered(files, tmp_path, monkeypatch, settled):
    real = memos.content_bytes

    def slow(path):
        data = real(path)
        path.write_bytes(b"changed meanwhile")
        return data

    memo = Memo(tmp_path / "memo")
    with monkeypatch.context() as patch:
        patch.setattr(memos, "content_bytes", slow)
        memo.row_ids(files[:1])
    assert memo.row_ids(files[:1])[0].tolist() == digest(b"changed meanwhile")


def test_names_of_any_kind(tmp_path, settled, reads):
    raw = [b"a b#%'\".jpg", "写真😀.jpg".encode(), b"new\nline.jpg", b"not utf-8 \xff.jpg"]
    paths = [tmp_path / os.fsdecode(name) for name in raw]
    for path in paths:
        path.write_bytes(os.fsencode(path))
    memo = Memo(tmp_path / "memo")
    assert np.array_equal(memo.row_ids(paths), memo.row_ids(paths))
    assert len(reads) == 4


def test_files_that_cannot_be_read_are_named_or_collected(files, tmp_path):
    gone = tmp_path / "gone.jpg"
    memo = Memo(tmp_path / "memo")
    with pytest.raises(UnreadableImageError, match=r"gone\.jpg cannot be read: No such file"):
        memo.row_ids([*files, gone])
    bad: dict[int, str] = {}
    ids = memo.row_ids([files[0], gone, files[1]], unreadable=bad)
    assert list(bad) == [1]
    assert not ids[1].any()
    assert ids[2].tolist() == digest(bytes([1]) * 100)


def test_lazy_images_are_asked_for_once_each(tmp_path):
    from extract.datasets import Lazy

    asked = []
    ids = Memo(tmp_path / "memo").row_ids(Lazy(4, lambda i: asked.append(i) or bytes([i])))
    assert sorted(asked) == [0, 0, 1, 2, 3]  # the first a second time, to see that these are no files
    assert ids[2].tolist() == digest(b"\x02")


def test_answers(tmp_path):
    memo = Memo(tmp_path / "memo")
    assert memo.recall("spec", "a") is None
    memo.remember("spec", "a", {"layers": [1, 2], "name": "é"})
    memo.remember("rate", "a", {"x": 1})
    memo.remember("spec", "a", {"layers": [3]})
    assert Memo(tmp_path / "memo").recall("spec", "a") == {"layers": [3]}
    assert memo.recall("rate", "a") == {"x": 1}


def test_remarkable_images_by_policy(tmp_path):
    memo = Memo(tmp_path / "memo")
    ids = memo.row_ids([b"a", b"b", b"c"])
    memo.remark("unreadable", "decoder/1", {ids[1].tobytes(): "it is no image", b"0" * 16: "elsewhere"})
    memo.remark("converted", "decoder/1", {ids[2].tobytes(): "CMYK"})
    again = Memo(tmp_path / "memo")
    assert again.remarks("unreadable", ids, "decoder/1") == {1: "it is no image"}
    assert again.remarks("converted", ids[[2, 0, 2]], "decoder/1") == {0: "CMYK", 2: "CMYK"}
    assert again.remarks("unreadable", ids, "decoder/2") == {}
    assert again.remarks("unreadable", ids[:0], "decoder/1") == {}


def test_derived_ids():
    row_id = content_id(b"image")
    assert len(derived_id(row_id, "flip")) == 16
    assert derived_id(row_id, "flip") == derived_id(row_id, "flip")
    assert (
        len({row_id, derived_id(row_id, "flip"), derived_id(row_id, "crop"), derived_id(b"0" * 16, "flip")})
        == 4
    )


def test_where_it_lies(monkeypatch, tmp_path):
    monkeypatch.setenv("VISBENCH_CACHE", str(tmp_path / "elsewhere"))
    assert default_path() == tmp_path / "elsewhere" / "memo.sqlite"
    Memo().remember("a", "b", {})
    assert default_path().exists()
    monkeypatch.delenv("VISBENCH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path().parts[-2:] == ("visbench", "memo.sqlite")


def test_a_file_that_is_no_database_is_set_aside(tmp_path):
    path = tmp_path / "memo.sqlite"
    path.write_bytes(b"this is no database" * 500)
    memo = Memo(path)
    memo.remember("a", "b", {"c": 1})
    assert memo.persistent
    assert Memo(path).recall("a", "b") == {"c": 1}
    assert (tmp_path / "memo.sqlite.damaged").read_bytes().startswith(b"this is no database")


def test_damage_found_later_is_survived(tmp_path, files, settled):
    path = tmp_path / "memo.sqlite"
    memo = Memo(path)
    for i in range(300):
        memo.remember("a", str(i), {"text": "x" * 500})
    memo.close()
    raw = bytearray(path.read_bytes())
    raw[4096:] = b"\xa5" * (len(raw) - 4096)  # all pages but the first
    path.write_bytes(raw)
    memo = Memo(path)
    ids = memo.row_ids(files)
    assert memo.recall("a", "7") is None
    memo.remember("a", "7", {"new": 1})
    assert Memo(path).recall("a", "7") == {"new": 1}
    assert np.array_equal(Memo(path).row_ids(files), ids)


def test_a_misuse_does_not_cost_the_file(tmp_path):
    memo = Memo(tmp_path / "memo.sqlite")
    memo.remember("a", "b", {"c": 1})
    memo.close()
    with pytest.raises(sqlite3.ProgrammingError):
        memo.recall("a", "b")
    assert Memo(tmp_path / "memo.sqlite").recall("a", "b") == {"c": 1}


def test_where_nothing_can_be_written_it_works_in_memory(tmp_path, files, reads, settled):
    (tmp_path / "file").touch()
    memo = Memo(tmp_path / "file" / "memo.sqlite")  # below a file, which root cannot write either
    assert not memo.persistent
    assert np.array_equal(memo.row_ids(files), memo.row_ids(files))
    assert sorted(reads) == sorted(files)


def test_a_database_that_can_only_be_read_moves_into_memory(tmp_path, monkeypatch):
    path = tmp_path / "memo.sqlite"
    Memo(path).close()
    memo = Memo(path)
    memo._database.execute("PRAGMA query_only = ON")  # as on a read-only disk
    memo.remember("a", "b", {"c": 1})
    assert not memo.persistent
    assert memo.recall("a", "b") == {"c": 1}


_WRITER = """
import sys
from extract.memo import Memo
memo, me = Memo(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
for i in range(int(sys.argv[3])):
    memo.remember(me, str(i), {"from": me, "i": i})
"""


def _writer(path: Path, me: str, count: int) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path), me, str(count)], stdout=subprocess.PIPE, text=True
    )


def test_two_processes_at_once(tmp_path):
    path = tmp_path / "memo.sqlite"
    writers = [_writer(path, me, 200) for me in "ab"]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    memo = Memo(path)
    for me in "ab":
        assert [memo.recall(me, str(i)) for i in range(200)] == [{"from": me, "i": i} for i in range(200)]


def test_a_process_killed_while_writing(tmp_path):
    path = tmp_path / "memo.sqlite"
    writer = _writer(path, "a", 10**9)
    assert writer.stdout.readline() == "ready\n"
    memo = Memo(path)
    deadline = time.monotonic() + 30
    while memo.recall("a", "20") is None and time.monotonic() < deadline:
        time.sleep(0.01)
    writer.kill()
    writer.wait(10)
    again = Memo(path)
    assert again.recall("a", "20") == {"from": "a", "i": 20}
    again.remember("b", "c", {"d": 1})
    assert again.persistent
    assert Memo(path).recall("b", "c") == {"d": 1}


def test_threads_share_it(tmp_path, files):
    memo = Memo(tmp_path / "memo")
    failures = []

    def work(me: int) -> None:
        try:
            for i in range(20):
                memo.remember(str(me), str(i), {"i": i})
                assert memo.row_ids(files)[1].tolist() == digest(bytes([1]) * 100)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert all(memo.recall(str(me), "19") == {"i": 19} for me in range(4))


def test_known_files_take_a_moment(tmp_path, reads, settled):
    folder = tmp_path / "many"
    folder.mkdir()
    paths = [folder / f"{i:05}.jpg" for i in range(2000)]
    for i, path in enumerate(paths):
        path.write_bytes(i.to_bytes(4, "little"))
    memo = Memo(tmp_path / "memo")
    first = memo.row_ids(paths)
    began = time.process_time()
    assert np.array_equal(memo.row_ids(paths), first)
    assert time.process_time() - began < 0.3  # 0.03 s on a quiet machine
    assert len(reads) == 2000
