"""What `visbench run TASK --help` tells: no setting that the task refuses, the defaults that hold, calls that parse."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from extract.datasets import ade, voc
from extract.datasets.domains import DOMAIN_OF_TASK, DOMAINS
from extract.datasets.triplets import MIN_VOTES
from probes.boxes.detection import Detection
from probes.maps.depth import Depth
from visbench import posing
from visbench.cli.app import app
from visbench.dense import settings as heads
from visbench.errors import UsageError
from visbench.options import SETTINGS, make_options
from visbench.solvers import Knn, Linear, Logistic, Ridge
from visbench.tasks import TASKS

WIDE = {"terminal_width": 400, "max_content_width": 400}
FITTED = [task.name for task in TASKS.values() if task.fitted]
DENSE = [task.name for task in TASKS.values() if task.dense]
POSES = "relative_pose"


def command(verb: str, task: str) -> click.Command:
    group = app.get_command(click.Context(app), verb)
    assert isinstance(group, click.Group)
    found = group.get_command(click.Context(group), task)
    assert found is not None
    return found


def help_of(verb: str, task: str) -> str:
    made = command(verb, task)
    return made.get_help(click.Context(made, info_name=f"visbench {verb} {task}", **WIDE))


def said(task: str, option: str) -> str:
    """The text of one option."""
    (found,) = [
        each
        for each in command("run", task).params
        if isinstance(each, click.Option) and option in (*each.opts, *each.secondary_opts)
    ]
    return found.help or ""


def default(task: str, option: str) -> list[float]:
    """The numbers that an option names as its default."""
    told = re.search(r"\[default[^:]*: ([^\]]*)\]", said(task, option))
    assert told, (task, option)
    return [float(each) for each in re.findall(r"\d[\d.]*(?:e-?\d+)?", told[1])]


@pytest.mark.parametrize("task", TASKS)
def test_settings_that_are_shown_are_those_that_are_accepted(task):
    row = TASKS[task]
    make = row.measurement()
    accepted = set().union(*(make.accepts(probe) for probe in row.probes or (None,)))
    names = {each.name for each in command("run", task).params}
    assert names & {*SETTINGS, "standardize"} == accepted & {*SETTINGS, "standardize"}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("option", "word", "told"), [("--control", "pixels", {"controls": ("pixels",)})])
def test_a_control_that_is_refused_is_not_shown(task, option, word, told):
    row = TASKS[task]
    try:
        row.measurement()(row.default_probe, make_options(**told))
    except UsageError:
        assert word not in said(task, option)
    else:
        assert word in said(task, option) or task == "zeroshot"  # where no text is about pixels


def test_folds_are_offered_where_they_can_be_drawn():
    assert [task for task in FITTED if "cv5" not in said(task, "--select")] == [POSES]


@pytest.mark.parametrize("task", DENSE)
def test_defaults_of_heads(task):
    assert default(task, "--lr") == list(heads.USUAL["learning_rate"])
    assert default(task, "--weight-decay") == list(heads.USUAL["weight_decay"])
    assert default(task, "--epochs") == [heads.EPOCHS, heads.STEPS]
    assert default(task, "--train-batch-size") == [heads.BATCH]
    assert default(task, "--hidden-dim") == [heads.HIDDEN["fpn"], heads.HIDDEN["dpt"]]
    assert heads.HIDDEN["fpn"] == heads.HIDDEN["conv_block"]


def test_defaults_of_poses():
    assert default(POSES, "--lr") == list(posing.USUAL["learning_rate"])
    assert default(POSES, "--weight-decay") == list(posing.USUAL["weight_decay"])
    assert default(POSES, "--epochs") == [posing.EPOCHS]
    assert default(POSES, "--train-batch-size") == [posing.BATCH]
    assert "linear" not in help_of("run", POSES)
    assert "--probe linear" not in help_of("sweep", POSES)


def test_defaults_of_classification():
    linear, task = Linear(), "classification"
    assert default(task, "--lr") == list(linear.learning_rate)
    assert default(task, "--weight-decay") == list(linear.weight_decay)
    assert default(task, "--epochs") == [linear.epochs]
    assert default(task, "--train-batch-size") == [linear.train_batch_size]
    assert default(task, "--k") == list(Knn().k)
    assert default(task, "--temperature") == list(Knn().temperature)
    for option, grid in (("--C", Logistic().C), ("--l2", Ridge().l2)):
        assert default(task, option) == pytest.approx([len(grid), min(grid), max(grid)])


def test_defaults_of_boxes_maps_and_triplets():
    made = Detection(num_classes=2, size=48)
    assert default("detection", "--score-threshold") == [made.score_threshold]
    assert default("detection", "--nms-iou") == [made.nms_iou]
    assert default("detection", "--max-detections") == [made.max_detections]
    assert default("depth", "--n-bins") == [Depth().bins]
    assert f"{len(voc.CLASSES)} of VOC, {ade.NUM_CLASSES} of ADE20K" in said(
        "semantic_segmentation", "--num-classes"
    )
    assert default("similarity", "--min-votes") == [MIN_VOTES]
    for task in ("depth", "relative_depth", "edge", "keypoints2d", "occlusion_edge"):
        assert default(task, "--target-scale")[0] == DOMAINS[DOMAIN_OF_TASK[task]].scale


def test_defaults_of_correspondence():
    from visbench.correspondence import Correspondence

    task = "correspondence"
    made = Correspondence(None, make_options())
    assert default(task, "--max-warp") == [made.warp.max_warp]
    assert default(task, "--num-corr") == [made.num_corr]
    assert default(task, "--ratio") == [made.ratio]
    assert default(task, "--thresholds") == [*made.pixels, *made.patches]
    assert f"[default: {made.units}; patch under" in said(task, "--units")
    assert Correspondence(None, make_options(protocol="visbench")).units == "patch"


@pytest.mark.parametrize("verb", ["run", "probe", "sweep"])
@pytest.mark.parametrize("task", TASKS)
def test_examples_can_be_typed(verb, task):
    if verb == "sweep" and task not in FITTED:
        pytest.skip("nothing to choose")
    start = f"visbench {verb} {task} "
    lines = [line.strip() for line in help_of(verb, task).splitlines() if line.strip().startswith(start)]
    assert lines
    for line in lines[1:] if "[OPTIONS]" in lines[0] else lines:
        context = command(verb, task).make_context(task, shlex.split(line.removeprefix(start)))
        assert context.params["data"]
        for probe in context.params.get("probes", ()):
            assert probe in TASKS[task].probes


def test_zero_shot_names_backbones_that_have_a_text_tower():
    said = help_of("run", "zeroshot")
    assert "--projection --backbone clip_" in said
    assert "dinov2" not in said


def test_detection_draws_the_layouts_it_reads():
    said = help_of("run", "detection")
    for word in ("VOC2012/", "instances_train2017.json", "(YOLO)", "data.yaml", "XML files side by side"):
        assert word in said
    assert "train, valid and test" in " ".join(said.split())
