"""What a suite file may hold, and what is refused before anything runs."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import visbench
from visbench.errors import UsageError


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
def test_what_is_wrong_is_refused_before_anything_runs(
    whole, command, written, seen, tmp_path, old, new, said
):
    import re

    assert old in whole
    refused = command("suite", written(whole.replace(old, new)), code=2)
    assert re.search(said, refused.stderr), refused.stderr
    assert refused.stderr.count("error:") == 1
    assert "Traceback" not in refused.output
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_not_there(command, written):
    written()
    assert 'Did you mean "suite.toml"' in command("suite", "suit.toml", code=2).stderr
    assert 'no task "depth"' in command("suite", "suite.toml", "--only", "depth", code=2).stderr


def test_switches_and_names_are_those_of_the_command_line(whole, written, seen):
    text = whole.replace("seed = 0", "refit = false\nbatch-size = 7").replace("k = 3", "standardize = false")
    text = text.replace('probes = ["logistic", "knn"]', 'probe = "logistic"')
    done = visbench.run_suite(written(text), only=["1"])
    assert [each.record.task_params["refit"] for each in done.results] == [False]
    assert [each.record.task_params["standardize"] for each in done.results] == [False]
    assert max(seen) == 7


def test_the_example_is_read():
    example = Path(__file__).parents[3] / "examples" / "suite.toml"
    held = tomllib.loads(example.read_text())
    from visbench.suiting.file import read
    from visbench.tasks import TASKS

    assert {table["task"] for table in held["tasks"]} <= set(TASKS)
    with pytest.raises(UsageError, match=r"there is no .*photos"):
        read(example)
