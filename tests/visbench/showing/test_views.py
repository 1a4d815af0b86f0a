"""Each view on arrays: pixels where they should be, counts as others count them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw
from sklearn.decomposition import PCA
from sklearn.metrics import confusion_matrix
from sklearn.metrics.pairwise import cosine_similarity
from torchvision.ops import box_iou

from visbench.errors import UsageError
from visbench.mapoverlay import palette, ramp
from visbench.showing import (
    boxes,
    classes,
    legends,
    mapcolours,
    matches,
    neighbours,
    poses,
    tokens,
    triplets,
    words,
)
from visbench.showing.mapcolours import Ranges, panels_of
from visbench.showing.page import RIGHT, WRONG

GREY = np.full((8, 8, 3), 128, np.uint8)


def test_label_maps_have_their_colours_and_wrong_pixels_are_those_that_differ():
    target = np.arange(64).reshape(8, 8).astype(np.uint8) % 3
    target[0] = 255
    said = target.copy()
    said[0], said[4, 2:5] = 1, (target[4, 2:5] + 1) % 3
    panels = panels_of(GREY, target, said, "labels", Ranges(), classes=3)
    table = palette(3)
    assert (panels["target"][1:] == table[target[1:]]).all()
    assert (panels["prediction"] == table[said]).all()
    assert ((panels["target"][0] >= 215) & (panels["target"][0] <= 235)).all()  # chequers
    wrong = (panels["wrong pixels"] == words.INK).all(axis=-1)
    assert (wrong == ((target != said) & (target != 255))).all()


def test_one_scale_serves_target_and_prediction_and_errors_have_their_own():
    target = np.linspace(1, 5, 64).reshape(8, 8)
    target[0, 0] = 0  # unknown
    said = target + 0.5
    ranges = mapcolours.ranges_of([target, target * 2], [said, target * 2], "depth")
    assert ranges.value[0] == pytest.approx(target[target > 0].min())
    panels = panels_of(GREY, target, said, "depth", ranges)
    low, high = ranges.value
    assert (panels["prediction"][3, 3] == ramp(np.array([(said[3, 3] - low) / (high - low)]))[0]).all()
    expected = ramp(np.array([0.5 / ranges.error]).clip(max=1))[0]
    assert (panels["error"][1:] == expected).all()
    assert (panels["error"][0, 0] >= 215).all()


def test_orientations_a_half_turn_apart_are_one_and_a_quarter_turn_is_the_farthest():
    angles = np.array([[0.0, np.pi, np.pi / 2, np.pi / 4]])
    double = np.stack([np.cos(2 * angles), np.sin(2 * angles), np.ones_like(angles)], -1)
    apart = mapcolours.error(double[:, :1].repeat(4, 1), double, "orientation")
    np.testing.assert_allclose(apart, [[0, 0, 90, 45]], atol=1e-5)
    shown = mapcolours.looks(double, "orientation", Ranges(), np.ones((1, 4), bool), 0)
    assert np.abs(shown[0, 0].astype(int) - shown[0, 1]).max() <= 1  # rounding
    assert not (shown[0, 0] == shown[0, 2]).all()


def test_normals_err_by_their_angle():
    up, right = np.array([0.0, 0, 1]), np.array([1.0, 0, 0])
    apart = mapcolours.error(np.array([[up, up]]), np.array([[up, right]]), "normals")
    np.testing.assert_allclose(apart, [[0, 90]], atol=1e-4)


def test_relative_depth_shows_no_error_since_scores_have_no_unit():
    target = np.linspace(1, 2, 64).reshape(8, 8)
    panels = panels_of(GREY, target, -100 * target, "depth", Ranges((1, 2)), ordinal=True)
    assert not any("error" in name for name in panels)


def test_lines_end_where_patches_match():
    lines = matches.Lines(np.array([[10.0, 20]]), np.array([[30.0, 40]]), np.array([0.0]))
    side = Image.new("RGB", (48, 48), (120, 120, 120))
    pixels = np.asarray(matches.drawn(side, side, lines, side=48, high=10)).astype(int)
    scale = matches.VIEW / 48
    ends = [(10 * scale, 20 * scale), (matches.VIEW + matches.BETWEEN + 30 * scale, 40 * scale)]
    first = ramp(np.array([0.0]))[0]
    for x, y in ends:
        assert (pixels[round(y), round(x)] == first).all()
    middle = np.mean(ends, axis=0)
    assert (pixels[round(middle[1]) - 2 : round(middle[1]) + 3, round(middle[0])] == first).all(axis=-1).any()
    assert not (pixels[round(40 * scale), round(30 * scale)] == first).all()


def test_errors_of_the_limit_and_more_have_the_last_colour():
    lines = matches.Lines(
        np.array([[10.0, 10], [10, 40]]), np.array([[30.0, 10], [30, 40]]), np.array([10.0, 99])
    )
    side = Image.new("RGB", (48, 48))
    pixels = np.asarray(matches.drawn(side, side, lines, side=48, high=10))
    scale = matches.VIEW / 48
    last = ramp(np.array([1.0]))[0]
    assert all((pixels[round(y * scale), round(10 * scale)] == last).all() for y in (10, 40))


def test_of_many_lines_the_best_and_the_worst_stay():
    errors = np.random.default_rng(0).permutation(200).astype(float)
    some = matches.Lines(np.zeros((200, 2)), np.zeros((200, 2)), errors).some(20)
    assert len(some) == 20
    assert {some.errors.min(), some.errors.max()} == {0, 199}
    assert np.median(some.errors) == pytest.approx(100, abs=6)


def test_a_box_lies_on_the_pixels_it_holds():
    canvas = Image.new("RGB", (60, 60))
    boxes.outline(ImageDraw.Draw(canvas), np.array([10.0, 20, 30, 50]), (255, 0, 0), dashed=False)
    inked = np.argwhere(np.asarray(canvas)[..., 0] == 255)
    assert inked.min(axis=0).tolist() == [20, 10]
    assert (inked.max(axis=0) + 1).tolist() == [50, 30]
    assert np.asarray(canvas)[35, 20].sum() == 0


def test_what_is_dashed_has_gaps():
    canvas = Image.new("RGB", (60, 60))
    boxes.outline(ImageDraw.Draw(canvas), np.array([10.0, 20, 30, 50]), (255, 0, 0), dashed=True)
    edge = np.asarray(canvas)[20, 10:30, 0]
    assert 0 < (edge == 255).sum() < 20


def drawn_boxes(count, seed):
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, 0.7, (count, 2))
    return np.concatenate([low, low + rng.uniform(0.05, 0.3, (count, 2))], axis=1)


def test_overlaps_are_those_of_torchvision():
    one, two = drawn_boxes(6, 0), drawn_boxes(9, 1)
    np.testing.assert_allclose(
        boxes.box_ious(one, two), box_iou(torch.tensor(one), torch.tensor(two)), atol=1e-12
    )


def test_each_object_is_found_once_and_what_is_not_scored_is_neither_right_nor_wrong():
    box = np.array([[0.1, 0.1, 0.4, 0.4], [0.5, 0.5, 0.9, 0.9]])
    objects = np.column_stack([box, [0, 1], [0, 1]])  # the second is not scored
    found = np.array([[*box[0], 0.5, 0], [*box[0], 0.9, 0], [*box[1], 0.8, 1], [*box[0], 0.7, 1]])
    judged = boxes.judge(found, objects)
    assert judged.right.tolist() == [False, True, False, False]
    assert judged.ignored.tolist() == [False, False, True, False]
    assert judged.met.tolist() == [True, False]


def test_detections_are_drawn_from_where_f1_is_best():
    objects = [np.array([[0.1, 0.1, 0.4, 0.4, 0, 0], [0.5, 0.5, 0.9, 0.9, 0, 0]])]
    right = [[*objects[0][0, :4], 0.9, 0], [*objects[0][1, :4], 0.6, 0]]
    wrong = [[0.0, 0.7, 0.1, 0.8, score, 0] for score in (0.5, 0.4, 0.3)]
    assert boxes.operating_point([np.array([*right, *wrong])], objects) == 0.6
    assert boxes.operating_point([np.zeros((0, 6))], objects) == 0


def test_masks_are_laid_over_their_objects():
    judged = boxes.judge(
        np.array([[0.25, 0.25, 0.75, 0.75, 0.9, 0]]), np.array([[0.25, 0.25, 0.75, 0.75, 0, 0]])
    )
    mask = np.zeros((1, 200, 200), bool)
    mask[0, 80:120, 80:120] = True
    drawn = np.asarray(boxes.draw_found(Image.new("RGB", (200, 200)), judged, ["square"], palette(1), mask))
    assert (drawn[100, 100] == np.rint(0.45 * palette(1)[0])).all()
    assert (drawn[80, 100] == palette(1)[0]).all()  # its rim
    assert drawn[70, 100].sum() == 0


def test_confusions_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    labels, said = rng.integers(0, 4, 90), rng.integers(0, 4, 90)
    assert (classes.counted(labels, said, 5) == confusion_matrix(labels, said, labels=range(5))).all()


def test_cells_have_the_colour_of_their_share_of_the_true_class():
    counts = np.array([[3, 1], [0, 2]])
    pixels = np.asarray(classes.matrix(counts, ["a", "b"], counts.sum(1))).reshape(-1, 3)
    for share, cells in ((0.75, 1), (0.25, 1), (0, 1), (1, 1)):
        own = (pixels == ramp(np.array([share]))[0]).all(axis=1).sum()
        assert own > 0.6 * cells * classes.CELL**2


def test_the_surer_of_another_class_the_worse():
    said = np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])
    assert classes.wrongness(said, np.array([0, 0, 0])).argsort().tolist() == [0, 1, 2]
    assert (classes.wrongness(said, np.array([0, 0, 0])) > 0).tolist() == [False, True, True]


def test_neighbours_are_those_of_scikit_learn_without_the_query():
    rows = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float16)
    places, cosines = neighbours.nearest(rows, np.array([3, 7]), 6)
    full = cosine_similarity(rows.astype(np.float64))
    np.fill_diagonal(full, -2)
    assert (places == np.argsort(-full[[3, 7]], axis=1)[:, :6]).all()
    np.testing.assert_allclose(cosines, np.take_along_axis(full[[3, 7]], places, axis=1), atol=1e-3)
    assert neighbours.nearest(rows[:3], np.array([0]), 6)[0].shape == (1, 2)


@pytest.mark.parametrize(
    ("people_right", "agreed", "left", "right"),
    [
        (False, 1.0, True, None),
        (False, 0.0, None, False),
        (True, 1.0, None, True),
        (True, 0.0, False, None),
        (True, 0.5, None, None),
    ],
)
def test_the_frame_is_around_what_the_features_choose(people_right, agreed, left, right):
    images = [Image.new("RGB", (4, 4))] * 3
    tiles = triplets.tiles_of(images, ["r", "a", "b"], (0.2, 0.3), people_right, agreed, "cosine")
    assert (tiles[0].right, tiles[1].right, tiles[2].right) == (left, None, right)
    said = [" ".join(tile.lines) for tile in (tiles[0], tiles[2])]
    assert ["people" in each for each in said] == [not people_right, people_right]


def test_two_kinds_of_patches_have_two_colours():
    grids = np.zeros((2, 4, 4, 6), np.float32)
    grids[..., 0], grids[0, :, 2:, 0], grids[1, 2:, :, 0] = 1, -1, -1
    grids += np.random.default_rng(0).normal(0, 0.01, grids.shape)
    colours, shares = tokens.as_colours(grids)
    same = grids[..., 0] > 0
    assert np.abs(colours[same][:, 0].mean() - colours[~same][:, 0].mean()) > 150
    assert colours[same][:, 0].std() < 30
    flat = grids.reshape(-1, 6)
    np.testing.assert_allclose(shares, PCA(3).fit(flat).explained_variance_ratio_, rtol=1e-4)


def test_components_are_fitted_jointly_and_do_not_turn_with_the_order():
    grids = np.random.default_rng(0).normal(size=(3, 4, 4, 8)) * np.arange(8, 0, -1)
    colours, _ = tokens.as_colours(grids)
    np.testing.assert_array_equal(tokens.as_colours(grids[::-1])[0][::-1], colours)
    assert tokens.as_colours(np.ones((1, 2, 2, 2)))[0].shape == (
        1,
        2,
        2,
        3,
    )  # fewer dims than colours, all alike


def test_likeness_is_the_cosine_to_one_patch():
    grids = np.random.default_rng(0).normal(size=(2, 3, 3, 5))
    found = tokens.cosines_to(grids, 1, 2)
    expected = cosine_similarity(grids.reshape(-1, 5), grids[0, 1, 2][None])[:, 0]
    np.testing.assert_allclose(found.ravel(), expected)


def test_a_pixel_lies_in_the_patch_that_holds_it():
    spec = SimpleNamespace(transform={"size": 48, "interpolation": "bilinear"})
    pixels = np.zeros((48, 96, 3), np.uint8)  # the frame is its middle, from x = 24
    images = SimpleNamespace(sources=[pixels], names=["wide.png"])
    seen = SimpleNamespace(
        source=SimpleNamespace(spec=spec, asked="b"),
        images=images,
        grids=np.zeros((1, 12, 12, 5)),
        options=SimpleNamespace(max_pixels=None),
    )
    assert tokens.place_of(seen, (24, 0)) == (0, 0)
    assert tokens.place_of(seen, (27, 4)) == (1, 0)
    assert tokens.place_of(seen, (71, 47)) == (11, 11)
    with pytest.raises(UsageError, match=r"x 24 … 71 and y 0 … 47"):
        tokens.place_of(seen, (23, 0))


def test_hands_of_the_dial_point_where_they_say():
    pixels = np.asarray(poses.dial(90.0, 180.0))
    x, y, reach = poses.TILE // 2, poses.TILE // 2 - 12, poses.DIAL // 2
    assert tuple(pixels[y, x + reach // 2]) == RIGHT
    assert tuple(pixels[y + reach // 2, x]) == WRONG
    assert tuple(pixels[y - reach // 2, x]) == (255, 255, 255)


def test_classes_stand_beside_their_colours():
    drawn = np.asarray(legends.classes([("cat", (200, 0, 0)), ("dog", (0, 0, 200))], 400))
    assert (drawn == (200, 0, 0)).all(axis=-1).sum() > 100
    assert (drawn == (0, 0, 200)).all(axis=-1).sum() > 100
