"""A row of features belongs to its image: modules that look at the batch, at the past or at dice are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from extract.backbones import Backbone, CustomBackbone, Facts, Layer, load, register_backbone, registry
from extract.errors import InputError
from extract.transforms import Transform

SMALL = Transform(size=16)


class Calls(nn.Module):
    """A convolution and then `then`, with a place for state."""

    def __init__(self, then: Callable[[Calls, Tensor], Tensor]) -> None:
        super().__init__()
        self.convolution, self.then, self.seen = nn.Conv2d(3, 4, 4, 4), then, torch.zeros(())

    def forward(self, images: Tensor) -> Tensor:
        return self.then(self, self.convolution(images).flatten(2).mean(2))


def remember(module: Calls, rows: Tensor) -> Tensor:
    module.seen = module.seen + rows.mean()
    return rows + module.seen


@pytest.mark.parametrize(
    "norm",
    [
        nn.BatchNorm2d(4, track_running_stats=False),
        nn.SyncBatchNorm(4, track_running_stats=False),
        nn.Sequential(nn.ReLU(), nn.BatchNorm2d(4, track_running_stats=False)),
    ],
)
def test_a_batch_norm_without_statistics_is_named(norm: nn.Module) -> None:
    with pytest.raises(
        InputError, match=r"1(\.1)? is a \w*BatchNorm\w* without running statistics.*track_running"
    ):
        load(nn.Sequential(nn.Conv2d(3, 4, 4, 4), norm), preprocess=SMALL)


def test_a_batch_norm_of_vectors_without_statistics_is_refused_too() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(768, 4), nn.BatchNorm1d(4, track_running_stats=False))
    with pytest.raises(InputError, match="2 is a BatchNorm1d without running statistics"):
        load(module, preprocess=SMALL)


@pytest.mark.parametrize(
    ("then", "says"),
    [
        (lambda module, x: x - x.mean(0), "beside another image"),
        (lambda module, x: x / x.std(), "beside another image"),
        (lambda module, x: F.batch_norm(x[:, None], None, None, training=True)[:, 0], "beside another"),
        (lambda module, x: torch.softmax(x @ x.T, -1) @ x, "beside another image"),
        (lambda module, x: x.flatten().view(4, -1).T, "beside another image"),  # a transpose was forgotten
        (lambda module, x: x + torch.arange(len(x))[:, None], "beside another image"),
        (lambda module, x: F.dropout(x, 0.5), "each time it sees the same image"),
        (lambda module, x: x + torch.randn(()), "each time it sees the same image"),
        (remember, "each time it sees the same image"),
    ],
)
@pytest.mark.filterwarnings("ignore:std")
def test_what_else_does_not_belong_to_the_image_is_found(
    then: Callable[[Calls, Tensor], Tensor], says: str
) -> None:
    torch.manual_seed(0)
    with pytest.raises(InputError, match=f"Calls gives .*{says}.*no row of features would belong"):
        load(Calls(then), preprocess=SMALL)


@pytest.mark.parametrize(
    "norm",
    [
        nn.BatchNorm2d(4),
        nn.BatchNorm2d(4, momentum=None),
        nn.InstanceNorm2d(4),
        nn.InstanceNorm2d(4, track_running_stats=True),
        nn.GroupNorm(2, 4),
        nn.Dropout(0.5),
        nn.Softmax(1),
    ],
)
def test_layers_that_look_at_one_image_are_fine(norm: nn.Module) -> None:
    load(nn.Sequential(nn.Conv2d(3, 4, 4, 4), norm), preprocess=SMALL)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_rounding_is_no_dependence(precision: str) -> None:
    torch.manual_seed(0)
    deep = [
        layer for _ in range(12) for layer in (nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())
    ]
    load(nn.Sequential(nn.Conv2d(3, 32, 4, 4), *deep), preprocess=Transform(size=64), precision=precision)


def test_a_registered_backbone_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(Backbone):
        def read(self, images: Tensor, layers: Sequence[int]) -> Mapping[int, Layer]:
            return {0: Layer.of_map(images - images.mean(0))}

    register_backbone("own")(lambda: Own(nn.Identity(), SMALL, Facts(name="own")))
    try:
        with pytest.raises(InputError, match="own gives an image other features beside another image"):
            load("own")
    finally:
        registry.REGISTERED.pop("own")


def test_a_preprocess_that_throws_dice_is_refused() -> None:
    from torchvision.transforms import v2

    def steps(crop: nn.Module) -> Callable[..., Tensor]:
        return v2.Compose([crop, v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True)])

    with pytest.raises(InputError, match=r"gives something else each time.*random crops and flips"):
        CustomBackbone(nn.AvgPool2d(8), steps(v2.RandomCrop(32)))
    with pytest.raises(InputError, match="gives something else each time"):
        CustomBackbone(nn.AvgPool2d(8), steps(v2.RandomResizedCrop(32)))
    CustomBackbone(nn.AvgPool2d(8), steps(v2.CenterCrop(32)))
