"""Average precision by VOC's rule, read out step by step; invariants, weights, influence, and what is refused."""

import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.errors import InputError
from probes.metrics import detection
from probes.metrics.box_matching import CROWD, DIFFICULT, HIT, IGNORED, MISS, THRESHOLDS

SEEDS = st.integers(0, 2**32 - 1)
CLASSES = 3
EMPTY = [-1.0, -1, -1, -1, 0, -1]


def drawn(rng, images=6, detections=9, objects=5, *, levels=None, flags=(0.7, 0.2, 0.1), side=8):
    """Boxes on a small lattice, where overlaps are often equal or just at a threshold; `levels` of score make ties."""
    said = np.tile(np.float32(EMPTY), (images, detections, 1))
    true = np.full((images, objects, 6), -1, np.float32)
    scores = rng.permutation(images * detections).reshape(images, detections) / (images * detections)
    if levels:
        scores = rng.integers(1, levels + 1, scores.shape) / levels
    for image in range(images):
        count = rng.integers(0, objects + 1)
        corner = rng.integers(0, side, (count, 2))
        boxes = np.column_stack([corner, corner + rng.integers(1, 7, (count, 2))])
        classes, flag = rng.integers(0, CLASSES, count), rng.choice(3, count, p=flags)
        true[image, :count] = np.column_stack([boxes, classes, flag])
        number = rng.integers(0, detections + 1)
        for row, score in enumerate(-np.sort(-scores[image])[:number]):
            box, label = np.r_[0, 0, rng.integers(1, 7, 2)] + rng.integers(0, side), rng.integers(0, CLASSES)
            if count and rng.random() < 0.7:
                like = rng.integers(count)
                box, label = boxes[like] + rng.integers(-1, 2, 4) * (rng.random(4) < 0.4), classes[like]
                box[2:] = np.maximum(box[2:], box[:2] + 1)
            said[image, row] = [*box, score, label]
    return said, true


def iou(a, b):
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return shared / (areas[0] + areas[1] - shared)


def covered(a, crowd):
    width = min(a[2], crowd[2]) - max(a[0], crowd[0])
    height = min(a[3], crowd[3]) - max(a[1], crowd[1])
    return max(width, 0) * max(height, 0) / ((a[2] - a[0]) * (a[3] - a[1]))


def literal_voc(said, true, threshold):
    """(area, 11 points) of each class, as VOC's development kit is described; None without an object."""
    found = []
    for label in range(CLASSES):
        objects, total = {}, 0
        for image in range(len(true)):
            rows = [row.astype(float).tolist() for row in true[image] if row[4] == label]
            objects[image] = [{"box": row[:4], "flag": row[5], "taken": False} for row in rows]
            total += sum(row[5] == 0 for row in rows)
        everything = [
            (float(row[4]), image, row[:4].astype(float).tolist())
            for image in range(len(said))
            for row in said[image]
            if row[5] == label
        ]
        true_positive, false_positive = [], []
        for _, image, box in sorted(everything, key=lambda each: -each[0]):
            best, meant = -1.0, None
            for each in objects[image]:
                if each["flag"] != CROWD and iou(box, each["box"]) > best:
                    best, meant = iou(box, each["box"]), each
            hit = miss = False
            if best >= threshold:
                if meant["flag"] != DIFFICULT:
                    hit, miss = not meant["taken"], meant["taken"]
                    meant["taken"] = True
            else:
                miss = True
            crowds = [each["box"] for each in objects[image] if each["flag"] == CROWD]
            if any(covered(box, each) >= threshold for each in crowds):
                miss = False
            true_positive.append(hit)
            false_positive.append(miss)
        if not total:
            found.append(None)
            continue
        tp, fp = np.cumsum(true_positive), np.cumsum(false_positive)
        recall = tp / total
        precision = [t / (t + f) if t + f else 0.0 for t, f in zip(tp, fp, strict=True)]
        eleven = 0.0
        for tenth in range(11):
            there = [p for p, r in zip(precision, recall, strict=True) if r >= tenth / 10]
            eleven += max(there, default=0.0) / 11
        mrec, mpre = [0.0, *recall, 1.0], [0.0, *precision, 0.0]
        for at in range(len(mpre) - 2, -1, -1):
            mpre[at] = max(mpre[at], mpre[at + 1])
        area = sum((mrec[at + 1] - mrec[at]) * mpre[at + 1] for at in range(len(mrec) - 1))
        found.append((area, eleven))
    return found


def tallied(said, true, **kwargs):
    return detection.tally(said, true, num_classes=CLASSES, **kwargs)


def means(classes, which):
    known = [each[which] for each in classes if each is not None]
    return np.mean(known) if known else np.nan


def same(a, b, tol=1e-12):
    assert set(a) == set(b)
    for name in a:
        np.testing.assert_allclose(a[name], b[name], rtol=0, atol=tol, err_msg=name)


@given(SEEDS, st.sampled_from([None, 2, 5]), st.integers(1, 7), st.integers(1, 12), st.integers(1, 7))
@settings(max_examples=250, deadline=None)
def test_voc_is_its_rule_read_out(seed, levels, images, detections, objects):
    said, true = drawn(np.random.default_rng(seed), images, detections, objects, levels=levels)
    tally = tallied(said, true)
    each = [literal_voc(said, true, threshold) for threshold in THRESHOLDS]
    areas = [means(classes, 0) for classes in each]
    found = detection.value(tally)
    np.testing.assert_allclose(found["map_50"], areas[0], atol=1e-12)
    np.testing.assert_allclose(found["map_50_95"], np.mean(areas), atol=1e-12)
    np.testing.assert_allclose(detection.ap_11(tally), means(each[0], 1), atol=1e-12)
    wanted = [np.nan if one is None else one[0] for one in each[0]]
    np.testing.assert_allclose(detection.per_class(tally), wanted, atol=1e-12)
    assert found["classes_scored"] == sum(one is not None for one in each[0])
    assert found["detections_per_image"] == (said[..., 5] >= 0).sum(1).mean()


def test_voc_is_its_rule_in_large():
    said, true = drawn(np.random.default_rng(0), 200, 40, 12, side=30, levels=50)
    np.testing.assert_allclose(
        detection.value(tallied(said, true))["map_50"], means(literal_voc(said, true, 0.5), 0), atol=1e-12
    )


def test_one_of_two_objects_is_found():
    """Recall 1/2 at precision 1: 51 of 101 recalls, half of the area, 6 of 11."""
    true = np.float32([[[0, 0, 10, 10, 0, 0]], [[0, 0, 10, 10, 0, 0]]])
    said = np.float32([[[0, 0, 10, 10, 0.9, 0]], [EMPTY]])
    tally = detection.tally(said, true, num_classes=1)
    found = detection.value(tally)
    assert found["coco_map_50"] == pytest.approx(51 / 101, abs=1e-15)
    assert found["map_50"] == found["map_50_95"] == found["coco_ar_100"] == 0.5
    assert detection.ap_11(tally) == pytest.approx(6 / 11, abs=1e-15)


def test_the_first_object_counts():
    box = [3, 4, 13, 24]
    tally = detection.tally(np.float32([[[*box, 0.3, 0]]]), np.float32([[[*box, 0, 0]]]), num_classes=1)
    found = detection.value(tally)
    assert all(value == 1 for value in found.values())
    assert (tally.coco == HIT).all()


def test_finding_or_missing_a_difficult_object_changes_nothing():
    plain, difficult = [0, 0, 10, 10, 0, 0], [50, 50, 60, 60, 0, 1]
    true = np.float32([[plain, difficult]])
    right, wrong = [0, 0, 10, 10, 0.5, 0], [100, 100, 110, 110, 0.7, 0]
    missed = np.float32([[right, wrong, EMPTY]])
    found = np.float32([[[50, 50, 60, 60, 0.9, 0], wrong, right]])
    one, other = (detection.value(detection.tally(rows, true, num_classes=1)) for rows in (missed, found))
    assert one.pop("detections_per_image") == 2
    assert other.pop("detections_per_image") == 3
    assert one == other
    assert one["map_50"] == 0.5


def test_overlap_at_the_threshold_is_enough():
    true = np.float32([[[0, 0, 10, 10, 0, 0]]])
    for height in range(1, 11):
        tally = detection.tally(np.float32([[[0, 0, 10, height, 1, 0]]]), true, num_classes=1)
        for rule in (tally.voc, tally.coco):
            np.testing.assert_array_equal(rule[0, :, 0] == HIT, height / 10 >= THRESHOLDS)
    assert (THRESHOLDS <= 0.5).sum() == 1


def test_a_crowd_excuses_a_miss_and_robs_no_hit():
    true = np.float32([[[0, 0, 40, 40, 0, 2], [10, 10, 20, 20, 0, 0]]])
    said = np.float32([[[10, 10, 20, 20, 0.9, 0], [10, 10, 20, 20, 0.8, 0], [80, 80, 90, 90, 0.7, 0]]])
    tally = detection.tally(said, true, num_classes=1)
    for rule in (tally.voc, tally.coco):
        assert rule[0, 0].tolist() == [HIT, IGNORED, MISS]


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_all_is_found_or_nothing(seed):
    said, true = drawn(np.random.default_rng(seed), flags=(1, 0, 0))
    boxes = {tuple(row) for image in range(len(true)) for row in [(image, *row[:5]) for row in true[image]]}
    perfect = np.concatenate([true[..., :4], np.ones((*true.shape[:2], 1)), true[..., 4:5]], 2)
    objects = (true[..., 4] >= 0).sum()
    none = np.full_like(said, -1)
    if not objects:
        assert all(np.isnan(detection.value(tallied(none, true))[name]) for name in detection.METRICS)
        return
    best, worst = (detection.value(tallied(rows, true)) for rows in (perfect.astype(np.float32), none))
    assert all(worst[name] == 0 for name in detection.METRICS)
    if len(boxes) - (true[..., 4] < 0).any(1).sum() == objects:  # no object twice, which VOC finds but once
        assert all(best[name] == pytest.approx(1, abs=1e-15) for name in detection.METRICS)
    assert all(best[name] == pytest.approx(1, abs=1e-15) for name in detection.METRICS if "coco" in name)


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_no_order_and_no_scale_matters(seed):
    rng = np.random.default_rng(seed)
    said, true = drawn(rng, 8, 12)
    wanted = detection.value(tallied(said, true))
    images, rows = rng.permutation(8), rng.permuted(np.tile(np.arange(12), (8, 1)), axis=1)
    moved = np.take_along_axis(said, rows[:, :, None], 1)
    tally = tallied(moved[images], true[images])
    same(detection.value(tally), wanted)
    as_it_came = tallied(said, true)
    for rule in ("voc", "coco"):
        states = np.take_along_axis(getattr(as_it_came, rule), rows[:, None], 2)[images]
        np.testing.assert_array_equal(getattr(tally, rule), states)
    larger, larger_true = said.copy(), true.copy()
    larger[..., :4] *= 4
    larger_true[..., :4] *= 4
    same(detection.value(tallied(larger, larger_true)), wanted)
    same(detection.value(tallied(jnp.asarray(said), jnp.asarray(true))), wanted)


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_tallies_of_parts_are_the_tally(seed):
    rng = np.random.default_rng(seed)
    said, true = drawn(rng, 9)
    cut = int(rng.integers(0, 10))
    parts = tallied(said[:cut], true[:cut]), tallied(said[cut:], true[cut:])
    for whole, *pieces in zip(tallied(said, true), *parts, strict=True):
        np.testing.assert_array_equal(np.concatenate(pieces), whole)


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(5)
    said, true = drawn(rng, 30)
    times = rng.integers(0, 4, (17, 30))
    wanted, drawn_values = tallied(said, true), detection.weighted(tallied(said, true), times)
    monkeypatch.setattr("probes.metrics.detection.CHUNK", 100)
    monkeypatch.setattr("probes.metrics.precision_recall.CHUNK", 100)
    for mine, other in zip(tallied(said, true), wanted, strict=True):
        np.testing.assert_array_equal(mine, other)
    same(detection.weighted(wanted, times), drawn_values)


@given(SEEDS, st.floats(0, 0.6))
@settings(max_examples=60, deadline=None)
def test_an_image_weighs_as_its_copies(seed, absent):
    rng = np.random.default_rng(seed)
    said, true = drawn(rng, 7, 8, 4)
    tally = tallied(said, true)
    times = rng.integers(1, 5, (6, 7)) * (rng.random((6, 7)) >= absent)
    times[0] = 1
    names = (*detection.NAMES, "map_50_11_points")
    found = detection.weighted(tally, times, names)
    for row, each in enumerate(times):
        copies = np.repeat(np.arange(7), each)
        if not len(copies):
            assert all(np.isnan(found[name][row]) for name in (*detection.METRICS, "detections_per_image"))
            continue
        again = detection.value(tallied(said[copies], true[copies]), names)
        same({name: values[row] for name, values in found.items()}, again)
    exact, scaled = (detection.weighted(tally, times * each, names) for each in (0.5, 0.37))
    for name in names:  # where not all is whole, 57 of 100 do reach the 0.57 of the 101 recalls
        np.testing.assert_allclose(scaled[name], exact[name], atol=1e-9, err_msg=name)
        apart = 0.1 if name.startswith("coco_map") else 1e-9
        np.testing.assert_allclose(scaled[name], found[name], atol=apart, err_msg=name)


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_influence_is_the_slope(seed):
    rng = np.random.default_rng(seed)
    said, true = drawn(rng, 12, 10, 5)
    tally = tallied(said, true)
    parts, known = detection.influence(tally), detection.value(tally)
    assert set(parts) == set(known)
    for name, each in parts.items():
        np.testing.assert_allclose(each.mean(), known[name], atol=1e-9, err_msg=name)
    step = 1e-6
    moved = np.concatenate([1 + step * np.eye(12), 1 - step * np.eye(12)])
    for name in ("map_50", "map_50_95", "coco_ar_100", "detections_per_image"):
        more, less = np.split(detection.weighted(tally, moved, (name,))[name], 2)
        ahead, behind = (more - known[name]) / step, (known[name] - less) / step
        smooth = np.abs(ahead - behind) < 1e-4  # where two precisions are equal there is a bend
        wanted = known[name] + 12 * (ahead + behind)[smooth] / 2
        np.testing.assert_allclose(parts[name][smooth], wanted, atol=1e-3, err_msg=name)
    swapped = tally._replace(voc=tally.coco)
    area = detection.influence(swapped)["map_50_95"] - detection.value(swapped)["map_50_95"]
    np.testing.assert_allclose(parts["coco_map"] - known["coco_map"], area, atol=1e-12)


def test_influence_spreads_as_resamples_do():
    rng = np.random.default_rng(3)
    said, true = drawn(rng, 300, 12, 6, side=20)
    tally = tallied(said, true)
    times = rng.multinomial(300, np.full(300, 1 / 300), 600)
    parts = detection.influence(tally)
    for name, each in detection.weighted(tally, times).items():
        if name == "classes_scored":
            assert each.std() == parts[name].std() == 0
            continue
        assert parts[name].std() / np.sqrt(300) == pytest.approx(each.std(), rel=0.15), name


def test_a_class_without_objects_is_left_out():
    true = np.float32([[[0, 0, 10, 10, 0, 0], [20, 20, 30, 30, 1, 1]], [[0, 0, 5, 5, 2, 0], [-1] * 6]])
    said = np.float32([[[0, 0, 10, 10, 0.9, 0], [20, 20, 30, 30, 0.8, 1]], [EMPTY, EMPTY]])
    tally = tallied(said, true)
    np.testing.assert_array_equal(detection.per_class(tally), [1, np.nan, 0])
    np.testing.assert_array_equal(detection.per_class(tally, "coco_ar_100"), [1, np.nan, 0])
    found = detection.value(tally)
    assert found["map_50"] == 0.5
    assert found["classes_scored"] == 2
    one_left_out = detection.weighted(tally, np.array([[1, 0], [0, 1], [0, 0]]))
    np.testing.assert_array_equal(one_left_out["map_50"], [1, 0, np.nan])
    np.testing.assert_array_equal(one_left_out["classes_scored"], [1, 1, 0])


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 0, 2), (2, 3, 0), (2, 0, 0)])
def test_nothing_to_look_at(shape):
    images, detections, objects = shape
    tally = tallied(
        np.full((images, detections, 6), -1, np.float32), np.full((images, objects, 6), -1, np.float32)
    )
    assert tally.voc.shape == tally.coco.shape == (images, 10, detections)
    assert np.isnan(detection.value(tally)["map_50"])
    assert detection.influence(tally)["map_50"].shape == (images,)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda said, true: said.__setitem__((0, 0, 2), np.nan), "diverged"),
        (lambda said, true: said.__setitem__((0, 0, 4), np.inf), "diverged"),
        (lambda said, true: said.__setitem__((0, 0, 5), CLASSES), "class 3"),
        (lambda said, true: said.__setitem__((0, 0, 5), np.nan), "class nan"),
        (lambda said, true: true.__setitem__((0, 0, 4), 0.5), "class 0.5"),
        (lambda said, true: true.__setitem__((0, 0, 0), np.nan), "object"),
        (lambda said, true: true.__setitem__((0, 0, 5), 3), "flag"),
    ],
)
def test_what_is_no_box_is_refused(change, says):
    said, true = np.float32([[[0, 0, 1, 1, 1, 0]]]), np.float32([[[0, 0, 1, 1, 0, 0]]])
    change(said, true)
    with pytest.raises(InputError, match=says):
        tallied(said, true)


def test_what_is_no_weight_and_no_name_is_refused():
    tally = tallied(*drawn(np.random.default_rng(0)))
    with pytest.raises(InputError, match="negative"):
        detection.weighted(tally, -np.ones((1, 6)))
    with pytest.raises(InputError, match="map_60"):
        detection.weighted(tally, np.ones((1, 6)), ("map_60",))
    with pytest.raises(InputError, match="map_60"):
        detection.per_class(tally, "map_60")


def test_overlaps_may_come_from_elsewhere():
    said, true = drawn(np.random.default_rng(1), 20)
    near = detection.box_overlaps(said, true)
    for mine, other in zip(tallied(said, true), tallied(said, true, overlaps=near), strict=True):
        np.testing.assert_array_equal(mine, other)
    nothing = tallied(said, true, overlaps=np.zeros_like(near))
    assert detection.value(nothing)["map_50"] == 0
    with pytest.raises(InputError, match="overlaps"):
        tallied(said, true, overlaps=near - 1)
    with pytest.raises(InputError, match="overlaps"):
        tallied(said, true, overlaps=near[:, :, :-1])


def test_metrics_of_boxes_need_no_extra():
    ask = (
        "import sys; sys.modules['pycocotools'] = None\n"
        "import numpy as np\n"
        "from probes.errors import InputError\n"
        "from probes.metrics import detection\n"
        "try: detection.mask_overlaps([], [], np.zeros((0, 1, 6)), np.zeros((0, 1, 6)))\n"
        "except InputError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert "pip install 'visbench[boxes]'" in done.stdout
