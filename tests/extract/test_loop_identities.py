"""What makes features others, and what leaves them as they are."""

import hashlib
import os

import numpy as np
import pytest
import torch
from PIL import Image

from extract import CustomBackbone, memo
from extract.transforms import Transform

VARIANTS = {
    "image_size": {"size": 64},
    "crop": {"crop_pct": 0.5},
    "mean": {"mean": (0.5, 0.0, 0.0)},
    "std": {"std": (1.0, 1.0, 0.5)},
    "interpolation": {"interpolation": "nearest"},
    "background": {"background": (0, 0, 0)},
}


@pytest.mark.parametrize("change", VARIANTS.values(), ids=VARIANTS)
def test_another_transform_is_another_identity(photos, place, change, mean_colour):
    folder, _ = photos(3)
    plain = place.extract(mean_colour(), folder, ["default"])
    changed = place.extract(mean_colour(**change), folder, ["default"])
    assert plain.computed == changed.computed == 3


def test_another_type_or_precision_is_another_identity(tiny_backbone, photos, place):
    folder, _ = photos(3)
    for options in ({}, {"dtype": "float32"}, {"dtype": "bfloat16"}):
        assert place.extract(tiny_backbone(), folder, ["cls"], **options).computed == 3
    assert place.extract(tiny_backbone(precision="bf16"), folder, ["cls"]).computed == 3


def test_other_weights_are_another_identity(tiny_backbone, photos, place):
    folder, _ = photos(3)
    backbone = tiny_backbone()
    first = place.extract(backbone, folder, ["cls"])
    backbone.module.load_state_dict({"scale": torch.full((1,), 2.0)})  # trained on, under the same name
    second = place.extract(backbone, folder, ["cls"])
    assert second.computed == 3
    np.testing.assert_allclose(place.rows(second.plan), 2 * place.rows(first.plan), rtol=1e-3)
    backbone.module.load_state_dict({"scale": torch.ones(1)})
    assert place.extract(backbone, folder, ["cls"]).computed == 0


def test_a_file_replaced_in_place_is_extracted_anew(tiny_backbone, photos, place, monkeypatch):
    monkeypatch.setattr(memo, "SETTLED_NS", 0)  # as if the files were old
    folder, _ = photos(3, "bmp")
    first = place.extract(tiny_backbone(), folder, ["cls"])
    file = folder / "001.bmp"
    before = file.stat()
    Image.new("RGB", (32, 32), (255, 0, 0)).save(file)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    second = place.extract(tiny_backbone(), folder, ["cls"])
    assert (first.computed, second.computed) == (3, 1)
    np.testing.assert_allclose(place.rows(second.plan)[1], [1, 0, 0, -1, -1])


class Moody(torch.nn.Module):
    """Depends on its mode twice over."""

    def __init__(self):
        super().__init__()
        self.norm, self.drop = torch.nn.BatchNorm2d(3), torch.nn.Dropout(0.5)

    def forward(self, images):
        return self.drop(self.norm(images)).mean((2, 3))


@pytest.mark.parametrize("part", ["", "drop", "norm"])
def test_a_module_left_in_train_mode(photos, place, elsewhere, part):
    folder, _ = photos(6)
    calm, moody = (CustomBackbone(Moody(), Transform(size=32), name="moody") for _ in range(2))
    moody.module.get_submodule(part).train()
    before = {name: value.clone() for name, value in moody.module.state_dict().items()}
    done = place.extract(moody, folder, ["default"], batch_size=3)
    expected = elsewhere.extract(calm, folder, ["default"], batch_size=2)
    np.testing.assert_array_equal(place.rows(done.plan), elsewhere.rows(expected.plan))
    assert all((before[name] == value).all() for name, value in moody.module.state_dict().items())
    assert not any(each.requires_grad for each in moody.module.parameters())


def test_nothing_of_the_dataset_is_touched(tiny_backbone, photos, place):
    def state():
        files = sorted(folder.rglob("*"))
        return [(str(f), f.stat().st_mtime_ns, hashlib.sha256(f.read_bytes()).hexdigest()) for f in files]

    folder, _ = photos(4)
    (folder / "003.png").write_bytes(b"no image")
    before = state()
    place.extract(tiny_backbone(), folder, ["cls", "patches"], on_bad="skip")
    assert state() == before
