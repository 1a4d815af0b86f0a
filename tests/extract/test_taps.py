"""Taps: what they are called, what they come to, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extract import taps
from extract.errors import InputError
from extract.spec import BackboneSpec
from extract.taps import KINDS, Tap

VIT = BackboneSpec(
    name="vit",
    architecture="vit",
    library="timm 1.0",
    weights="0" * 32,
    weights_source="random seed 0",
    transform={"size": 224},
    num_layers=12,
    layer_dims=(384,) * 12,
    layer_grids=((16, 16),) * 12,
    num_params=1,
    has_cls=True,
    num_prefix_tokens=5,
    patch_size=14,
    default_pool="cls",
)
CNN = replace(
    VIT,
    name="cnn",
    num_layers=4,
    layer_dims=(64, 128, 256, 512),
    layer_grids=((56, 56), (28, 28), (14, 14), (7, 7)),
    has_cls=False,
    num_prefix_tokens=0,
    patch_size=None,
    default_pool="mean",
)


@pytest.mark.parametrize(
    ("text", "tap"),
    [
        ("cls", Tap("cls", -1)),
        ("cls@-1", Tap("cls", -1)),
        ("patches@11", Tap("patches", 11)),
        (" mean@3 ", Tap("mean", 3)),
        ("default", Tap("default", -1)),
        (Tap("mean", 2), Tap("mean", 2)),
    ],
)
def test_parse(text: str | Tap, tap: Tap) -> None:
    assert taps.parse(text) == tap


@given(st.sampled_from(KINDS), st.integers(-40, 40))
def test_a_tap_is_read_back_from_its_text(kind: str, layer: int) -> None:
    assert taps.parse(str(Tap(kind, layer))) == Tap(kind, layer)


@pytest.mark.parametrize("text", ["clss", "", "patch@3", "cls@last", "cls@", "@3"])
def test_a_typo_is_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(InputError, match="is not a tap"):
        taps.parse(text)


def test_several_taps_meet_several_layers() -> None:
    assert taps.parse_many("cls, mean@3") == (Tap("cls"), Tap("mean", 3))
    assert taps.parse_many("cls,mean@3", layers=[2, -1]) == (Tap("cls", 2), Tap("cls", -1), Tap("mean", 3))
    assert taps.parse_many(["cls@-1"], layers=[2]) == (Tap("cls", -1),)
    assert taps.parse_many(["cls", "cls"]) == (Tap("cls"),)
    with pytest.raises(InputError, match="no tap"):
        taps.parse_many(" ,")


def test_default_is_what_the_model_was_made_for() -> None:
    assert taps.resolve("default", VIT) == Tap("cls", 11)
    assert taps.resolve("default@-12", VIT) == Tap("cls", 0)
    assert taps.resolve("default", CNN) == Tap("mean", 3)


def test_shapes_are_those_of_rows() -> None:
    assert taps.shape(taps.resolve("cls", VIT), VIT) == (384,)
    assert taps.shape(taps.resolve("patches@-1", VIT), VIT) == (16, 16, 384)
    assert taps.shape(taps.resolve("patches@1", CNN), CNN) == (28, 28, 128)


@pytest.mark.parametrize("layer", [12, -13, 99])
def test_a_layer_out_of_range_is_refused_with_the_range(layer: int) -> None:
    with pytest.raises(InputError, match=rf"vit has no layer {layer}; its 12 layers are 0 … 11, or -12 … -1"):
        taps.resolve(Tap("cls", layer), VIT)


def test_cls_of_a_model_without_one_is_refused() -> None:
    with pytest.raises(InputError, match="cnn has no CLS token; ask for mean"):
        taps.resolve("cls", CNN)


def test_patches_without_a_grid_are_refused_and_pooling_stays() -> None:
    tokens = replace(VIT, layer_grids=((0, 0),) * 12)
    with pytest.raises(InputError, match=r"no grid of patches.*patch_size="):
        taps.resolve("patches", tokens)
    assert taps.resolve("mean", tokens) == Tap("mean", 11)


def test_layers_increase_once_resolved() -> None:
    assert taps.resolve_layers([2, 5, -1], VIT) == (2, 5, 11)
    with pytest.raises(InputError, match="layers 11, -1 are 11, 11 of vit; they have to increase"):
        taps.resolve_layers([11, -1], VIT)
    with pytest.raises(InputError, match="have to increase"):
        taps.resolve_layers([5, 2], VIT)
