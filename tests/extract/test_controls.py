"""The pixel control: known without torch, and deaf to what would mean nothing to it."""

from __future__ import annotations

import numpy as np
import pytest

from extract.backbones import Facts, load
from extract.errors import InputError
from extract.requests import Request
from extract.resolve import resolve
from extract.taps import Tap


class Nothing:
    """A memo that must not be needed."""

    def recall(self, kind, key):
        pytest.fail("asked")

    remember = recall


@pytest.mark.parametrize("options", [{}, {"image_size": "native"}, {"image_size": 64, "crop_pct": 0.875}])
@pytest.mark.parametrize("name", ["pixels", "control:pixels"])
def test_what_is_known_of_it_is_what_is_loaded(name, options):
    backbone, spec = load(name, **options), resolve(Request(name, **options), Nothing())
    assert backbone.spec == spec
    measured = backbone._measure(Facts(name="pixels"))  # what running it says
    for known in ("layer_dims", "layer_grids", "transform", "weights", "num_params", "default_pool"):
        assert getattr(measured, known) == getattr(spec, known)


def test_a_cell_is_its_mean_colour():
    backbone = load("pixels", image_size=16)
    picture = np.zeros((16, 16, 3), np.uint8)
    picture[:2, 14:] = (255, 0, 0)  # the last cell of the first row
    placed = backbone.transform.normalise(backbone.transform.place(picture)[None])
    (row,) = backbone.features(placed, [Tap("mean", 0)])[Tap("mean", 0)].numpy()
    cells = row.reshape(3, 8, 8)
    plain = cells[:, 4, 4]
    changed = np.argwhere(np.abs(cells - plain[:, None, None]).max(0) > 1e-6)
    assert changed.tolist() == [[0, 7]]
    assert cells[0, 0, 7] - plain[0] == pytest.approx(1 / 0.229, rel=1e-5)
    assert cells[1, 0, 7] == pytest.approx(plain[1])


@pytest.mark.parametrize(
    "option",
    [
        {"norm": False},
        {"projection": True},
        {"precision": "bf16"},
        {"checkpoint": "a.pth"},
        {"revision": "main"},
        {"pretrained": False},
        {"mean": (0.5, 0.5, 0.5)},
        {"interpolation": "bilinear"},
        {"patch_size": 8},
        {"strict": False},
        {"seed": 1},
    ],
)
def test_an_option_that_would_change_nothing_is_refused(option):
    (name,) = option
    with pytest.raises(
        InputError, match=f"pixels is a control .*{name}.* would change nothing; leave it out"
    ):
        load("pixels", **option)
    with pytest.raises(InputError, match=f"{name}.* would change nothing"):
        resolve(Request("control:pixels", **option), Nothing())


def test_another_control_is_refused():
    with pytest.raises(InputError, match="there is pixels"):
        resolve("control:noise", Nothing())


@pytest.mark.parametrize("weights", [{"checkpoint": "a.pth"}, {"revision": "main"}])
def test_random_weights_of_a_file_are_a_contradiction(weights):
    with pytest.raises(InputError, match="random weights were asked for, and a checkpoint or a revision"):
        Request("resnet18", pretrained=False, **weights)
