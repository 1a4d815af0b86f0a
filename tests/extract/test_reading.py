"""Images that cannot be read, or take an interpretation, on their way through an extraction."""

import numpy as np
import pytest
import torch
from PIL import Image

from extract import CustomBackbone, open_dataset, reading
from extract.datasets import ImageSet, Lazy
from extract.errors import InputError, UnreadableImageError
from extract.transforms import CallableTransform


def test_an_unreadable_image_is_refused_by_name_and_the_rest_kept(tiny_backbone, photos, place):
    folder, _ = photos(8)
    data = (folder / "005.png").read_bytes()
    (folder / "005.png").write_bytes(data[: len(data) // 2])
    backbone = tiny_backbone()
    with pytest.raises(UnreadableImageError, match=r"005\.png cannot be read: .*--on-bad skip"):
        place.extract(backbone, folder, ["cls"], batch_size=2, workers=1)
    there = place.present(place.plan(backbone, folder))
    assert there[:4].all()
    assert not there[4:6].any()
    (folder / "005.png").write_bytes(data)  # mended
    done = place.extract(backbone, folder, ["cls"])
    assert done.computed == 8 - there.sum()
    assert place.present(done.plan).all()


@pytest.mark.parametrize(
    "bad", [[3], [6], [0, 1, 6], [2, 3], [0, 1, 2, 3, 4, 5, 6]], ids=["one", "last", "some", "batch", "all"]
)
def test_unreadable_images_are_skipped_named_and_remembered(tiny_backbone, photos, place, monkeypatch, bad):
    folder, colours = photos(7)
    for number in bad:
        (folder / f"{number:03}.png").write_bytes(b"no image %d" % number)
    done = place.extract(tiny_backbone(), folder, ["cls"], batch_size=2, on_bad="skip")
    good = [number for number in range(7) if number not in bad]
    assert done.computed == len(good)
    assert sorted(done.unreadable) == [f"{number:03}.png" for number in bad]
    assert all("no image" in reason for reason in done.unreadable.values())
    assert np.flatnonzero(place.present(done.plan)).tolist() == good
    if good:
        found = place.rows(done.plan, only=good)
        np.testing.assert_allclose(found[:, :3], colours[good].mean((1, 2)) / 255, atol=5e-4)
    monkeypatch.setattr(reading, "read_image", None)  # so that a second run could not decode anything
    again = place.extract(tiny_backbone(), folder, ["cls"], on_bad="skip")
    assert again.computed == 0
    assert again.unreadable == done.unreadable


def test_every_name_of_an_unreadable_image_is_told(tiny_backbone, photos, place):
    folder, _ = photos(3)
    for name in ("000.png", "002.png", "004.png"):
        (folder / name).write_bytes(b"")
    done = place.extract(tiny_backbone(), folder, ["cls"], on_bad="skip")
    assert done.unreadable == dict.fromkeys(("000.png", "002.png", "004.png"), "it is empty")


def test_a_file_that_is_gone(tiny_backbone, photos, place):
    folder, _ = photos(4)
    images = open_dataset(folder)["all"]
    (folder / "002.png").unlink()
    with pytest.raises(UnreadableImageError, match=r"^002\.png cannot be read: No such file"):
        place.extract(tiny_backbone(), images, ["cls"])
    done = place.extract(tiny_backbone(), images, ["cls"], on_bad="skip")
    assert done.computed == 3
    assert done.unreadable == {"002.png": "No such file or directory"}


def test_a_failure_of_the_system_is_not_held_against_the_image(tiny_backbone, photos, place):
    folder, _ = photos(4)
    images = open_dataset(folder)["all"]
    ids = place.memo.row_ids(images.sources)
    data = (folder / "002.png").read_bytes()
    (folder / "002.png").unlink()  # such as a network drive that drops out
    done = place.extract(tiny_backbone(), images, ["cls"], ids=ids, on_bad="skip")
    assert list(done.unreadable) == ["002.png"]
    (folder / "002.png").write_bytes(data)
    done = place.extract(tiny_backbone(), images, ["cls"], ids=ids, on_bad="skip")
    assert (done.computed, done.unreadable) == (1, {})


def test_errors_of_others_name_the_image(photos, place, tiny_backbone, numbered):
    def preprocess(image):
        side = 16 if image.getpixel((0, 0))[0] == 0 else 32
        return torch.zeros(3, side, side)

    folder, _ = photos(3)
    Image.new("RGB", (32, 32)).save(folder / "dark.png")
    backbone = CustomBackbone(torch.nn.Flatten(), CallableTransform.of(preprocess), name="sizes")
    with pytest.raises(InputError, match=r"^dark\.png: the preprocess gave \(3, 16, 16\)"):
        place.extract(backbone, folder, ["default"])

    def get(position):
        return {0: b"", 1: b""}[position]  # the others raise KeyError

    images = ImageSet("odd", None, Lazy(3, get), ("a", "b", "c"))
    ids = numbered(3)
    with pytest.raises(KeyError) as caught:
        place.extract(tiny_backbone(), images, ["cls"], ids=ids, on_bad="skip")
    assert caught.value.__notes__ == ["The image was c."]


def test_conversions_are_counted(tiny_backbone, place, tmp_path):
    folder = tmp_path / "kinds"
    folder.mkdir()
    for number, mode in enumerate(["RGB", "L", "P", "P", "CMYK", "1", "RGBA"]):
        ending = "jpg" if mode == "CMYK" else "png"
        Image.new(mode, (32 + number, 32), number).save(folder / f"{number}.{ending}")
    done = place.extract(tiny_backbone(), folder, ["cls"], batch_size=2)
    assert done.converted == {"palette": 2, "CMYK": 1, "1-bit": 1, "alpha": 1}
