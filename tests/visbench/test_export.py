import csv
import io
import json
import sys
from dataclasses import replace

import pytest
from click.testing import CliRunner

import visbench
from visbench import export, geocsv, results
from visbench.board_text import number
from visbench.cli import export as command
from visbench.cli.app import app
from visbench.errors import UsageError
from visbench.record import Record
from visbench.standings import Wanted

BASE = Record(
    timestamp="2026-01-01T00:00:00.000Z",
    task="classification",
    probe="logistic",
    dataset="clothing",
    split="test",
    counts={"train": 600, "val": 320, "test": 347, "classes": 10},
    dataset_params={},
    backbone="vit",
    backbone_spec={
        "name": "timm:vit",
        "layer_dims": [384, 384, 512],
        "transform": {"mean": [0.5], "std": [0.5], "interpolation": "bicubic"},
    },
    image_size=224,
    taps=["default"],
    taps_resolved=["cls@2"],
    task_params={"refit": True},
    hyperparameters={"C": 0.1, "l2": 0.3},
    selection={
        "how": "C chosen on the val split",
        "grid": {"C": [10 ** (each / 2) for each in range(-12, 9)]},
    },
    seed=0,
    headline="top1",
    metrics={"top1": 0.87654},
    intervals={"top1": [0.85, 0.9]},
)
SEGMENTED = replace(
    BASE,
    task="semantic_segmentation",
    probe="fpn",
    taps=["patches@-2", "patches@-1"],
    taps_resolved=["patches@1", "patches@2"],
    feature_mode="dense",
    hyperparameters={"learning_rate": 0.001},
    selection={},
    training={"batch_size": 8},
    headline="miou",
    metrics={"miou": 0.5, "fw_iou": 0.6, "precision": 0.7, "recall": 0.8, "f1": 0.75},
    intervals={},
)
THEIRS = """\
dataset,method,metric_name,metric_value,ci_lower,ci_upper,feature_dim,best_c,best_lr,best_batch_size,n_train,n_val,n_test,seed,model,name,normalization,image_size,interpolation,partition,bands,c_range_start,c_range_stop,c_range_num,merge_val,bootstrap,fw_iou,precision,recall,f1,ece
m-eurosat,knn5,accuracy,0.504,0.474,0.53,768,,,,2000,1000,1000,0,bench.A,a,raw,224,bilinear,default,rgb,-6,4,40,True,200,,,,,
m-eurosat,linear,accuracy,0.7,0.67,0.73,512,1.5,,,2000,1000,1000,0,bench.B,b,mean_stdev,,bilinear,0.01x_train,"02,03",-6,4,40,True,200,,,,,0.25
m-eurosat,intrinsic_dim,id_TwoNN_train,4.25,0.0,0.0,768,,,,2000,1000,1000,0,bench.A,a,percentile_2_98,224,bilinear,default,rgb,-6,4,40,True,200,,,,,
m-eurosat,intrinsic_dim,id_MLE_train,3.5,0.0,0.0,768,,,,2000,1000,1000,0,bench.A,a,percentile_2_98,224,bilinear,default,rgb,-6,4,40,True,200,,,,,
m-eurosat,profile,latency_ms_per_batch_p50,150.25,0.0,0.0,768,,,,2000,1000,1000,0,bench.A,a,raw,224,bilinear,default,rgb,-6,4,40,True,200,,,,,
burn_scars,seg-fpn,mIoU,0.6234,0.0,0.0,1536,,0.001,64,524,160,120,0,bench.A,a,raw,224,bilinear,default,rgb,-6,4,40,False,200,0.7,0.6,0.5,0.55,
treesatai,knn5,micro_mAP,0.29,0.28,0.31,768,,,,4000,1000,2000,0,bench.A,a,raw,224,bilinear,default,rgb,-6,5,60,True,200,,,,,
"""


def flat(record):
    (row,) = csv.DictReader(io.StringIO(geocsv.text([record])))
    return row


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


def run(*arguments):
    return CliRunner().invoke(app, ["export", *map(str, arguments)])


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "r.jsonl"
    older = replace(BASE, timestamp="2025-01-01T00:00:00Z", metrics={"top1": 0.1})
    results.append(
        path, [older, BASE, replace(BASE, backbone="cnn", metrics={"top1": 0.3}, intervals={}), SEGMENTED]
    )
    return path


def test_a_row_says_what_its_columns_ask():
    assert geocsv.text([BASE]).splitlines()[0].split(",") == list(geocsv.COLUMNS)
    assert len(geocsv.COLUMNS) == 30
    assert flat(BASE) == dict(
        zip(
            geocsv.COLUMNS,
            (
                *("clothing", "linear", "accuracy", "0.87654", "0.85", "0.9", "512", "0.1", "", ""),
                *(
                    "600",
                    "320",
                    "347",
                    "0",
                    "timm:vit",
                    "vit",
                    "model_native",
                    "224",
                    "bicubic",
                    "default",
                    "rgb",
                ),
                *("-6", "4", "21", "True", "", "", "", "", ""),
            ),
            strict=True,
        )
    )


def test_segmentation_has_its_own_columns():
    row = flat(SEGMENTED)
    named = ("method", "metric_name", "feature_dim", "best_c", "best_lr", "best_batch_size", "merge_val")
    assert [row[name] for name in named] == ["seg-fpn", "mIoU", "896", "", "0.001", "8", ""]
    assert [row[name] for name in ("ci_lower", "ci_upper")] == ["0.0", "0.0"]
    assert [row[name] for name in ("fw_iou", "precision", "recall", "f1")] == ["0.6", "0.7", "0.8", "0.75"]


@pytest.mark.parametrize(
    ("change", "column", "value"),
    [
        ({"probe": "knn", "hyperparameters": {"k": 5}}, "method", "knn5"),
        ({"probe": "ridge"}, "method", "ridge"),
        ({"probe": "linear", "training": {"optimizer": "sgd"}}, "method", "linear-sgd"),  # not their `linear`
        ({"task": "depth", "probe": "dpt"}, "method", "depth-dpt"),
        ({"task": "retrieval", "probe": None}, "method", "retrieval"),
        ({"control": "shuffle"}, "name", "vit (shuffle)"),
        ({"taps": ["mean@1"], "taps_resolved": ["mean@1"]}, "name", "vit mean@1"),
        ({"finetune": {"blocks": 1}}, "name", "vit fine-tuned"),
        ({"protocol": "visbench"}, "name", "vit protocol visbench"),
        ({"image_size": "native"}, "image_size", ""),
        ({"dataset_params": {"limit": 60}}, "partition", "limit-60"),
        ({"task_params": {"shots": 5}}, "partition", "5-shot"),
        ({"dataset_params": {"partition": "0.01x_train"}}, "partition", "0.01x_train"),
        ({"dataset_params": {"bands": ["B04", "B02"]}}, "bands", "B02,B04"),
        ({"dataset_params": {"normalization": "percentile_2_98"}}, "normalization", "percentile_2_98"),
        ({"backbone_spec": {}}, "normalization", ""),
        ({"backbone_spec": {}}, "feature_dim", ""),
        ({"task_params": {"refit": False}}, "merge_val", "False"),
        ({"task_params": {"bootstrap": 200}}, "bootstrap", "200"),
        ({"selection": {"grid": {"C": [1, 2, 4.5]}}}, "c_range_num", ""),  # not geometric
        ({"metrics": {"top1": None}}, "metric_value", ""),
    ],
)
def test_what_cells_say(change, column, value):
    assert flat(replace(BASE, **change))[column] == value


def test_a_dimension_has_a_row_for_each_estimate():
    record = replace(
        BASE, task="intrinsic_dim", probe=None, split="train", metrics={"id_TwoNN": 4.0, "id_MLE": 3.0}
    )
    rows = table(geocsv.text([record]))
    assert [(row["metric_name"], row["metric_value"]) for row in rows] == [
        ("id_TwoNN_train", "4.0"),
        ("id_MLE_train", "3.0"),
    ]


def test_rows_of_a_geospatial_bench_are_records(tmp_path):
    path = tmp_path / "theirs.csv"
    path.write_text(THEIRS)
    knn, linear, twonn, mle, latency, segmented, multilabel = results.read(path)
    assert (knn.task, knn.probe, knn.hyperparameters, knn.protocol) == (
        "classification",
        "knn",
        {"k": 5},
        "torchgeo",
    )
    assert (knn.headline, knn.metrics, knn.intervals, knn.n) == (
        "top1",
        {"top1": 0.504},
        {"top1": [0.474, 0.53]},
        {"top1": 1000},
    )
    assert (knn.backbone, knn.image_size, knn.seed, knn.level) == ("a", 224, 0, "high")
    assert linear.hyperparameters == {"C": 1.5}
    assert linear.dataset_params == {
        "partition": "0.01x_train",
        "bands": "02,03",
        "normalization": "mean_stdev",
    }
    assert (linear.image_size, linear.metrics["ece"]) == ("native", 0.25)
    assert (twonn.task, twonn.split, twonn.intervals, twonn.n) == ("intrinsic_dim", "train", {}, {})
    assert (latency.better, segmented.better) == ("lower", "higher")
    assert (segmented.task, segmented.probe, segmented.metrics["fw_iou"]) == (
        "semantic_segmentation",
        "fpn",
        0.7,
    )
    assert (multilabel.task, multilabel.headline) == ("multilabel", "micro_map")
    assert (
        len({visbench.record.board_key(each) for each in (twonn, mle)}) == 2
    )  # neither supersedes the other
    assert visbench.record.row_key(knn) == visbench.record.row_key(segmented)  # one backbone


def test_reading_and_writing_them_changes_nothing(tmp_path):
    (tmp_path / "theirs.csv").write_text(THEIRS)
    content = export.export([tmp_path / "theirs.csv"], "csv", Wanted(every=True))
    wanted = [{name: row[name] for name in geocsv.COLUMNS} for row in table(THEIRS)]
    found = table(content)
    assert sorted(map(str, found)) == sorted(map(str, wanted))


def test_pandas_writes_whole_numbers_as_others(tmp_path):
    path = tmp_path / "theirs.csv"
    path.write_text("\ufeff" + THEIRS.replace(",224,", ",224.0,").replace("\n", "\r\n"), encoding="utf-8")
    assert {record.image_size for record in results.read(path)} == {224, "native"}


def test_damaged_rows_are_named_and_left_out(tmp_path):
    path = tmp_path / "theirs.csv"
    path.write_text(THEIRS.replace("0.504", "oops").replace("seg-fpn,mIoU", "seg-fpn") + "only,three,cells\n")
    with pytest.warns(UserWarning, match="is left out") as caught:
        assert len(results.read(path)) == 5
    said = [str(each.message).partition("line ")[2] for each in caught]
    assert [each.split()[0] for each in said] == ["2", "7", "9"]
    assert "metric_value is 'oops', not a number" in said[0]


@pytest.mark.parametrize("content", ["a,b\n1,2\n", "", "\x00\x01", "dataset,metric_value\n"])
def test_other_tables_are_refused(tmp_path, content):
    path = tmp_path / "x.csv"
    path.write_text(content)
    with pytest.raises(
        UsageError, match=r"x\.csv is no table of a geospatial bench \(it lacks .*there is no x\.jsonl"
    ):
        results.read(path)


def test_records_beside_a_csv_are_what_is_read(file):
    file.with_suffix(".csv").write_text(THEIRS)
    assert results.read(file.with_suffix(".csv")) == results.read(file)


def test_formats_hold_the_same_numbers(file):
    rows = {
        row["name"]: row
        for row in table(run("--results", file, "--format", "csv", "--task", "classification").output)
    }
    assert {name: row["metric_value"] for name, row in rows.items()} == {"vit": "0.87654", "cnn": "0.3"}
    rounded = number(float(rows["vit"]["metric_value"]))
    for form in ("md", "latex", "html"):
        said = run("--results", file, "--format", form, "--task", "classification").output
        assert rounded == "0.877"
        assert rounded in said
        assert "0.8765" not in said
    boards = json.loads(run("--results", file, "--format", "json").output)
    assert [board["headline"] for board in boards] == ["top1", "miou"]


def test_the_newest_of_each_backbone_or_all(file):
    assert len(table(run("--results", file, "--format", "csv").output)) == 3
    assert len(table(run("--results", file, "--format", "csv", "--all").output)) == 4
    assert len(table(run("--results", file, "--format", "wide", "--all").output)) == 4


def test_wide_rows_have_every_field(file):
    (row,) = table(run("--results", file, "--format", "wide", "--task", "semantic_segmentation").output)
    assert (row["metrics.miou"], row["training"]) == ("0.5", '{"batch_size": 8}')


def test_parquet(file, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "deep" / "r.parquet"
    assert run("--results", file, "--format", "parquet", "-o", out).exit_code == 0
    rows = parquet.read_table(out).to_pylist()
    assert [row["metrics.top1"] for row in rows] == [0.87654, 0.3, None]
    refused = run("--results", file, "--format", "parquet")
    assert refused.exit_code == 2
    assert "-o FILE" in refused.stderr


def test_columns_of_words_and_numbers_are_words(tmp_path):
    pytest.importorskip("pyarrow")
    odd = [replace(BASE, image_size="native", backbone="\udcff", notes=1.5), replace(BASE, notes=True), BASE]
    assert export.columns(odd)["image_size"] == ["native", "224", "224"]
    assert export.columns(odd)["backbone"] == ["\\udcff", "vit", "vit"]
    assert export.columns(odd)["notes"] == ["1.5", "True", None]
    assert export.parquet(odd)[:4] == b"PAR1"


def test_to_pandas(file):
    pytest.importorskip("pandas")
    frame = visbench.to_pandas(file)
    assert list(frame["metrics.top1"].dropna()) == [0.1, 0.87654, 0.3]
    assert visbench.to_pandas(BASE)["intervals.top1.low"].tolist() == [0.85]
    assert len(visbench.to_pandas(iter([BASE, SEGMENTED]))) == 2
    assert len(visbench.to_pandas(str(file))) == 4


@pytest.mark.parametrize(("package", "call"), [("pandas", visbench.to_pandas), ("pyarrow", export.parquet)])
def test_a_missing_package_is_named(monkeypatch, package, call):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=rf"needs {package}: pip install 'visbench\[tables\]'"):
        call([BASE])


def test_out_is_written_whole_and_never_over_records(file, tmp_path):
    out = tmp_path / "table.csv"
    done = run("--results", file, "--format", "csv", "-o", out)
    assert (done.exit_code, done.stdout) == (0, "")
    assert table(out.read_text()) == table(run("--results", file, "--format", "csv").output)
    before = file.read_bytes()
    for place in (file, tmp_path):
        refused = run("--results", file, "--format", "csv", "-o", place)
        assert refused.exit_code == 2
        assert "name another file with -o" in refused.stderr
    assert file.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.jsonl", "table.csv"]


def test_what_is_not_there_is_refused(file, tmp_path):
    assert (
        "there is no record of the task"
        in run("--results", file, "--format", "csv", "--task", "depth").stderr
    )
    assert "there are no results" in run("--results", tmp_path / "no.jsonl", "--format", "md").stderr


def test_the_command_knows_all_formats():
    assert command.FORMATS == export.FORMATS
