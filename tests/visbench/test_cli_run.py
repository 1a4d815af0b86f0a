"""The commands that run, as a person types them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from visbench import results
from visbench.cli import main


@pytest.fixture
def visbench(command):
    return command


def test_a_run_prints_a_board_and_appends_records(visbench, photos, tmp_path):
    done = visbench(
        "run",
        "classification",
        photos,
        "--backbone",
        "tiny",
        "--probe",
        "logistic",
        "--probe",
        "knn",
        "--k",
        "3,5",
    )
    assert "photos · classification · logistic, C chosen on held-out training data" in done.stdout
    assert "photos · classification · knn" in done.stdout
    assert "chance 0.333" in done.stdout
    assert "2 records appended to results/visbench.jsonl" in done.stderr
    written = results.read(tmp_path / "results" / "visbench.jsonl")
    assert [record.probe for record in written] == ["logistic", "knn"]
    assert {record.caller for record in written} == {"cli"}


def test_json_is_all_there_is_on_stdout(visbench, photos):
    done = visbench("run", "retrieval", photos, "--backbone", "tiny", "--json", "--no-results")
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["task"] == "retrieval"


def test_cli_and_python_write_the_same_record(visbench, photos, tmp_path):
    import visbench as library

    visbench("run", "classification", photos, "--backbone", "tiny", "--C", "1")
    (ours,) = results.read(tmp_path / "results" / "visbench.jsonl")
    record = library.run("tiny", "classification", photos, results=tmp_path / "r.jsonl", C=1.0).record
    differing = {name for name, value in record.to_dict().items() if value != ours.to_dict()[name]}
    assert differing <= {"timestamp", "duration_seconds", "caller"}


def test_extract_then_probe(visbench, photos):
    asked = ("--backbone", "tiny")
    refused = visbench("probe", "classification", photos, *asked, code=2)
    assert "no stored features of tiny at default for 54 of 54 images" in refused.stderr
    done = visbench("extract", photos, *asked, "--taps", "cls,patches", "--layers", "0,1")
    assert "54 images extracted, 0 cached" in done.stderr
    assert "0 images extracted, 54 cached" in visbench("extract", photos, *asked, "--taps", "cls@1").stderr
    visbench("probe", "classification", photos, *asked)
    assert (
        "of 54 images"
        in visbench("probe", "classification", photos, *asked, "--pooling", "mean", code=2).stderr
    )


def test_shards_together_are_the_whole(visbench, photos):
    for index in range(4):
        visbench("extract", photos, "--backbone", "tiny", "--shard", f"{index}/4")
    visbench("probe", "retrieval", photos, "--backbone", "tiny")


def test_dry_run_says_the_cost_and_writes_nothing(visbench, photos, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    done = visbench("run", "classification", photos, "--backbone", "tiny", "--dry-run")
    assert "54 images: 54 forward passes, 0 cached" in done.stdout
    assert "about" in done.stdout
    assert "free" in done.stdout
    assert " 1 record\n" in done.stdout
    assert done.stderr.endswith("Nothing was run.\n")
    assert sorted(tmp_path.rglob("*")) == before


def test_resume(visbench, photos, tmp_path):
    words = ("run", "classification", photos, "--backbone", "tiny", "--C", "1", "--resume")
    first, second = visbench(*words), visbench(*words)
    assert first.stdout == second.stdout
    assert "nothing is computed" in second.stderr
    assert "0 records appended" in second.stderr
    assert len(results.read(tmp_path / "results" / "visbench.jsonl")) == 1


def test_no_cache_leaves_no_store(visbench, photos, tmp_path):
    visbench("run", "retrieval", photos, "--backbone", "tiny", "--no-cache", "--no-results")
    refused = visbench(
        "probe", "retrieval", photos, "--backbone", "tiny", "--store", tmp_path / "other", code=2
    )
    assert "no stored features" in refused.stderr


def test_a_csv_of_results_stands_beside_the_records(visbench, photos, tmp_path):
    visbench("run", "retrieval", photos, "--backbone", "tiny", "--results", "out.csv")
    assert ",retrieval,map," in (tmp_path / "out.csv").read_text().splitlines()[1]
    assert len(results.read(tmp_path / "out.csv")) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("run", "clasification", "photos"),
            'there is no task "clasification". Did you mean "classification"?',
        ),
        (("run", "classification"), "no data: name a folder or a table"),
        (("run", "classification", "photos", "--data", "photos"), "DATA is given twice"),
        (("run", "classification", "nowhere", "--backbone", "tiny"), "there is no nowhere"),
        (("run", "classification", "fotos", "--backbone", "tiny"), "did you mean photos"),
        (
            ("run", "classification", "photos", "--backbone", "tiny", "--train-split", "test"),
            "the same 18 images. Give another --train-split, or --allow-same.",
        ),
        (("run", "classification", "photos", "--backbone", "tinyy"), "tiny"),
        (("run", "classification", "photos", "--backbone", "tiny", "--pooling", "max"), "--help"),
        (("run", "classification", "photos", "--backbone", "tiny", "--probe", "knn", "--k", "99"), "k is 99"),
        (
            ("run", "classification", "photos", "--backbone", "tiny", "--probe", "knn", "--epochs", "9"),
            "knn has no setting epochs",
        ),
        (("run", "retrieval", "photos", "--backbone", "tiny", "--C", "9"), "--help"),
        (("run", "classification", ""), "no data: name a folder or a table"),
        (
            ("run", "classification", "photos", "--C", ""),
            "is not a list of numbers such as 1,5. `visbench run",
        ),
        (
            ("run", "classification", "photos", "--image-size", "-5"),
            "neither a number of pixels nor native. `",
        ),
        (
            ("run", "classification", "photos", "--backbone", "resnet18", "--crop-pct", "nan"),
            "crop_pct is nan",
        ),
        (("run", "retrieval", "photos", "--backbone", "tiny", "--topk", "0"), "topk is [0]"),
        (("run", "classification", "photos", "--results", "photos/r.jsonl"), "lies in the data folder"),
        (("extract", "photos", "--backbone", "tiny", "--taps", "patches@9"), "0 … 1"),
        (("extract", "photos", "--backbone", "tiny", "--shard", "4/4"), "there is no shard 4 of 4"),
    ],
)
def test_refusals_are_one_sentence(visbench, photos, words, said):
    done = visbench(*words, code=2)
    assert said in done.stderr
    assert done.stderr.count("error:") == 1
    assert "Traceback" not in done.output
    assert not results.read("results/visbench.jsonl", missing_ok=True)


def test_help_draws_the_layout(visbench):
    said = visbench("run", "classification", "--help").stdout
    assert "photos.csv" in said
    assert "cat/  a.jpg b.png" in said
    assert "--topk" not in said
    assert "--topk" in visbench("run", "retrieval", "--help").stdout


def test_check_finds_what_is_wrong(visbench, photos):
    good = visbench("check", photos)
    assert "train 36 · test 18 images, 3 classes (18 images a class)" in good.stdout
    assert "ready to run" in good.stdout
    (photos / "train" / "cat" / "copy.png").write_bytes((photos / "test" / "cat" / "000.png").read_bytes())
    (photos / "train" / "cat" / "zero.jpg").write_bytes(b"")
    (photos / "train" / "cat" / "phone.heic").write_bytes(b"?")
    bad = visbench("check", photos, code=1)
    assert "train: train/cat/copy.png = test: test/cat/000.png" in bad.stdout
    assert "(and 1 that cannot be read)" in bad.stdout
    assert ".heic (1)" in bad.stdout
    assert "--on-bad skip" in bad.stdout
    found = json.loads(visbench("check", photos, "--json", code=1).stdout)
    assert list(found["splits"]["train"]["unreadable"]) == ["train/cat/zero.jpg"]


def test_check_takes_no_unreadable_file_for_a_copy(visbench, photos):
    for split in ("train", "test"):
        for name in ("one", "two"):
            (photos / split / "cat" / f"{name}.jpg").symlink_to("gone")
            (photos / split / "cat" / f"{name}.png").write_bytes(b"")
    found = json.loads(visbench("check", photos, "--json", code=1).stdout)
    assert found["duplicates"] == []
    assert [split["repeated"] for split in found["splits"].values()] == [0, 0]
    assert [len(split["unreadable"]) for split in found["splits"].values()] == [4, 4]


def test_list_names_tasks_and_probes(visbench):
    said = visbench("list").stdout
    assert "classification" in said
    assert "retrieval" in said
    assert "logistic" in said
    assert "efficientnet_lite0" in said


SLOW = """
import sys, time, torch
from torch import nn
from extract.backbones import CustomBackbone, register_backbone
from extract.transforms import Transform
from visbench.cli import main

class Slow(nn.Module):
    def forward(self, images):
        sys.stderr.write("beat\\n")
        sys.stderr.flush()
        time.sleep(0.2)
        return images.mean((2, 3))

register_backbone("slow")(lambda **options: CustomBackbone(Slow(), Transform(size=8), name="slow"))
sys.argv = ["visbench", "extract", sys.argv[1], "--backbone", "slow", "--batch-size", "2", "--workers", "1"]
main()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_run_keeps_what_it_did(photos, number, code):
    command = [sys.executable, "-c", SLOW, str(photos)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ}) as running:
        beats = 0
        for line in running.stderr:
            beats += line == "beat\n"
            if beats == 12:
                break
        running.send_signal(number)
        said = running.communicate(timeout=60)[1]
    assert running.returncode == code, said
    assert "goes on from what is stored" in said
    again = subprocess.run([*command], capture_output=True, text=True, check=True)
    cached = int(again.stderr.split("images extracted, ")[1].split()[0])
    assert cached > 0


def test_the_entry_point_is_the_group():
    assert callable(main)


def test_native_is_read_as_help_writes_it(visbench, photos):
    visbench("run", "retrieval", photos, "--backbone", "tiny", "--image-size", "NATIVE", "--no-results")


def test_results_may_stand_beside_a_table(visbench, photos, tmp_path):
    rows = "".join(f"{path},{path.parent.name}\n" for path in sorted((photos / "test").rglob("*.png")))
    (tmp_path / "photos.csv").write_text(f"path,label\n{rows}")
    visbench("run", "retrieval", "photos.csv", "--backbone", "tiny")
    assert len(results.read(tmp_path / "results" / "visbench.jsonl")) == 1


def test_several_labels_an_image_are_refused(visbench, photos, tmp_path):
    rows = "".join(f"{path},{path.parent.name}|x\n" for path in sorted(photos.rglob("*.png")))
    (tmp_path / "photos.csv").write_text(f"path,labels\n{rows}")
    for task in ("classification", "retrieval"):
        refused = visbench("run", task, "photos.csv", "--backbone", "tiny", code=2)
        assert f"{task} takes one an image" in refused.stderr
    assert "take one" in visbench("check", "photos.csv", code=1).stdout


def test_files_left_unread_are_counted(visbench, photos):
    (photos / "test" / "cat" / "phone.heic").write_bytes(b"?")
    said = "photos: files left unread, by extension: .heic (1)"
    assert said in visbench("run", "retrieval", photos, "--backbone", "tiny", "--no-results").stderr
    assert said in visbench("extract", photos, "--backbone", "tiny").stderr


def test_check_takes_the_pixel_limit(visbench, photos):
    assert "--max-pixels raises" in visbench("check", photos, "--max-pixels", "100", code=1).stdout


def test_nothing_that_can_be_read_is_refused(visbench, tmp_path):
    for name in ("a", "b"):
        (tmp_path / "bad" / name).mkdir(parents=True)
        (tmp_path / "bad" / name / "0.png").write_bytes(name.encode())
    for _ in range(2):  # the second time it is known from the start
        for words in (("extract",), ("run", "retrieval")):
            refused = visbench(*words, "bad", "--backbone", "tiny", "--on-bad", "skip", code=2)
            assert "can be read" in refused.stderr or "cannot be read" in refused.stderr


def test_shares_do_not_move_when_a_bad_file_becomes_known(visbench, photos):
    (photos / "train" / "owl" / "zzz.png").write_bytes(b"?")
    words = ("extract", photos, "--backbone", "tiny", "--on-bad", "skip")
    for index in (3, 2, 1, 0):
        visbench(*words, "--shard", f"{index}/4")
    assert "0 images extracted, 54 cached" in visbench(*words).stderr
    assert "14 images: 0 forward" in visbench(*words, "--shard", "3/4", "--dry-run").stdout
