"""Detection and instance segmentation on the command line: coloured things on grey, in the layouts people have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

import visbench
from visbench.errors import UsageError
from visbench.record import Record

HEIGHT, WIDTH, SIDE, PATCH = 48, 64, 48, 4
CLASSES = ("blue", "red")
COLOURS = {"blue": (40, 60, 220), "red": (220, 60, 40), "green": (60, 200, 60)}
SPLITS = {"train": 24, "val": 8}
FIT = ("--lr", "0.01", "--weight-decay", "1e-4", "--epochs", "40")


class Thing(NamedTuple):
    """An ellipse of a class in a box of whole pixels, x1 and y1 edges."""

    name: str
    x0: int
    y0: int
    x1: int
    y1: int

    @property
    def mask(self) -> np.ndarray:
        y, x = np.mgrid[:HEIGHT, :WIDTH] + 0.5
        across, down = (self.x1 - self.x0) / 2, (self.y1 - self.y0) / 2
        return ((x - self.x0 - across) / across) ** 2 + ((y - self.y0 - down) / down) ** 2 <= 1


@pytest.fixture(scope="module")
def fine() -> Iterator[str]:
    """A backbone that sees 4 × 4 pixels by their mean colour, and how far it is to where that colour ends."""
    import torch

    from extract.backbones import CustomBackbone
    from extract.backbones.registry import REGISTERED, register_backbone
    from extract.transforms import Transform

    class Surroundings(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(1))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            colours = torch.nn.functional.avg_pool2d(images, PATCH)
            moved = [torch.roll(colours, (i, j), (2, 3)) for i in range(-3, 4) for j in range(-3, 4)]
            return torch.cat(moved, 1) * self.scale

    half = (0.5, 0.5, 0.5)
    transform = Transform(size=SIDE, interpolation="bilinear", mean=half, std=half)
    register_backbone("around")(lambda **options: CustomBackbone(Surroundings(), transform, name="around"))
    yield "around"
    REGISTERED.pop("around", None)


@pytest.fixture(scope="module")
def things() -> dict[str, list[list[Thing]]]:
    """One or two things a picture, inside the middle 48 × 48; every fourth picture of what trains is empty."""
    rng = np.random.default_rng(3)
    found: dict[str, list[list[Thing]]] = {}
    for split, count in SPLITS.items():
        found[split] = []
        for number in range(count):
            halves = [(9, 31), (33, 55)] if number % 3 else [(9, 55)]
            pictured = []
            for low, high in halves:
                width, height = rng.integers(14, 20, 2)
                x, y = rng.integers(low, high - width + 1), rng.integers(1, HEIGHT - height)
                name = CLASSES[int(rng.integers(2))]
                pictured.append(Thing(name, int(x), int(y), int(x + width), int(y + height)))
            found[split].append([] if split == "train" and number % 4 == 3 else pictured)
    return found


def drawn(things: list[Thing], seed: int) -> np.ndarray:
    pixels = np.random.default_rng(seed).normal(128, 6, (HEIGHT, WIDTH, 3))
    for thing in things:
        pixels[thing.mask] = COLOURS[thing.name]
    return np.clip(pixels, 0, 255).astype(np.uint8)


def pictures(root: Path, things: dict[str, list[list[Thing]]]) -> dict[str, list[tuple[str, list[Thing]]]]:
    """Pictures in root, and what is on each by split."""
    root.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[tuple[str, list[Thing]]]] = {}
    for split, several in things.items():
        for number, each in enumerate(several):
            stem = f"{split}{number:02}"
            Image.fromarray(drawn(each, number + 100 * len(split))).save(root / f"{stem}.png")
            found.setdefault(split, []).append((stem, each))
    return found


def voc(root: Path, things: dict[str, list[list[Thing]]], extra: str = "", outlines: bool = False) -> Path:
    """A VOC devkit; `extra` are further objects of every XML file of val."""
    folders = ["Annotations", "ImageSets/Main"]
    for folder in [
        *folders,
        *(["ImageSets/Segmentation", "SegmentationObject", "SegmentationClass"] * outlines),
    ]:
        (root / folder).mkdir(parents=True)
    for split, several in pictures(root / "JPEGImages", things).items():
        names = "".join(f"{stem}\n" for stem, _ in several)
        (root / "ImageSets" / "Main" / f"{split}.txt").write_text(names)
        if outlines:
            (root / "ImageSets" / "Segmentation" / f"{split}.txt").write_text(names)
        for stem, each in several:
            objects = "".join(
                f"<object><name>{name}</name><difficult>0</difficult><bndbox><xmin>{x0 + 1}</xmin><ymin>{y0 + 1}</ymin>"
                f"<xmax>{x1}</xmax><ymax>{y1}</ymax></bndbox></object>"
                for name, x0, y0, x1, y1 in each
            )
            size = f"<size><width>{WIDTH}</width><height>{HEIGHT}</height><depth>3</depth></size>"
            more = extra if split == "val" else ""
            (root / "Annotations" / f"{stem}.xml").write_text(
                f"<annotation>{size}{objects}{more}</annotation>"
            )
    return root


def coco(root: Path, things: dict[str, list[list[Thing]]], outlines: bool = True) -> Path:
    """annotations/instances_{train,val}2017.json, masks as run lengths."""
    from pycocotools import mask

    (root / "annotations").mkdir(parents=True)
    for split in things:
        images: list[Any] = []
        marks: list[Any] = []
        for stem, each in pictures(root / f"{split}2017", {split: things[split]})[split]:
            images.append({"id": len(images), "file_name": f"{stem}.png", "width": WIDTH, "height": HEIGHT})
            for thing in each:
                runs = mask.encode(np.asfortranarray(thing.mask.astype(np.uint8)))
                shape = {"size": runs["size"], "counts": runs["counts"].decode()}
                marks.append(
                    {
                        "id": len(marks),  # the first is 0, an object like others
                        "image_id": len(images) - 1,
                        "category_id": 3 + 4 * CLASSES.index(thing.name),
                        "bbox": [thing.x0, thing.y0, thing.x1 - thing.x0, thing.y1 - thing.y0],
                        "area": int(thing.mask.sum()),
                        "iscrowd": 0,
                        **({"segmentation": shape} if outlines else {}),
                    }
                )
        kinds = [{"id": 3 + 4 * place, "name": name} for place, name in enumerate(CLASSES)]
        said = {"images": images, "annotations": marks, "categories": kinds}
        (root / "annotations" / f"instances_{split}2017.json").write_text(json.dumps(said))
    return root


def table(root: Path, things: dict[str, list[list[Thing]]]) -> Path:
    """boxes.csv, its columns in no usual order."""
    rows = ["label,ymin,xmin,xmax,ymax,split,image_path"]
    for split, several in pictures(root, things).items():
        for stem, each in several:
            rows += [f"{name},{y0},{x0},{x1},{y1},{split},{stem}.png" for name, x0, y0, x1, y1 in each]
            rows += [] if each else [f",,,,,{split},{stem}.png"]
    (root / "boxes.csv").write_text("\n".join(rows) + "\n")
    return root / "boxes.csv"


@pytest.fixture(scope="module")
def cells(things, tmp_path_factory) -> Path:
    return voc(tmp_path_factory.mktemp("voc") / "cells", things)


@pytest.fixture(scope="module")
def told(line, cells) -> dict[str | None, Record]:
    """Records of a run and its controls."""
    done = line("run", "detection", cells, *FIT, "--control", "shuffle", "--json")
    records = [Record.from_json(each) for each in done.stdout.splitlines()]
    return {record.control: record for record in records}


def test_planted_things_are_found(told):
    own, shuffled = told[None], told["shuffled labels"]
    assert own.metrics["map_50"] > 0.9
    assert shuffled.metrics["map_50"] < 0.3 * own.metrics["map_50"]
    assert own.context["ceiling_map_50"] == 1
    assert own.context["classes_scored"] == 2
    assert own.metrics["map_50"] >= own.metrics["map_50_95"] > 0
    low, high = own.intervals["map_50"]
    assert low <= own.metrics["map_50"] <= high
    assert own.n["map_50"] == SPLITS["val"]


def test_three_layouts_say_the_same(told, line, things, tmp_path):
    for data in (coco(tmp_path / "coco", things), table(tmp_path / "table", things)):
        record = line.record("run", "detection", data, *FIT)
        assert record.metrics == told[None].metrics
        assert record.dataset_fingerprint == told[None].dataset_fingerprint


def test_settings_of_detections_stand_in_the_record(line, cells):
    words = ("--score-threshold", "0.2", "--nms-iou", "0.3", "--max-detections", "7")
    record = line.record("run", "detection", cells, *FIT, *words)
    answer = record.task_params["answer"]
    assert (answer["score_threshold"], answer["nms_iou"], answer["max_detections"]) == (0.2, 0.3, 7)
    assert record.context["detections_per_image"] <= 7


def test_a_difficult_object_is_scored_only_on_request(line, things, tmp_path, told):
    box = "<bndbox><xmin>12</xmin><ymin>3</ymin><xmax>16</xmax><ymax>7</ymax></bndbox>"
    hard = f"<object><name>red</name><difficult>1</difficult>{box}</object>"
    data = voc(tmp_path / "hard", things, extra=hard)
    assert line.record("run", "detection", data, *FIT).metrics["map_50"] == told[None].metrics["map_50"]
    asked = line.record("run", "detection", data, *FIT, "--include-difficult")
    assert asked.metrics["map_50"] < told[None].metrics["map_50"]


def test_small_objects_may_be_left_out(line, cells, told):
    record = line.record("run", "detection", cells, *FIT, "--min-box-size", "16")
    assert record.dataset_fingerprint != told[None].dataset_fingerprint


def test_it_sweeps_over_layers_and_rates(line, cells):
    said = line("sweep", "detection", cells, "--grid", "lr=0.003,0.01", "--epochs", "8", "--json").stdout
    (record,) = map(Record.from_json, said.splitlines())
    assert record.selection["metric"] == "map_50"
    assert record.hyperparameters["learning_rate"] in (0.003, 0.01)


def test_rows_are_told_apart_image_by_image(line, cells, told):
    done = line("run", "detection", cells, *FIT, "--control", "shuffle")
    assert "paired bootstrap" in done.stdout
    assert done.stdout.partition(" rank ")[2].splitlines()[1].startswith(" 1   ")


def test_check_counts_the_objects(line, cells, tmp_path):
    done = line("check", cells, "--task", "detection", "--overlay", tmp_path / "look.png")
    assert "objects: " in done.stdout
    assert "images without any object" in done.stdout
    assert Image.open(tmp_path / "look.png").size == (900, 675)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--loss-stride", "2"), "no such option '--loss-stride'"),
        (("--score-threshold", "2"), "--score-threshold"),
        (("--annotations", "nowhere"), "nowhere"),
    ],
)
def test_what_means_nothing_is_refused(line, cells, words, said):
    assert said in line.refused("run", "detection", cells, *words)


@pytest.mark.parametrize("layout", ["voc", "coco"])
def test_outlines_are_found_in_their_boxes(line, things, tmp_path, layout):
    if layout == "coco":
        data = coco(tmp_path / "coco", things)
    else:
        data = voc(tmp_path / "voc", things, outlines=True)
        names = ("aeroplane", "bicycle")  # of the numbers 1 and 2 in SegmentationClass
        for xml in (data / "Annotations").iterdir():
            text = xml.read_text()
            for ours, theirs in zip(CLASSES, names, strict=True):
                text = text.replace(f">{ours}<", f">{theirs}<")
            xml.write_text(text)
        for split, several in things.items():
            for number, each in enumerate(several):
                numbers, kinds = (np.zeros((HEIGHT, WIDTH), np.uint8) for _ in range(2))
                for place, thing in enumerate(each, start=1):
                    numbers[thing.mask], kinds[thing.mask] = place, 1 + CLASSES.index(thing.name)
                for folder, values in (("SegmentationObject", numbers), ("SegmentationClass", kinds)):
                    image = Image.fromarray(values, mode="P")
                    image.putpalette(np.arange(768).astype(np.uint8).tobytes())
                    image.save(data / folder / f"{split}{number:02}.png")
    done = line("run", "instance_segmentation", data, *FIT, "--control", "shuffle", "--json")
    records = {each.control: each for each in map(Record.from_json, done.stdout.splitlines())}
    own, shuffled = records[None], records["shuffled labels"]
    assert own.metrics["map_50"] > 0.9
    assert own.metrics["box_map_50"] > 0.9
    assert shuffled.metrics["map_50"] < 0.5 * own.metrics["map_50"]
    assert own.context["ceiling_map_50"] == 1


def test_a_head_that_finds_nothing_is_told_of(line, cells):
    done = line("run", "detection", cells, "--lr", "1e-6", "--epochs", "1", "--no-results")
    assert "finds next to nothing on the images that trained it" in done.stderr


def test_boxes_without_outlines_are_no_instances(line, cells, things, tmp_path):
    assert "no outlines" in line.refused("run", "instance_segmentation", cells)
    data = coco(tmp_path / "coco", things, outlines=False)
    assert "outline" in line.refused("run", "instance_segmentation", data)


def test_a_class_that_no_training_image_shows_is_told_of(line, things, tmp_path):
    new = [[Thing("green", *things["val"][0][0][1:])], *things["val"][1:]]
    data = table(tmp_path / "new", {**things, "val": new})
    done = line("run", "detection", data, *FIT, "--json")
    assert "no training image shows green, which the scored split has" in done.stderr
    (record,) = map(Record.from_json, done.stdout.splitlines())
    assert record.context["classes_scored"] == 3


def test_masks_of_pictures_are_drawn_in_their_own_pixels(fine, things, tmp_path):
    data = coco(tmp_path / "coco", things)
    options = {"learning_rate": 0.01, "weight_decay": 1e-4, "epochs": 40}
    probe = visbench.run(fine, "instance_segmentation", data, store=tmp_path / "store", **options).probe
    (found,) = probe.predict_images([data / "val2017" / "val00.png"])
    masks = probe.masks(found, HEIGHT, WIDTH)
    assert masks.shape == (len(found), HEIGHT, WIDTH)
    for thing in things["val"][0]:
        best = max(
            (mask & thing.mask).sum() / (mask | thing.mask).sum()
            for mask, score in zip(masks, found[:, 4], strict=True)
            if score > 0.2
        )
        assert best > 0.7
    assert probe.masks(found[:0], HEIGHT, WIDTH).shape == (0, HEIGHT, WIDTH)
    with pytest.raises(UsageError, match=r"one picture's are \(k, 202\)"):
        probe.masks(found[:, :6], HEIGHT, WIDTH)
