"""Whole pictures from data: the run's own answers, worst first, every task, and what is refused."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import visbench
from extract.datasets import ImageSet, Splits
from extract.datasets.groups import Groups
from visbench.cli.run import run
from visbench.cli.show import _NOT_MINE, show
from visbench.errors import UsageError
from visbench.mapoverlay import palette
from visbench.options import make_options
from visbench.record import run_key
from visbench.showing import boxes, classes, drawing, maps, matches, neighbours, page, poses, triplets
from visbench.showing.drawing import picture
from visbench.showing.seen import look_at
from visbench.tasks import TASKS

FIT = {"learning_rate": 0.05, "weight_decay": 0.0, "epochs": 30, "workers": 1}


@pytest.fixture
def rows(monkeypatch):
    """What comes onto the pages that are drawn: headings and rows."""
    kept = []

    def keep(heading, listed, legends=()):
        kept.append((heading, list(listed)))
        return page.page(heading, listed, legends)

    for module in (boxes, classes, maps, matches, neighbours, poses, triplets):
        monkeypatch.setattr(module, "page", keep)
    return kept


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_every_task_is_shown_with_the_options_of_its_run():
    assert set(show.commands) == {*TASKS, "features"}
    for task in TASKS.values():
        assert drawing.module_of(task)
        mine = {each.name for each in show.commands[task.name].params}
        theirs = {each.name for each in run.commands[task.name].params}
        assert theirs - mine <= set(_NOT_MINE)
        assert mine - theirs <= {"out", "worst", "best", "random", "frames", "view"}


def test_scored_pictures_come_worst_first_with_what_was_said_of_them(tiny, photos, rows):
    drawn = picture(tiny, "classification", photos, worst=9)
    assert isinstance(drawn, Image.Image)
    heading, listed = rows[0]
    seen = look_at("classification", photos, tiny, None, make_options())
    tiles = [tile for row in listed for tile in row.tiles]
    places = [seen.images.names.index(tile.lines[-1]) for tile in tiles]
    hits = seen.result.per_sample["top1"][places]
    assert (np.diff(hits.astype(int)) >= 0).all()
    assert [tile.right for tile in tiles] == hits.tolist()
    said, unit = classes.answers(seen)
    assert unit == "probability"
    np.testing.assert_allclose(said.sum(axis=1), 1)
    assert tiles[0].lines[0] == f"said {seen.classes[said[places[0]].argmax()]}  {said[places[0]].max():.2f}"
    assert tiles[0].lines[1].startswith(f"true {seen.images.names[places[0]].split('/')[1]}")
    assert heading.title == "photos · classification · tiny"
    assert f"top1 {seen.result.metrics['top1']:.3f}" in heading.lines[0]
    assert run_key(visbench.run(tiny, "classification", photos).record) in heading.foot[0]


def test_the_matrix_holds_every_scored_picture(tiny, photos, monkeypatch):
    taken = []
    monkeypatch.setattr(classes, "matrix", lambda *given: taken.append(given) or Image.new("RGB", (9, 9)))
    picture(tiny, "classification", photos, probe="knn", view="confusion")
    counts, names, totals = taken[0]
    assert names == ["cat", "dog", "owl"]
    assert totals.tolist() == [6, 6, 6]
    result = visbench.run(tiny, "classification", photos, probe="knn")
    assert counts.trace() / counts.sum() == pytest.approx(result.metrics["top1"])


def test_neighbours_are_marked_by_class(tiny, photos, rows):
    picture(tiny, "retrieval", photos, best=2)
    _, listed = rows[0]
    for row in listed:
        name = row.title.split(" ")[0].split("/")[1]
        assert row.tiles[0].lines == ("query", name)
        assert [tile.right for tile in row.tiles[1:]] == [tile.lines[1] == name for tile in row.tiles[1:]]
        cosines = [float(tile.lines[0].split()[-1]) for tile in row.tiles[1:]]
        assert cosines == sorted(cosines, reverse=True)


def test_triplets_show_both_choices(tiny_backbone, rows):
    rng = np.random.default_rng(0)
    images = [np.full((40, 40, 3), rng.integers(0, 256, 3), np.uint8) for _ in range(9)]
    members = np.stack([rng.permutation(9)[:3] for _ in range(12)])
    groups = Groups(
        "triplet", members, tuple(f"row {row}" for row in range(12)), {"right": rng.random(12) < 0.5}
    )
    names = tuple(f"{row}.png" for row in range(9))
    data = Splits({"test": ImageSet("likeness", "test", images, names, groups=groups)})
    picture(tiny_backbone(), "similarity", data, worst=12)
    _, listed = rows[0]
    agreed = [row.title.endswith("accuracy 1") for row in listed]
    assert agreed == sorted(agreed)
    for row, right in zip(listed, agreed, strict=True):
        (framed,) = (tile for tile in row.tiles if tile.right is not None)
        assert framed.right == right
        assert ("people" in framed.lines[1]) == right


def test_matches_are_those_that_are_scored(fine, photos):
    seen = look_at("correspondence", photos, fine, None, make_options())
    scores = matches.scores(seen)
    pairs = seen.rows("patches", seen.measure.warp)
    for row in range(len(pairs)):
        lines = matches.lines_of(pairs, row, seen.measure)
        assert np.mean(lines.errors <= 5) == pytest.approx(scores.values[row], abs=1e-6)
    assert picture(fine, "correspondence", photos, worst=2, units="patch").width > 2 * matches.VIEW


def test_maps_stand_beside_their_targets(fine, streets, rows):
    told = {"num_classes": 3, "ignore_index": (255,), **FIT}
    drawn = np.asarray(picture(fine, "semantic_segmentation", streets, best=1, **told))
    _, (row,) = rows[0]
    assert [tile.lines[0] for tile in row.tiles] == ["picture", "target", "prediction", "wrong pixels"]
    target, said = (np.asarray(tile.image) for tile in row.tiles[1:3])
    known = np.isin(target.reshape(-1, 3), palette(3)).all(axis=1).reshape(target.shape[:2])
    assert (target[known] == said[known]).all(axis=-1).mean() > 0.9
    left = page.MARGIN + maps.TILE + page.GAP
    top = int(np.argwhere((drawn[:, left + maps.TILE // 2] == target[0, maps.TILE // 2]).all(axis=-1)).min())
    assert (drawn[top : top + maps.TILE, left : left + maps.TILE] == target).all()


@pytest.mark.parametrize("task", ["detection", "instance_segmentation"])
def test_boxes_of_the_truth_and_of_the_head(fine, things, task, rows):
    drawn = picture(fine, task, things, worst=2, **(FIT | {"learning_rate": 0.01}))
    _, listed = rows[0]
    assert len(listed) == 2
    assert drawn.width >= 2 * boxes.TILE
    seen = look_at(task, things, fine, None, make_options(**(FIT | {"learning_rate": 0.01})))
    name = listed[0].title.split(" ")[0]
    place = seen.images.names.index(name)
    box = seen.images.objects.marks[place].boxes[0] / 48 * boxes.TILE
    truth = np.asarray(listed[0].tiles[0].image)
    ink = palette(1)[0]
    edge = truth[round(box[3]) - 1, round(box[0]) : round(box[2])]
    assert (edge == ink).all(axis=-1).mean() > 0.4  # whole, or dashed where it was missed
    if task == "instance_segmentation":
        inside = truth[round(box[3]) - 30, round(box[2]) - 30]
        assert np.abs(inside - (0.55 * np.array([220, 30, 30]) + 0.45 * ink)).max() < 4
        corner = truth[round(box[1]) + 30, round(box[0]) + 30]  # where the square has a notch
        assert np.ptp(corner) < 40


def test_pairs_of_cameras_say_both_angles(tiny, posed, rows):
    picture(tiny, "relative_pose", posed, worst=3, learning_rate=3e-3, weight_decay=1e-4, epochs=4)
    _, listed = rows[0]
    errors = [float(row.tiles[2].lines[2].split()[-1][:-1]) for row in listed]
    assert errors == sorted(errors, reverse=True)
    for row, error in zip(listed, errors, strict=True):
        assert float(row.title.split()[-1]) == pytest.approx(error, rel=0.01)


def test_features_have_a_picture_of_their_own(fine, streets):
    photos = streets / "test" / "images"
    for more in ({}, {"patch": (10, 10)}):
        drawn = np.asarray(picture(fine, "features", photos, frames=["0.png", "1.png"], **more))
        halves = drawn[160, page.MARGIN + 240 + page.GAP :]
        assert np.abs(halves[60].astype(int) - halves[180].astype(int)).max() > 60  # two colours, two kinds


def test_the_command_writes_a_picture_and_nothing_else(command, photos, tmp_path):
    before = contents(photos)
    done = command(
        "show", "classification", photos, "--backbone", "tiny", "--best", 2, "-o", tmp_path / "seen.png"
    )
    assert done.stdout == ""
    assert Image.open(tmp_path / "seen.png").size[0] > 300
    command(
        "show",
        "classification",
        photos,
        "--backbone",
        "tiny",
        "--view",
        "confusion",
        "-o",
        tmp_path / "c.png",
    )
    command("show", "features", photos, "--backbone", "tiny", "--patch", "20,20", "-o", tmp_path / "f.png")
    assert contents(photos) == before
    assert not (tmp_path / "results").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"photos", "seen.png", "c.png", "f.png"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("classification", "-o", "seen.jpg"), "does not end in .png"),
        (("classification", "-o", "nowhere/seen.png"), "is no folder"),
        (("classification", "-o", "photos/seen.png"), "lies within"),
        (("classification", "--worst", 2, "--best", 2), "give one of them"),
        (("classification", "--frames", "nobody.png"), 'is called "nobody.png"'),
        (("classification", "--backbone", "tiny", "--backbone", "pixels"), "one backbone, and 2 are named"),
        (("classification", "--probe", "knn", "--probe", "ridge"), "one probe, and 2 are named"),
        (("features", "--patch", "900,900"), "lies outside"),
        (("features", "--patch", "nine"), "is not a pixel"),
        (("clasification",), 'Did you mean "classification"'),
        (("correspondence", "--max-warp", "0.1,0.2"), "one value of each setting"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(command, photos, tmp_path, words, said):
    task, *more = words
    named = [] if "--backbone" in more else ["--backbone", "tiny"]
    done = command("show", task, photos.name, *named, *more, code=2)
    assert said in done.stderr
    assert done.stderr.count("error: ") == 1
    assert not list(tmp_path.glob("*.png"))


@pytest.mark.parametrize(
    ("task", "told", "said"),
    [
        ("classification", {"view": "nothing"}, "samples and confusion"),
        ("retrieval", {"view": "confusion"}, "samples alone"),
        ("classification", {"patch": (1, 1)}, 'view "features"'),
        ("classification", {"seeds": 3, "probe": "linear"}, "one fit"),
        ("classification", {"results": "a.jsonl"}, "no record"),
        ("features", {"best": 2}, "no score"),
        ("features", {"worst": 2}, "no score"),
    ],
)
def test_python_is_refused_in_the_same_words(tiny, photos, task, told, said):
    with pytest.raises(UsageError, match=said):
        picture(tiny, task, photos, **told)


def test_a_file_that_was_there_is_whole_until_the_new_one_is(tmp_path):
    path = tmp_path / "seen.png"
    path.write_bytes(b"before")
    with pytest.raises(OSError):  # noqa: PT011 - whatever Pillow says
        drawing.save(Image.new("F", (4, 4)), path)
    assert path.read_bytes() == b"before"
    drawing.save(Image.new("RGB", (4, 4)), path)
    assert [each.name for each in tmp_path.iterdir()] == ["seen.png"]
