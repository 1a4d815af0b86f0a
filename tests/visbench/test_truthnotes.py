"""What `visbench check --task` says and draws of pairs, triplets, poses and boxes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from visbench import truthnotes

GREY, SIDE = (120, 120, 120), 40


def save(root, *names, size=(60, SIDE)):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shade = sum(name.encode()) % 200
        Image.new("RGB", size, (shade, 30, 200 - shade)).save(root / name)


def said(command, *words, code=0) -> str:
    return command("check", *words, code=code).stdout


@pytest.fixture
def pairs(tmp_path):
    root = tmp_path / "wall"
    save(root, "1.png", "2.png", "3.png")
    move = "1 0 6 0 1 0 0 0 1"  # 6 pixels to the right
    rows = [f"1.png,2.png,{move}", f"1.png,3.png,{move}"]
    (root / "pairs.csv").write_text("\n".join(["image_1,image_2,homography", *rows]) + "\n")
    return root / "pairs.csv"


@pytest.fixture
def triplets(tmp_path):
    root = tmp_path / "likeness"
    save(root, *(f"{kind}{number}.png" for kind in "rab" for number in range(3)))
    rows = ["r0.png,a0.png,b0.png,left,7", "r1.png,a1.png,b1.png,right,9", "r2.png,a2.png,b2.png,right,8"]
    (root / "triplets.csv").write_text("\n".join(["reference,left,right,choice,votes", *rows]) + "\n")
    return root / "triplets.csv"


@pytest.fixture
def cells(tmp_path):
    """60 × 40 pixels: the middle square is 10 … 50, so that the third box lies outside; one image has none."""
    root = tmp_path / "cells"
    save(root, "train/images/a.png", "train/images/b.png", "val/images/c.png")
    rows = [
        ("train/images/a.png", 12, 4, 32, 24, "red"),
        ("train/images/a.png", 30, 30, 31, 38, "white"),
        ("val/images/c.png", 0, 10, 8, 30, "red"),
        ("val/images/c.png", 20, 10, 40, 30, "red"),
    ]
    images = {"train": ["a.png", "b.png"], "val": ["c.png"]}
    (root / "annotations").mkdir()
    for split, names in images.items():
        listed = [{"id": n, "file_name": name, "width": 60, "height": SIDE} for n, name in enumerate(names)]
        boxes = [
            {
                "id": n,
                "image_id": names.index(path.rsplit("/", 1)[1]),
                "category_id": 1 + (name == "white"),
                "bbox": [x0, y0, x1 - x0, y1 - y0],
                "area": (x1 - x0) * (y1 - y0),
                "iscrowd": 0,
            }
            for n, (path, x0, y0, x1, y1, name) in enumerate(rows)
            if path.startswith(split)
        ]
        kinds = [{"id": 1, "name": "red"}, {"id": 2, "name": "white"}]
        told = {"images": listed, "annotations": boxes, "categories": kinds}
        (root / "annotations" / f"instances_{split}.json").write_text(json.dumps(told))
        (root / split / "images").rename(root / f"{split}_")
        (root / split).rmdir()
        (root / f"{split}_").rename(root / split)
    return root


def test_pairs_are_counted_by_what_relates_them(command, pairs):
    assert "2 pairs · 2 by homography" in said(command, pairs, "--task", "correspondence")


def test_an_image_paired_with_itself_is_said(command, pairs):
    pairs.write_text(pairs.read_text().replace("1.png,3.png", "3.png,3.png"))
    assert "1 pair with one image twice: pairs.csv, row 2" in said(command, pairs, "--task", "correspondence")


def test_images_alone_are_each_paired_with_a_view(command, pairs):
    text = said(command, pairs.parent, "--task", "correspondence")
    assert "3 pairs · each image and a view that is made of it" in text


def test_triplets_say_what_people_chose(command, triplets):
    assert "3 triplets · 66.7% chosen right · 7 … 9 votes" in said(command, triplets, "--task", "similarity")


def test_a_part_of_nights_is_no_split_that_shares_its_pictures(command, triplets):
    lines = triplets.read_text().splitlines()
    more = [f"{line},test,{part}" for line, part in zip(lines[1:], ("True", "False", "True"), strict=True)]
    triplets.write_text("\n".join([f"{lines[0]},split,is_imagenet", *more]) + "\n")
    text = said(command, triplets, "--task", "similarity")
    assert "test_imagenet: 2 triplets" in text
    assert "same picture" not in text


def test_poses_say_how_far_the_cameras_turn(command, tmp_path):
    root = tmp_path / "cup"
    save(root, "0.png", "1.png")
    half = np.deg2rad(30) / 2
    rows = ["0.png,cup,1,0,0,0,0,0,1", f"1.png,cup,{np.cos(half)},0,{np.sin(half)},0,0,0,1"]
    (root / "posed.csv").write_text("\n".join(["path,scene,qw,qx,qy,qz,tx,ty,tz", *rows]) + "\n")
    text = said(command, root / "posed.csv", "--task", "relative_pose", code=1)  # one split alone
    assert "turned by 30° … 30°" in text


def test_objects_are_counted_by_class_with_what_is_hard_to_find(command, cells):
    text = said(command, cells, "--task", "detection")
    assert "train: 2 objects: red 1, white 1" in text
    assert "val: 2 objects: red 2, white 0" in text
    assert "val: no object of white" in text
    assert "1 image without any object" in text
    assert "50% narrower than a sixteenth" in text
    assert "val: 50% with their centre outside the central square" in text


def test_boxes_are_drawn_on_their_objects(command, cells, tmp_path):
    said(command, cells, "--task", "detection", "--overlay", tmp_path / "look.png")
    drawn = np.asarray(Image.open(tmp_path / "look.png").convert("RGB")).astype(int)
    scale = 900 / 60
    ground = drawn[5, -5]
    across = drawn[round(20 * scale)]  # a row of pixels through the middle of both boxes
    edges = np.flatnonzero(np.abs(across - ground).sum(axis=1) > 60)
    runs = np.split(edges, np.flatnonzero(np.diff(edges) > 1) + 1)
    found = [each.mean() / scale for each in runs]
    assert found == pytest.approx([0, 8, 20, 40], abs=0.3)


def test_points_of_a_pair_are_drawn_where_they_belong(command, pairs, tmp_path):
    said(command, pairs, "--task", "correspondence", "--overlay", tmp_path / "pair.png")
    drawn = np.asarray(Image.open(tmp_path / "pair.png").convert("RGB")).astype(int)
    assert drawn.shape[:2] == (600, 1800)
    scale = 900 / 60
    at = round((0.5 * 60 / 9) * scale), round((0.5 * 40 / 6) * scale)  # the first point
    assert np.abs(drawn[at[1], at[0]] - drawn[590, 890]).sum() > 60
    moved = drawn[at[1], 900 + at[0] + round(6 * scale)]
    assert np.abs(moved - drawn[at[1], at[0]]).sum() < 10  # the same colour, six pixels further


def test_what_a_run_would_refuse_is_said(cells):
    from visbench.boxes.opening import detection
    from visbench.options import make_options

    def told(change):
        path = cells / "annotations" / "instances_train.json"
        kept = path.read_text()
        said = json.loads(kept)
        for each in said["annotations"]:
            each["bbox"] = change(*each["bbox"])
        path.write_text(json.dumps(said))
        found = truthnotes.refusal(detection(cells, make_options()))
        path.write_text(kept)
        return found

    assert told(lambda *box: list(box)) is None
    assert "more than half of its object 1 lies outside" in told(lambda x, y, *size: [x + 90, y, *size])
    assert "no object of train that counts lies in the square" in told(lambda x, y, *size: [0, y, 8, 8])


def test_sizes_that_no_annotation_states_are_those_of_the_images(command, cells):
    for path in (cells / "annotations").glob("*.json"):
        said = json.loads(path.read_text())
        for each in said["images"]:
            del each["width"], each["height"]
        path.write_text(json.dumps(said))
    assert "val: 50% with their centre outside" in command("check", cells, "--task", "detection").stdout


@pytest.mark.parametrize(
    ("place", "complaint"), [("look.xyz", "is no .png"), ("no/look.png", "there is no folder")]
)
def test_a_place_where_nothing_can_be_drawn_is_refused(command, cells, tmp_path, place, complaint):
    done = command("check", cells, "--task", "detection", "--overlay", tmp_path / place, code=2)
    assert complaint in done.stderr


def test_what_cannot_be_drawn_is_refused_before_an_image_is_read(command, triplets, tmp_path, monkeypatch):
    monkeypatch.setattr("visbench.checkup.check", lambda *a, **k: pytest.fail("images were read"))
    done = command("check", triplets, "--task", "similarity", "--overlay", tmp_path / "x.png", code=2)
    assert "--overlay draws maps, boxes and pairs" in done.stderr
    assert not (tmp_path / "x.png").exists()


def test_the_option_that_is_refused_is_called_as_it_is_typed(command, photos):
    done = command("check", photos, "--column", "first=a", code=2)
    assert "--column is for" in done.stderr
