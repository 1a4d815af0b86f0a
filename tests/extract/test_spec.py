"""Specs survive JSON, and an identity holds what changes a number and nothing else."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extract.spec import BackboneSpec, digest_json, identity
from extract.taps import Tap

SPEC = BackboneSpec(
    name="timm:vit_small_patch14_dinov2.lvd142m",
    architecture="vit_small_patch14_dinov2",
    library="timm 1.0",
    weights="ab" * 16,
    weights_source="hub timm/vit_small_patch14_dinov2.lvd142m",
    transform={"size": 224, "crop_pct": 1.0, "mean": [0.5, 0.5, 0.5]},
    num_layers=2,
    layer_dims=(384, 384),
    layer_grids=((16, 16), (16, 16)),
    num_params=22_056_576,
    alias="dinov2_vits14",
    has_cls=True,
    num_prefix_tokens=1,
    patch_size=14,
    default_pool="cls",
    options={"norm": True},
    notes=("a note",),
)
TAP = Tap("cls", 1)
KEPT: dict[str, Any] = {
    "architecture": "vit_small_patch16_224",
    "library": "timm 1.1",
    "weights": "cd" * 16,
    "transform": {**SPEC.transform, "size": 518},
    "options": {"norm": False},
    "precision": "bf16",
    "num_prefix_tokens": 5,
    "patch_size": 16,
}
LEFT_OUT: dict[str, Any] = {
    "name": "dinov2_vits14",
    "alias": None,
    "weights_source": "checkpoint x.pth",
    "notes": (),
    "random_params": 3,
    "num_params": 3,
    "default_pool": "mean",
    "has_cls": False,
}


def test_a_spec_survives_json() -> None:
    assert BackboneSpec.from_dict(json.loads(json.dumps(SPEC.to_dict()))) == SPEC


@pytest.mark.parametrize("field", KEPT)
def test_what_could_change_a_number_changes_the_identity(field: str) -> None:
    other = replace(SPEC, **{field: KEPT[field]})
    assert identity(other, TAP, "float16").digest != identity(SPEC, TAP, "float16").digest


@pytest.mark.parametrize("field", LEFT_OUT)
def test_what_changes_no_number_leaves_the_identity_alone(field: str) -> None:
    other = replace(SPEC, **{field: LEFT_OUT[field]})
    assert identity(other, TAP, "float16") == identity(SPEC, TAP, "float16")


def test_every_field_is_in_one_list_or_the_other() -> None:
    shapes = {"num_layers", "layer_dims", "layer_grids"}  # follow from architecture and transform
    assert {field.name for field in fields(BackboneSpec)} == {*KEPT, *LEFT_OUT, *shapes}


def test_tap_layer_and_dtype_are_part_of_it() -> None:
    digests = {
        identity(SPEC, Tap(kind, layer), dtype).digest
        for kind in ("cls", "mean", "patches")
        for layer in (0, 1)
        for dtype in ("float16", "float32")
    }
    assert len(digests) == 12
    assert all(len(digest) == 32 and int(digest, 16) >= 0 for digest in digests)


def test_the_plain_words_are_what_was_digested() -> None:
    found = identity(SPEC, TAP, "float16")
    assert digest_json(found.plain) == found.digest
    assert found.plain["tap"] == "cls"
    assert found.plain["transform"]["size"] == 224


@given(st.dictionaries(st.text(max_size=4), st.integers() | st.booleans() | st.none(), max_size=6))
def test_the_order_of_keys_does_not_matter(value: dict[str, Any]) -> None:
    assert digest_json(dict(reversed(value.items()))) == digest_json(value)
