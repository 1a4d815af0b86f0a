"""CLIP at full size from OpenAI's state dict, its activation, its projection; the other towers of open_clip.

The largest models here are ViT-B/32: one random one is made for the whole file, with weights that half
precision holds, as OpenAI's file does.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import open_clip
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from extract.backbones import Backbone, load
from extract.errors import InputError
from extract.spec import identity
from extract.taps import Tap, resolve

CLS, MEAN, PATCHES = (Tap(kind, 11) for kind in ("cls", "mean", "patches"))


def images() -> Tensor:
    return torch.rand(2, 3, 224, 224, generator=torch.Generator().manual_seed(0)) * 2 - 1


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str]]:
    """CLIP ViT-B/32 with QuickGELU, and a file of its weights under OpenAI's names."""
    torch.manual_seed(1)
    model = open_clip.create_model("ViT-B-32-quickgelu").eval()
    for name, parameter in model.visual.named_parameters():
        larger = 4 if "c_fc" in name else 1  # so that the activation matters
        parameter.data = (larger * (parameter.data + 0.02 * torch.randn_like(parameter))).half().float()
    state = {key: value.half() for key, value in model.state_dict().items()}
    state |= {
        "input_resolution": torch.tensor(224),
        "context_length": torch.tensor(77),
        "vocab_size": torch.tensor(49408),
    }
    file = tmp_path_factory.mktemp("clip") / "ViT-B-32.pt"
    torch.save(state, file)
    yield model, str(file)
    file.unlink()


@pytest.fixture(scope="module")
def clip_backbone(clip: tuple[Any, str]) -> Backbone:
    return load("clip_vitb32", checkpoint=clip[1])


@torch.inference_mode()
def tokens_of(visual: Any, batch: Tensor, block: int) -> Tensor:
    """What a block gave during open_clip's own forward pass, through the last norm."""
    kept: list[Tensor] = []
    handle = visual.transformer.resblocks[block].register_forward_hook(lambda _, __, out: kept.append(out))
    visual(batch)
    handle.remove()
    return visual.ln_post(kept[0])


def test_tokens_before_the_projection(clip: tuple[Any, str], clip_backbone: Backbone) -> None:
    model, backbone, spec = clip[0], clip_backbone, clip_backbone.spec
    assert (spec.num_layers, spec.patch_size, spec.layer_grids[0], spec.layer_dims[0]) == (
        12,
        32,
        (7, 7),
        768,
    )
    assert (spec.has_cls, spec.num_prefix_tokens, spec.default_pool, spec.random_params) == (
        True,
        1,
        "cls",
        0,
    )
    assert spec.options == {"quick_gelu": True, "norm": True, "projection": False}
    assert spec.notes == ()
    found = backbone.features(images(), [CLS, MEAN, PATCHES, Tap("cls", 4)])
    expected = tokens_of(model.visual, images(), 11)
    torch.testing.assert_close(found[CLS], expected[:, 0], rtol=0, atol=1e-5)
    torch.testing.assert_close(found[MEAN], expected[:, 1:].mean(1), rtol=0, atol=1e-5)
    torch.testing.assert_close(found[PATCHES], expected[:, 1:].reshape(2, 7, 7, 768), rtol=0, atol=1e-5)
    torch.testing.assert_close(
        found[Tap("cls", 4)], tokens_of(model.visual, images(), 4)[:, 0], rtol=0, atol=1e-5
    )


def test_the_projection_is_the_embedding_and_another_identity(
    clip: tuple[Any, str], clip_backbone: Backbone
) -> None:
    model, file = clip
    backbone = load("clip_vitb32", checkpoint=file, projection=True)
    found = backbone.features(images(), [CLS, PATCHES])
    with torch.inference_mode():
        embedding = model.encode_image(images())  # not normalised
    torch.testing.assert_close(found[CLS], embedding, rtol=1e-5, atol=1e-4)
    patches = tokens_of(model.visual, images(), 11)[:, 1:] @ model.visual.proj
    torch.testing.assert_close(found[PATCHES], patches.detach().reshape(2, 7, 7, 512), rtol=1e-4, atol=1e-3)
    assert backbone.spec.layer_dims[-1] == 512
    plain = clip_backbone.spec
    assert plain.weights == backbone.spec.weights
    assert identity(plain, CLS, "float16").digest != identity(backbone.spec, CLS, "float16").digest


def test_openai_weights_under_the_plain_config_are_corrected(
    clip: tuple[Any, str], clip_backbone: Backbone
) -> None:
    model, file = clip
    backbone = load("open_clip:ViT-B-32", checkpoint=file)
    assert backbone.spec.options["quick_gelu"] is True
    assert backbone.spec.notes == (
        "trained with QuickGELU, so it is used in place of the architecture's GELU",
    )
    found = backbone.features(images(), [CLS])[CLS]
    right = tokens_of(model.visual, images(), 11)[:, 0]
    assert cosine_similarity(found, right).min() > 0.9999
    plain = copy.deepcopy(model.visual)
    for block in plain.transformer.resblocks:
        block.mlp.gelu = nn.GELU()
    torch.testing.assert_close(found, right, rtol=0, atol=1e-5)
    assert (tokens_of(plain, images(), 11)[:, 0] - right).abs().max() > 0.02
    assert identity(clip_backbone.spec, CLS, "float16") == identity(backbone.spec, CLS, "float16")


def test_the_same_weights_through_timm(clip: tuple[Any, str], clip_backbone: Backbone) -> None:
    timms = load("timm:vit_base_patch32_clip_224.openai", checkpoint=clip[1])
    for tap in (CLS, MEAN, PATCHES):
        features = [backbone.features(images(), [tap])[tap].flatten(1) for backbone in (clip_backbone, timms)]
        assert cosine_similarity(*features).min() > 0.999


def test_a_checkpoint_without_the_image_tower_is_refused(clip: tuple[Any, str], tmp_path: Path) -> None:
    model, _ = clip
    text_only = {key: value for key, value in model.state_dict().items() if not key.startswith("visual.")}
    torch.save(text_only, tmp_path / "text.pt")
    with pytest.raises(
        InputError, match=r"text.pt does not fit the model: 152 missing \(visual\.class_embedding, "
    ):
        load("clip_vitb32", checkpoint=str(tmp_path / "text.pt"))


def test_another_size_resamples_the_position_embeddings() -> None:
    backbone = load("clip_vitb32", pretrained=False, image_size=320)
    assert backbone.spec.layer_grids[0] == (10, 10)
    with pytest.raises(InputError, match="the nearest image sizes are 320 and 352"):
        load("clip_vitb32", image_size=330)


def test_a_modified_resnet_has_stages_and_no_cls() -> None:
    backbone = load("open_clip:RN50/openai", pretrained=False)
    spec = backbone.spec
    assert spec.layer_dims == (256, 512, 1024, 2048)
    assert spec.layer_grids == ((56, 56), (28, 28), (14, 14), (7, 7))
    assert resolve("default", spec) == Tap("mean", 3)
    with pytest.raises(InputError, match="has no CLS token"):
        resolve("cls", spec)
    visual: Any = backbone.module
    with torch.inference_mode():
        third = visual.layer3(visual.layer2(visual.layer1(visual.stem(images()))))
    found = backbone.features(images(), [Tap("mean", 2)])[Tap("mean", 2)]
    torch.testing.assert_close(found, third.mean((2, 3)), rtol=1e-4, atol=1e-5)
    with pytest.raises(InputError, match="pools before it projects"):
        load("open_clip:RN50/openai", pretrained=False, projection=True)


@pytest.mark.slow
def test_siglip_through_open_clip_is_read_as_timm_reads_it() -> None:
    backbone = load("open_clip:ViT-B-16-SigLIP/webli", pretrained=False)
    spec = backbone.spec
    assert (spec.num_layers, spec.has_cls, spec.default_pool, spec.layer_grids[0]) == (
        12,
        False,
        "mean",
        (14, 14),
    )
    assert spec.transform["mean"] == [0.5, 0.5, 0.5]
    with torch.inference_mode():
        expected = backbone.module.forward_features(images()).mean(1)
    torch.testing.assert_close(backbone.features(images(), [MEAN])[MEAN], expected, rtol=0, atol=1e-5)


def test_what_open_clip_does_not_have_is_refused_with_what_it_has() -> None:
    with pytest.raises(InputError, match="did you mean ViT-B-16"):
        load("open_clip:ViT-B16/openai")
    with pytest.raises(InputError, match=r'ViT-B-32 has no weights "openia"; did you mean openai'):
        load("open_clip:ViT-B-32/openia")
    with pytest.raises(InputError, match=r"open_clip:ViT-B-32/TAG with TAG one of openai, "):
        load("open_clip:ViT-B-32")
    with pytest.raises(InputError, match="pass norm=False"):
        load("open_clip:coca_ViT-B-32", pretrained=False)
