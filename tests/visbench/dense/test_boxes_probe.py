"""Detection on arrays of one's own, and what a trained detector says of pictures."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import visbench
from visbench.boxes.judging import Masks
from visbench.boxes.predicting import InstancePredictor
from visbench.errors import UsageError


def planted(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(n, 8, 8, 8) features that say the class and the four sides, and (n, 3, 6) boxes; the last image has none."""
    features = rng.normal(0, 0.05, (n, 8, 8, 8)).astype(np.float16)
    rows = np.full((n, 3, 6), -1, np.float32)
    for image in range(n - 1):
        row, column = rng.integers(1, 7, 2)
        label, half = int(rng.integers(2)), 1 / 8
        middle = (column + 0.5) / 8, (row + 0.5) / 8
        rows[image, 0] = *(each - half for each in middle), *(each + half for each in middle), label, 0
        rows[image, 0, :4] = rows[image, 0, :4].clip(0, 1)
        features[image, row, column, label] += 3
    return features, rows


def probe(**settings):
    return visbench.get_probe(
        "detection",
        num_classes=2,
        learning_rate=0.05,
        weight_decay=1e-4,
        epochs=60,
        standardize=False,
        **settings,
    )


def test_planted_boxes_are_found_in_other_images():
    rng = np.random.default_rng(0)
    fitted = probe().fit(*planted(48, rng))
    features, rows = planted(16, rng)
    metrics = fitted.evaluate(features, rows)
    assert metrics["map_50"] > 0.8
    found = fitted.predict(features)
    assert found.shape == (16, 100, 6)
    best = found[:15, 0]
    assert (best[:, 5] == rows[:15, 0, 4]).mean() > 0.9
    np.testing.assert_allclose(best[:, :4], rows[:15, 0, :4], atol=0.06)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows * 224, "shares of the frame"),
        (lambda rows: np.where(rows == 1, 7, rows), "shares of the frame|label"),
        (lambda rows: rows[..., :5], r"wanted numbers \(n, M, 6\)"),
    ],
)
def test_rows_that_are_no_boxes_are_refused(change, said):
    features, rows = planted(4, np.random.default_rng(0))
    rows[0, 0] = 0.1, 0.1, 0.3, 0.3, 1, 0
    with pytest.raises(UsageError, match=said):
        probe().fit(features, change(rows))


def test_the_number_of_classes_has_to_be_told():
    with pytest.raises(UsageError, match="num_classes is None"):
        visbench.get_probe("detection")
    with pytest.raises(UsageError, match="scored on the pictures themselves"):
        visbench.get_probe("instance_segmentation")


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"annotations": 3}, "annotations is 3; it is the place of a file or folder"),
        ({"image_dir": 4.5}, r"image_dir is 4\.5; it is the place"),
        ({"include_difficult": "yes"}, "include_difficult is 'yes'; it is True or False"),
    ],
)
def test_what_is_told_of_boxes_in_other_words_is_refused(tmp_path, told, said):
    with pytest.raises(UsageError, match=said):
        visbench.run("efficientnet_lite0", "detection", tmp_path, **told)


@pytest.mark.parametrize(
    ("found", "came"), [([np.zeros((1, 202))], "of type list"), (np.zeros((2, 6)), r"of shape \(2, 6\)")]
)
def test_masks_are_those_of_one_picture(found, came):
    with pytest.raises(UsageError, match=rf"detections {came} came; one picture's are \(k, 202\)"):
        InstancePredictor.masks(None, found, 8, 8)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"max_detections": 1.5}, r"max_detections is 1\.5; it must be a whole number"),
        ({"score_threshold": "a"}, "score_threshold is 'a'; it must be a number"),
        ({"nms_iou": True}, "nms_iou is True; it must be a number"),
    ],
)
def test_settings_that_are_no_numbers_are_refused(settings, said):
    with pytest.raises(UsageError, match=said):
        probe(**settings)


def test_a_found_object_lies_where_it_is_in_the_picture(tmp_path):
    """Wide and tall pictures: places of the square frame are brought back to each."""
    rng = np.random.default_rng(1)
    rows = ["image_path,xmin,ymin,xmax,ymax,label,split"]
    for number in range(24):
        height, width = (96, 144) if number % 2 else (144, 96)
        pixels = np.full((height, width, 3), 128, np.uint8)
        x, y = (
            int(rng.integers(32, side - 64)) if side > 96 else int(rng.integers(4, 60))
            for side in (width, height)
        )
        pixels[y : y + 32, x : x + 32] = (230, 30, 30)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png,{x},{y},{x + 32},{y + 32},red,{'test' if number >= 20 else 'train'}")
    (tmp_path / "boxes.csv").write_text("\n".join(rows) + "\n")
    settings = {"epochs": 40, "learning_rate": 0.02, "weight_decay": 1e-4}
    data = tmp_path / "boxes.csv"
    result = visbench.run("efficientnet_lite0", "detection", data, layer=-3, image_size=96, **settings)
    assert result.metrics["map_50"] > 0.5
    pictures = [tmp_path / "20.png", tmp_path / "21.png"]
    for number, found in zip((20, 21), result.probe.predict_images(pictures), strict=True):
        told = np.array(rows[number + 1].split(",")[1:5], float)
        np.testing.assert_allclose(found[0, :4], told, atol=12)
        assert found[0, 5] == 0


class _Stream:
    """Two images of 32 pixels: one with two discs, one with nothing."""

    frame = 32

    def __init__(self) -> None:
        y, x = np.mgrid[:32, :32] + 0.5
        self.masks = np.stack([(x - 8) ** 2 + (y - 8) ** 2 <= 36, (x - 22) ** 2 + (y - 20) ** 2 <= 64])
        self.rows = np.full((2, 3, 202), -1, np.float32)
        for place, (box, mask) in enumerate(zip([(2, 2, 14, 14), (14, 12, 30, 28)], self.masks, strict=True)):
            x0, y0, x1, y1 = box
            bins = (np.arange(14) + 0.5) / 14
            small = mask[(y0 + (y1 - y0) * bins).astype(int)[:, None], (x0 + (x1 - x0) * bins).astype(int)]
            self.rows[0, place] = *np.array(box) / 32, place, 0, *small.ravel()
        self.rows[1, 0, 5] = 3

    def original(self, row: int) -> np.ndarray:
        return self.masks if row == 0 else self.masks[:0]

    def blocks(self, size, rows=None):
        yield np.arange(2), None, self.rows


@pytest.mark.parametrize(("says", "score"), [("all", 1.0), ("nothing", 0.0)])
def test_a_perfect_detector_scores_one_and_an_empty_one_zero(says, score):
    from probes.boxes.detection import Detection
    from probes.boxes.instances import Instances

    task, stream = Instances(Detection(num_classes=2, size=1)), _Stream()
    answer = np.zeros((2, 5, 202), np.float32)
    answer[..., 5] = -1
    if says == "all":
        answer[0, :2] = stream.rows[0, :2]
        answer[0, :2, 4], answer[0, :2, 5] = 0.9, (0, 1)
    judge = Masks(task)
    metrics = judge.metric.value(judge.tally(stream, lambda maps, target: answer))
    assert (
        metrics["map_50"]
        == metrics["box_map_50"]
        == metrics["box_map_50_95"]
        == metrics["box_coco_map"]
        == score
    )
    tally = task.tally(answer, stream.rows)
    assert task.value(tally)["box_map_50"] == score
