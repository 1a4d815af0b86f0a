"""timm's models at full size: weights as upstream ships them, loaded the way a download is, tap by tap.

References are timm's own forward passes with hooks on the blocks, never our reading.  Large checkpoints are in
half precision, which halves the time on disk and loses nothing: the references are rounded first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from torch import Tensor, nn

from extract.backbones import load
from extract.errors import InputError
from extract.spec import identity
from extract.taps import Tap, resolve

State = dict[str, Tensor]


def images(size: int = 224, count: int = 2) -> Tensor:
    return torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(0)) * 2 - 1


def random_model(name: str, **options: Any) -> nn.Module:
    """With weights that half precision holds, and with nothing left at the zeros and ones of a fresh model."""
    torch.manual_seed(1)
    model = timm.create_model(name, num_classes=0, **options).eval()
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.02)
        parameter.data = parameter.data.half().float()
    return model


def half(state: State) -> State:
    return {key: value.half() if value.is_floating_point() else value for key, value in state.items()}


@torch.inference_mode()
def blocks_of(model: Any, batch: Tensor, layers: Sequence[int]) -> dict[int, Tensor]:
    """What the wanted blocks gave during timm's own forward pass, through the final norm."""
    kept: dict[int, Tensor] = {}
    handles = [
        model.blocks[layer].register_forward_hook(lambda _, __, out, layer=layer: kept.update({layer: out}))
        for layer in layers
    ]
    model.forward_features(batch)
    for handle in handles:
        handle.remove()
    return {layer: model.norm(tokens) for layer, tokens in kept.items()}


def check_tokens(backbone: Any, tokens: dict[int, Tensor], prefix: int, *, tolerance: float = 1e-5) -> None:
    """cls, mean and patches at each layer of `tokens` are those that `backbone` gives, in one pass."""
    batch = images(backbone.transform.size)
    kinds = ["mean", "patches"] + ["cls"] * backbone.spec.has_cls
    taps = [Tap(kind, layer) for layer in tokens for kind in kinds]
    found = backbone.features(batch, taps)
    height, width = backbone.spec.layer_grids[-1]
    for layer, expected in tokens.items():
        patches = expected[:, prefix:]
        assert patches.shape[1] == height * width
        torch.testing.assert_close(found[Tap("mean", layer)], patches.mean(1), rtol=0, atol=tolerance)
        grid = patches.reshape(len(batch), height, width, -1)
        torch.testing.assert_close(found[Tap("patches", layer)], grid, rtol=0, atol=tolerance)
        if backbone.spec.has_cls:
            torch.testing.assert_close(found[Tap("cls", layer)], expected[:, 0], rtol=0, atol=tolerance)


def saved(state: Any, path: Path) -> str:
    torch.save(state, path)
    return str(path)


@pytest.fixture
def dinov2(tmp_path: Path) -> tuple[nn.Module, str]:
    """DINOv2 ViT-S/14 under Meta's names, with position embeddings for 518 pixels, and its file."""
    model = random_model("vit_small_patch14_dinov2", dynamic_img_size=True)
    state = {**model.state_dict(), "mask_token": torch.zeros(1, 384)}
    assert state["pos_embed"].shape == (1, 1370, 384)
    return model, saved(state, tmp_path / "dinov2_vits14_pretrain.pth")


def test_dinov2_at_224_pixels(dinov2: tuple[nn.Module, str]) -> None:
    model, file = dinov2
    backbone = load("dinov2_vits14", checkpoint=file)
    spec = backbone.spec
    assert (spec.num_layers, spec.has_cls, spec.num_prefix_tokens, spec.default_pool) == (12, True, 1, "cls")
    assert (spec.patch_size, spec.layer_grids[0], spec.layer_dims[0]) == (14, (16, 16), 384)
    assert spec.random_params == 0
    assert spec.notes == ()
    assert spec.weights_source == "checkpoint dinov2_vits14_pretrain.pth"
    # the reference resamples its 37 × 37 position embeddings during the forward pass
    check_tokens(backbone, blocks_of(model, images(), [2, 11]), prefix=1)
    last = backbone.features(images(), [Tap("cls", 11)])[Tap("cls", 11)]
    torch.testing.assert_close(last, model.forward_head(model.forward_features(images())), rtol=0, atol=1e-5)


def test_dinov2_at_its_own_size(dinov2: tuple[nn.Module, str]) -> None:
    model, file = dinov2
    backbone = load("dinov2_vits14", checkpoint=file, image_size="native")
    assert backbone.transform.describe()["size"] == 518
    assert backbone.spec.layer_grids[0] == (37, 37)
    torch.testing.assert_close(backbone.module.state_dict()["pos_embed"], model.state_dict()["pos_embed"])


def test_dinov2_with_registers_keeps_exactly_the_patches(tmp_path: Path) -> None:
    model = random_model("vit_small_patch14_reg4_dinov2", dynamic_img_size=True)
    own = model.state_dict()
    cls_place = torch.full(
        (1, 1, 384), 0.25
    )  # Meta adds it to the CLS token in the forward pass, timm beforehand
    state = {
        **own,
        "cls_token": own["cls_token"] - cls_place,
        "pos_embed": torch.cat([cls_place, own["pos_embed"]], 1),
        "register_tokens": own["reg_token"],
        "mask_token": torch.zeros(1, 384),
    }
    del state["reg_token"]
    backbone = load("dinov2_vits14_reg", checkpoint=saved(state, tmp_path / "reg4.pth"))
    spec = backbone.spec
    assert (spec.num_prefix_tokens, spec.layer_grids[-1], spec.has_cls) == (5, (16, 16), True)
    check_tokens(backbone, blocks_of(model, images(), [0, 11]), prefix=5)


def test_dinov3_under_metas_names(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = random_model("vit_small_patch16_dinov3", img_size=224)
    renamed = {"reg_token": "storage_tokens", "gamma_1": "ls1.gamma", "gamma_2": "ls2.gamma"}
    state = {"mask_token": torch.zeros(1, 384), "rope_embed.periods": torch.zeros(16)}
    for key, value in model.state_dict().items():
        state[re.sub("|".join(renamed), lambda found: renamed[found[0]], key)] = value
    for block in range(12):
        state[f"blocks.{block}.attn.qkv.bias"] = torch.zeros(3 * 384)
        state[f"blocks.{block}.attn.qkv.bias_mask"] = torch.zeros(3 * 384)
    backbone = load("dinov3_vits16", checkpoint=saved(half(state), tmp_path / "dinov3.pth"))
    assert capfd.readouterr().out == ""  # standard output is for results
    assert (backbone.spec.num_prefix_tokens, backbone.spec.layer_grids[0]) == (5, (14, 14))
    check_tokens(backbone, blocks_of(model, images(), [5, 11]), prefix=5)


def test_siglip_has_no_cls_token(tmp_path: Path) -> None:
    model = random_model("vit_base_patch16_siglip_224")
    state = {
        f"visual.trunk.{key}": value for key, value in model.state_dict().items()
    }  # as open_clip ships it
    state["text.positional_embedding"] = torch.zeros(1)
    backbone = load("siglip_vitb16", checkpoint=saved(half(state), tmp_path / "open_clip_model.pt"))
    assert (backbone.spec.has_cls, backbone.spec.default_pool) == (False, "mean")
    check_tokens(backbone, blocks_of(model, images(count=2), [11]), prefix=0)
    with pytest.raises(InputError, match="has no CLS token"):
        resolve("cls", backbone.spec)


def test_mae_as_it_was_published(tmp_path: Path) -> None:
    model = random_model("vit_base_patch16_224")
    file = saved({"model": half(model.state_dict())}, tmp_path / "mae_pretrain_vit_base.pth")
    backbone = load("mae_vitb16", checkpoint=file)
    assert (backbone.spec.has_cls, backbone.spec.default_pool) == (True, "cls")
    check_tokens(backbone, blocks_of(model, images(), [11]), prefix=1)


def test_resnet_under_a_training_scripts_wrapping(tmp_path: Path) -> None:
    model = random_model("resnet18")
    state = {f"module.{key}": value for key, value in model.state_dict().items()}
    state |= {
        "module.fc.weight": torch.zeros(7, 512),
        "module.fc.bias": torch.zeros(7),
    }  # a classifier of 7 classes
    backbone = load("resnet18", checkpoint=saved({"state_dict": state, "epoch": 3}, tmp_path / "last.pt"))
    spec = backbone.spec
    assert spec.layer_dims == (64, 128, 256, 512)
    assert spec.layer_grids == ((56, 56), (28, 28), (14, 14), (7, 7))
    assert spec.random_params == 0
    with torch.inference_mode():
        expected = model.forward_features(images())
        pooled = model.forward_head(expected, pre_logits=True)
        second = nn.Sequential(model.conv1, model.bn1, model.act1, model.maxpool, model.layer1, model.layer2)(
            images()
        )
    found = backbone.features(images(), [Tap("mean", 3), Tap("patches", 3), Tap("patches", 1)])
    torch.testing.assert_close(found[Tap("mean", 3)], pooled, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(found[Tap("patches", 3)], expected.permute(0, 2, 3, 1), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(found[Tap("patches", 1)], second.permute(0, 2, 3, 1), rtol=1e-5, atol=1e-4)


def test_convnext_under_metas_names(tmp_path: Path) -> None:
    model = random_model("convnext_tiny")
    rules = [
        (r"^stem\.", "downsample_layers.0."),
        (r"stages\.(\d)\.blocks", r"stages.\1"),
        (r"stages\.(\d)\.downsample", r"downsample_layers.\1"),
        (r"conv_dw", "dwconv"),
        (r"mlp\.fc", "pwconv"),
        (r"^head\.norm", "norm"),
    ]
    state = {}
    for key, value in model.state_dict().items():
        for pattern, name in rules:
            key = re.sub(pattern, name, key)
        state[key] = value
    state |= {"head.weight": torch.zeros(1000, 768), "head.bias": torch.zeros(1000)}
    backbone = load("convnext_tiny", checkpoint=saved({"model": half(state)}, tmp_path / "convnext.pth"))
    assert backbone.spec.layer_grids == ((56, 56), (28, 28), (14, 14), (7, 7))
    with torch.inference_mode():
        expected = model.forward_features(images())
        first = model.stages[0](model.stem(images()))
    found = backbone.features(images(), [Tap("patches", 3), Tap("mean", 0)])
    torch.testing.assert_close(found[Tap("patches", 3)], expected.permute(0, 2, 3, 1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found[Tap("mean", 0)], first.mean((2, 3)), rtol=1e-4, atol=1e-4)


def test_safetensors_give_the_same_weights(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    model = random_model("test_vit")
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    file = saved(model.state_dict(), tmp_path / "model.pth")
    one = load("timm:test_vit", image_size=160, checkpoint=str(tmp_path / "model.safetensors")).spec
    other = load("timm:test_vit", image_size=160, checkpoint=file).spec
    assert one.weights == other.weights
    assert identity(one, Tap("cls", 5), "float16") == identity(other, Tap("cls", 5), "float16")


def test_fine_tuned_weights_are_another_identity(tmp_path: Path) -> None:
    state = random_model("test_vit").state_dict()
    before = load("timm:test_vit", image_size=160, checkpoint=saved(state, tmp_path / "a.pth")).spec
    state["norm.bias"][3] += 1e-3
    after = load("timm:test_vit", image_size=160, checkpoint=saved(state, tmp_path / "a.pth")).spec
    assert (
        identity(before, Tap("cls", 5), "float16").digest != identity(after, Tap("cls", 5), "float16").digest
    )


def test_a_checkpoint_that_does_not_fit_is_refused_with_the_keys(tmp_path: Path) -> None:
    state = random_model("test_vit").state_dict()
    state["decoder.weight"] = state.pop("norm.weight")
    file = saved(state, tmp_path / "a.pth")
    says = r"checkpoint a.pth does not fit the model: 1 missing \(norm.weight\) and 1 unexpected \(decoder.weight\)"
    for strict in (True, False):
        with pytest.raises(InputError, match=says):
            load("timm:test_vit", image_size=160, checkpoint=file, strict=strict)
    other = saved(random_model("test_resnet").state_dict(), tmp_path / "b.pth")
    with pytest.raises(
        InputError, match=r"missing \(cls_token, pos_embed, .*, … \d+ more\) and \d+ unexpected"
    ):
        load("timm:test_vit", image_size=160, checkpoint=other)


def test_missing_parameters_are_counted_where_they_are_allowed(tmp_path: Path) -> None:
    state = random_model("test_vit").state_dict()
    del state["norm.weight"], state["blocks.0.mlp.fc1.bias"]
    file = saved(state, tmp_path / "a.pth")
    with pytest.raises(InputError, match=r"2 missing .* strict=False fills them with random numbers"):
        load("timm:test_vit", image_size=160, checkpoint=file)
    spec = load("timm:test_vit", image_size=160, checkpoint=file, strict=False).spec
    lost = 64 + state["blocks.1.mlp.fc1.bias"].numel()
    assert spec.random_params == lost
    assert spec.notes == (f"{lost:,} parameters left random: checkpoint a.pth lacks as many",)


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    state = random_model("test_vit").state_dict()
    state["norm.weight"] = torch.zeros(65)
    with pytest.raises(InputError, match=r"another shape than the model: norm.weight: copying"):
        load("timm:test_vit", image_size=160, checkpoint=saved(state, tmp_path / "a.pth"))


def test_random_weights_are_those_of_their_seed() -> None:
    def digest(seed: int) -> str:
        torch.rand(seed + 3)  # whatever happened before
        return load("timm:test_vit", image_size=160, pretrained=False, seed=seed).spec.weights

    assert digest(0) == digest(0) != digest(1)
    spec = load("timm:test_vit", image_size=160, pretrained=False, seed=7).spec
    assert spec.weights_source == "random seed 7"
    assert spec.random_params == spec.num_params > 0
    assert spec.notes == ("the weights are random",)


def test_norm_off_is_what_the_block_leaves_and_another_identity() -> None:
    on, off = (load("timm:test_vit", image_size=160, pretrained=False, norm=norm) for norm in (True, False))
    tap = Tap("patches", 2)
    raw = off.features(images(160), [tap])[tap]
    torch.testing.assert_close(off.module.norm(raw), on.features(images(160), [tap])[tap])
    assert not torch.allclose(raw, on.features(images(160), [tap])[tap], atol=0.1)
    assert (on.spec.options, off.spec.options) == ({"norm": True}, {"norm": False})
    assert identity(on.spec, tap, "float16").digest != identity(off.spec, tap, "float16").digest


def test_preprocessing_and_size_are_other_identities() -> None:
    options: list[dict[str, Any]] = [{}, {"mean": (0, 0, 0)}, {"crop_pct": 0.9}, {"image_size": 192}]
    specs = [load("timm:test_resnet", pretrained=False, **each).spec for each in options]
    assert len({identity(spec, Tap("mean", 3), "float16").digest for spec in specs}) == len(specs)
    own = timm.get_pretrained_cfg("test_resnet")
    assert specs[1].notes[-1] == f"mean is (0.0, 0.0, 0.0), not the model's own {own.mean}"


@pytest.mark.parametrize(
    ("name", "size", "nearest"),
    [("dinov2_vits14", 332, "322 and 336"), ("mae_vitb16", 332, "320 and 336"), ("dinov2_vits14", 8, "14")],
)
def test_a_size_that_patches_do_not_fill_is_refused_before_anything_is_loaded(
    name: str, size: int, nearest: str
) -> None:
    with pytest.raises(
        InputError, match=f"{size} is no multiple of that; the nearest image sizes are {nearest}"
    ):
        load(name, image_size=size)


def test_only_as_many_blocks_run_as_are_asked() -> None:
    backbone = load("timm:test_vit", image_size=160, pretrained=False)
    backbone.module.blocks[3].register_forward_hook(lambda *_: pytest.fail("block 3 ran"))
    backbone.features(images(160), [Tap("cls", 2)])


def test_openai_weights_in_timm_get_their_activation() -> None:
    backbone = load("timm:vit_base_patch32_clip_224.openai", pretrained=False)
    assert backbone.spec.options["quick_gelu"] is True
    assert "QuickGELU" in backbone.spec.notes[0]
    assert "QuickGELU" in repr(backbone.module.blocks[0].mlp.act)


def test_what_timm_does_not_have_is_refused_with_what_it_has() -> None:
    with pytest.raises(
        InputError, match=r'no model "vit_smal_patch16_224"; did you mean vit_small_patch16_224'
    ):
        load("timm:vit_smal_patch16_224")
    with pytest.raises(InputError, match=r'no weights "a9_in1k" in timm; did you mean a3_in1k or '):
        load("timm:resnet18.a9_in1k")
    with pytest.raises(InputError, match=r"pretrained=False for random"):
        load("timm:vit_small_patch16_18x2_224")
    with pytest.raises(InputError, match=r"norm=False .* says nothing"):
        load("resnet18", pretrained=False, norm=False)
    with pytest.raises(InputError, match="has no projection"):
        load("resnet18", pretrained=False, projection=True)


def test_a_revision_is_asked_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    state = random_model("test_vit").state_dict()
    asked: list[str] = []

    def from_hub(place: str, **_: Any) -> State:
        asked.append(place)
        return dict(state)

    monkeypatch.setattr("timm.models._builder.load_state_dict_from_hf", from_hub)
    monkeypatch.setattr("extract.backbones.checkpoints._reachable", lambda url: True)
    spec = load("timm:test_vit.r160_in1k", image_size=160, revision="v2").spec
    assert asked == ["timm/test_vit.r160_in1k@v2"]
    assert spec.weights_source == "hub timm/test_vit.r160_in1k@v2"
    assert spec.random_params == 0


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("swin_tiny_patch4_window7_224", 4),
        ("xcit_nano_12_p16_224", 12),
        ("hiera_tiny_224", 4),
        ("mixer_s32_224", 8),
    ],
)
def test_the_last_layer_is_all_of_forward_features(name: str, layers: int) -> None:
    backbone = load(f"timm:{name}", pretrained=False)
    last = Tap("patches", layers - 1)
    assert backbone.spec.num_layers == layers
    with torch.inference_mode():
        whole = backbone.module.forward_features(images())
    height, width = backbone.spec.layer_grids[-1]
    found = backbone.features(images(), [last])[last]
    expected = whole if whole.ndim == 4 else whole[:, -height * width :].reshape(2, height, width, -1)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
