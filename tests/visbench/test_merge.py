from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from visbench import results, samples
from visbench.board import boards
from visbench.cli.app import app
from visbench.errors import UsageError
from visbench.merging import merge
from visbench.record import Record
from visbench.separable import Paired

N = 200
IDS = np.random.default_rng(0).integers(0, 256, (N, 16), np.uint8)


def record(backbone, day, **fields):
    values = {"task": "t", "dataset": "d", "headline": "top1", "backbone": backbone, **fields}
    return Record(timestamp=f"2026-01-{day:02}T00:00:00Z", **values)


def scored(path, backbone, day, share):
    hits = np.random.default_rng(day).random(N) < share
    reference = samples.write(path, {"top1": hits}, IDS)
    return record(backbone, day, metrics={"top1": float(hits.mean())}, samples=reference)


def test_records_are_joined_by_time_and_written_once(tmp_path):
    a, b, out = (tmp_path / name for name in ("a.jsonl", "b.jsonl", "deep/out.jsonl"))
    results.append(a, [record("x", 3), record("y", 1)])
    results.append(b, [record("x", 3), record("x", 2), record("x", 2), replace(record("z", 4), seed=1)])
    before = a.read_bytes(), b.read_bytes()
    merged = merge([a, b, a], out)
    assert [each.timestamp[8:10] for each in results.read(out)] == ["01", "02", "03", "04"]
    assert (merged.taken, merged.known) == ({a: 2, b: 2}, {a: 0, b: 2})
    assert (a.read_bytes(), b.read_bytes()) == before


def test_what_has_no_time_comes_first_in_its_order(tmp_path):
    a, out = tmp_path / "a.jsonl", tmp_path / "out.jsonl"
    results.append(a, [record("x", 3), *(replace(record(name, 1), timestamp="") for name in "cab")])
    merge([a], out)
    assert [each.backbone for each in results.read(out)] == ["c", "a", "b", "x"]


def test_scores_of_samples_come_along(tmp_path):
    a, b, out = (tmp_path / name / "r.jsonl" for name in "abc")
    for path, backbone, day, share in ((a, "x", 1, 0.5), (b, "y", 2, 0.9), (b, "z", 3, 0.5)):
        results.append(path, [scored(path, backbone, day, share)])
    merge([a, b], out)
    records = results.read(out)
    for each, source in zip(records, (a, b, b), strict=True):
        there, here = samples.read(source, each), samples.read(out, each)
        assert np.array_equal(there.scores["top1"], here.scores["top1"])
        assert np.array_equal(here.ids, IDS)
    (board,) = boards(records, separable=Paired.from_results(records, out))
    assert board.best.label == "y"
    assert not list(tmp_path.rglob(".*"))


def test_scores_that_are_not_there_are_no_error(tmp_path):
    a, out = tmp_path / "a.jsonl", tmp_path / "out.jsonl"
    results.append(a, [record("x", 1, samples="0" * 32), record("y", 1, samples="../../etc")])
    assert sum(merge([a], out).taken.values()) == 2
    assert not samples.folder_of(out).exists()


def test_an_output_is_added_to_only_if_that_is_asked_for(tmp_path):
    a, b, out = (tmp_path / f"{name}.jsonl" for name in ("a", "b", "out"))
    results.append(a, [record("x", 2)])
    results.append(b, [record("x", 2), record("y", 1)])
    merge([a], out)
    with pytest.raises(UsageError, match="is there already; --append adds to it"):
        merge([b], out)
    merged = merge([b], out, append=True)
    assert [each.backbone for each in results.read(out)] == ["x", "y"]  # what is there stays first
    assert (merged.taken, merged.known) == ({b: 1}, {b: 1})


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "./b/../a.jsonl"])
def test_an_input_is_never_written(tmp_path, name, append):
    a = tmp_path / "a.jsonl"
    (tmp_path / "b").mkdir()
    results.append(a, [record("x", 1)])
    before = a.read_bytes()
    with pytest.raises(UsageError, match="one of the files to merge"):
        merge([a], tmp_path / name, append=append)
    assert a.read_bytes() == before
    assert not (tmp_path / "a.csv").exists()


def test_a_csv_output_has_both(tmp_path):
    a, out = tmp_path / "a.jsonl", tmp_path / "out.csv"
    results.append(a, [record("x", 2), record("y", 1)])
    merge([a], out)
    assert [each.backbone for each in results.read(out)] == ["y", "x"]
    assert out.read_text().count("\n") == 3


def test_the_command_says_where_they_came_from(tmp_path):
    a, b, out = (tmp_path / f"{name}.jsonl" for name in ("a", "b", "out"))
    results.append(a, [record("x", 1)])
    results.append(b, [record("x", 1), record("y", 2)])
    done = CliRunner().invoke(app, ["merge", str(a), str(b), "-o", str(out)])
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        f"{a}: 1 record",
        f"{b}: 1 record, 1 there already",
        f"2 records written to {out}",
    ]
    again = CliRunner().invoke(app, ["merge", str(a), "-o", str(out)])
    assert again.exit_code == 2
    assert "--append" in again.stderr
    missing = CliRunner().invoke(
        app, ["merge", str(tmp_path / "no.jsonl"), "-o", str(tmp_path / "new.jsonl")]
    )
    assert "there are no results" in missing.stderr
    assert not (tmp_path / "new.jsonl").exists()
