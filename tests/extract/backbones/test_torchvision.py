"""torchvision's models: stages against their own forward passes, ViT blocks, and checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torchvision import models

from extract.backbones import load
from extract.errors import InputError
from extract.taps import Tap


def images(size: int = 224) -> Tensor:
    return torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(0)) * 2 - 1


@torch.inference_mode()
def pooled_by(module: nn.Module, batch: Tensor) -> Tensor:
    """What the model's own pooling hands to its classifier."""
    kept: list[Tensor] = []
    for child in module.modules():
        if isinstance(child, nn.AdaptiveAvgPool2d):
            child.register_forward_hook(lambda _, inputs, __: kept.append(inputs[0]))
    module(batch)
    return kept[-1].mean((2, 3))


@pytest.mark.parametrize(
    ("name", "dims", "grid"),
    [
        ("resnet18", (64, 128, 256, 512), 7),
        ("efficientnet_b0", (24, 40, 112, 1280), 7),
        pytest.param("regnet_y_400mf", (48, 104, 208, 440), 7, marks=pytest.mark.slow),
        pytest.param("convnext_tiny", (96, 192, 384, 768), 7, marks=pytest.mark.slow),
        pytest.param("swin_t", (96, 192, 384, 768), 7, marks=pytest.mark.slow),
        ("mobilenet_v3_small", (16, 24, 48, 576), 7),
    ],
)
def test_stages_end_in_what_the_model_pools(name: str, dims: tuple[int, ...], grid: int) -> None:
    backbone = load(f"torchvision:{name}", pretrained=False)
    assert backbone.spec.layer_dims == dims
    assert backbone.spec.layer_grids == tuple((grid * 2**k, grid * 2**k) for k in (3, 2, 1, 0))
    last = Tap("mean", 3)
    found = backbone.features(images(), [last])[last]
    torch.testing.assert_close(found, pooled_by(backbone.module, images()), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_densenet_ends_in_a_relu() -> None:
    backbone, last = load("torchvision:densenet121", pretrained=False), Tap("mean", 3)
    module: Any = backbone.module
    module.classifier = nn.Identity()
    with torch.inference_mode():
        torch.testing.assert_close(
            backbone.features(images(), [last])[last], module(images()), rtol=1e-4, atol=1e-5
        )


def test_one_pass_gives_the_stages_a_hook_sees() -> None:
    backbone = load("torchvision:resnet18", pretrained=False)
    taps = [Tap("patches", 0), Tap("patches", 2)]
    seen: dict[str, Tensor] = {}
    for name in ("layer1", "layer3"):
        getattr(backbone.module, name).register_forward_hook(
            lambda _, __, out, name=name: seen.update({name: out})
        )
    with torch.inference_mode():
        backbone.module(images())
    expected = dict(seen)
    found = backbone.features(images(), taps)
    torch.testing.assert_close(found[taps[0]], expected["layer1"].permute(0, 2, 3, 1))
    torch.testing.assert_close(found[taps[1]], expected["layer3"].permute(0, 2, 3, 1))


def test_a_vit_from_a_checkpoint_of_another_size(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = models.vit_b_32(weights=None).eval()
    model.heads = nn.Identity()
    state = {key: value.half().float() for key, value in model.state_dict().items()}
    model.load_state_dict(state)
    state["heads.head.weight"] = torch.zeros(1000, 768)
    torch.save({key: value.half() for key, value in state.items()}, tmp_path / "vit.pth")
    backbone = load("torchvision:vit_b_32", checkpoint=str(tmp_path / "vit.pth"))
    assert backbone.spec.random_params == 0
    assert (backbone.spec.num_layers, backbone.spec.layer_grids[0]) == (12, (7, 7))
    cls = Tap("cls", 11)
    with torch.inference_mode():
        torch.testing.assert_close(
            backbone.features(images(), [cls])[cls], model(images()), rtol=0, atol=1e-5
        )
    larger = load("torchvision:vit_b_32", checkpoint=str(tmp_path / "vit.pth"), image_size=256)
    assert larger.spec.layer_grids[0] == (8, 8)
    assert larger.features(images(256), [cls])[cls].isfinite().all()


def test_checkpoints_are_checked(tmp_path: Path) -> None:
    state: dict[str, Any] = dict(models.resnet18(weights=None).state_dict())
    del state["layer1.0.conv1.weight"]
    torch.save(state, tmp_path / "a.pth")
    with pytest.raises(InputError, match=r"1 missing \(layer1.0.conv1.weight\)"):
        load("torchvision:resnet18", checkpoint=str(tmp_path / "a.pth"))
    spec = load("torchvision:resnet18", checkpoint=str(tmp_path / "a.pth"), strict=False).spec
    assert spec.random_params == 64 * 64 * 9


def test_what_torchvision_does_not_have_is_refused_with_what_it_has() -> None:
    with pytest.raises(InputError, match="did you mean resnet"):
        load("torchvision:resnet19")
    with pytest.raises(InputError, match="there are IMAGENET1K_V1, IMAGENET1K_V2"):
        load("torchvision:resnet50/V9")
    with pytest.raises(InputError, match="built in a way we cannot read by layers"):
        load("torchvision:googlenet", pretrained=False)
    with pytest.raises(InputError, match="the nearest image sizes are 224 and 240"):
        load("torchvision:vit_b_16", image_size=230)
