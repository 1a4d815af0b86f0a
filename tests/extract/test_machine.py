import os
from types import SimpleNamespace

import pytest
import torch

from extract import CustomBackbone, machine
from extract.errors import InputError
from extract.machine import CPU_BATCH, GPU_BATCH, REUSED_BYTES, default_batch
from extract.transforms import Transform

CPU = torch.device("cpu")


def backbone_of(module, size=32):
    transform = Transform(size=size, interpolation="bilinear")
    return CustomBackbone(
        module, transform, name="sized", feature_fn=lambda module, x: module(x).mean((2, 3))
    )


class Widening(torch.nn.Module):
    """Its largest activation is (channels, size, size) in float32, inside it."""

    def __init__(self, channels):
        super().__init__()
        self.widen, self.narrow = torch.nn.Conv2d(3, channels, 1), torch.nn.Conv2d(channels, 4, 1)

    def forward(self, images):
        return self.narrow(self.widen(images))


def test_the_largest_activation_is_found_inside_the_model():
    backbone = backbone_of(Widening(10))
    assert machine.largest_activation(backbone) == 10 * 32 * 32 * 4
    assert not any(module._forward_hooks for module in backbone.module.modules())


def test_activations_that_are_no_tensors_are_passed_over(tiny_backbone):
    assert machine.largest_activation(tiny_backbone()) == (1 + 16) * 5 * 4


@pytest.mark.parametrize(("channels", "batch"), [(1, CPU_BATCH), (100, 16), (640, 4), (3000, 1), (6000, 1)])
def test_a_batch_on_a_cpu_keeps_activations_small(channels, batch):
    backbone = backbone_of(Widening(channels))
    assert default_batch(backbone, CPU, 10_000, 2) == batch
    assert batch == 1 or batch * machine.largest_activation(backbone) <= REUSED_BYTES


def test_a_small_set_is_spread_over_the_cores(tiny_backbone):
    backbone = tiny_backbone()
    assert [default_batch(backbone, CPU, n, 4) for n in (1, 4, 5, 20, 1000)] == [1, 1, 2, 5, CPU_BATCH]


def test_a_batch_on_a_gpu(tiny_backbone):
    assert default_batch(tiny_backbone(), torch.device("cuda"), 5, 4) == GPU_BATCH


def test_one_thread_each_and_then_as_before():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        with machine.one_thread_each(CPU):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
        with pytest.raises(KeyError), machine.one_thread_each(CPU):
            raise KeyError
        assert torch.get_num_threads() == 3
        with machine.one_thread_each(torch.device("cuda")):
            assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_only_cores_that_may_be_used_count(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {2, 5, 7}, raising=False)
    assert machine.available_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert machine.available_cores() == 1


@pytest.mark.parametrize(
    ("cuda", "mps", "best"), [(True, False, "cuda"), (False, True, "mps"), (False, False, "cpu")]
)
def test_the_best_device_is_taken(monkeypatch, cuda, mps, best):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert machine.default_device() == best


def test_a_device_is_one_that_is_there(monkeypatch):
    assert machine.find_device("cpu") == CPU
    monkeypatch.setattr(machine, "default_device", lambda: "cpu")
    assert machine.find_device() == CPU
    for name in ("gpu", "cuda:99", "cpu:zero"):
        with pytest.raises(InputError, match=f'no device "{name}".* take cpu'):
            machine.find_device(name)


def test_a_rate_is_that_of_weights_size_precision_and_kind_of_device():
    spec = SimpleNamespace(weights="abc", transform={"size": 224}, precision="float32")
    assert machine.rate_key(spec, "cuda:1") == machine.rate_key(spec, "cuda") == "abc/224/float32/cuda"
