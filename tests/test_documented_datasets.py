"""Datasets under their documented names: items of each, and runs on each."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from torch import nn

import visbench
from extract.datasets.objects import IGNORED, PLAIN
from extract.transforms import Transform
from visbench import data
from visbench.errors import UsageError


@pytest.fixture(autouse=True)
def own_caches(tmp_path, monkeypatch):
    monkeypatch.setenv("VISBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("VISBENCH_STORE", str(tmp_path / "store"))


@pytest.fixture
def mine():
    module = nn.Sequential(nn.Conv2d(3, 8, 8, 8), nn.ReLU())
    return visbench.CustomBackbone(module, preprocess=Transform(size=32), name="mine")


def save(path, seed=0, size=(40, 32)):
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng([seed, sum(str(path.name).encode())])
    Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), np.uint8)).save(path)


@pytest.fixture
def photos(tmp_path):
    for split, count in (("train", 5), ("val", 3)):
        for place, name in enumerate(("a", "b")):
            for number in range(count):
                save(
                    tmp_path / "photos" / split / name / f"{split}{number}.png", place + 2 * (split == "val")
                )
    return tmp_path / "photos"


def test_images_in_folders(photos, mine):
    train = data.ImageFolderDataset(photos, split="train")
    image, label = train[7]
    assert (len(train), image.size, label) == (10, (40, 32), 1)
    np.testing.assert_array_equal(train.labels(), [0] * 5 + [1] * 5)
    assert train.balanced_subset(2).labels().tolist() == [0, 0, 1, 1]
    assert train.subset([9, 0]).labels().tolist() == [1, 0]
    np.testing.assert_array_equal(np.asarray(train.subset([7])[0][0]), np.asarray(image))
    val = data.ImageFolderDataset(photos, split="val")
    apart = visbench.run(mine, "classification", val, train_dataset=train, l2=0.1)
    whole = visbench.run(mine, "classification", photos, l2=0.1)
    assert apart.metrics == whole.metrics
    with pytest.raises(IndexError):
        train[10]
    with pytest.raises(UsageError, match=r"no split was asked for, and .* has train, val"):
        data.ImageFolderDataset(photos)


def test_images_with_maps(tmp_path, mine):
    root = tmp_path / "rooms"
    for split, count in (("train", 4), ("val", 2)):
        for number in range(count):
            save(root / split / "images" / f"{number}.png", number + 10 * (split == "val"))
            (root / split / "labels").mkdir(exist_ok=True)
            labels = np.repeat([[0], [1]], 16, 0).repeat(40, 1).astype(np.uint8)
            Image.fromarray(labels).save(root / split / "labels" / f"{number}.png")
    (root / "few.txt").write_text("0\n1\n")
    val = data.DenseFolderDataset(root, split="val", num_classes=2)
    train = data.DenseFolderDataset(root, split="train", num_classes=2)
    image, labels = val[1]
    assert (len(val), image.size, labels.shape, labels.max()) == (2, (40, 32), (32, 40), 1)
    options = {"learning_rate": 0.01, "weight_decay": 0.0, "epochs": 2}
    found = visbench.run(mine, "semantic_segmentation", val, train_dataset=train, **options)
    told = visbench.run(mine, "semantic_segmentation", root, num_classes=2, **options)
    assert found.metrics == told.metrics
    few = data.DenseFolderDataset(root / "train", stems=root / "few.txt")
    assert len(few) == 2
    assert len(visbench.run(mine, "semantic_segmentation", val.subset([0]), train, **options).record.n) > 0
    np.testing.assert_array_equal(data.load_label_map(root / "val/labels/0.png"), labels)
    assert data.load_mask(root / "val/labels/0.png").sum() == 16 * 40


def test_a_mask_of_other_values_and_a_picture_are_refused(tmp_path):
    save(tmp_path / "rgb.png")
    with pytest.raises(UsageError, match="one integer a pixel"):
        data.load_label_map(tmp_path / "rgb.png")
    Image.fromarray(np.array([[0, 7]], np.uint8)).save(tmp_path / "seven.png")
    with pytest.raises(UsageError, match="a mask is 0 and 1"):
        data.load_mask(tmp_path / "seven.png")


def test_images_of_taskonomy(tmp_path):
    root = tmp_path / "taskonomy"
    for number in range(2):
        save(root / "rgb" / "allensville" / f"point_{number}_view_0_domain_rgb.png")
        folder = root / "depth_zbuffer" / "allensville"
        folder.mkdir(parents=True, exist_ok=True)
        depth = np.full((32, 40), 512 * (number + 1), np.uint16)
        Image.fromarray(depth).save(folder / f"point_{number}_view_0_domain_depth_zbuffer.png")
    (root / "splits.csv").write_text("id,train,val,test\nallensville,0,1,0\n")
    views = data.TaskonomyDataset(root, "depth_zbuffer", split="val")
    assert len(views) == 2
    assert views[1][1].max() == 2  # 1,024 of 512 a metre


def test_images_with_boxes(tmp_path, mine):
    root = tmp_path / "cells"
    for split, count in (("train", 3), ("val", 2)):
        images, boxes = [], []
        for number in range(count):
            save(root / split / f"{number}.png", number + 10 * (split == "val"))
            images.append({"id": number, "file_name": f"{number}.png", "width": 40, "height": 32})
            box = {"bbox": [8, 4, 12, 16], "area": 192, "iscrowd": 0, "category_id": 1}
            boxes.append({"id": number, "image_id": number, **box})
        listing = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "cell"}]}
        (root / "annotations").mkdir(exist_ok=True)
        (root / "annotations" / f"instances_{split}.json").write_text(json.dumps(listing))
    val = data.DetectionFolderDataset(root, split="val")
    _, marks = val[0]
    assert val.classes == ("cell",)
    assert marks.boxes.tolist() == [[8, 4, 20, 20]]
    train = data.DetectionFolderDataset(root, split="train", min_box_size=2)
    options = {"learning_rate": 0.01, "weight_decay": 0.0, "epochs": 2}
    found = visbench.run(mine, "detection", val, train_dataset=train, **options)
    whole = visbench.run(mine, "detection", root, min_box_size=2, **options)
    assert found.metrics == whole.metrics


XML = """<annotation><size><width>40</width><height>32</height><depth>3</depth></size>
<object><name>cell</name><difficult>0</difficult>
<bndbox><xmin>9</xmin><ymin>5</ymin><xmax>20</xmax><ymax>20</ymax></bndbox></object>
<object><name>cell</name><difficult>1</difficult>
<bndbox><xmin>21</xmin><ymin>9</ymin><xmax>30</xmax><ymax>18</ymax></bndbox></object></annotation>"""


@pytest.fixture
def cells(tmp_path):
    for split, count in (("train", 3), ("val", 2)):
        for number in range(count):
            save(tmp_path / "xml" / split / f"{number}.png", number + 10 * (split == "val"))
            (tmp_path / "xml" / split / f"{number}.xml").write_text(XML)
    return tmp_path / "xml"


def test_difficult_objects_are_scored_on_request(cells):
    usual = data.DetectionFolderDataset(cells, split="val")
    asked = data.DetectionFolderDataset(cells, split="val", include_difficult=True)
    assert usual[0][1].boxes.tolist() == [[8, 4, 20, 20], [20, 8, 30, 18]]
    assert usual[0][1].flags.tolist() == [PLAIN, IGNORED]
    assert asked[0][1].flags.tolist() == [PLAIN, PLAIN]


def test_triplets_and_pairs(tmp_path, mine):
    root = tmp_path / "sets"
    for name in "abcdef":
        save(root / f"{name}.png")
    (root / "t.csv").write_text(
        "reference,left,right,choice\na.png,b.png,c.png,left\nd.png,e.png,f.png,right\n"
    )
    (root / "p.csv").write_text('image_1,image_2,homography\na.png,b.png,"1 0 0 0 1 0 0 0 1"\n')
    triplets = data.TwoAFCDataset(root / "t.csv")
    *images, right = triplets[1]
    assert (len(triplets), len(images), right) == (2, 3, True)
    assert visbench.run(mine, "similarity", triplets).record.n["accuracy"] == 2
    assert visbench.run(mine, "similarity", triplets.subset([1])).record.n["accuracy"] == 1
    views = data.PairViewDataset(root / "p.csv")
    first, second, _ = views[0]
    assert first.size == second.size == (40, 32)
    assert visbench.run(mine, "correspondence", views).metrics["num_matches"] > 0


def test_a_part_of_the_triplets(tmp_path, mine):
    for name in "abcdef":
        save(tmp_path / f"{name}.png")
    rows = ["ref_path,left_path,right_path,left_vote,right_vote,votes,split,is_imagenet"]
    rows += [
        "a.png,b.png,c.png,1,0,9,test,True",
        "d.png,e.png,f.png,0,1,7,test,False",
        "a.png,e.png,c.png,0,1,3,test,1",
    ]
    (tmp_path / "data.csv").write_text("\n".join(rows) + "\n")
    assert len(data.TwoAFCDataset(tmp_path, split="test")) == 2
    assert len(data.TwoAFCDataset(tmp_path, split="test", min_votes=1)) == 3
    part = data.TwoAFCDataset(tmp_path, split="test", partition="no_imagenet")
    assert (len(part), part[0][3]) == (1, True)
    record = visbench.run(mine, "similarity", part).record
    assert (record.n["accuracy"], record.dataset_params["partition"]) == (1, "no_imagenet")
    same = visbench.run(mine, "similarity", data.TwoAFCDataset(tmp_path, split="test_no_imagenet")).record
    assert (same.split, same.metrics) == ("test_no_imagenet", record.metrics)


def test_views_of_any_images(photos, mine):
    pairs = data.HomographyPairDataset(photos, split="val", size=48, max_warp=0.1, seed=3)
    crop, view, homography = pairs[0]
    assert crop.size == view.size == (48, 48)
    corners = np.array([[0, 48, 48, 0], [0, 0, 48, 48], [1, 1, 1, 1]], float)
    moved = homography @ corners
    assert np.abs(moved[:2] / moved[2] - corners[:2]).max() <= 0.1 * 48 + 1e-9
    assert not np.array_equal(np.asarray(crop), np.asarray(view))
    still = data.HomographyPairDataset(photos, split="val", size=48, max_warp=0.0)[0]
    np.testing.assert_array_equal(np.asarray(still[0]), np.asarray(still[1]))
    assert visbench.run(mine, "correspondence", pairs, max_warp=0.1).record.n["recall@5px"] == 6


def test_the_older_name_of_units(photos, mine):
    found = visbench.run(mine, "correspondence", photos, split="val", max_warp=0.1, threshold_units="patch")
    assert found.record.headline == "recall@1p"


@pytest.mark.parametrize(
    ("kind", "told", "said"),
    [
        ("ImageFolderDataset", {"label_colum": "x"}, 'no label_colum. Did you mean "label_column"?'),
        ("DenseFolderDataset", {"num_class": 2}, 'no num_class. Did you mean "num_classes"?'),
        ("DenseFolderDataset", {"num_classes": 2.5}, "must be a whole number"),
        ("DetectionFolderDataset", {"min_votes": 2}, "DetectionFolderDataset has no min_votes"),
        ("TwoAFCDataset", {"max_warp": 0.1}, "TwoAFCDataset has no max_warp"),
        ("PairViewDataset", {"limit": 3}, "PairViewDataset has no limit"),
    ],
)
def test_what_a_dataset_has_no_use_for_is_refused(photos, kind, told, said):
    with pytest.raises(UsageError, match=re.escape(said)):
        getattr(data, kind)(photos, split="val", **told)


def test_naming_a_dataset_starts_nothing():
    names = "ImageFolderDataset, DenseFolderDataset, TaskonomyDataset, DetectionFolderDataset, TwoAFCDataset"
    ask = f"from visbench.data import {names}, load_mask; import sys; print({{'torch', 'jax'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="NoSuchDataset"):
        data.NoSuchDataset  # noqa: B018
