"""Backbones as a run finds them: which options are for which."""

from __future__ import annotations

import pytest

import visbench
from extract.backbones.registry import REGISTERED, register_backbone
from extract.errors import InputError
from visbench import results


@pytest.mark.parametrize(
    "option", [("--no-norm",), ("--amp", "bf16"), ("--revision", "x"), ("--projection",)]
)
def test_a_control_alone_refuses_what_would_change_nothing(command, photos, option):
    for words in (("run", "retrieval"), ("extract",)):
        refused = command(*words, photos, "--backbone", "pixels", *option, code=2)
        assert "pixels is a control without weights or tokens" in refused.stderr
    with pytest.raises(InputError, match=r"norm \(--no-norm\) would change nothing"):
        visbench.run("pixels", "retrieval", photos, norm=False)


def test_a_control_beside_a_backbone_heeds_what_means_something_to_it(command, photos):
    options = ("--random-weights", "--image-size", "32", "--crop-pct", "0.9")
    done = command(
        "run", "retrieval", photos, "--backbone", "timm:test_vit", "--backbone", "pixels", *options
    )
    assert "pixels: without weights or tokens it has no use for pretrained (--random-weights)" in done.stderr
    model, pixels = results.read("results/visbench.jsonl")
    assert (model.control, pixels.control) == ("random weights", "pixels")
    for record in (model, pixels):
        assert record.backbone_spec["transform"]["size"] == 32
        assert record.backbone_spec["transform"]["crop_pct"] == 0.9
    alone = visbench.run("pixels", "retrieval", photos, image_size=32, crop_pct=0.9)
    assert alone.record.backbone_spec == pixels.backbone_spec
    assert alone.metrics == pixels.metrics


def test_a_registered_backbone_that_does_not_take_an_option_says_so(command, photos, tiny_backbone):
    register_backbone("bare")(lambda: tiny_backbone())
    try:
        command("run", "retrieval", photos, "--backbone", "bare", "--no-results")
        refused = command("run", "retrieval", photos, "--backbone", "bare", "--no-norm", code=2)
        assert 'what is registered as "bare" does not take norm' in refused.stderr
    finally:
        REGISTERED.pop("bare")
