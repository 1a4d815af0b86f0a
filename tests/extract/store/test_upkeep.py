"""Verification, collection and removal."""

import json
import os
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from extract.errors import InputError
from extract.store import DamagedError, Report, Store, StoreError, layout

OLD = "20010203T040506000000-0123456789ab"


def part_of(folder, index=0):
    """The folder of a committed part, by age."""
    return sorted(folder.glob("*/parts/*.json"))[index].with_suffix("")


def flip(path, at):
    contents = bytearray(path.read_bytes())
    contents[at] ^= 1
    path.write_bytes(contents)


def edit(path, old, new):
    path.write_text(path.read_text().replace(old, new))


DAMAGE = {
    "a flipped bit": (lambda part: flip(part / "c/0/0", 40), "DATA_LOSS"),
    "a missing shard": (lambda part: (part / "c/0/0").unlink(), "missing"),
    "a truncated shard": (lambda part: (part / "c/0/0").write_bytes(b"123"), "DATA_LOSS|shard"),
    "other metadata": (lambda part: edit(part.with_suffix(".json"), "crc32c", "crc"), "describes no array"),
    "truncated ids": (lambda part: (part / "ids").write_bytes(b"123"), "ids are 3 bytes instead of 48"),
    "other ids": (lambda part: flip(part / "ids", 3), "ids do not match their digest"),
    "missing ids": (lambda part: (part / "ids").unlink(), "ids are missing"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named_and_collected(tmp_path, identity, ids_of, fill, kind):
    damage, what = DAMAGE[kind]
    store = Store(tmp_path)
    fill(store, [1, 2, 3])
    fill(store, [4, 5, 6])
    assert store.verify() == []
    part = part_of(tmp_path, 1)
    damage(part)
    with pytest.raises(DamagedError, match=f"part {part.name} .*{what}.*cache verify.*cache gc"):
        Store(tmp_path).view(identity.digest, ids_of([4])).read()
    (problem,) = store.verify(identity.digest[:4])
    assert (problem.identity, problem.part) == (identity.digest, part.name)
    assert store.gc(merge=False) == Report(damaged=1)
    assert Store(tmp_path).present(identity.digest, ids_of(range(1, 7))).tolist() == [True] * 3 + [False] * 3
    assert not part.exists()
    assert store.verify() == []


def test_numbers_that_were_exchanged_are_noticed(tmp_path, fill):
    """A shard with sound checksums, of another part."""
    fill(Store(tmp_path), [1, 2, 3])
    fill(Store(tmp_path), [4, 5, 6])
    first, second = part_of(tmp_path, 0), part_of(tmp_path, 1)
    (first / "c/0/0").write_bytes((second / "c/0/0").read_bytes())
    (problem,) = Store(tmp_path).verify()
    assert (problem.part, problem.what) == (first.name, "its array does not match its digest")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 1}', "\x00\xff"])
def test_a_part_whose_manifest_cannot_be_read_does_not_count(tmp_path, identity, ids_of, fill, text):
    store = Store(tmp_path)
    fill(store, [1])
    fill(store, [2])
    part_of(tmp_path, 0).with_suffix(".json").write_text(text)
    assert Store(tmp_path).present(identity.digest, ids_of([1, 2])).tolist() == [False, True]
    (problem,) = store.verify()
    assert problem.what == "its manifest cannot be read"
    assert store.identities()[0].rows == 1
    assert store.gc().damaged == 1
    assert store.verify() == []


def test_a_newer_format_is_not_taken_for_garbage(tmp_path, fill):
    fill(Store(tmp_path), [1])
    manifest = part_of(tmp_path).with_suffix(".json")
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 2}))
    with pytest.raises(InputError, match="update visbench"):
        Store(tmp_path).gc()
    assert manifest.exists()


def test_a_lost_spec_is_reported(tmp_path, identity, fill):
    fill(Store(tmp_path), [1])
    (tmp_path / identity.digest / "spec.json").unlink()
    (problem,) = Store(tmp_path).verify()
    assert (problem.part, problem.what) == (None, "its spec.json is missing or cannot be read")


def test_what_died_goes_once_it_is_old(tmp_path, identity, ids_of, fill):
    store = Store(tmp_path)
    fill(store, [1])
    young = layout.new_name()
    for name in (OLD, young):
        part = tmp_path / identity.digest / "parts" / name
        (part / "c" / "0").mkdir(parents=True)
        (part / "zarr.json").write_text("{}")
        (part / "c" / "0" / "0.__lock").write_bytes(b"half a shard")
    assert store.verify() == []
    assert store.gc() == Report(unfinished=1)
    assert not (tmp_path / identity.digest / "parts" / OLD).exists()
    assert (tmp_path / identity.digest / "parts" / young / "c" / "0" / "0.__lock").exists()
    assert store.gc() == Report()
    assert store.present(identity.digest, ids_of([1])).all()


def test_small_parts_become_one(tmp_path, identity, ids_of, rows_of, fill):
    store = Store(tmp_path)
    for start in range(0, 700, 100):
        fill(store, range(start, start + 100))
    fill(store, range(50, 150))  # rows that are there already
    view = store.view(identity.digest, ids_of(range(700)))
    assert store.gc() == Report(merged=7, merged_into=1)
    assert store.gc(older_than=0) == Report(superseded=1)
    (stored,) = store.identities()
    assert (stored.rows, stored.parts) == (700, 1)
    assert (view.read() == rows_of(range(700)).astype(np.float16)).all()  # it looks again
    assert (view.array.read().result() == view.read()).all()
    assert store.verify() == []
    left = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert len(left) == 5
    assert {"0", "ids", "spec.json", "zarr.json"} < set(left)


def test_merging_never_changes_which_value_is_read(tmp_path, identity, ids_of):
    """Versions of a row in a small part, a large one, and a small one again."""
    store = Store(tmp_path)
    parts = [([1], 1.0), (range(1, 4001), 2.0), ([4000, 5000], 3.0), ([5000, 6000], 4.0)]
    for numbers, value in parts:
        with store.writer(identity, (1,)) as writer:
            writer.add(ids_of(numbers), np.full((len(numbers), 1), value, np.float32))
    asked = ids_of([1, 2, 4000, 5000, 6000])
    before = store.view(identity.digest, asked).read().ravel().tolist()
    assert before == [1, 2, 2, 3, 4]
    for _ in range(3):
        store.gc(older_than=0)
        assert Store(tmp_path).view(identity.digest, asked).read().ravel().tolist() == before
    assert store.identities()[0].parts == 2


def test_another_collection_may_be_about_to_remove_what_it_merged(tmp_path, identity, ids_of, fill):
    store = Store(tmp_path / "store")
    fill(store, [1])
    fill(store, [2])
    shutil.copytree(tmp_path / "store", tmp_path / "sources")
    assert store.gc() == Report(merged=2, merged_into=1)
    shutil.copytree(
        tmp_path / "sources", tmp_path / "store", dirs_exist_ok=True
    )  # it has not removed them yet
    assert store.gc() == Report()
    for source in (tmp_path / "sources").glob("*/parts/*"):  # now it has
        path = tmp_path / "store" / source.relative_to(tmp_path / "sources")
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert store.present(identity.digest, ids_of([1, 2])).all()
    fill(store, [3])
    assert store.gc() == Report()  # what was merged lately stays as it is
    assert store.gc(older_than=0) == Report(merged=2, merged_into=1)


def test_compressed_parts_stay_compressed(tmp_path, fill):
    store = Store(tmp_path)
    fill(store, range(100), compress=True)
    fill(store, range(100, 200), compress=True)
    store.gc()
    assert "zstd" in part_of(tmp_path).with_suffix(".json").read_text()


def test_a_strangers_files_stay(tmp_path, identity, fill):
    store = Store(tmp_path)
    fill(store, [1])
    fill(store, [2])
    part = part_of(tmp_path)
    strangers = [
        tmp_path / "photo.jpg",
        tmp_path / "fedcba98" / "spec.json",
        tmp_path / identity.digest / "notes.txt",
        tmp_path / identity.digest / "parts" / "mine.json",
        part.parent / OLD / "mine.txt",
        part / "mine.txt",
    ]
    for path in strangers:
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("mine")
    strangers.append(tmp_path / os.fsdecode(b"\xff.jpg"))
    strangers[-1].write_text("mine")
    assert len(store.identities()) == 1
    store.gc(older_than=0)
    assert store.clear() == [identity.digest]
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(strangers)
    assert store.identities() == []


def test_an_identity_is_removed_by_the_start_of_its_digest(tmp_path, fill, ids_of, rows_of):
    store = Store(tmp_path)
    others = [SimpleNamespace(digest=start + "0" * 28, plain={"n": start}) for start in ("aaaa", "aabb")]
    for other in others:
        with store.writer(other, (8,)) as writer:
            writer.add(ids_of([1]), rows_of([1]))
    for start, says in [
        ("aa", '"aa" is the beginning of 2 identities'),
        ("c", "beginning of nothing"),
        ("", "2 identities"),
    ]:
        with pytest.raises(InputError, match=f"{says}.*cache ls"):
            store.rm(start)
    assert store.rm("aab") == others[1].digest
    assert [stored.digest for stored in store.identities()] == [others[0].digest]
    assert [path.name for path in tmp_path.iterdir()] == [others[0].digest]


def test_identities_of_a_store(tmp_path, identity, fill):
    store = Store(tmp_path)
    assert store.identities() == []
    store.writer(identity, (8,)).close()
    (empty,) = store.identities()
    assert (empty.rows, empty.parts, empty.dtype, empty.row_shape) == (0, 0, None, None)
    fill(store, range(10))
    (stored,) = store.identities()
    assert (stored.digest, stored.plain) == (identity.digest, identity.plain)
    assert (stored.rows, stored.parts, stored.dtype, stored.row_shape) == (10, 1, "float16", (8,))
    memory = Store("memory://identities")
    fill(memory, range(10))
    assert memory.identities()[0].bytes == 10 * (8 * 2 + 16)


def test_parts_of_different_types_are_not_mixed(tmp_path, identity, ids_of, fill):
    fill(Store(tmp_path), [1])
    fill(Store(tmp_path), [2], dtype="float32")
    with pytest.raises(StoreError, match=f"differ in dtype or shape; .*cache rm {identity.digest}"):
        Store(tmp_path).view(identity.digest, ids_of([1, 2]))


def test_a_row_that_two_processes_computed_counts_once(tmp_path, fill):
    store = Store(tmp_path)
    fill(store, range(10))
    fill(Store(tmp_path), range(5, 25))
    fill(Store(tmp_path), range(8, 12))
    (stored,) = store.identities()
    assert (stored.rows, stored.parts, stored.surplus_rows) == (25, 3, 9)
    assert stored.surplus_bytes == 9 * (8 * 2 + 16)
    store.gc(older_than=0)
    store.gc(older_than=0)
    (stored,) = store.identities()
    assert (stored.rows, stored.surplus_rows, stored.surplus_bytes) == (25, 0, 0)


def test_what_is_stored_is_listed_where_ids_are_damaged(tmp_path, fill):
    store = Store(tmp_path)
    fill(store, [1, 2])
    fill(Store(tmp_path), [2, 3])
    (part_of(tmp_path) / "ids").write_bytes(b"?")
    assert store.identities()[0].rows == 4
