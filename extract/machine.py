"""Which device, how many threads, how large a batch: what suits the machine and the backbone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from extract import taps as tap_names
from extract.backbones import Backbone
from extract.errors import InputError
from extract.spec import BackboneSpec
from extract.transforms import grey_picture

CPU_BATCH = 16
GPU_BATCH = 128
REUSED_BYTES = 10 * 2**20  # the C library hands larger blocks back at once: each would be faulted in anew


@contextmanager
def one_thread_each(device: torch.device) -> Iterator[None]:
    """Batches run side by side on a CPU, so each takes one thread: oversubscription is ruinous."""
    before = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def default_device() -> str:
    """The best device PyTorch finds."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def find_device(name: str | None = None) -> torch.device:
    """The device called so, by default the best one; refused where this machine has none."""
    try:
        device = torch.device(name or default_device())
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # as the build of PyTorch has it
        raise InputError(
            f'there is no device "{name}" that PyTorch can use here; take {default_device()}, which there is'
        ) from error
    return device


def available_cores() -> int:
    """Cores this process may use (a container or scheduler may allow fewer than there are)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_batch(backbone: Backbone, device: torch.device, num_images: int, workers: int) -> int:
    """Images a forward pass: on a CPU so few that activations stay in memory that is reused.

    A small set is spread over all cores.
    """
    if device.type != "cpu":
        return GPU_BATCH
    fitting = REUSED_BYTES // largest_activation(backbone)
    return max(1, min(CPU_BATCH, fitting, -(-num_images // workers)))


def largest_activation(backbone: Backbone) -> int:
    """Bytes of the largest output of any module of `backbone`, for one image."""
    largest = 1

    def look(module: nn.Module, inputs: Any, output: Any) -> None:
        nonlocal largest
        if isinstance(output, torch.Tensor):
            largest = max(largest, output.numel() * output.element_size())

    hooks = [module.register_forward_hook(look) for module in backbone.module.modules()]
    try:
        picture = backbone.transform.normalise(backbone.transform.place(grey_picture())[None])
        picture = picture.to(next((each.device for each in backbone.module.parameters()), picture.device))
        backbone.features(picture, [tap_names.resolve("default", backbone.spec)])
    finally:
        for hook in hooks:
            hook.remove()
    return largest


def rate_key(spec: BackboneSpec, device: str) -> str:
    """Under which the images a second of a backbone on a device are remembered."""
    return f"{spec.weights}/{spec.transform.get('size')}/{spec.precision}/{device.partition(':')[0]}"
