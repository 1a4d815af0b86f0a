import csv
import json
import os
import subprocess
import sys

import pytest

from visbench import geocsv, results
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
from visbench import geocsv, results
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


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_csv_holds_a_flattened_row_of_each_record(tmp_path):
    path = tmp_path / "r.csv"
    writer = results.ResultWriter(path)
    writer.append(
        record(headline="top1", metrics={"top1": 0.5}, intervals={"top1": (0.25, 0.75)}, counts={"test": 4})
    )
    writer.append(record(task="retrieval", headline="map", metrics={"map": None, "recall@1": 1.0}))
    assert [each.task for each in results.read(path)] == ["classification", "retrieval"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["r.csv", "r.jsonl"]
    first, second = rows_of(path)
    assert tuple(first) == geocsv.COLUMNS
    assert [first[name] for name in ("metric_name", "metric_value", "ci_lower", "ci_upper", "n_test")] == [
        "accuracy",
        "0.5",
        "0.25",
        "0.75",
        "4",
    ]
    assert (second["metric_value"], second["ci_lower"], second["best_c"]) == ("", "0.0", "")


def test_a_csv_that_comes_later_begins_with_what_is_known(tmp_path):
    results.append(tmp_path / "r.jsonl", [record(seed=0)])
    results.append(tmp_path / "r.csv", [record(seed=1)])
    results.append(tmp_path / "r.csv", [record(seed=2)])
    assert [row["seed"] for row in rows_of(tmp_path / "r.csv")] == ["0", "1", "2"]


def test_rows_join_those_of_another_bench_under_its_header(tmp_path):
    path = tmp_path / "all_results.csv"
    header = ["num_classes", *reversed(geocsv.COLUMNS), "ece", "comment"]
    path.write_text(",".join(header) + "\n" + "7" + "," * (len(header) - 1))  # its last line has no end
    results.append(path, [record(counts={"classes": 10}, metrics={"top1": 0.5, "ece": 0.25})])
    theirs, ours = rows_of(path)
    assert list(ours) == header
    assert (theirs["num_classes"], theirs["comment"]) == ("7", "")
    assert [ours[name] for name in ("num_classes", "dataset", "ece", "comment")] == [
        "10",
        "photos",
        "0.25",
        "",
    ]


@pytest.mark.parametrize(
    "content",
    [
        "a,b\n1,2\n",
        "schema_version,timestamp,task\n",
        "dataset,method,metric_name,metric_value\n",
        "\n",
        "\x00",
    ],
)
def test_a_csv_of_something_else_is_never_touched(tmp_path, content):
    path = tmp_path / "r.csv"
    path.write_text(content)
    with pytest.raises(UsageError, match=r"r\.csv holds something else.*it is left as it is; choose another"):
        results.check_writable(path)
    with pytest.raises(UsageError, match="holds something else"):
        results.append(path, [record()])
    assert path.read_text() == content
    assert list(tmp_path.iterdir()) == [path]  # nor is the record written alone


def test_a_full_disk_takes_back_both_the_record_and_its_row(tmp_path, monkeypatch):
    path = tmp_path / "r.csv"
    results.append(path, [record(seed=0)])
    before = [each.read_bytes() for each in (path, results.log_of(path))]
    write, calls = os.write, []

    def fills_up(descriptor, data):
        calls.append(len(data))
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", fills_up)
    with pytest.raises(OSError, match="No space left"):
        results.append(path, [record(seed=1)])
    assert [each.read_bytes() for each in (path, results.log_of(path))] == before


def test_eight_processes_lose_and_tear_no_row_of_a_csv(tmp_path):
    path, times = tmp_path / "r.csv", 50
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, path, str(who), str(times)]) for who in range(4)
    ]
    assert [writer.wait() for writer in writers] == [0] * 4
    lines = results.log_of(path).read_text().splitlines()
    assert len(lines) == 4 * times
    assert [row["seed"] for row in rows_of(path)] == [str(json.loads(line)["seed"]) for line in lines]


def test_records_of_an_older_schema_are_read(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text('{"task": "t", "dataset": "d", "backbone": "b", "metrics": {"top1": 0.5}, "fold": 3}\n')
    (old,) = results.read(path)
    assert (old.protocol, old.timestamp, old.headline, old.extra) == ("visbench", "", None, {"fold": 3})
    results.append(tmp_path / "again.jsonl", [old])
    assert results.read(tmp_path / "again.jsonl") == [old]


def test_columns_do_not_depend_on_the_order_of_records():
    one, other = record(metrics={"top1": 1.0}), record(context={"chance": 0.1})
    heads = [results.csv_text(order).split("\n")[0] for order in ([one, other], [other, one])]
    assert heads[0] == heads[1]
