import csv
import json
import os
import subprocess
import sys

import pytest

from visbench import results
from visbench.errors import UsageError
from visbench.record import Record


def record(**values):
    return Record(**{"task": "classification", "dataset": "photos", "backbone": "resnet50", **values})


def test_lines_are_appended_in_order(tmp_path):
    path = tmp_path / "new" / "r.jsonl"
    first, second, third = (record(seed=seed) for seed in range(3))
    results.append(path, [first, second])
    results.append(path, [third])
    assert results.read(path) == [first, second, third]
    assert path.read_text().count("\n") == 3


def test_nothing_to_append_makes_no_file(tmp_path):
    results.append(tmp_path / "r.jsonl", [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["a b", "写真 🦊", "two\nlines", 'a "quoted", name', "line\u2028separator", "\udcff"]
)
def test_odd_names_survive(tmp_path, name):
    for path in (tmp_path / "r.jsonl", tmp_path / "r.csv"):
        results.append(path, [record(dataset=name)])
    assert [each.dataset for each in results.read(tmp_path / "r.csv")] == [name, name]
    (tmp_path / "r.jsonl").read_bytes().decode("utf-8")  # valid, lone surrogates as escapes
    with (tmp_path / "r.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[1]["dataset"] == name.encode("utf-8", "backslashreplace").decode()


def test_a_torn_last_line_is_never_glued(tmp_path):
    path = tmp_path / "r.jsonl"
    results.append(path, [record(seed=0)])
    with path.open("a") as file:
        file.write('{"task": "classifi')
    results.append(path, [record(seed=1)])
    with pytest.warns(UserWarning, match=r"r\.jsonl, line 2 is left out") as caught:
        kept = results.read(path)
    assert len(caught) == 1
    assert [each.seed for each in kept] == [0, 1]


def test_damaged_lines_are_named_and_left_out(tmp_path):
    path = tmp_path / "r.jsonl"
    good = record().to_json().encode()
    path.write_bytes(
        b"\n".join([good, b"\xff\xfe", b"", b"[1, 2]", good.replace(b'"resnet50"', b"NaN"), good]) + b"\n"
    )
    with pytest.warns(UserWarning, match="is left out: ") as caught:
        kept = results.read(path)
    assert len(kept) == 2
    numbers = [int(str(each.message).split("line ")[1].split()[0]) for each in caught]
    assert numbers == [2, 4, 5]


def test_nan_of_older_writers_is_null(tmp_path):
    (tmp_path / "r.jsonl").write_text(
        '{"task": "t", "dataset": "d", "backbone": "b", "metrics": {"top1": NaN}}\n'
    )
    assert results.read(tmp_path / "r.jsonl")[0].metrics == {"top1": None}


def test_missing_results(tmp_path):
    assert results.read(tmp_path / "r.jsonl", missing_ok=True) == []
    with pytest.raises(UsageError, match=r"no results at .*r\.jsonl"):
        results.read(tmp_path / "r.csv")


WRITER = """
import sys
from visbench import results
from visbench.record import Record
path, who, times = sys.argv[1:]
for turn in range(int(times)):
    record = Record(task="t", dataset="d", backbone="b", notes="x" * 3000, seed=turn, caller=who)
    results.append(path, [record])
"""


def test_eight_processes_lose_and_tear_nothing(tmp_path):
    path, times = tmp_path / "r.jsonl", 100
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, path, str(who), str(times)]) for who in range(8)
    ]
    assert [writer.wait() for writer in writers] == [0] * 8
    lines = path.read_text().splitlines()
    seen = [(each["caller"], each["seed"]) for each in map(json.loads, lines)]
    assert sorted(seen) == sorted((str(who), turn) for who in range(8) for turn in range(times))
    for who in range(8):  # each writer's own lines stand in its order
        assert [turn for caller, turn in seen if caller == str(who)] == list(range(times))


def test_a_full_disk_leaves_no_half_line(tmp_path, monkeypatch):
    path = tmp_path / "r.jsonl"
    results.append(path, [record(seed=0)])
    before = path.read_bytes()
    write, calls = os.write, []

    def fills_up(descriptor, data):
        calls.append(len(data))
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[:10])

    monkeypatch.setattr(os, "write", fills_up)
    with pytest.raises(OSError, match="No space left"):
        results.append(path, [record(seed=1)])
    assert calls[1] == calls[0] - 10
    assert path.read_bytes() == before


def test_check_leaves_nothing_behind(tmp_path):
    for name in ("r.jsonl", "deep/er/r.csv"):
        results.check_writable(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    path = tmp_path / "r.jsonl"
    results.append(path, [record()])
    before = path.read_bytes()
    results.check_writable(path)
    assert path.read_bytes() == before


def test_unwritable_places_are_refused_before_anything_runs(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "r.jsonl", "/proc/r.jsonl", "/dev/null"):
        with pytest.raises(UsageError, match=r"cannot be written to .*; choose another file with --results"):
            results.ResultWriter(path)


def test_csv_is_drawn_from_the_records(tmp_path):
    path = tmp_path / "r.csv"
    writer = results.ResultWriter(path)
    writer.append(
        record(metrics={"top1": 0.5}, intervals={"top1": (0.25, 0.75)}, n={"top1": 4}, taps=["cls@-1"])
    )
    writer.append(
        record(task="retrieval", metrics={"map": None, "recall@1": 1.0}, context={"per_class": [1, 2]})
    )
    assert [each.task for each in results.read(path)] == ["classification", "retrieval"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["r.csv", "r.jsonl"]
    with path.open(newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["metrics.top1"], first["intervals.top1.low"], first["intervals.top1.high"]) == (
        "0.5",
        "0.25",
        "0.75",
    )
    assert (first["metrics.map"], second["metrics.map"], second["metrics.recall@1"]) == ("", "", "1.0")
    assert (first["taps"], second["context.per_class"]) == ('["cls@-1"]', "[1, 2]")
    columns = list(first)
    assert columns[:2] == ["schema_version", "timestamp"]
    assert columns.index("metrics.recall@1") == columns.index("metrics.top1") + 2


def test_columns_do_not_depend_on_the_order_of_records():
    one, other = record(metrics={"top1": 1.0}), record(context={"chance": 0.1})
    heads = [results.csv_text(order).split("\n")[0] for order in ([one, other], [other, one])]
    assert heads[0] == heads[1]
