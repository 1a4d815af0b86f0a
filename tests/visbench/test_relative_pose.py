"""Relative pose from arrays and from images: what is learnt, what is held out, what a record says of it."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from PIL import Image

from probes import linked
from probes.metrics import pose as metric
from visbench import tasks
from visbench.errors import UsageError
from visbench.pose_reading import Pairs
from visbench.pose_scoring import HEADLINE, errors_of_one, score
from visbench.posing import PoseProbe, held_out
from visbench.task import Task

# Programs here run for milliseconds and compile for seconds.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

QUICK = {"learning_rate": (1e-3,), "weight_decay": (1e-4,)}


def cameras(count, rng):
    """Angles and places of cameras that turn about the y axis, and their camera-from-world poses."""
    angles, places = rng.uniform(0, 1.8, count), rng.uniform(-1, 1, count)
    poses = np.zeros((count, 7))
    poses[:, 0], poses[:, 2], poses[:, 4] = np.cos(angles / 2), np.sin(angles / 2), places
    return angles, places, poses


def drawn(images=240, pairs=3000, seed=0, scenes=12):
    """Features that hold the pose, pairs within scenes, relative poses."""
    rng = np.random.default_rng(seed)
    angles, places, poses = cameras(images, rng)
    each = images // scenes
    scene = rng.integers(0, scenes, pairs)
    members = np.stack([scene * each + rng.integers(0, each, pairs) for _ in range(2)], axis=1)
    members = members[members[:, 0] != members[:, 1]]
    noise = rng.normal(size=(images, 3))
    features = np.column_stack([np.cos(angles), np.sin(angles), places, noise])
    return features.astype(np.float32), members, metric.relative(poses[members[:, 0]], poses[members[:, 1]])


def ids(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, 16), dtype=np.uint8)


def test_features_that_hold_the_pose_are_read_and_noise_ends_at_the_floor():
    features, members, poses = drawn(seed=0)
    others, where, true = drawn(seed=1)
    floor = metric.value(**metric.errors(np.tile(metric.mean_pose(poses), (len(true), 1)), true))
    good = PoseProbe(**QUICK).fit(features, members, poses).evaluate(others, where, true)
    assert good[HEADLINE] < 0.3 * floor[HEADLINE]
    assert good["translation_error_m"] < 0.4 * floor["translation_error_m"]
    assert good["within_15"] > 0.9
    rng = np.random.default_rng(2)
    noise = [rng.normal(size=each.shape) for each in (features, others)]
    bad = PoseProbe(**QUICK, epochs=5).fit(noise[0], members, poses).evaluate(noise[1], where, true)
    assert bad[HEADLINE] > 0.95 * floor[HEADLINE]


def test_settings_are_chosen_by_what_was_not_fitted():
    features, members, poses = drawn(images=120, pairs=800)
    probe = PoseProbe(learning_rate=(1e-6, 2e-3), weight_decay=1e-4, epochs=10).fit(features, members, poses)
    assert probe.setting == {"learning_rate": 2e-3, "weight_decay": 1e-4}
    assert [row["chosen"] for row in probe.found.rows()] == [False, True]
    again = PoseProbe(learning_rate=(1e-6, 2e-3), weight_decay=1e-4, epochs=10)
    again.fit(features, members, poses, val=drawn(images=60, pairs=200, seed=3))
    assert again.setting["learning_rate"] == 2e-3
    assert again.found.score != probe.found.score


def test_the_unit_of_features_does_not_matter():
    features, members, poses = drawn(images=60, pairs=300)
    said = [
        PoseProbe(**QUICK, epochs=3)
        .fit(scale * features + 7, members, poses)
        .predict(scale * features + 7, members)
        for scale in (1.0, 100.0)
    ]
    np.testing.assert_allclose(*said, atol=2e-2)


def test_predictions_are_asked_of_a_fitted_probe():
    with pytest.raises(UsageError, match="not fitted"):
        PoseProbe().predict(np.ones((2, 3)), np.array([[0, 1]]))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"C": 1.0}, "no setting C"),
        ({"learning_rate": 0.0}, "learning_rate is 0"),
        ({"learning_rate": ()}, "learning_rate is empty"),
        ({"weight_decay": -1}, "weight_decay is -1"),
        ({"epochs": 1.5}, "epochs is 1.5"),
        ({"standardize": "yes"}, "standardize is 'yes'"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, said):
    with pytest.raises(UsageError, match=said):
        PoseProbe(**settings)


@pytest.mark.parametrize("copies", [False, True])
def test_no_picture_is_on_both_sides_of_what_is_held_out(copies):
    _, members, _ = drawn(images=120, pairs=1000)
    images = ids(120)
    if copies:  # every picture of one scene is also one of another
        images[10:20] = images[:10]
    fold = held_out(members, images)
    sides = [{images[i].tobytes() for i in members[rows].ravel()} for rows in fold]
    assert not sides[0] & sides[1]
    assert len(fold.held) > 10
    scenes = linked.scenes(members)
    assert len(np.unique(scenes[fold.held])) >= 10  # a fifth of each scene, not scenes


def test_what_is_held_out_depends_on_content_alone():
    _, members, _ = drawn(images=120, pairs=1000)
    images, order = ids(120), np.random.default_rng(5).permutation(120)
    moved, place = images[order], np.argsort(order)
    rows = np.random.default_rng(6).permutation(len(members))
    again = held_out(place[members[rows]], moved)
    fold = held_out(members, images)
    assert sorted(rows[again.held]) == sorted(fold.held)
    assert sorted(rows[again.fits]) == sorted(fold.fits)


def test_of_small_scenes_whole_ones_are_held_out():
    members = np.array([(3 * s + i, 3 * s + j) for s in range(10) for i, j in ((0, 1), (1, 2), (0, 2))])
    fold = held_out(members, ids(30))
    assert len(fold.held) == 6
    assert len(fold.fits) == 24
    with pytest.raises(UsageError, match="too few to hold some out"):
        held_out(members[:3], ids(30))


def test_scores_are_means_over_fits_and_their_intervals_hold_them():
    features, members, poses = drawn(images=120, pairs=600)
    rng = np.random.default_rng(0)
    said = [metric.canonical(poses + rng.normal(0, 0.1, poses.shape)) for _ in range(2)]
    errors = [metric.errors(each, poses) for each in said]
    outcome = score(errors, Pairs(features, ids(120), members, poses))
    every = [metric.value(**each) for each in errors]
    for name, value in outcome.metrics.items():
        assert value == pytest.approx(np.mean([each[name] for each in every]))
        low, high = outcome.intervals[name]
        assert low <= value <= high
    assert outcome.per_sample[HEADLINE].mean() == pytest.approx(outcome.metrics[HEADLINE])
    assert outcome.context["intervals_draw"] == "scenes"
    assert outcome.context["rotation_error_deg_std"] > 0


def test_scenes_that_share_pictures_are_one():
    features, members, poses = drawn(images=120, pairs=600)
    images = ids(120)
    images[10:20] = images[:10]
    outcome = score([metric.errors(poses, poses)], Pairs(features, images, members, poses))
    assert outcome.context["scenes_scored"] == 11
    assert outcome.context["images_scored"] == 110
    assert outcome.metrics[HEADLINE] == pytest.approx(0, abs=1e-6)


def test_the_error_of_one_pose_is_that_of_saying_it_always():
    features, members, poses = drawn(images=60, pairs=100)
    found = errors_of_one(metric.mean_pose(poses), Pairs(features, ids(60), members, poses))
    assert found[HEADLINE].shape == (len(members),)


@pytest.fixture
def task(monkeypatch):
    """The row of the task table, where it has none yet."""
    if "relative_pose" not in tasks.TASKS:
        row = Task(
            name="relative_pose",
            level="mid",
            summary="",
            reads="",
            layout="",
            measure="visbench.relative_pose:RelativePose",
            probes={"mlp": ""},
            headline=HEADLINE,
            metrics={
                **dict.fromkeys((HEADLINE, "rotation_error_median_deg", "translation_error_m"), "lower"),
                **dict.fromkeys(("within_15", "within_30"), "higher"),
            },
            reading="visbench.pose_reading:Posed",
            opening="visbench.pose_reading:opened",
            truth=("pairs_per_image", "max_rotation", "target_scale"),
            settings=("learning_rate", "weight_decay", "epochs", "train_batch_size"),
            columns=False,
            limit="pairs of each split",
        )
        monkeypatch.setitem(tasks.TASKS, "relative_pose", row)


@pytest.fixture
def posed(tmp_path):
    """A table of pictures whose red and green say where the camera was, or, `telling=False`, nothing."""

    def make(*, telling=True, scenes=8, each=14, name="posed"):
        rng = np.random.default_rng(0)
        lines = ["path,scene,qw,qx,qy,qz,tx,ty,tz,split"]
        for scene in range(scenes):
            angles, places, poses = cameras(each, rng)
            for i in range(each):
                colour = (angles[i] / 1.8, (places[i] + 1) / 2) if telling else rng.random(2)
                path = f"{name}/{scene}_{i}.png"
                (tmp_path / name).mkdir(exist_ok=True)
                pixels = np.full((32, 32, 3), [255 * colour[0], 255 * colour[1], 255 * rng.random()])
                Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / path)
                split = "test" if i % 3 == 2 else "train"
                lines.append(",".join([path, f"s{scene}", *map(str, poses[i]), split]))
        table = tmp_path / f"{name}.csv"
        table.write_text("\n".join(lines))
        return table

    return make


def test_a_run_scores_pairs_and_says_what_stands_beside(run, posed, task, tmp_path):
    results = tmp_path / "results" / "visbench.jsonl"
    result = run(posed(), "relative_pose", results=results, learning_rate=3e-3, weight_decay=1e-4, epochs=60)
    record, context = result.record, result.record.context
    assert record.counts["test_pairs"] == len(result.per_sample[HEADLINE]) == record.n[HEADLINE]
    assert result.metrics[HEADLINE] < 0.5 * context["floor_rotation_error_deg"]
    assert context["train_rotation_error_deg"] < context["floor_rotation_error_deg"]
    low, high = result.intervals[HEADLINE]
    assert low < result.metrics[HEADLINE] < high
    assert record.better == "lower"
    assert record.hyperparameters == {"learning_rate": 3e-3, "weight_decay": 1e-4}
    assert record.dataset_params["max_rotation"] == 120
    assert record.samples
    assert not result.warnings


def test_navi_is_read_as_it_lies(run, tmp_path, task):
    rng = np.random.default_rng(0)
    for scene in ("cup/multiview-00-pixel_5", "fox/multiview-00-pixel_5"):
        _, _, poses = cameras(16, rng)
        (tmp_path / "navi_v1" / scene / "images").mkdir(parents=True)
        entries = []
        for i, pose in enumerate(poses):
            pixels = np.full((32, 32, 3), rng.integers(0, 256, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "navi_v1" / scene / "images" / f"{i:03}.png")
            camera = {"q": pose[:4].tolist(), "t": (1000 * pose[4:]).tolist()}
            entries.append(
                {"filename": f"{i:03}.png", "split": ("train", "val")[i % 4 == 3], "camera": camera}
            )
        (tmp_path / "navi_v1" / scene / "annotations.json").write_text(json.dumps(entries))
    result = run(tmp_path / "navi_v1", "relative_pose", learning_rate=1e-3, weight_decay=1e-4, epochs=2)
    assert (result.record.split, result.record.train_split) == ("val", "train")
    assert result.record.counts["test"] == 8
    assert result.record.dataset_params["target_scale"] == 1000
    assert result.record.context["floor_translation_error_m"] < 2
    assert result.record.context["intervals_draw"] == "images"


def test_features_that_say_nothing_end_near_the_floor_and_are_warned_of(run, posed, task):
    result = run(posed(telling=False), "relative_pose", learning_rate=1e-3, weight_decay=1e-4, epochs=3)
    assert result.metrics[HEADLINE] > 0.9 * result.record.context["floor_rotation_error_deg"]
    assert any("told from chance" in text for text in result.warnings)


def test_shuffled_poses_are_learnt_in_vain(posed, task, tiny):
    from visbench.options import make_options
    from visbench.pipeline import Session

    told = make_options(learning_rate=3e-3, weight_decay=1e-4, epochs=30, controls=("shuffle",))
    plain, shuffled = Session("relative_pose", posed(), told, [tiny]).run()
    assert shuffled.record.control == "shuffled labels"
    assert plain.metrics[HEADLINE] < shuffled.metrics[HEADLINE]
    assert shuffled.metrics[HEADLINE] > 0.9 * shuffled.record.context["floor_rotation_error_deg"]


def test_neither_names_of_files_nor_their_order_change_a_number(run, posed, task):
    table = posed()
    header, *lines = table.read_text().splitlines()
    settings = {"learning_rate": 1e-3, "weight_decay": 1e-4, "epochs": 2}
    first = run(table, "relative_pose", **settings)
    renamed = [header]
    for number, line in enumerate(reversed(lines)):
        path, rest = line.split(",", 1)
        (table.parent / path).rename(table.parent / f"posed/z{number}.png")
        renamed.append(f"posed/z{number}.png,{rest}")
    other = table.with_name("other.csv")
    other.write_text("\n".join(renamed))
    again = run(other, "relative_pose", **settings)
    assert first.metrics == again.metrics
    assert first.intervals == again.intervals
    assert first.record.dataset_fingerprint == again.record.dataset_fingerprint


def test_a_backbone_that_says_the_same_of_every_image_ends_at_the_floor():
    features, members, poses = drawn(images=60, pairs=300)
    probe = PoseProbe(**QUICK, epochs=10).fit(np.ones_like(features), members, poses)
    floor = metric.value(**metric.errors(np.tile(metric.mean_pose(poses), (len(poses), 1)), poses))
    found = probe.evaluate(np.ones_like(features), members, poses)
    assert found[HEADLINE] == pytest.approx(floor[HEADLINE], rel=0.05)


def test_a_usual_run_chooses_on_held_out_images(run, posed, task):
    result = run(posed(), "relative_pose", epochs=6)
    selection = result.record.selection
    assert selection["how"] == "learning_rate and weight_decay chosen on held-out training data"
    assert selection["metric"] == HEADLINE
    assert len(result.trials) == 6
    scores = [row["score"] for row in result.trials]
    assert selection["outcome"]["score"] == min(scores)
    assert result.record.hyperparameters["learning_rate"] in (3e-4, 1e-3, 3e-3)


def test_layers_and_seeds_may_vary(run, posed, task):
    result = run(
        posed(),
        "relative_pose",
        epochs=4,
        seeds=2,
        grid={"layer": (0, 1), "learning_rate": (1e-3, 2e-3), "weight_decay": (1e-4,)},
    )
    assert len(result.trials) == 4
    assert {row["layer"] for row in result.trials} == {0, 1}
    assert result.record.seeds == [0, 1]
    assert result.record.context["rotation_error_deg_std"] > 0


def test_the_classic_protocol_fixes_its_settings(run, posed, task):
    result = run(posed(), "relative_pose", protocol="visbench", epochs=2)
    assert result.record.hyperparameters == {"learning_rate": 1e-3, "weight_decay": 1e-4}
    assert result.record.task_params == {"refit": False, "standardize": False, "norm": "layer"}


def test_pairs_with_pictures_that_also_trained_are_counted(run, posed, task):
    table = posed()
    (table.parent / "posed" / "0_2.png").write_bytes((table.parent / "posed" / "0_0.png").read_bytes())
    result = run(table, "relative_pose", learning_rate=1e-3, weight_decay=1e-4, epochs=2)
    copies = result.record.context["duplicates"]
    assert 0 < copies < result.record.n[HEADLINE]
    assert "rotation_error_deg_without_duplicates" in result.record.context


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"shots": 2}, "--shots counts images a class"),
        ({"select": "cv5"}, "not for pairs"),
        ({"grid": {"epochs": (1, 2)}}, "no axis of relative_pose"),
        ({"grid": {"layer": ("a",)}}, "no layer"),
        ({"learning_rate": 1e-3, "grid": {"learning_rate": (1e-3, 1e-2)}}, "given twice"),
        ({"C": 1.0}, "no setting C"),
        ({"truth": {"max_rotation": 1e-9}}, "max_rotation is"),
    ],
)
def test_what_cannot_be_is_refused(run, posed, task, told, said):
    with pytest.raises(ValueError, match=said):
        run(posed(), "relative_pose", **told)


def test_columns_of_posed_images_can_be_told(command, posed):
    table = posed()
    table.write_text(table.read_text().replace("path,scene,qw", "photo,object,w"))
    told = ["--column=path=photo", "--column=qw=w"]
    assert "train" in command("check", table, "--task", "relative_pose", *told).stdout
    assert "as qw=w" in command("check", table, "--task", "relative_pose", told[0], code=2).stderr


def test_images_without_a_scene_and_arrays_are_refused(run, posed, task):
    table = posed()
    table.write_text(table.read_text().replace(",s1,", ", ,"))
    with pytest.raises(ValueError, match="row 15, column scene is empty"):
        run(table, "relative_pose")
    with pytest.raises(ValueError, match="not from a dict"):
        run({"test": (np.zeros((4, 8, 8, 3), np.uint8), [0, 1, 0, 1])}, "relative_pose")
