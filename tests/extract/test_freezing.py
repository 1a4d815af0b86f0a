"""Folded batch norms: the same features, and nothing but the same."""

from __future__ import annotations

import pytest
import torch

from extract.backbones import load
from extract.freezing import WORTHWHILE, fastest
from extract.requests import Request
from extract.taps import Tap, resolve
from extract.transforms import Transform

CPU = torch.device("cpu")


def batch_of(backbone, size):
    return backbone.transform.normalise(torch.randint(0, 256, (size, 3, 224, 224), dtype=torch.uint8))


@pytest.mark.parametrize("name", ["efficientnet_lite0", "timm:resnet18", "torchvision:mobilenet_v3_small"])
def test_folded_features_are_the_same_at_any_batch_size(name):
    backbone = load(Request(name, pretrained=name.startswith("efficientnet")))
    taps = [resolve("mean", backbone.spec), resolve(Tap("patches", 1), backbone.spec)]
    folded = fastest(backbone, taps, CPU, WORTHWHILE)
    assert folded.__qualname__.startswith("_frozen")
    for size in (1, 5):
        batch = batch_of(backbone, size)
        expected, found = backbone.features(batch, taps), folded(batch)
        for tap in taps:
            assert (found[tap] - expected[tap]).abs().max() <= 1e-4 * expected[tap].abs().max()


def test_the_weights_are_left_alone():
    backbone = load(Request("timm:resnet18", pretrained=False))
    before = backbone.spec.weights
    fastest(backbone, [resolve("mean", backbone.spec)], CPU, WORTHWHILE)
    assert load(Request("timm:resnet18", pretrained=False)).spec.weights == before == backbone.spec.weights


@pytest.mark.parametrize(("name", "count"), [("timm:vit_tiny_patch16_224", 10**6), ("timm:resnet18", 10)])
def test_what_does_not_pay_runs_as_it_is(name, count):
    backbone = load(Request(name, pretrained=False))
    assert "plain" in fastest(backbone, [resolve("default", backbone.spec)], CPU, count).__qualname__


def test_a_module_of_the_users_runs_as_it_is():
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 8, 8), torch.nn.BatchNorm2d(4))
    backbone = load(module, preprocess=Transform(size=32))
    assert "plain" in fastest(backbone, [resolve("mean", backbone.spec)], CPU, 10**6).__qualname__


def test_what_comes_out_different_runs_as_it_is(monkeypatch):
    backbone = load(Request("timm:resnet18", pretrained=False))
    monkeypatch.setattr("extract.freezing._agree", lambda *a: False)
    assert "plain" in fastest(backbone, [resolve("mean", backbone.spec)], CPU, WORTHWHILE).__qualname__
