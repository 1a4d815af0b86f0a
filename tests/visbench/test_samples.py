"""The scores of every sample beside the records: what goes in comes out, whoever writes and however often."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from visbench import samples
from visbench.errors import UsageError
from visbench.record import Record


def made_ids(n, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, 16), np.uint8)


def record(reference, **values):
    fields = {"task": "t", "dataset": "d", "backbone": "resnet50", "timestamp": "2026-01-01T00:00:00Z"}
    return Record.from_dict({**fields, **values, "samples": reference})


def files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("name", ["visbench.jsonl", "visbench.csv", "a.b.jsonl", "odd # %20 写真.jsonl"])
def test_what_goes_in_comes_out(tmp_path, name):
    path, ids = tmp_path / "results" / name, made_ids(50)
    hits = np.arange(50) % 3 == 0
    values = np.where(hits, np.nan, np.linspace(-5, 1e6, 50))
    both = samples.write(path, {"top1": hits, "abs rel/é": values}, ids)
    alone = samples.write(path, {"top1": hits}, ids)
    kept = samples.read(path, record(both))
    assert list(kept.scores) == ["top1", "abs rel/é"]
    np.testing.assert_array_equal(kept.scores["abs rel/é"], values.astype(np.float32))
    assert (kept.ids == ids).all()
    only = samples.read(path, record(alone))
    assert only.scores["top1"].dtype == bool
    assert (only.scores["top1"] == hits).all()
    assert only.ids_digest == kept.ids_digest
    assert [each.name for each in path.parent.iterdir()] == [f"{path.stem}.samples"]


def test_it_is_compact_and_ids_are_kept_once(tmp_path):
    path, n = tmp_path / "r.jsonl", 20_000
    ids, rng = made_ids(n), np.random.default_rng(0)
    for _ in range(5):
        samples.write(path, {"top1": rng.random(n) < 0.8}, ids)
    content = files(tmp_path)
    assert sum(len(each) for key, each in content.items() if "/ids/" in key) == 16 * n
    assert sum(len(each) for key, each in content.items() if "/scores/" in key) < 5 * (n / 8 * 1.5 + 600)


def test_the_same_is_written_twice_as_the_same_and_another_beside_it(tmp_path):
    path, ids, hits = tmp_path / "r.jsonl", made_ids(9), np.arange(9) < 4
    first = samples.write(path, {"top1": hits}, ids)
    before = files(tmp_path)
    assert samples.write(path, {"top1": hits}, ids) == first
    assert files(tmp_path) == before
    others = [
        samples.write(path, {"top1": ~hits}, ids),
        samples.write(path, {"top5": hits}, ids),
        samples.write(path, {"top1": hits.astype(float)}, ids),
        samples.write(path, {"top1": hits}, ids[::-1]),
    ]
    assert len({first, *others}) == 5
    assert before.items() <= files(tmp_path).items()


def test_nothing_to_keep_writes_nothing(tmp_path):
    assert samples.write(tmp_path / "r.jsonl", {}, made_ids(3)) is None
    assert list(tmp_path.iterdir()) == []


def test_scores_that_are_not_one_a_sample_are_a_mistake(tmp_path):
    with pytest.raises(ValueError, match=r"map have shape \(4,\), but 5 samples"):
        samples.write(tmp_path / "r.jsonl", {"map": np.ones(4)}, made_ids(5))
    assert list(tmp_path.iterdir()) == []


def test_a_writer_that_died_half_way_is_made_good(tmp_path):
    path, ids = tmp_path / "r.jsonl", made_ids(20)
    reference = samples.write(path, {"map": np.linspace(0, 1, 20)}, ids)
    whole = files(tmp_path)
    for lost in whole:
        (tmp_path / lost).unlink()
        with pytest.raises(UsageError):
            _ = samples.read(path, record(reference)).ids
        assert samples.write(path, {"map": np.linspace(0, 1, 20)}, ids) == reference
        assert files(tmp_path) == whole


@pytest.mark.parametrize("part", ["ids", "zarr.json", "c/0/0"])
def test_damage_is_never_read_as_scores(tmp_path, part):
    path, ids = tmp_path / "r.jsonl", made_ids(20)
    reference = samples.write(path, {"map": np.linspace(0, 1, 20)}, ids)
    (name,) = [each for each in files(tmp_path) if part in each]
    content = bytearray((tmp_path / name).read_bytes())
    for position in range(0, len(content), 5):
        broken = content.copy()
        broken[position] ^= 3
        (tmp_path / name).write_bytes(broken)
        try:
            kept = samples.read(path, record(reference))
            found = kept.scores["map"], kept.ids
        except UsageError:
            continue
        assert part == "zarr.json"  # a change that says the same, as of a blank
        assert (found[0] == np.linspace(0, 1, 20, dtype=np.float32)).all()
        assert (found[1] == ids).all()


def test_what_is_missing_is_named(tmp_path):
    path, ids = tmp_path / "r.jsonl", made_ids(4)
    reference = samples.write(path, {"top1": np.ones(4, bool)}, ids)
    for unkept in (None, "../../etc/passwd", 7):
        with pytest.raises(UsageError, match=r"resnet50 from 2026-01-01T00:00:00Z in .* keeps no scores"):
            samples.read(path, record(unkept))
    with pytest.raises(UsageError, match=r"not in .*moved\.samples; bring that folder along with"):
        samples.read(tmp_path / "moved.jsonl", record(reference))
    (tmp_path / "r.samples" / "ids" / samples.read(path, record(reference)).ids_digest).unlink()
    with pytest.raises(UsageError, match=r"ids .* are missing"):
        _ = samples.read(path, record(reference)).ids


def test_a_place_that_cannot_be_written_is_named_with_the_way_out(tmp_path):
    (tmp_path / "r.samples").write_text("")
    with pytest.raises(ValueError, match=r"r\.samples is a file"):
        samples.write(tmp_path / "r.jsonl", {"top1": np.ones(4, bool)}, made_ids(4))
    (tmp_path / "q.samples").mkdir()
    (tmp_path / "q.samples" / "ids").write_text("")
    with pytest.raises(
        UsageError, match=r"q\.samples could not be written .* choose another file with --results"
    ):
        samples.write(tmp_path / "q.jsonl", {"top1": np.ones(4, bool)}, made_ids(4))


MANY_WRITES = """
import os, sys
import numpy as np
from visbench import samples

rng, ids = np.random.default_rng(0), np.load(sys.argv[2])
for _ in range(10):
    samples.write(sys.argv[1], {"top1": rng.random(300) < 0.5}, ids)
    samples.write(sys.argv[1], {"top1": np.random.default_rng(os.getpid()).random(300) < 0.5}, ids)
"""


def test_processes_that_write_the_same_do_not_disturb_each_other(tmp_path):
    np.save(tmp_path / "ids.npy", made_ids(300))
    command = [sys.executable, "-c", MANY_WRITES, tmp_path / "r.jsonl", tmp_path / "ids.npy"]
    writers = [subprocess.Popen(command) for _ in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(list((tmp_path / "r.samples" / "scores").iterdir())) == 10 + 3
    rng = np.random.default_rng(0)
    for _ in range(10):
        hits = rng.random(300) < 0.5
        reference = samples.write(tmp_path / "other.jsonl", {"top1": hits}, made_ids(300))
        assert (samples.read(tmp_path / "r.jsonl", record(reference)).scores["top1"] == hits).all()
    assert not list(tmp_path.rglob("*.__lock"))


@given(
    st.lists(st.sampled_from([b"a", b"b", b"c\0", b"\0"]), max_size=12),
    st.lists(st.sampled_from([b"a", b"b", b"c\0", b"\0"]), max_size=12),
)
def test_shared_samples_are_those_of_a_plain_loop(first, second):
    one, other = (
        np.array([[*each.ljust(16, b"\0")] for each in ids], np.uint8).reshape(-1, 16)
        for ids in (first, second)
    )
    here, there = samples.shared(one, other)
    expected, seen = [], {}
    for position, row in enumerate(first):
        number = seen[row] = seen.get(row, -1) + 1
        places = [i for i, each in enumerate(second) if each == row]
        if number < len(places):
            expected.append((position, places[number]))
    assert list(zip(here.tolist(), there.tolist(), strict=True)) == expected


def test_it_starts_neither_torch_nor_jax():
    ask = "import visbench.samples, sys; print({'torch', 'jax'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_folder_lies_beside_its_records():
    assert samples.folder_of("results/visbench.jsonl") == Path("results/visbench.samples")
    assert samples.folder_of("results/visbench.csv") == Path("results/visbench.samples")
