import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from visbench.record import FIELDS, Record, board_key, plain, protocol_part, row_key, run_key

PLANNED = Record(
    task="classification",
    probe="logistic",
    dataset="photos",
    split="test",
    train_split="train",
    val_split="val",
    dataset_fingerprint="f" * 32,
    dataset_params={"limit": 50},
    backbone="dinov2_vits14",
    backbone_key="a" * 32,
    backbone_spec={
        "name": "timm:x",
        "library": "timm 1.0",
        "precision": "float32",
        "options": {"norm": True},
    },
    image_size=224,
    taps=["default"],
    pooling_requested="default",
    feature_dtype="float16",
    selection={"how": "C chosen on val", "grid": {"C": [0.1, 1.0, 10.0]}, "refit": True},
    seed=0,
)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
NESTED = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)


@given(metrics=st.dictionaries(st.text(), SCALARS), params=st.dictionaries(st.text(), NESTED))
def test_a_record_is_what_its_line_says(metrics, params):
    record = replace(PLANNED, metrics=metrics, task_params=params, notes=params)
    line = record.to_json()
    assert "\n" not in line
    json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert Record.from_json(line) == record


def test_numbers_become_plain():
    record = replace(
        PLANNED,
        metrics={"top1": np.float32(0.5), "top5": np.nan, "loss": math.inf},
        intervals={"top1": (np.float64(0.25), 0.75)},
        n={"top1": np.int64(372)},
        context={"per_class": {3: np.array([1, 2])}},
        notes=Path("a/b"),
        taps=("cls@-1",),
    )
    assert record.metrics == {"top1": 0.5, "top5": None, "loss": None}
    assert record.intervals == {"top1": [0.25, 0.75]}
    assert type(record.n["top1"]) is int
    assert record.context == {"per_class": {"3": [1, 2]}}
    assert (record.notes, record.taps) == ("a/b", ["cls@-1"])


def test_what_json_cannot_hold_is_named():
    with pytest.raises(TypeError, match=r"context\['probe'\] is a object"):
        replace(PLANNED, context={"probe": object()})
    with pytest.raises(TypeError, match="metrics is not a mapping"):
        replace(PLANNED, metrics=[1])


def test_a_line_of_the_older_tool_is_read_and_written_back():
    old = {
        "schema_version": 1, "timestamp": "2025-01-01T00:00:00", "backbone": "resnet50", "task": "similarity",
        "dataset": "nights", "metrics": {"accuracy": 0.8273}, "task_params": {"protocol": "midvision_2afc"},
        "finetune": None, "git_commit": "1234567",
    }  # fmt: skip
    record = Record.from_json(json.dumps(old))
    assert record.protocol == "visbench"
    assert record.intervals == {}
    assert record.extra == {"git_commit": "1234567"}
    again = record.to_dict()
    assert again["git_commit"] == "1234567"
    assert "extra" not in again
    assert Record.from_json(record.to_json()) == record


@pytest.mark.parametrize("line", ["[]", "3", '"a"', '{"task": "classification"}', "{", '{"metrics": 3}'])
def test_other_lines_are_no_records(line):
    with pytest.raises(ValueError):  # noqa: PT011  json's own error is one
        Record.from_json(line)


def changed(**values):
    return replace(PLANNED, **values)


ASKED = {
    "protocol": "visbench",
    "task": "retrieval",
    "probe": "linear",
    "split": "val",
    "train_split": "all",
    "val_split": None,
    "dataset_fingerprint": "e" * 32,
    "dataset_params": {"limit": 51},
    "image_size": 518,
    "taps": ["cls@3"],
    "pooling_requested": "cls",
    "task_params": {"ks": [1]},
    "training": {"epochs": 200},
    "finetune": {"blocks": 2},
    "selection": {**PLANNED.selection, "refit": False},
}
USED = {
    "backbone_key": "b" * 32,
    "backbone_spec": {**PLANNED.backbone_spec, "precision": "bf16"},
    "feature_dtype": "float32",
    "control": "shuffled labels",
}
AFTERWARDS = {
    "timestamp": "2030-01-01T00:00:00Z",
    "backbone": "an alias",
    "backbone_spec": {**PLANNED.backbone_spec, "name": "an alias"},
    "taps_resolved": ["cls@11"],
    "pooling": "cls",
    "layer": 11,
    "hyperparameters": {"C": 1.0},
    "selection": {**PLANNED.selection, "outcome": {"scores": [0.1, 0.2, 0.3]}},
    "metrics": {"top1": 0.9},
    "intervals": {"top1": [0.8, 0.95]},
    "n": {"top1": 372},
    "samples": "scores of every sample",
    "context": {"chance": 0.1},
    "unreadable": {"train/a.jpg": "truncated"},
    "convergence": {"converged": True},
    "versions": {"jax": "0.10"},
    "device": "cuda",
    "duration_seconds": 3.0,
    "notes": "in a hurry",
    "caller": "python",
}


@pytest.mark.parametrize("field", ASKED)
def test_what_was_asked_makes_another_board(field):
    other = changed(**{field: ASKED[field]})
    assert board_key(other) != board_key(PLANNED)
    assert run_key(other) != run_key(PLANNED)


@pytest.mark.parametrize("field", USED)
def test_another_use_of_the_backbone_makes_another_row_of_the_same_board(field):
    other = changed(**{field: USED[field]})
    assert board_key(other) == board_key(PLANNED)
    assert row_key(other) != row_key(PLANNED)
    assert run_key(other) != run_key(PLANNED)


@pytest.mark.parametrize("field", AFTERWARDS)
def test_what_is_known_afterwards_changes_no_key(field):
    other = changed(**{field: AFTERWARDS[field]})
    assert (board_key(other), row_key(other), run_key(other)) == (
        board_key(PLANNED),
        row_key(PLANNED),
        run_key(PLANNED),
    )


def test_every_field_was_considered():
    silent = {
        "schema_version",
        "level",
        "dataset",
        "dataset_size",
        "counts",
        "feature_mode",
        "layers",
        "seed",
    }
    silent |= {"seeds", "headline", "better", "extra"}
    assert {*ASKED, *USED, *AFTERWARDS, *silent} == set(FIELDS)


def test_another_seed_is_another_run_of_the_same_row():
    other = changed(seed=1)
    assert (board_key(other), row_key(other)) == (board_key(PLANNED), row_key(PLANNED))
    assert run_key(other) != run_key(PLANNED)


def test_given_hyperparameters_count_where_nothing_was_chosen():
    given_one, given_ten = (changed(selection={}, hyperparameters={"C": c}) for c in (1.0, 10.0))
    assert board_key(given_one) != board_key(given_ten)


def test_data_are_known_by_content_and_only_without_it_by_name():
    assert board_key(changed(dataset="renamed")) == board_key(PLANNED)
    unknown = changed(dataset_fingerprint=None)
    assert board_key(replace(unknown, dataset="renamed")) != board_key(unknown)


def test_a_plan_as_a_plain_mapping_has_the_keys_of_the_finished_record():
    finished = changed(**AFTERWARDS)
    planned = {name: getattr(PLANNED, name) for name in FIELDS if name != "extra"}
    planned["image_size"] = np.int64(224)
    planned["taps"] = ("default",)
    assert run_key(planned) == run_key(Record.from_json(finished.to_json()))
    assert protocol_part(planned) == protocol_part(finished)


def test_sets_are_ordered():
    assert plain({"classes": {"b", "a"}}) == {"classes": ["a", "b"]}
