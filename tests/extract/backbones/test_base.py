"""What holds for every backbone: frozen, in eval mode, float32 answers, one forward pass."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn

from extract.backbones import CustomBackbone, load
from extract.backbones.refusals import check_size
from extract.errors import InputError
from extract.spec import identity
from extract.taps import Tap
from extract.transforms import Transform

VIT = {"image_size": 160, "pretrained": False}


def images(count: int = 3, size: int = 160) -> Tensor:
    return torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(0))


def test_answers_are_float32_in_memory_of_their_own() -> None:
    backbone = load("timm:test_vit", **VIT)
    for count in (1, 3):
        for tap, value in backbone.features(
            images(count), [Tap(k, 5) for k in ("cls", "mean", "patches")]
        ).items():
            assert value.dtype == torch.float32
            assert value.is_contiguous()
            assert value.untyped_storage().nbytes() == value.numel() * 4, tap  # no view of the whole batch
            assert not value.requires_grad


def test_all_taps_take_one_forward_pass(tiny_backbone: Callable[..., CustomBackbone]) -> None:
    backbone = tiny_backbone()
    passes: list[int] = []
    backbone.module.register_forward_hook(lambda *_: passes.append(1))
    taps = [Tap(kind, layer) for kind in ("cls", "mean", "patches") for layer in (0, 1)]
    assert set(backbone.features(images(size=32), taps)) == set(taps)
    assert len(passes) == 1


def test_a_batch_says_of_an_image_what_it_says_alone() -> None:
    backbone, tap = load("timm:test_resnet", **VIT), Tap("mean", 3)
    batch = images(4)
    together = backbone.features(batch, [tap])[tap]
    alone = torch.cat([backbone.features(image[None], [tap])[tap] for image in batch])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-6)


def test_training_mode_and_gradients_do_not_get_in() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 16, 16), nn.BatchNorm2d(4), nn.Dropout(0.5))
    backbone, tap = CustomBackbone(module, Transform(size=160)), Tap("mean", 0)
    before = {key: value.clone() for key, value in module.state_dict().items()}
    first = backbone.features(images(), [tap])[tap]
    module.train()
    assert torch.equal(backbone.features(images(), [tap])[tap], first)
    assert not module.training
    assert not any(parameter.requires_grad for parameter in module.parameters())
    assert all(torch.equal(before[key], value) for key, value in module.state_dict().items())


def test_threads_do_not_mix_batches() -> None:
    backbone, tap = load("timm:test_resnet", **VIT), Tap("mean", 1)
    batches = [torch.full((2, 3, 160, 160), float(i)) for i in range(16)]
    alone = [backbone.features(batch, [tap])[tap] for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        beside = list(pool.map(lambda batch: backbone.features(batch, [tap])[tap], batches))
    for one, other in zip(alone, beside, strict=True):
        torch.testing.assert_close(one, other)


def test_bf16_is_close_and_another_identity() -> None:
    full, reduced = (load("timm:test_vit", **VIT, precision=p) for p in ("float32", "bf16"))
    tap = Tap("cls", 5)
    one, other = (backbone.features(images(), [tap])[tap] for backbone in (full, reduced))
    assert other.dtype == torch.float32
    assert (one - other).abs().max() > 0
    assert torch.nn.functional.cosine_similarity(one, other).min() > 0.999
    assert full.spec.weights == reduced.spec.weights
    assert identity(full.spec, tap, "float16").digest != identity(reduced.spec, tap, "float16").digest


def test_convolutions_are_channels_last() -> None:
    module = load("timm:test_resnet", **VIT).module
    assert module.conv1[3].weight.is_contiguous(memory_format=torch.channels_last)


def test_extract_features_is_in_pytorchs_order(tiny_backbone: Callable[..., CustomBackbone]) -> None:
    backbone, batch = tiny_backbone(), images(2, 32)
    plain = backbone.extract_features(batch)
    assert set(plain) == {"dense", "pooled", "grid_hw"}
    assert (plain["dense"].shape, plain["pooled"].shape, plain["grid_hw"]) == ((2, 5, 4, 4), (2, 5), (4, 4))
    assert plain["dense"][0, 3, 2, 1] == 2  # the row
    assert plain["pooled"][0, 3] == -1  # the CLS token
    layered = backbone.extract_features(batch, pooling="mean", layers=[0, -1])
    assert [value.shape for value in layered["dense_layers"]] == [(2, 5, 4, 4)] * 2
    assert torch.equal(layered["dense_layers"][0] * 2, layered["dense"])
    beside = backbone.extract_features(batch, feature_mode="dense_plus_cls")
    assert torch.equal(beside["cls"], plain["pooled"])
    wide = backbone.extract_features(batch, feature_mode="dense_cls_broadcast")["dense"]
    assert wide.shape == (2, 10, 4, 4)
    assert torch.equal(wide[:, 5:, 1, 2], plain["pooled"])
    with pytest.raises(InputError, match="dense_only, dense_cls_broadcast, dense_plus_cls"):
        backbone.extract_features(batch, feature_mode="dense")


def test_the_width_is_that_of_the_last_layer(tiny_backbone: Callable[..., CustomBackbone]) -> None:
    assert tiny_backbone().embed_dim == 5
    assert load("timm:test_resnet", **VIT).embed_dim == load("timm:test_resnet", **VIT).spec.layer_dims[-1]


def test_sizes_are_refused_with_the_nearest_ones() -> None:
    check_size(224, 14, "vit")
    check_size(225, None, "cnn")
    with pytest.raises(InputError, match=r"vit cuts images into patches of 14 .* 518 and 532"):
        check_size(520, 14, "vit")
