"""A dense probe on arrays: what it learns, how it chooses, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import visbench
from probes.dense import Hparams, Maps, Program
from probes.heads import make_head
from probes.maps.segmentation import Segmentation
from visbench.api import get_probe
from visbench.dense import training
from visbench.dense.kinds import KINDS
from visbench.dense.probe import KIND_OF, Rowwise
from visbench.dense.streams import Stream
from visbench.dense.table import DENSE
from visbench.dense.training import Run
from visbench.errors import UsageError

GRID, DIMS, CLASSES, SIDE = 4, 6, 3, 16
FIXED = {"learning_rate": 0.05, "weight_decay": 1e-4, "epochs": 4}


def planted(n=24, seed=0, noise=0.5):
    """Cells that tell their class, noisily, and labels at four times their resolution."""
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, CLASSES, (n, GRID, GRID)).astype(np.uint8)
    features = np.random.default_rng(9).standard_normal((CLASSES, DIMS))[cells] * 3
    features += rng.standard_normal(features.shape) * noise
    return features.astype(np.float16), np.repeat(np.repeat(cells, 4, 1), 4, 2)


def segmenter(head="linear", **settings):
    return get_probe("semantic_segmentation", head, num_classes=CLASSES, **{**FIXED, **settings})


def test_a_planted_target_is_learnt_with_settings_chosen_on_a_part():
    (x, y), (test_x, test_y) = planted(40), planted(20, seed=1)
    probe = segmenter(learning_rate=[1e-4, 0.05], epochs=10).fit(x, y)
    assert probe.hyperparameters["learning_rate"] == 0.05
    assert 4 <= probe.selection["val_size"] <= 8
    assert probe.selection["trials"] == 2
    assert probe.train_loss < 0.5
    assert (probe.pooling, probe.layers, probe.name) == ("patches", (-1,), "linear")
    scores, said = probe.evaluate(test_x, test_y), probe.predict(test_x)
    assert scores["miou"] > 0.7
    assert said.shape == test_y.shape
    assert said.dtype == np.uint8
    assert scores["pixel_acc"] == pytest.approx((said == test_y).mean())
    assert probe.predict(test_x, size=(5, 7)).shape == (20, 5, 7)


def test_permuted_targets_teach_nothing():
    (x, y), (test_x, test_y) = planted(40), planted(20, seed=1)
    assert segmenter().fit(x, np.roll(y, 1, axis=0)).evaluate(test_x, test_y)["miou"] < 0.4


def test_it_is_the_training_of_a_run():
    """On rows in the order of their content, which is the order of a run's as well."""
    x, y = planted()
    probe = segmenter(seed=3).fit(x, y)
    order = np.lexsort((digests(y), digests(x)))
    stream = Stream([Rowwise([x], order)], [], Rowwise([y], order), KINDS["labels"])
    head = make_head("linear", channels=CLASSES, start="zeros")
    rates = Hparams(np.array([0.05], np.float32), np.array([1e-4], np.float32))
    run = Run(Program(head, Segmentation(CLASSES), 4, True), (0,), rates)
    training.train(stream, [run], np.arange(len(x)), epochs=4, batch=8, seed=3)
    np.testing.assert_array_equal(run.params["out"]["kernel"], probe.predictor.run.params["out"]["kernel"])


def digests(rows):
    from extract.ids import keys
    from visbench.selection import content_ids

    return keys(content_ids(rows))


def test_the_order_of_rows_changes_nothing():
    x, y = planted()
    order = np.random.default_rng(0).permutation(len(x))
    settings = {"learning_rate": [0.01, 0.05], "weight_decay": 0.0}
    ours, theirs = segmenter(**settings).fit(x, y), segmenter(**settings).fit(x[order], y[order])
    assert ours.selection == theirs.selection
    np.testing.assert_array_equal(ours.predict(x), theirs.predict(x))


def test_val_chooses_and_then_trains():
    (x, y), (val_x, val_y) = planted(), planted(10, seed=2)
    swept = {"learning_rate": [1e-4, 0.05]}
    probe = segmenter(**swept).fit(x, y, val=(val_x, val_y))
    assert probe.selection["val_size"] == 10
    joined = segmenter().fit(np.concatenate([x, val_x]), np.concatenate([y, val_y]))
    kept = segmenter(**swept, refit=False).fit(x, y, (val_x, val_y))
    alone = segmenter().fit(x, y)
    assert kept.train_loss == pytest.approx(alone.train_loss)
    assert probe.train_loss == pytest.approx(joined.train_loss, rel=0.2)
    folds = segmenter(**swept, select="cv2").fit(x, y)
    assert folds.selection["val_size"] == len(x)


def test_a_head_of_several_layers_takes_an_array_a_layer():
    x, y = planted()
    coarse = x.reshape(len(x), 2, 2, 2, 2, DIMS).mean((2, 4))
    probe = segmenter("fpn", layers=(3, 11), hidden_dim=8).fit([x, coarse], y)
    assert probe.layers == (3, 11)
    assert probe.predict([x, coarse]).shape == y.shape
    assert probe.evaluate((x, coarse), y)["miou"] > 0.5
    with pytest.raises(UsageError, match="features of 1 layer came, and the probe reads 2"):
        probe.predict(x)


def test_a_head_that_reads_cls_tokens_takes_them_too():
    x, y = planted(8)
    tokens = x.mean((1, 2))
    settings = {"layers": (0, 1), "hidden_dim": 8, "epochs": 1}
    probe = segmenter("dpt", cls_token=True, **settings).fit(Maps((x, x), (tokens, tokens)), y)
    assert probe.predict(Maps((x, x), (tokens, tokens))).shape == y.shape
    with pytest.raises(UsageError, match="reads CLS tokens"):
        probe.fit([x, x], y)
    with pytest.raises(UsageError, match="reads no CLS tokens"):
        segmenter().fit(Maps((x,), (tokens,)), y)


def answers(kind, n, rng):
    """Maps of a kind, some pixels void."""
    values = rng.uniform(0.1, 1, (n, SIDE, SIDE)).astype(np.float32)
    if kind in ("labels", "foreground"):
        target = rng.integers(0, 2, values.shape)
        target[:, :2] = 255
        return target
    if kind in ("normals", "orientation"):
        vectors = rng.standard_normal((n, SIDE, SIDE, 3 if kind == "normals" else 2)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
        values[:, :2] = 0
        return (
            vectors * (values > 0)[..., None]
            if kind == "normals"
            else np.concatenate([vectors, values[..., None]], axis=-1)
        )
    values[:, :2] = KINDS[kind].void
    return values


@pytest.mark.parametrize("name", [row.name for row in DENSE if row.name != "semantic_segmentation"])
def test_every_task_has_a_probe(name):
    rng = np.random.default_rng(0)
    x = planted(4)[0]
    target = answers(KIND_OF[name], 4, rng)
    probe = get_probe(name, head="linear", learning_rate=0.01, weight_decay=0, epochs=1).fit(x, target)
    depth = {"normals": (3,), "orientation": (2,)}.get(KIND_OF[name], ())
    assert probe.predict(x).shape == (4, SIDE, SIDE, *depth)
    assert np.isfinite(probe.predict(x)).all()
    assert probe.measure.answer.headline in {*probe.evaluate(x, target), "ods"}


def test_what_a_task_is_told_of_its_answers():
    assert get_probe("depth", n_bins=16, max_depth=80).task.high == 80
    assert get_probe("surface_normal", uncertainty=False).task.channels == 3
    with pytest.raises(UsageError, match="num_classes is None; say how many"):
        get_probe("semantic_segmentation")
    with pytest.raises(UsageError, match="num_classes is 300"):
        get_probe("semantic_segmentation", num_classes=300)
    with pytest.raises(UsageError, match="on its own takes no stems"):
        get_probe("depth", stems="list.txt")
    with pytest.raises(UsageError, match="has no num_classes"):
        get_probe("depth", num_classes=3)


def test_depth_beyond_the_range_is_not_scored():
    x = planted(4)[0]
    near = np.full((4, SIDE, SIDE), 2, np.float32)
    far, hole = near.copy(), near.copy()
    far[:, :8], hole[:, :8] = 50, 0
    fitted = [get_probe("depth", n_bins=8, **FIXED).fit(x, each) for each in (far, hole)]
    np.testing.assert_array_equal(*(each.predict(x) for each in fitted))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"head": "linaer"}, 'no probe "linaer".*linear'),
        ({"pooling": "cls"}, "has no use"),
        ({"C": 1.0}, "no setting C"),
        ({"batch_size": 4}, "has no batch_size"),
        ({"head": "dpt"}, "reads at least 2 layers"),
        ({"learnign_rate": 0.1}, "Did you mean"),
        ({"probe": "linear", "head": "fpn"}, "one thing"),
    ],
)
def test_settings_that_a_probe_lacks_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        visbench.get_probe("depth", **settings)


def test_a_classifier_has_no_head():
    with pytest.raises(UsageError, match="probes and no heads"):
        get_probe("classification", head="linear")


def changed(array, place, value):
    array = array.copy()
    array[place] = value
    return array


@pytest.mark.parametrize(
    ("name", "made", "said"),
    [
        ("semantic_segmentation", lambda t: changed(t, (5, 0, 0), 3), r"3\.0 in row 5; with num_classes 3"),
        ("semantic_segmentation", lambda t: changed(t.astype(int), (1, 0, 0), -1), "255 where there is none"),
        ("semantic_segmentation", lambda t: t.astype(float), "are float64; wanted whole numbers"),
        ("semantic_segmentation", lambda t: t[:5], "24 training features came for 5 targets"),
        ("semantic_segmentation", lambda t: t[:, :8], "square frame"),
        ("semantic_segmentation", lambda t: t[..., None], r"wanted \(n, S, S\)"),
        ("semantic_segmentation", lambda t: np.full_like(t, 255), "every pixel of every map is void"),
        ("generic_segmentation", lambda t: t, r"2\.0 in row 0; wanted 0, 1, and 255"),
        ("depth", lambda t: t, "uint8; wanted floating-point"),
        ("depth", lambda t: t - 1.0, r"-1\.0 in row 0"),
        ("depth", lambda t: changed(t + 0.5, (7, 1, 1), np.nan), "nan in row 7"),
        ("surface_normal", lambda t: t + 0.5, r"wanted \(n, S, S, 3\)"),
        ("surface_normal", lambda t: np.full((*t.shape, 3), 0.5), "vectors of length 1"),
        ("edge", lambda t: t - 2.0, r"-2\.0 in row 0; wanted 0 or more, and −1"),
        ("boundaries", lambda t: t + 0.0, r"2\.0 in row 0; wanted 0 … 1"),
        ("orientation", lambda t: np.full((*t.shape, 3), 0.5), "coherence"),
    ],
)
def test_targets_that_cannot_be_are_refused(name, made, said):
    x, y = planted()
    options = {"num_classes": CLASSES} if name == "semantic_segmentation" else {}
    with pytest.raises(UsageError, match=said):
        get_probe(name, **options, **FIXED).fit(x, made(y))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda x: x[0], r"shape \(4, 4, 6\); wanted"),
        (lambda x: changed(x, (2, 0, 0, 0), np.inf), "not finite in row 2"),
        (lambda x: x.astype(str), "real numbers"),
        (lambda x: [x, x], "features of 2 layers came, and the probe reads 1"),
    ],
)
def test_features_that_cannot_be_are_refused(made, said):
    x, y = planted()
    with pytest.raises(UsageError, match=said):
        segmenter().fit(made(x), y)


def test_what_is_not_like_training_is_refused():
    x, y = planted()
    with pytest.raises(UsageError, match="not fitted"):
        segmenter().predict(x)
    with pytest.raises(UsageError, match=r"training features are \(4, 4, 6\)"):
        segmenter().fit(x, y, val=(x[..., :3], y))
    with pytest.raises(UsageError, match="those of val"):
        segmenter().fit(x, y, val=(x, y[:, :8, :8]))
    probe = segmenter(epochs=1).fit(x, y)
    with pytest.raises(UsageError, match=r"this probe reads \(n, h, w, 6\)"):
        probe.predict(x[..., :3])
    with pytest.raises(UsageError, match="dims"):
        probe.evaluate(x[..., :3], y)
    with pytest.raises(UsageError, match="8 pixels wide"):
        probe.evaluate(x, y[:, :8, :8])
    with pytest.raises(UsageError, match="height, width"):
        probe.predict(x, size=224)


def test_rows_of_arrays_are_read_in_any_order():
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((3, 2)).astype(np.float16), rng.standard_normal((4, 2))
    whole = np.concatenate([first, second])
    order = rng.permutation(7)
    view = Rowwise([first, second], order)
    assert (len(view), view.shape, view.dtype) == (7, (7, 2), np.float64)
    np.testing.assert_array_equal(view.read(), whole[order])
    rows = np.array([6, 0, 0, 3])
    np.testing.assert_array_equal(view.read(rows), whole[order[rows]])
    np.testing.assert_array_equal(view.start(rows)(), view.read(rows))
    np.testing.assert_array_equal(view.read(slice(2, 4)), whole[order[2:4]])
    assert not np.shares_memory(view.read(), first)
