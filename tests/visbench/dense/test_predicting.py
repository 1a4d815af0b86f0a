"""What the probe of a run says of pictures: in the frame, and in their own pixels."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import visbench
from extract.maps.frame import Frame
from visbench.dense import predicting
from visbench.dense.predicting import _looked_up
from visbench.errors import UsageError

FIXED = {"learning_rate": 0.05, "weight_decay": 0.0, "epochs": 30, "workers": 1}
CLASSES = 3


def classes(colours):
    """The strongest colour."""
    return colours.argmax(-1).astype(np.uint8)


@pytest.fixture(scope="module")
def backbone(tiny_backbone):
    """It sees 48 × 48 pixels as mean colours of 4 × 4."""
    return tiny_backbone(48, 4)


@pytest.fixture(scope="module")
def trained(backbone, files, tmp_path_factory):
    """A run on pictures of 64 × 48, the pictures, and their maps."""
    root, pictures = tmp_path_factory.mktemp("data"), files.pictures()
    maps = files.planted(classes, pictures)
    files.folders(root, pictures, maps, "labels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VISBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        result = visbench.run(
            backbone,
            "semantic_segmentation",
            root,
            num_classes=CLASSES,
            store=str(tmp_path_factory.mktemp("store")),
            **FIXED,
        )
    return result, pictures["test"], maps["test"], root


def test_pictures_of_any_kind_are_predicted_in_the_frame(trained):
    result, pictures, maps, root = trained
    said = result.probe.predict_images(pictures)
    assert said.shape == (len(pictures), 48, 48)
    assert said.dtype == np.uint8
    truth = np.stack([Frame(48).place(each) for each in maps])
    assert (said == truth).mean() == pytest.approx(result.metrics["pixel_acc"])
    kinds = [
        [Image.fromarray(each) for each in pictures],
        sorted((root / "test" / "images").iterdir()),
        [str(path) for path in sorted((root / "test" / "images").iterdir())],
        np.stack(pictures),
    ]
    for images in kinds:
        np.testing.assert_array_equal(result.probe.predict_images(images), said)
    np.testing.assert_array_equal(result.probe.predict_images(Image.fromarray(pictures[0])), said[:1])


def test_maps_lie_on_the_pictures_own_pixels(trained):
    result, pictures, maps, _ = trained
    for said, truth in zip(result.probe.predict_images(pictures, "image"), maps, strict=True):
        assert said.shape == truth.shape == (48, 64)
        assert (said[:, :8] == 255).all()
        assert (said[:, 56:] == 255).all()
        assert (said[:, 8:56] == truth[:, 8:56]).mean() > 0.85
        assert (said[:, 8:56] == np.roll(truth, 6, axis=1)[:, 8:56]).mean() < 0.85
    zeros = result.probe.predict_images(pictures[:1], "image", fill=0)[0]
    assert (zeros[:, :8] == 0).all()


def test_pictures_of_several_sizes_and_a_turned_one(trained, tmp_path):
    """A picture that is twice as large says the same at every second pixel; EXIF turns picture and map alike."""
    result, pictures, _, _ = trained
    large = np.repeat(np.repeat(pictures[0], 2, 0), 2, 1)
    turned = Image.fromarray(np.rot90(pictures[0]).copy())  # held with its right side up
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    turned.save(tmp_path / "turned.png", exif=exif)
    plain, twice, upright = result.probe.predict_images(
        [pictures[0], large, tmp_path / "turned.png"], at="image"
    )
    assert twice.shape == (96, 128)
    assert (np.repeat(np.repeat(plain, 2, 0), 2, 1) == twice).mean() > 0.95
    np.testing.assert_array_equal(upright, plain)


def test_stored_pictures_are_read_and_others_leave_nothing_behind(trained, monkeypatch):
    result, pictures, _, root = trained
    stored, paths = result.probe.sight.store, sorted((root / "test" / "images").iterdir())
    before = {each.digest: each.rows for each in stored.identities()}
    seen = result.probe.predict_images(pictures)  # the pixels of a file are another picture than the file
    result.probe.predict_images([255 - each for each in pictures])
    assert {each.digest: each.rows for each in stored.identities()} == before
    monkeypatch.setattr("extract.loop.extract", lambda *a, **k: pytest.fail("extracted again"))
    np.testing.assert_array_equal(result.probe.predict_images(paths), seen)


def test_parts_change_nothing(trained, monkeypatch):
    result, pictures, _, _ = trained
    many = [np.roll(pictures[k % 8], k, axis=1) for k in range(37)]
    whole = result.probe.predict_images(many)
    asked = []
    ensure = predicting.features.ensure
    monkeypatch.setattr(predicting, "HELD_BYTES", 1)
    monkeypatch.setattr(
        predicting.features,
        "ensure",
        lambda source, images, *a, **k: asked.append(len(images)) or ensure(source, images, *a, **k),
    )
    np.testing.assert_array_equal(result.probe.predict_images(many), whole)
    assert asked == [16, 16, 5]
    first = next(result.probe.each_image(many))
    assert len(asked) == 4  # the rest was not looked at
    np.testing.assert_array_equal(first, whole[0])


def test_the_chosen_layer_is_what_predict_takes(backbone, trained, tmp_path):
    """Whatever other layers the search read."""
    _, pictures, maps, root = trained
    (result,) = visbench.sweep(
        backbone,
        "semantic_segmentation",
        root,
        num_classes=CLASSES,
        grid={"layer": [0, 1], "learning_rate": [1e-5, 0.05]},
        store=str(tmp_path),
        **{key: value for key, value in FIXED.items() if key != "learning_rate"},
    ).results
    (layer,) = result.probe.layers
    assert result.record.layer == layer % 2
    grid = np.zeros((3, 12, 12, 5), np.float16)
    assert result.probe.predict(grid).shape == (3, 48, 48)
    said = result.probe.predict_images(pictures)
    truth = np.stack([Frame(48).place(each) for each in maps])
    assert (said == truth).mean() == pytest.approx(result.metrics["pixel_acc"])
    with pytest.raises(UsageError, match=r"features of shape .* and .* came; this probe reads"):
        result.probe.predict(grid, grid)


def test_values_between_pixels_are_interpolated_and_directions_stay_of_length_one():
    rng = np.random.default_rng(0)
    box = Frame(6).crop_box(9, 17)
    columns = np.linspace(-1, 1, 6)
    ramp = np.broadcast_to(columns, (6, 6)).astype(np.float32)
    found = _looked_up(ramp, box, unit=False)
    inside = np.clip(box.column_positions, 0, 5)
    np.testing.assert_allclose(found, np.broadcast_to(-1 + 0.4 * inside, found.shape), atol=1e-6)
    vectors = rng.standard_normal((6, 6, 3)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    turned = _looked_up(vectors, box, unit=True)
    assert turned.shape == (*found.shape, 3)
    np.testing.assert_allclose(np.linalg.norm(turned, axis=-1), 1, atol=1e-5)
    np.testing.assert_array_equal(_looked_up(vectors, Frame(6).crop_box(6, 6), unit=False), vectors)


def test_what_cannot_be_predicted_is_refused(trained, tmp_path):
    result, pictures, _, _ = trained
    with pytest.raises(UsageError, match="at the frame or at the image"):
        result.probe.predict_images(pictures, at="pixel")
    with pytest.raises(ValueError, match="there are no images"):
        result.probe.predict_images([])
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(ValueError, match=r"text\.png"):
        result.probe.predict_images([tmp_path / "text.png"])
    alone = visbench.get_probe("edge", learning_rate=0.1, weight_decay=0, epochs=1)
    alone.fit(np.ones((2, 3, 3, 4)), np.ones((2, 6, 6)))
    with pytest.raises(UsageError, match="knows no backbone"):
        alone.predictor.predict_images(pictures)
