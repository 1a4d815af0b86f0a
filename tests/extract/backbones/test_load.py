"""Names, registered backbones, checkpoints' files, and machines without a network."""

from __future__ import annotations

import pickle
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from extract.backbones import BaseBackbone, CustomBackbone, Facts, Layer, load, register_backbone, registry
from extract.backbones.checkpoints import read_checkpoint
from extract.errors import InputError
from extract.requests import Request
from extract.resolve import resolve
from extract.taps import Tap
from extract.transforms import Transform


@pytest.fixture
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "REGISTERED", {})
    monkeypatch.setattr("extract.backbones.REGISTERED", registry.REGISTERED)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """No name resolves, nothing is cached; the list holds what was looked up."""
    asked: list[str] = []

    def lookup(host: Any, *_: Any, **__: Any) -> Any:
        asked.append(str(host))
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return asked


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("dinov2_vits15", "did you mean dinov2_vits14"),
        ("vit_base_patch16_224", "did you mean timm:vit_base_patch16_224"),
        ("hub:thing", "`visbench list backbones`"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(name: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        load(name)


def test_an_unknown_option_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="no option image_sise; did you mean image_size"):
        load("resnet18", image_sise=518)
    with pytest.raises(InputError, match="patch_size of resnet18 is known"):
        load("resnet18", pretrained=False, patch_size=14)


@pytest.mark.parametrize("name", ["dinov2_vits14", "clip_vitb32", "torchvision:resnet18"])
@pytest.mark.parametrize("declared", [False, True])
def test_without_a_network_the_ways_out_are_named_at_once(
    name: str, declared: bool, offline: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", declared)
    began = time.monotonic()
    with pytest.raises(
        InputError, match=rf"weights of {name} could not be .*--checkpoint FILE, or .* efficientnet_lite0"
    ):
        load(name)
    assert time.monotonic() - began < 5
    assert constants.HF_HUB_OFFLINE is declared
    assert socket.getdefaulttimeout() is None


@pytest.mark.usefixtures("_registry")
def test_a_registered_class_is_loaded_by_its_name() -> None:
    @register_backbone("stripes")
    class Stripes(BaseBackbone):
        def __init__(self, image_size: int = 64) -> None:
            super().__init__(nn.AvgPool2d(16), Transform(size=image_size), Facts(name="stripes"))

        def read(self, images: torch.Tensor, layers: Any) -> dict[int, Layer]:
            return {0: Layer.of_map(self.module(images))}

    assert load("stripes").spec.layer_grids == ((4, 4),)
    assert load("stripes", image_size=96).spec.layer_grids == ((6, 6),)
    assert load(Request("stripes", image_size=96)).spec.layer_grids == ((6, 6),)
    spec = resolve(Request("stripes", image_size=96), memo=None)  # type: ignore[arg-type]  # never asked
    assert (spec.name, spec.architecture, spec.layer_dims) == ("stripes", Stripes.__qualname__, (3,))


@pytest.mark.usefixtures("_registry")
def test_a_registered_function_may_wrap_anything(tiny_backbone: Callable[..., CustomBackbone]) -> None:
    register_backbone("tiny")(tiny_backbone)
    backbone = load("tiny", size=64)
    assert backbone.features(torch.zeros(1, 3, 64, 64), [Tap("patches", 1)])[Tap("patches", 1)].shape == (
        1,
        8,
        8,
        5,
    )
    register_backbone("not")(lambda: nn.Identity())  # type: ignore[arg-type, return-value]
    with pytest.raises(InputError, match='registered as "not" made a Identity'):
        load("not")
    for taken in ("resnet18", "timm:mine"):
        with pytest.raises(InputError, match="already means"):
            register_backbone(taken)


def test_a_backbone_passes_through(tiny_backbone: Callable[..., CustomBackbone]) -> None:
    backbone = tiny_backbone()
    assert load(backbone) is backbone


@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: state,
        lambda state: {"state_dict": state, "epoch": 3},
        lambda state: {"model": state},
        lambda state: {"state_dict": {"model": state}},
        lambda state: {f"module.{key}": value for key, value in state.items()},
        lambda state: {"model": {f"module.backbone.{key}": value for key, value in state.items()}},
    ],
)
def test_checkpoints_are_unwrapped(tmp_path: Path, wrap: Callable[[Any], Any]) -> None:
    state = {"norm.weight": torch.ones(3), "norm.bias": torch.zeros(3)}
    torch.save(wrap(state), tmp_path / "a.pth")
    assert set(read_checkpoint(str(tmp_path / "a.pth"))) == set(state)


def test_a_prefix_stays_where_not_every_key_has_it(tmp_path: Path) -> None:
    state = {"backbone.weight": torch.ones(3), "head.weight": torch.zeros(3)}
    torch.save(state, tmp_path / "a.pth")
    assert set(read_checkpoint(str(tmp_path / "a.pth"))) == set(state)


def test_files_that_hold_no_plain_weights_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pth"
    with pytest.raises(InputError, match="there is no checkpoint"):
        read_checkpoint(str(path))
    torch.save(nn.Linear(2, 2), path)
    with pytest.raises(InputError, match=r"save their state_dict\(\) instead"):
        read_checkpoint(str(path))
    torch.save({"epoch": 3, "loss": 0.1}, path)
    with pytest.raises(InputError, match=r"holds no state dict \(epoch, loss\)"):
        read_checkpoint(str(path))
    path.write_bytes(b"not weights at all")
    with pytest.raises(InputError, match="cannot be read as plain weights"):
        read_checkpoint(str(path))
    (tmp_path / "a.safetensors").write_bytes(b"nor these")
    with pytest.raises(InputError, match="is not a safetensors file"):
        read_checkpoint(str(tmp_path / "a.safetensors"))


def test_a_checkpoint_executes_nothing(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "sprung",))

    with (tmp_path / "a.pth").open("wb") as file:
        pickle.dump(Trap(), file)
    with pytest.raises(InputError):
        read_checkpoint(str(tmp_path / "a.pth"))
    assert not (tmp_path / "sprung").exists()
