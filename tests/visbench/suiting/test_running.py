"""What a suite runs: the numbers of single runs, each once, and what it costs."""

from __future__ import annotations

import json
import tomllib

import pytest

import visbench
from visbench import results
from visbench.errors import UsageError
from visbench.record import run_key
from visbench.suites import Plan


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


def images(shown):
    """Images shown to a backbone; those that come alone are shown to find out how fast it is."""
    return sum(count for count in shown if count > 1)


def test_an_image_is_seen_once_for_all_taps_that_tasks_ask_for(written, seen):
    visbench.run_suite(
        written()
    )  # classification sees 54 images at the last layer, retrieval 18 of them at layer 0
    assert images(seen) == 54


def test_what_has_a_record_is_not_run_again(whole, written, seen, monkeypatch):
    first = visbench.run_suite(written())
    shown = sum(seen)
    again = visbench.run_suite(written())
    assert [each.resumed for each in again.results] == [True] * 3
    assert sum(seen) == shown
    assert [each.metrics for each in again.results] == [each.metrics for each in first.results]
    assert again.board() == first.board()
    more = visbench.run_suite(written(whole.replace('"knn"]', '"knn", "ridge"]').replace("C = 1\n", "")))
    assert [each.record.probe for each in more.results if not each.resumed] == ["logistic", "ridge"]
    more = visbench.run_suite(written(whole.replace('["tiny"]', '["other", "tiny"]')))
    assert [each.record.backbone for each in more.results if not each.resumed] == ["other"] * 3
    assert sum(seen) == shown
    assert not any(each.resumed for each in visbench.run_suite(written(), resume=False).results)


def told(record):
    return record.task, record.probe, record.backbone


def test_the_order_of_tables_and_backbones_changes_no_number(whole, written, seen, tmp_path):
    whole = tomllib.loads(whole) | {"backbones": ["tiny", "other"]}
    turned = whole | {
        "tasks": whole["tasks"][::-1],
        "backbones": ["other", "tiny"],
        "results": "turned.jsonl",
    }
    one, other = visbench.run_suite(whole), visbench.run_suite(turned)
    numbers = [{told(each.record): each.metrics for each in done.results} for done in (one, other)]
    assert numbers[0] == numbers[1]
    assert len(numbers[0]) == 6


def test_a_backbone_may_have_options_of_its_own(whole, written, seen):
    text = whole.replace('["tiny"]', '["tiny", {name = "other", image_size = 16}]')
    done = visbench.run_suite(written(text), only="retrieval")
    assert [each.record.backbone for each in done.results] == ["tiny", "other"]


def test_controls_stand_where_a_task_takes_them(whole, written, seen, capsys):
    done = visbench.run_suite(written('controls = ["pixels"]\n' + whole.replace("layer = 0", "layer = -2")))
    assert [told(each.record) for each in done.results if each.record.control] == [
        ("classification", "logistic", "pixels"),
        ("classification", "knn", "pixels"),
    ]
    assert "2  retrieval" in (said := capsys.readouterr().err)
    assert "the control pixels is left out" in said
    with pytest.raises(UsageError, match=r"\[\[tasks\]\] 2 \(retrieval\)"):
        visbench.run_suite(written(whole.replace("layer = 0", 'layer = -2\ncontrols = ["pixels"]')))


def test_a_grid_is_swept_and_shots_are_drawn(whole, written, seen, photos):
    text = whole.partition("C = 1")[0].replace('"logistic", "knn"', '"logistic"')
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


def test_two_tables_that_ask_for_one_number_get_one_record(whole, written, seen):
    text = whole + whole[whole.rindex("[[tasks]]") :]
    done = visbench.run_suite(written(text))
    assert [each.resumed for each in done.results] == [False, False, False, True]
    assert Plan(written(text)).forecast().total.records == 0
