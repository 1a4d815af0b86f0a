"""A whole evaluation as a file: what is run once, what goes on, what is refused, what fails alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import visbench
from visbench import results
from visbench.errors import UsageError
from visbench.record import run_key
from visbench.suites import Plan

WHOLE = """
results = "out/suite.jsonl"
backbones = ["tiny"]
[defaults]
seed = 0
[[tasks]]
task = "classification"
data = "photos/"
probes = ["logistic", "knn"]
C = 1
k = 3
[[tasks]]
task = "retrieval"
data = "photos"
layer = 0
"""


@pytest.fixture
def seen(tiny, tiny_backbone):
    """How many images the backbones `tiny` and `other` were shown."""
    from extract.backbones.registry import REGISTERED, register_backbone

    shown = []

    def made(**options):
        backbone = tiny_backbone()
        backbone.module.register_forward_pre_hook(lambda module, given: shown.append(len(given[0])))
        return backbone

    register_backbone("tiny")(made)
    register_backbone("other")(lambda **options: tiny_backbone(16, 4, name="other"))
    yield shown
    REGISTERED.pop("other", None)


@pytest.fixture
def written(tmp_path, monkeypatch, photos):
    """Write a suite file beside the photos."""
    monkeypatch.chdir(tmp_path)

    def write(text=WHOLE, name="suite.toml"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def told(record):
    return record.task, record.probe, record.backbone


def test_a_suite_says_what_single_runs_say(written, seen, photos, tmp_path):
    done = visbench.run_suite(written())
    assert not done.failures
    alone = [
        visbench.run("tiny", "classification", photos, probe="logistic", C=1.0),
        visbench.run("tiny", "classification", photos, probe="knn", k=3),
        visbench.run("tiny", "retrieval", photos, layer=0),
    ]
    assert [each.metrics for each in done.results] == [each.metrics for each in alone]
    assert [run_key(each.record) for each in done.results] == [run_key(each.record) for each in alone]
    stored = results.read(tmp_path / "out" / "suite.jsonl")
    assert [record.metrics for record in stored] == [each.metrics for each in alone]
    assert "photos · retrieval" in done.board()


def test_an_image_is_seen_once_for_all_taps_that_tasks_ask_for(written, seen):
    visbench.run_suite(
        written()
    )  # classification sees 54 images at the last layer, retrieval 18 of them at layer 0
    assert images(seen) == 54


def images(shown):
    """Images shown to a backbone; those that come alone are shown to find out how fast it is."""
    return sum(count for count in shown if count > 1)


def test_what_has_a_record_is_not_run_again(written, seen, monkeypatch):
    first = visbench.run_suite(written())
    shown = sum(seen)
    again = visbench.run_suite(written())
    assert [each.resumed for each in again.results] == [True] * 3
    assert sum(seen) == shown
    assert [each.metrics for each in again.results] == [each.metrics for each in first.results]
    assert again.board() == first.board()
    more = visbench.run_suite(written(WHOLE.replace('"knn"]', '"knn", "ridge"]').replace("C = 1\n", "")))
    assert [each.record.probe for each in more.results if not each.resumed] == ["logistic", "ridge"]
    more = visbench.run_suite(written(WHOLE.replace('["tiny"]', '["other", "tiny"]')))
    assert [each.record.backbone for each in more.results if not each.resumed] == ["other"] * 3
    assert sum(seen) == shown
    assert not any(each.resumed for each in visbench.run_suite(written(), resume=False).results)


def test_the_order_of_tables_and_backbones_changes_no_number(written, seen, tmp_path):
    whole = tomllib.loads(WHOLE) | {"backbones": ["tiny", "other"]}
    turned = whole | {
        "tasks": whole["tasks"][::-1],
        "backbones": ["other", "tiny"],
        "results": "turned.jsonl",
    }
    one, other = visbench.run_suite(whole), visbench.run_suite(turned)
    numbers = [{told(each.record): each.metrics for each in done.results} for done in (one, other)]
    assert numbers[0] == numbers[1]
    assert len(numbers[0]) == 6


def test_a_backbone_may_have_options_of_its_own(written, seen):
    text = WHOLE.replace('["tiny"]', '["tiny", {name = "other", image_size = 16}]')
    done = visbench.run_suite(written(text), only="retrieval")
    assert [each.record.backbone for each in done.results] == ["tiny", "other"]


def test_controls_stand_where_a_task_takes_them(written, seen, capsys):
    done = visbench.run_suite(written('controls = ["pixels"]\n' + WHOLE.replace("layer = 0", "layer = -2")))
    assert [told(each.record) for each in done.results if each.record.control] == [
        ("classification", "logistic", "pixels"),
        ("classification", "knn", "pixels"),
    ]
    assert "2  retrieval" in (said := capsys.readouterr().err)
    assert "the control pixels is left out" in said
    with pytest.raises(UsageError, match=r"\[\[tasks\]\] 2 \(retrieval\)"):
        visbench.run_suite(written(WHOLE.replace("layer = 0", 'layer = -2\ncontrols = ["pixels"]')))


def test_a_grid_is_swept_and_shots_are_drawn(written, seen, photos):
    text = WHOLE.partition("C = 1")[0].replace('"logistic", "knn"', '"logistic"')
    done = visbench.run_suite(
        written(text + 'sweep = {C = "1e-2:1:log3", layer = [0, 1]}\nshots = [2, 4]\ndraws = 2\n')
    )
    alone = visbench.sweep(
        "tiny",
        "classification",
        photos,
        grid={"C": [1e-2, 1e-1, 1.0], "layer": [0, 1]},
        probe="logistic",
        shots=(2, 4),
        draws=2,
    )
    assert [each.metrics for each in done.results] == [each.metrics for each in alone.results]
    assert [each.record.task_params["shots"] for each in done.results] == [2, 4]
    assert [len(each.trials) for each in done.results] == [6, 6]
    again = visbench.run_suite(written())
    assert len(again.results) == 3


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "probes",
            "prones",
            r'\[\[tasks\]\] 1 \(classification\): there is no key "prones". Did you mean "probes"',
        ),
        (
            '"classification"',
            '"clasification"',
            'there is no task "clasification". Did you mean "classification"',
        ),
        ('["tiny"]', '["tinny"]', r"\[\[tasks\]\] 1 \(classification\).*tinny"),
        ('"photos"', '"fotos"', r'\[\[tasks\]\] 2 \(retrieval\): there is no .*fotos. Did you mean "photos"'),
        ("seed", "sed", r'\[defaults\]: no task here has an option "sed". Did you mean "seed"'),
        ("seed = 0", 'seed = "no"', "--seed"),
        ("results =", "result =", 'no key "result" at the top. Did you mean "results"'),
        ("k = 3", "k = 99", "k is 99"),
        ("k = 3", "epochs = 3", "has no setting epochs"),
        ("layer = 0", "layer = 9", r"\[\[tasks\]\] 2 \(retrieval\).*0 … 1"),
        ("layer = 0", "probes = ['knn']", 'there is no key "probes"'),
        ("layer = 0", "sweep = {C = 1}", "learns nothing"),
        ("layer = 0", "limit = true", "limit is True; it wants"),
        ("layer = 0", "topk = {a = 1}", "topk is a table"),
        ("layer = 0", "layer = 0\nlayers = 0", "layer and layers are one option"),
        ("k = 3", "refit = 3", "refit is 3; it is true or false"),
        ('["tiny"]', '[{nam = "tiny"}]', "has no name"),
        ('["tiny"]', '[{name = "tiny", chekpoint = "a"}]', 'no key "chekpoint". Did you mean "checkpoint"'),
        ('["tiny"]', '"tiny"', "it lists names"),
        ("C = 1", 'sweep = {C = "1:log"}', r"\(classification\): sweep: --grid 'C=1:log'"),
        ("[[tasks]]", "[[task]]", 'no key "task" at the top. Did you mean "tasks"'),
        ("C = 1", "C = ", "suite.toml is no TOML"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_runs(command, written, seen, tmp_path, old, new, said):
    import re

    assert old in WHOLE
    refused = command("suite", written(WHOLE.replace(old, new)), code=2)
    assert re.search(said, refused.stderr), refused.stderr
    assert refused.stderr.count("error:") == 1
    assert "Traceback" not in refused.output
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_not_there(command, written):
    written()
    assert 'Did you mean "suite.toml"' in command("suite", "suit.toml", code=2).stderr
    assert 'no task "depth"' in command("suite", "suite.toml", "--only", "depth", code=2).stderr


def test_switches_and_names_are_those_of_the_command_line(written, seen):
    text = WHOLE.replace("seed = 0", "refit = false\nbatch-size = 7").replace("k = 3", "standardize = false")
    text = text.replace('probes = ["logistic", "knn"]', 'probe = "logistic"')
    done = visbench.run_suite(written(text), only=["1"])
    assert [each.record.task_params["refit"] for each in done.results] == [False]
    assert [each.record.task_params["standardize"] for each in done.results] == [False]
    assert max(seen) == 7


def test_a_dry_run_sums_what_it_will_cost(command, written, seen, tmp_path):
    told = json.loads(command("suite", written(), "--dry-run", "--json").stdout)
    assert [(each["passes"], each["records"]) for each in told["tasks"]] == [(54, 2), (18, 1)]
    assert told["total"]["passes"] == 54
    assert told["total"]["records"] == 3
    assert told["total"]["bytes"] == sum(each["bytes"] for each in told["tasks"])
    text = command("suite", "suite.toml", "--dry-run").stdout
    assert "2  retrieval · " in text
    assert text.splitlines()[-2].startswith("together")
    assert not (tmp_path / "out").exists()
    command("suite", "suite.toml", "--only", "retrieval")
    after = json.loads(command("suite", "suite.toml", "--dry-run", "--json").stdout)
    assert (after["total"]["records"], after["total"]["answered"]) == (2, 1)
    assert after["total"]["passes"] == 54  # the images of retrieval are stored at its layer alone


def test_the_command_ends_with_boards(command, written, seen):
    done = command("suite", written(), "--results", "elsewhere.jsonl")
    assert "photos · classification · knn" in done.stdout
    assert "photos · retrieval" in done.stdout
    assert "3 records appended to elsewhere.jsonl" in done.stderr
    lines = command("suite", "suite.toml", "--results", "elsewhere.jsonl", "--json").stdout.splitlines()
    assert [json.loads(line)["task"] for line in lines] == ["classification", "classification", "retrieval"]
    assert len(results.read("elsewhere.jsonl")) == 3


def broken(tmp_path: Path) -> None:
    """A second data set, one image of which is cut short: hashed well, decoded badly."""
    rng = np.random.default_rng(1)
    for name in ("a", "b"):
        (tmp_path / "bad" / name).mkdir(parents=True)
        for number in range(3):
            pixels = rng.integers(0, 255, (40, 40, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "bad" / name / f"{number}.png")
    whole = (tmp_path / "bad" / "a" / "0.png").read_bytes()
    (tmp_path / "bad" / "a" / "0.png").write_bytes(whole[: len(whole) // 2])


def test_a_task_that_fails_does_not_lose_the_others(command, written, seen, tmp_path):
    broken(tmp_path)
    text = WHOLE.replace('data = "photos/"', 'data = "bad/"').replace("k = 3", "k = 1")
    failed = command("suite", written(text), code=1)
    assert "photos · retrieval" in failed.stdout
    assert failed.stderr.count("error:") == 1
    assert "error: 1  classification · " in failed.stderr
    assert "0.png" in failed.stderr
    again = command(
        "suite", "suite.toml", code=1
    )  # it is known from the start now, and still costs nothing else
    assert "photos · retrieval" in again.stdout
    assert "0 records appended" in again.stderr
    command("suite", "suite.toml", "--resume", "--fail-fast", "--only", "retrieval")
    command("suite", written(text.replace("seed = 0", 'on_bad = "skip"')))


def test_fail_fast_stops(command, written, seen, tmp_path):
    broken(tmp_path)
    text = WHOLE.replace('data = "photos/"', 'data = "bad/"').replace("k = 3", "k = 1")
    assert "0.png" in command("suite", written(text), "--fail-fast", code=2).stderr
    assert not results.read(tmp_path / "out" / "suite.jsonl", missing_ok=True)


def test_a_measurement_that_fails_does_not_lose_those_after_it(written, seen, monkeypatch):
    from visbench.classification import Classification

    measured = Classification.__call__

    def fails(self, *given):
        if self.name == "logistic":
            raise RuntimeError("a bug")
        return measured(self, *given)

    monkeypatch.setattr(Classification, "__call__", fails)
    done = visbench.run_suite(written())
    assert [each.record.probe for each in done.results] == ["knn", None]
    assert [each.reason for each in done.failures] == ["RuntimeError: a bug"]
    monkeypatch.undo()
    done = visbench.run_suite(written())
    assert [each.record.probe for each in done.results if not each.resumed] == ["logistic"]


def test_two_tables_that_ask_for_one_number_get_one_record(written, seen):
    text = WHOLE + WHOLE[WHOLE.rindex("[[tasks]]") :]
    done = visbench.run_suite(written(text))
    assert [each.resumed for each in done.results] == [False, False, False, True]
    assert Plan(written(text)).forecast().total.records == 0


SLOW = """
import sys, time, torch
from torch import nn
from extract.backbones import CustomBackbone, register_backbone
from extract.transforms import Transform
from visbench.cli import main

class Slow(nn.Module):
    def forward(self, images):
        sys.stderr.write(f"beat {len(images)}\\n")
        sys.stderr.flush()
        time.sleep(0.1)
        return images.mean((2, 3))

register_backbone("slow")(lambda **options: CustomBackbone(Slow(), Transform(size=8), name="slow"))
main()
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_a_stopped_suite_goes_on(written, photos, tmp_path, number, code):
    text = (
        WHOLE.replace("tiny", "slow").replace("layer = 0", "limit = 4").replace("seed = 0", "batch_size = 2")
    )
    command = [sys.executable, "-c", SLOW, "suite", str(written(text))]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ}) as running:
        beats = 0
        for line in running.stderr:
            beats += line.startswith("beat")
            if beats == 24:  # the first ones look at what the backbone is
                break
        running.send_signal(number)
        said = running.communicate(timeout=60)[1]
    assert running.returncode == code, said
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "3 records appended" in again.stderr
    if number != signal.SIGKILL:  # which loses the part in flight
        assert int(again.stderr.split("extracting  slow  ")[1].split()[0]) < 54
    assert len(results.read(tmp_path / "out" / "suite.jsonl")) == 3


def test_the_example_is_read():
    example = Path(__file__).parents[2] / "examples" / "suite.toml"
    held = tomllib.loads(example.read_text())
    from visbench.suiting.file import read
    from visbench.tasks import TASKS

    assert {table["task"] for table in held["tasks"]} <= set(TASKS)
    with pytest.raises(UsageError, match=r"there is no .*photos"):
        read(example)
