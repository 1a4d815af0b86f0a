"""Modules of a user's: what is read, what has to be declared, and what is refused."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from extract.backbones import CustomBackbone, load
from extract.errors import InputError
from extract.spec import identity
from extract.taps import Tap, resolve
from extract.transforms import Transform

SMALL = Transform(size=224)


class Returns(nn.Module):
    """Makes what `build` makes of the batch size."""

    def __init__(self, build: Callable[[int], Any]) -> None:
        super().__init__()
        self.build = build

    def forward(self, images: Tensor) -> Any:
        return self.build(len(images))


class ModelOutput(OrderedDict[str, Any]):
    """The kind of answer that Hugging Face models give: a mapping with attributes."""


class Places(nn.Module):
    """A ViT of patch 14 whose patch token says (row, column), behind `prefix` others."""

    def __init__(self, prefix: int) -> None:
        super().__init__()
        self.prefix = prefix

    def forward(self, images: Tensor) -> Tensor:
        rows, columns = images.shape[2] // 14, images.shape[3] // 14
        grid = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij"), -1)
        prefix = torch.full((self.prefix, 2), -1)
        return torch.cat([prefix, grid.flatten(0, 1)])[None].expand(len(images), -1, -1).float()


def tokens(count: int) -> Callable[[int], Tensor]:
    return lambda batch: torch.arange(float(count * 6)).view(1, count, 6).expand(batch, -1, -1)


def images(size: tuple[int, int] = (224, 224)) -> Tensor:
    return torch.zeros(2, 3, *size)


@pytest.mark.parametrize("size", [(224, 224), (518, 700)])
@pytest.mark.parametrize("prefix", [0, 1, 5])
def test_the_grid_is_rows_by_columns(size: tuple[int, int], prefix: int) -> None:
    backbone = CustomBackbone(
        Places(prefix), SMALL, num_prefix_tokens=prefix, has_cls_token=prefix > 0, patch_size=14
    )
    grid = backbone.features(images(size), [Tap("patches", 0)])[Tap("patches", 0)]
    rows, columns = size[0] // 14, size[1] // 14
    assert grid.shape == (2, rows, columns, 2)
    np.testing.assert_array_equal(grid[1].numpy(), np.moveaxis(np.indices((rows, columns)), 0, -1))
    mean = backbone.features(images(size), [Tap("mean", 0)])[Tap("mean", 0)]
    assert mean[0].tolist() == pytest.approx([(rows - 1) / 2, (columns - 1) / 2])


def test_a_vector_is_a_pooled_feature() -> None:
    backbone = CustomBackbone(Returns(lambda batch: torch.ones(batch, 6)), SMALL)
    assert resolve("default", backbone.spec) == Tap("mean", 0)
    assert backbone.features(images(), [Tap("mean", 0)])[Tap("mean", 0)].tolist() == [[1.0] * 6] * 2
    with pytest.raises(InputError, match="no grid of patches"):
        resolve("patches", backbone.spec)


def test_a_map_is_a_grid() -> None:
    values = torch.arange(5 * 3 * 4.0).view(1, 5, 3, 4).expand(2, -1, -1, -1)
    backbone = CustomBackbone(Returns(lambda batch: values[:batch]), SMALL)
    assert backbone.spec.layer_grids == ((3, 4),)
    found = backbone.features(images(), [Tap("patches", 0), Tap("mean", 0)])
    assert torch.equal(found[Tap("patches", 0)], values.permute(0, 2, 3, 1))
    torch.testing.assert_close(found[Tap("mean", 0)], values.mean((2, 3)))


def test_tokens_need_to_be_declared() -> None:
    module = Returns(tokens(257))
    with pytest.raises(InputError, match=r"257 tokens an image.*num_prefix_tokens= .*has_cls_token="):
        CustomBackbone(module, SMALL)
    backbone = CustomBackbone(module, SMALL, has_cls_token=True, patch_size=14)
    assert backbone.spec.layer_grids == ((16, 16),)
    assert resolve("default", backbone.spec) == Tap("cls", 0)
    found = backbone.features(images(), [Tap("cls", 0), Tap("mean", 0)])
    assert found[Tap("cls", 0)][0].tolist() == [0, 1, 2, 3, 4, 5]
    assert found[Tap("mean", 0)][0, 0].item() == np.mean(np.arange(1, 257) * 6)


def test_registers_alone_are_no_cls_token() -> None:
    backbone = CustomBackbone(Returns(tokens(260)), SMALL, num_prefix_tokens=4, patch_size=14)
    with pytest.raises(InputError, match="has no CLS token"):
        resolve("cls", backbone.spec)


@pytest.mark.parametrize(("count", "patch_size"), [(255, 14), (256, None)])
def test_tokens_that_fill_no_known_grid_can_still_be_pooled(count: int, patch_size: int | None) -> None:
    backbone = CustomBackbone(Returns(tokens(count)), SMALL, num_prefix_tokens=0, patch_size=patch_size)
    assert backbone.features(images(), [Tap("mean", 0)])[Tap("mean", 0)].shape == (2, 6)
    with pytest.raises(InputError, match=r"no grid of patches.*patch_size="):
        resolve("patches", backbone.spec)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda batch: (torch.ones(batch, 6), torch.ones(batch, 3)), "a tuple of 2; .*feature_fn="),
        (lambda batch: [torch.ones(batch, 6)], "a list of 1; .*feature_fn="),
        (lambda batch: {"out": torch.ones(batch, 6)}, "a dict of out; .*feature_fn="),
        (lambda batch: {"cls": torch.ones(batch, 6), "patches": torch.ones(batch, 4, 6)}, "feature_fn="),
        (lambda batch: ModelOutput(last_hidden_state=tokens(257)(batch)), "num_prefix_tokens="),
        (lambda batch: None, "a NoneType; .*feature_fn="),
        (lambda batch: torch.ones(batch, 2, 3, 4, 5), "5 axes"),
    ],
)
def test_what_cannot_be_read_without_guessing_is_refused(build: Callable[[int], Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        CustomBackbone(Returns(build), SMALL)


def test_a_function_says_what_to_read() -> None:
    module = Returns(lambda batch: (torch.zeros(batch, 2), tokens(257)(batch)))
    backbone = CustomBackbone(
        module, SMALL, feature_fn=lambda module, images: module(images)[1], num_prefix_tokens=1, patch_size=14
    )
    assert backbone.spec.layer_grids == ((16, 16),)
    named = CustomBackbone(
        module,
        SMALL,
        feature_fn=lambda module, images: {"cls": module(images)[0], "patches": module(images)[1][:, 1:]},
        has_cls_token=True,
        patch_size=14,
    )
    found = named.features(images(), [Tap("cls", 0), Tap("patches", 0)])
    assert found[Tap("cls", 0)].tolist() == [[0, 0], [0, 0]]
    assert found[Tap("patches", 0)].shape == (2, 16, 16, 6)
    with pytest.raises(InputError, match="has_cls_token=True has to be declared"):
        CustomBackbone(module, SMALL, feature_fn=lambda m, x: {"cls": m(x)[0], "patches": m(x)[1]})


def test_hugging_face_outputs_are_read_once_declared() -> None:
    module = Returns(lambda n: ModelOutput(last_hidden_state=tokens(257)(n), pooler_output=torch.ones(n, 6)))
    backbone = CustomBackbone(module, SMALL, has_cls_token=True, patch_size=14)
    assert backbone.features(images(), [Tap("cls", 0)])[Tap("cls", 0)][0].tolist() == [0, 1, 2, 3, 4, 5]


def test_layers_come_from_a_function(tiny_backbone: Callable[..., CustomBackbone]) -> None:
    backbone = tiny_backbone()
    assert (backbone.spec.num_layers, backbone.spec.layer_grids) == (2, ((4, 4), (4, 4)))
    picture = np.zeros((32, 32, 3), np.uint8)
    picture[8:16, 24:32] = (255, 51, 0)  # patch (1, 3)
    batch = backbone.transform.normalise(backbone.transform.place(picture)[None])
    found = backbone.features(batch, [Tap("patches", 1), Tap("patches", 0), Tap("cls", 1), Tap("mean", 1)])
    assert found[Tap("patches", 1)][0, 1, 3].tolist() == pytest.approx([1.0, 0.2, 0.0, 1.0, 3.0])
    assert found[Tap("patches", 0)][0, 1, 3].tolist() == pytest.approx([0.5, 0.1, 0.0, 0.5, 1.5])
    assert found[Tap("cls", 1)][0].tolist() == pytest.approx([1 / 16, 0.2 / 16, 0.0, -1.0, -1.0])
    assert found[Tap("mean", 1)][0].tolist() == pytest.approx([1 / 16, 0.2 / 16, 0.0, 1.5, 1.5])
    with pytest.raises(InputError, match="go together"):
        CustomBackbone(nn.Identity(), SMALL, num_layers=2)
    with pytest.raises(InputError, match="gave 1 answer for 2 layers"):
        CustomBackbone(nn.Identity(), SMALL, layer_feature_fn=lambda m, x, layers: [x], num_layers=2)


def test_contradictions_are_refused() -> None:
    with pytest.raises(InputError, match="num_prefix_tokens=0"):
        CustomBackbone(Returns(tokens(257)), SMALL, has_cls_token=True, num_prefix_tokens=0)
    with pytest.raises(InputError, match="a prefix of 1 token was declared, but the module returns"):
        CustomBackbone(Returns(lambda n: torch.ones(n, 6)), SMALL, has_cls_token=True)
    with pytest.raises(InputError, match="leaves no patch"):
        CustomBackbone(Returns(tokens(4)), SMALL, num_prefix_tokens=4)


def test_images_are_cropped_once_by_the_users_preprocess() -> None:
    calls: list[tuple[int, int]] = []

    def preprocess(image: Any) -> Tensor:
        calls.append(image.size)
        middle = image.resize((64, 64)).crop((8, 8, 56, 56))
        return torch.from_numpy(np.asarray(middle, np.float32) / 255).permute(2, 0, 1)

    backbone = CustomBackbone(nn.AvgPool2d(16), preprocess, preprocess_name="resize 64, crop 48")
    assert backbone.spec.layer_grids == ((3, 3),)
    picture = np.random.default_rng(0).integers(0, 256, (90, 120, 3), np.uint8)
    calls.clear()
    placed = backbone.transform.place(picture)
    assert calls == [(120, 90)]  # the whole picture, not one of our crops
    tap = Tap("patches", 0)
    found = backbone.features(backbone.transform.normalise(placed[None]), [tap])[tap]
    expected = nn.AvgPool2d(16)(placed[None]).permute(0, 2, 3, 1)
    torch.testing.assert_close(found, expected)


def test_code_weights_and_preprocess_make_the_identity() -> None:
    def digest(module: nn.Module, **options: Any) -> str:
        spec = CustomBackbone(module, **{"preprocess": SMALL, **options}).spec
        return identity(spec, Tap("mean", 0), "float16").digest

    torch.manual_seed(0)
    convolution = nn.Conv2d(3, 4, 16, 16)
    plain = digest(convolution)
    assert digest(convolution, name="another label") == plain
    assert digest(nn.Conv2d(3, 4, 16, 16)) != plain  # other weights
    assert digest(convolution, preprocess=Transform(size=112)) != plain
    assert digest(convolution, feature_fn=lambda module, images: module(images).relu()) != plain
    assert digest(nn.Sequential(convolution)) != plain
    assert digest(convolution, precision="bf16") != plain


def test_load_takes_a_module() -> None:
    assert isinstance(load(nn.AvgPool2d(16), preprocess=SMALL), CustomBackbone)
    with pytest.raises(InputError, match="needs preprocess="):
        load(nn.AvgPool2d(16))
